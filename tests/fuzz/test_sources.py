"""Fuzz source files: the reader returns storable rows and rejects, or names the error."""

import csv
import io
import itertools
import json
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.damage import mutilate, odd_json, replace_parts, write_lines

from factmill.flows.commands.paths import iterate_subject_object_pairs as read_path_pairs
from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.biokalma.sources.person_pairs import find_pair_files_by_name, parse_person_pair_rows
from factmill.tasks.core.evaluation.answers import parse_answers_file
from factmill.tasks.errors import FactmillError
from factmill.tasks.fanoutqa.params import find_question_files
from factmill.tasks.fanoutqa.sources.question_files import read_question_file
from factmill.tasks.granola.sources.entity_questions import find_relation_files, load_entity_questions
from factmill.tasks.multihal.sources.foundations import FOUNDATIONS, find_foundation_files
from factmill.tasks.storage.source_files import iterate_numbered_json_values, make_source_file_with_digest
from factmill.tasks.text.sanitize import escape_control_characters

SOURCES = ASSETS_ROOT / "data" / "world" / "sources"
QUESTION = {"question": "Where was Ada born?", "answers": ["London"]}


def read_granola(path: Path) -> Iterable[Any]:
    for files in find_relation_files([path.parent], ["P19"]).values():
        for file in files:
            yield from load_entity_questions(make_source_file_with_digest(file))


def read_fanout(path: Path) -> Iterable[Any]:
    for name, file in find_question_files([path]).items():
        yield from read_question_file(make_source_file_with_digest(file, name))


def read_people(path: Path) -> Iterable[Any]:
    for file in find_pair_files_by_name([path]).values():
        yield from parse_person_pair_rows(make_source_file_with_digest(file), complete_names=True)


def read_foundation(path: Path) -> Iterable[Any]:
    for name, files in find_foundation_files([path]).files.items():
        for file in files:
            yield from FOUNDATIONS[name].read(make_source_file_with_digest(file))


def read_given_answers(path: Path) -> Iterable[Any]:
    yield parse_answers_file(iterate_numbered_json_values(make_source_file_with_digest(path), "answers"), path.name)


READERS: dict[str, Callable[[Path], Iterable[Any]]] = {
    "entityquestions/P19.json": read_granola,
    "fanoutqa/places.json": read_fanout,
    "biokalma/pairs.jsonl": read_people,
    **{
        f"{name}/{file.name}": read_foundation
        for name in FOUNDATIONS
        for file in sorted((SOURCES / name).iterdir())[:1]
    },
}
ROWS: dict[str, tuple[Callable[[Path], Iterable[Any]], dict[str, Any]]] = {
    "P19.x.json": (read_granola, QUESTION),
    "authored.json": (
        read_fanout,
        {"question": "q?", "strategy": [{"question": "p?"}], "answer": {"a": 1}, "categories": []},
    ),
    "released.json": (
        read_fanout,
        {
            "id": "a",
            "question": "q?",
            "decomposition": [],
            "necessary_evidence": [],
            "answer": {"a": 1},
            "categories": [],
        },
    ),
    "people.jsonl": (read_people, {"paragraph": "p", "person": "A B", "relation": "P26", "other": "C D"}),
    "qa_data.json": (
        read_foundation,
        {"knowledge": "k", "question": "q", "right_answer": "r", "hallucinated_answer": "h"},
    ),
    "felm.jsonl": (
        read_foundation,
        {"prompt": "p", "response": "r", "labels": [True], "ref": ["x"], "domain": "wk", "segmented_response": ["r"]},
    ),
    "answers.jsonl": (read_given_answers, {"id": "a", "answer": "b", "setting": "c"}),
    "pairs.jsonl": (read_path_pairs, {"subject": "Q1", "object": "Q2"}),
}
# made once: Hypothesis validates a strategy at its first draw
ODD_ROWS = {name: st.lists(replace_parts(row) | odd_json(*row), max_size=3) for name, (_, row) in ROWS.items()}
quick = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def read(reader: Callable[[Path], Iterable[Any]], path: Path, content: bytes) -> None:
    """Read a file; return storable rows, or a short error that names the file or the request."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    try:
        for row in reader(path):
            str(row).encode()
    except FactmillError as error:
        assert str(error).encode() and len(str(error)) < 3000
        assert "Traceback" not in escape_control_characters(str(error))


@cache
def damage_source(name: str) -> st.SearchStrategy[bytes]:
    return mutilate(first_rows(SOURCES / name))


def first_rows(file: Path) -> bytes:
    """Return the beginning of one of our own sources, as a file of its kind."""
    text = file.read_text("utf-8")
    if file.suffix == ".csv":
        out = io.StringIO()
        csv.writer(out).writerows(itertools.islice(csv.reader(io.StringIO(text)), 4))
        return out.getvalue().encode()
    rows = [
        row for _, row in itertools.islice(iterate_numbered_json_values(make_source_file_with_digest(file), "rows"), 3)
    ]
    return (
        json.dumps(rows, ensure_ascii=False)
        if text.startswith("[")
        else "".join(f"{json.dumps(row)}\n" for row in rows)
    ).encode()


@pytest.mark.parametrize("name", READERS)
@quick
@given(data=st.data())
def test_damaged_source_is_read_or_named(tmp_path: Path, name: str, data: st.DataObject) -> None:
    read(READERS[name], tmp_path / "s" / Path(name).name, data.draw(damage_source(name)))


@pytest.mark.parametrize("name", ROWS)
@quick
@given(data=st.data())
def test_odd_rows_are_read_or_named(tmp_path: Path, name: str, data: st.DataObject) -> None:
    read(ROWS[name][0], tmp_path / "s" / name, write_lines(data.draw(ODD_ROWS[name])))


@quick
@given(content=st.binary(max_size=60) | mutilate(b"subject,object\nQ1,Q2\n"))
def test_pairs_of_any_table_are_read_or_named(tmp_path: Path, content: bytes) -> None:
    read(read_path_pairs, tmp_path / "pairs.csv", content)
    read(read_path_pairs, tmp_path / "pairs.parquet", content)
