"""Reader of DefAn's public files (CSV: questions, answer, type), one file a domain.

Rows come in groups of 15, a question and its 14 paraphrases; the first of a group is kept (paper §2, Table 1 with its
note). The type says what the answer is. The file of the domain math is no such list and is left out (foundations.py).
"""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from tasks.core.rows import Reject
from tasks.errors import SourceError
from tasks.multihal.core.rows import AnswerType, FoundationQuestion
from tasks.storage.source_files import SourceFile, iterate_csv
from tasks.storage.source_rows import MALFORMED, ReadRow, find_problem, judge_rows

COLUMNS = ("questions", "answer", "type")
GROUP = 15
"""Rows of a group."""
MATH = "math"
RANKED = "qsranking"
"""Domain whose numbers are ranks, whatever the type calls them."""
_FILE_NAME = re.compile(r"QA_domain_([A-Za-z]+|[1-8])_(?:public|hidden)\.csv", re.IGNORECASE)
_NUMBERED = dict(
    zip(
        "12345678",
        ("sports", "census", "nobleprize", "entertainment", "worldorg", RANKED, "conferences", MATH),
        strict=True,
    )
)
"""Number of a file as its authors name them → domain as the paper has it (Table 5)."""
_TYPES: dict[str, AnswerType] = {"date": "date", "numeric": "numerical", "number": "numerical", "rank": "rank"}
_PADDING = " \t\r\n\xa0\u200b="


def domain_of(path: Path) -> str | None:
    """Return the domain that a file's name gives (QA_domain_1_public.csv, QA_domain_sports_public.csv: sports); None if none."""
    found = _FILE_NAME.fullmatch(path.name)
    return _NUMBERED.get(found[1], found[1].lower()) if found else None


def read_defan(source: SourceFile) -> Iterator[ReadRow]:
    """Yield what becomes of each row, ids defan_sports_0, defan_sports_15, … for the questions that are kept.

    Raises SourceError for a file that cannot be read, whose last group is not whole, or whose groups do not agree.
    """
    domain = domain_of(source.path)
    if domain is None:
        raise SourceError(f"{source.path}: expected a name like QA_domain_1_public.csv, which gives the domain")
    problem_of_group = ""

    def grouped() -> Iterator[tuple[int, dict[str, str]]]:
        nonlocal problem_of_group
        rows = iterate_csv(source, COLUMNS)
        while group := list(islice(rows, GROUP)):
            if len(group) < GROUP:
                raise SourceError(
                    f"{source.path}: the last group, from row {group[0][0]} on, has {len(group)} rows instead of "
                    f"{GROUP}, column questions; the file is cut off or holds no paraphrases"
                )
            problem_of_group = _problem_of_group(group)
            yield from group

    def judge(row_id: str, number: int, row: Any) -> FoundationQuestion | Reject:
        if problem := problem_of_group or find_problem(row, COLUMNS):
            return Reject(row_id, MALFORMED, problem)
        if behind := (number - 1) % GROUP:
            return Reject(row_id, "paraphrase", f"paraphrase of the question in row {number - behind}")
        return _make_question(source, domain, row_id, number, row)

    return judge_rows(source, f"defan_{domain}", grouped(), judge)


def _problem_of_group(group: list[tuple[int, dict[str, str]]]) -> str:
    """Return why a group is not one question and its paraphrases; "" when it is."""
    if len({(_strip_padding(row["answer"]), row["type"].strip()) for _, row in group}) > 1:
        return f"rows {group[0][0]} to {group[-1][0]} are no group of {GROUP}: they differ in the column answer or type"
    return ""


def _make_question(
    source: SourceFile, domain: str, row_id: str, number: int, row: dict[str, str]
) -> FoundationQuestion:
    stated = _TYPES.get(row["type"].strip().lower(), "other")
    answer = row["answer"].strip()
    if domain == RANKED and stated == "numerical":
        stated = "rank"
    return FoundationQuestion(
        id=row_id,
        source_dataset="defan",
        domain=domain,
        licence=source.licence,
        input=row["questions"].strip(),
        output=_strip_padding(answer) if stated == "rank" else answer,
        optional_output=[],
        incorrect_answers=[],
        context=[],
        answer_type=stated,
        source_name=source.name,
        source_row=number,
    )


def _strip_padding(answer: str) -> str:
    """Return an answer without the spaces, zeros and the mark of a shared rank before it."""
    bare = answer.strip(_PADDING)
    return bare.lstrip("0") or bare if bare.isdigit() else bare
