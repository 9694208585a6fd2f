"""Reader of SHROOM 2024's definition modelling, a JSON array a file (trial, val, test, train; with or without labels).

A row of the task DM asks what a word means in a sentence, and its target is the definition that people wrote (paper §2,
Table 1); the labels judge a model's hypothesis and say nothing of the target. The sentence ends in the question in
some files; in others the word is marked with <define>, and the question is put behind it in the same words.
"""

import re
from collections.abc import Iterator
from typing import Any

from tasks.core.rows import Reject
from tasks.multihal.core.rows import FoundationQuestion
from tasks.storage.source_files import SourceFile, iterate_json
from tasks.storage.source_rows import MALFORMED, ReadRow, find_problem, judge_rows

COLUMNS = ("src", "tgt", "task", "hyp")
_MARKED = re.compile(r"<define>([^<]*)</define>")
_ASKED = "What is the meaning of "


def read_shroom(source: SourceFile) -> Iterator[ReadRow]:
    """Yield what becomes of each row, ids shroom2024_trial_0 with the file's name in them; SourceError for a bad file."""

    def judge(row_id: str, number: int, row: Any) -> FoundationQuestion | Reject:
        if problem := find_problem(row, ("task",)):
            return Reject(row_id, MALFORMED, problem)
        if row["task"].strip() != "DM":
            return Reject(row_id, "other_task", f"the task is {row['task'].strip()}; MultiHal takes DM")
        if problem := find_problem(row, ("src", "tgt")):
            return Reject(row_id, MALFORMED, problem)
        question = ask_for_meaning(row["src"])
        if question is None:
            return Reject(
                row_id, MALFORMED, "the column src neither marks a word with <define> nor asks for its meaning"
            )
        return FoundationQuestion(
            id=row_id,
            source_dataset="shroom2024",
            domain="N/A",
            licence=source.licence,
            input=question,
            output=row["tgt"].strip(),
            source_name=source.name,
            source_row=number,
        )

    rows = iterate_json(source, f"a JSON array of rows with the columns {', '.join(COLUMNS)}")
    return judge_rows(source, f"shroom2024_{name_part(source.path.name)}", rows, judge)


def name_part(file_name: str) -> str:
    """Return which part of SHROOM a file is, for the ids: val.model-aware.json is val-model-aware."""
    return re.sub(r"[^a-z0-9]+", "-", file_name.lower().removesuffix(".json").removesuffix(".jsonl")).strip("-")


def ask_for_meaning(sentence: str) -> str | None:
    """Return a sentence with the question what its word means; None when no word is marked and nothing is asked."""
    sentence = sentence.strip()
    if sentence.endswith("?") and sentence.partition(_ASKED)[2].strip(" ?"):
        return sentence
    if not (marked := _MARKED.search(sentence)):
        return None
    plain = _MARKED.sub(lambda found: found[1].strip(), sentence)
    return f"{plain} What is the meaning of {marked[1].strip()} ?"
