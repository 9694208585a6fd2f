"""Reader of EntityQuestions files: one JSON array (or JSON Lines) a relation, rows `{"question", "answers": [...]}`.

A file that cannot be read as a whole (missing, empty, not UTF-8, broken JSON, other columns) is a SourceError that names
file, row and column. A single odd row is handed on with what is wrong with it, so that it is counted as a reject.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.core.fingerprints import digest_bytes
from tasks.errors import SourceError

_RELATION = re.compile(r"P[1-9][0-9]*(?![0-9])")
_SPACE = re.compile(r"[\s,]*")


@dataclass(frozen=True, slots=True)
class RawQuestion:
    """One row as it stands in a file."""

    row: int
    """Number of the row, from 1."""
    question: str
    answers: tuple[str, ...]
    problem: str = ""
    """What is wrong with the row; empty when nothing is."""


def find_files(paths: Sequence[Path], relations: Sequence[str]) -> dict[str, list[Path]]:
    """Return relation → its files, from files and folders; a file's name begins with its PID (`P19.test.json`).

    With a single relation asked for, a file named outright may have any name. Raises SourceError for a path that is
    not there, a file that cannot be placed, or when nothing is left.
    """
    found: dict[str, list[Path]] = {}
    for path in paths:
        if path.is_dir():
            inside = [file for file in sorted(path.glob("*.json*")) if _relation_of(file) in relations]
            for file in inside:
                found.setdefault(_relation_of(file), []).append(file)
        elif path.is_file():
            relation = _relation_of(path) or (relations[0] if len(relations) == 1 else "")
            if relation not in relations:
                raise SourceError(
                    f"{path}: expected a file name that begins with one of the relations {', '.join(relations)}, "
                    "like P19.test.json; or name its relation with --relation"
                )
            found.setdefault(relation, []).append(path)
        else:
            raise SourceError(f"{path}: no such file or folder")
    if not found:
        raise SourceError(
            f"no file of the relations {', '.join(relations)} in {', '.join(map(str, paths))}; expected names like P19.test.json"
        )
    return {relation: found[relation] for relation in relations if relation in found}


def read_questions(path: Path, expected_sha256: str | None = None) -> list[RawQuestion]:
    """Return the rows of one file; SourceError as described above, or when the file is no longer the expected one."""
    data = path.read_bytes()
    if expected_sha256 is not None and digest_bytes(data) != expected_sha256:
        raise SourceError(f"{path}: the file has changed since the build was locked; build anew")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SourceError(f"{path}: not UTF-8 at byte {error.start} (line {line}); save the file as UTF-8") from error
    if not text.strip():
        raise SourceError(f"{path}: the file is empty; expected rows with the columns question and answers")
    rows = [_read_row(number, value) for number, value in enumerate(_values(path, text), start=1)]
    if rows and all(row.problem for row in rows):
        raise SourceError(
            f"{path}: {rows[0].problem} in row 1, and no other row is better; expected the columns question and answers"
        )
    return rows


def _values(path: Path, text: str) -> Iterator[Any]:
    """Yield the values of a JSON array or of JSON Lines."""
    decoder = json.JSONDecoder()
    position = _SPACE.match(text, 0).end()  # type: ignore[union-attr]
    is_array = text.startswith("[", position)
    position += is_array
    number = 0
    while True:
        position = _SPACE.match(text, position).end()  # type: ignore[union-attr]
        if position == len(text):
            if is_array:
                raise SourceError(f"{path}: the array is not closed after row {number}; the file is cut off")
            return
        if is_array and text[position] == "]":
            if rest := text[position + 1 :].strip():
                raise SourceError(f"{path}: unexpected text behind the array: {rest[:40]!r}")
            return
        number += 1
        try:
            value, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise SourceError(
                f"{path}: broken JSON in row {number} (line {error.lineno}, column {error.colno}): {error.msg}"
            ) from error
        yield value


def _read_row(number: int, value: Any) -> RawQuestion:
    problem = _problem(value)
    if problem:
        return RawQuestion(number, "", (), f"{problem}: {json.dumps(value, ensure_ascii=True)[:300]}")
    return RawQuestion(number, value["question"].strip(), tuple(answer.strip() for answer in value["answers"]))


def _problem(value: Any) -> str:
    if not isinstance(value, dict):
        return "the row is no object"
    if missing := [column for column in ("question", "answers") if column not in value]:
        return f"the column {missing[0]} is missing (found: {', '.join(map(str, value)) or 'none'})"
    if not isinstance(value["question"], str) or not value["question"].strip():
        return "the column question is no text"
    answers = value["answers"]
    if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
        return "the column answers is no list of texts"
    if any("\ud800" <= char <= "\udfff" for text in (value["question"], *answers) for char in text):
        return "the text holds half a surrogate pair"
    return ""


def _relation_of(path: Path) -> str:
    match = _RELATION.match(path.name)
    return match[0] if match else ""
