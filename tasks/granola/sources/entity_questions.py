"""Reader of EntityQuestions files: a JSON array (or JSON Lines) per relation, rows `{"question", "answers": [...]}`.

A file that cannot be read as a whole (missing, empty, not UTF-8, broken JSON, other columns) raises a SourceError that
names file, row and column. A single malformed row is returned with its problem, so that it counts as a reject.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factmill.tasks.errors import SourceError
from factmill.tasks.storage.source_files import (
    SourceFile,
    find_row_problem,
    format_source_paths_and_their_files,
    iterate_numbered_json_values,
    list_source_files,
)

_SUFFIXES = (".json", ".jsonl")
_RELATION_PREFIX = re.compile(r"P[1-9][0-9]*(?![0-9])")


@dataclass(frozen=True, slots=True)
class RawEntityQuestion:
    """One row of a file."""

    row: int
    """Number of the row, from 1."""
    question: str
    answers: tuple[str, ...]
    problem: str = ""
    """What is wrong with the row; empty for a valid one."""


def find_relation_files(paths: Sequence[Path], relations: Sequence[str]) -> dict[str, list[Path]]:
    """Return relation → its files, from files and folders; a file's name begins with its PID (`P19.test.json`).

    With a single relation, a file given by its path may have any name. Raises SourceError for a missing path, a given
    file of no relation, or when no file is left.
    """
    found: dict[str, list[Path]] = {}
    for path in paths:
        for file in list_source_files(path):
            relation = find_relation_pid_of_file(file)
            if file == path:
                relation = relation or (relations[0] if len(relations) == 1 else "")
                if relation not in relations:
                    raise SourceError(
                        f"{path}: expected a file name that begins with one of the relations {', '.join(relations)}, "
                        "like P19.test.json; or give its relation with --relations. "
                        "For a table of your own, the columns are question, answers and relation (--map)"
                    )
            if relation in relations and (file == path or file.suffix.lower() in _SUFFIXES):
                found.setdefault(relation, []).append(file)
    if not found:
        raise SourceError(
            f"no file of the relations {', '.join(relations)} in {format_source_paths_and_their_files(paths)}; expected names like P19.test.json"
        )
    return {relation: found[relation] for relation in relations if relation in found}


def load_entity_questions(source: SourceFile) -> list[RawEntityQuestion]:
    """Return the rows of one file; SourceError as described above, or when the file has changed."""
    rows = [
        _read_row(*read) for read in iterate_numbered_json_values(source, "rows with the columns question and answers")
    ]
    if rows and all(row.problem for row in rows):
        raise SourceError(
            f"{source.path}: no row is valid; row 1: {rows[0].problem}; expected the columns question and answers"
        )
    return rows


def _read_row(number: int, value: Any) -> RawEntityQuestion:
    if problem := _find_question_problem(value):
        return RawEntityQuestion(number, "", (), f"{problem}: {json.dumps(value, ensure_ascii=True)[:300]}")
    return RawEntityQuestion(number, value["question"].strip(), tuple(map(str.strip, value["answers"])))


def _find_question_problem(value: Any) -> str:
    if problem := find_row_problem(value, ("question",)):
        return problem
    if "answers" not in value:
        return f"the column answers is missing (found: {', '.join(map(str, value))[:300]})"
    answers = value["answers"]
    is_list = isinstance(answers, list) and all(isinstance(answer, str) for answer in answers)
    return "" if is_list else "the column answers is not a list of texts"


def find_relation_pid_of_file(path: Path) -> str:
    """Return the PID that a file's name begins with; empty where there is none."""
    match = _RELATION_PREFIX.match(path.name)
    return match[0] if match else ""
