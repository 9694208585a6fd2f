"""Reader of SimpleQA (CSV: metadata, problem, answer).

The metadata is a dict as Python writes it, with topic, answer_type and urls. It is read as data: a text that is long,
deep, or anything but such a dict is a reject. The topic is the domain, the addresses are the context, in the case in
which they are written (MultiHal's own script lowers it, after which Wikipedia knows few of them).
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tasks.core.rows import Reject
from tasks.multihal.core.rows import AnswerType, FoundationQuestion
from tasks.storage.source_files import SourceFile, iterate_csv
from tasks.storage.source_rows import MALFORMED, ReadRow, find_problem, judge_rows, unique

COLUMNS = ("metadata", "problem", "answer")
_TYPES: dict[str, AnswerType] = {"date": "date", "number": "numerical"}
_LONGEST_METADATA = 20_000


@dataclass(frozen=True, slots=True)
class Metadata:
    """What SimpleQA says of a question."""

    topic: str
    answer_type: str
    urls: tuple[str, ...]


def read_simpleqa(source: SourceFile) -> Iterator[ReadRow]:
    """Yield what becomes of each row, ids simpleqa_0, simpleqa_1, …; SourceError for a file that cannot be read."""

    def judge(row_id: str, number: int, row: Any) -> FoundationQuestion | Reject:
        if problem := find_problem(row, COLUMNS):
            return Reject(row_id, MALFORMED, problem)
        metadata = read_metadata(row["metadata"])
        if isinstance(metadata, str):
            return Reject(row_id, MALFORMED, f"the column metadata {metadata}")
        return FoundationQuestion(
            id=row_id,
            source_dataset="simpleqa",
            domain=metadata.topic.lower(),
            licence=source.licence,
            input=row["problem"].strip(),
            output=row["answer"].strip(),
            context=unique(metadata.urls),
            answer_type=_TYPES.get(metadata.answer_type.lower(), "other"),
            source_name=source.name,
            source_row=number,
        )

    return judge_rows(source, "simpleqa", iterate_csv(source, COLUMNS), judge)


def read_metadata(text: str) -> Metadata | str:
    """Return the metadata, or what is wrong with it. Nothing in the text is run."""
    if len(text) > _LONGEST_METADATA:
        return f"is longer than {_LONGEST_METADATA} characters"
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        return f"is no dict of plain values ({type(error).__name__})"
    if problem := _problem_of_metadata(value):
        return problem
    return Metadata(value["topic"].strip(), value["answer_type"].strip(), tuple(url.strip() for url in value["urls"]))


def _problem_of_metadata(value: Any) -> str:
    if problem := find_problem(value, ("topic", "answer_type")):
        return f"is not as expected: {problem}"
    urls = value.get("urls")
    if not isinstance(urls, list) or not all(isinstance(url, str) for url in urls):
        return "has no list of urls"
    return ""
