"""Test EntityQuestions files: good rows, odd rows, and unreadable files."""

import json
from pathlib import Path

import pytest

from factmill.tasks.assets import load_entity_questions_relations
from factmill.tasks.errors import SourceError
from factmill.tasks.granola.sources.entity_questions import (
    RawEntityQuestion,
    find_relation_files,
    load_entity_questions,
)
from factmill.tasks.storage.source_files import make_source_file_without_digest

GOOD = {"question": "Where was Ada born?", "answers": ["London"]}


def file(tmp_path: Path, text: str, name: str = "P19.test.json") -> Path:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return path


def test_rows_are_numbered_and_texts_are_stripped(tmp_path: Path) -> None:
    text = json.dumps([GOOD, {"question": " Where was Ada born? ", "answers": [" London"]}])
    assert load_entity_questions(make_source_file_without_digest(file(tmp_path, text))) == [
        RawEntityQuestion(1, "Where was Ada born?", ("London",)),
        RawEntityQuestion(2, "Where was Ada born?", ("London",)),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty; expected rows with the columns question and answers"),
        (
            json.dumps([{"frage": "a", "answers": []}] * 3),
            r"the column question is missing \(found: frage, answers\).*expected the columns question and answers",
        ),
    ],
)
def test_unreadable_file_raises_source_error_with_cause_and_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SourceError, match=rf"P19\.test\.json: .*{message}"):
        load_entity_questions(make_source_file_without_digest(file(tmp_path, text)))


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (["a"], "the row is no object"),
        ({"question": "a"}, "the column answers is missing"),
        ({"question": 3, "answers": []}, "the column question is no text"),
        ({"question": " ", "answers": []}, "the column question is no text"),
        ({"question": "a", "answers": "b"}, "the column answers"),
        ({"question": "a", "answers": [None]}, "the column answers"),
        ({"question": "a \ud800", "answers": ["b"]}, "half a surrogate pair"),
    ],
)
def test_invalid_row_is_returned_with_its_problem(tmp_path: Path, row: object, problem: str) -> None:
    good, odd = load_entity_questions(make_source_file_without_digest(file(tmp_path, json.dumps([GOOD, row]))))
    assert good.problem == ""
    assert odd.row == 2
    assert problem in odd.problem


def test_files_are_assigned_to_relation_in_their_names(tmp_path: Path) -> None:
    for name in ("P19.test.json", "P19.dev.json", "P20.dev.json", "P17.dev.json", "P190.dev.json", "notes.txt"):
        file(tmp_path, "[]", name)
    found = find_relation_files([tmp_path], ["P20", "P19"])
    assert {pid: [path.name for path in paths] for pid, paths in found.items()} == {
        "P20": ["P20.dev.json"],
        "P19": ["P19.dev.json", "P19.test.json"],
    }


def test_file_with_any_name_is_accepted_for_single_requested_relation(tmp_path: Path) -> None:
    path = file(tmp_path, "[]", "births.json")
    assert find_relation_files([path], ["P19"]) == {"P19": [path]}
    with pytest.raises(SourceError, match=r"births\.json: expected a file name.*--relations"):
        find_relation_files([path], ["P19", "P20"])


def test_missing_path_and_empty_folder_raise_source_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file or folder"):
        find_relation_files([tmp_path / "absent.json"], ["P19"])
    with pytest.raises(SourceError, match="no file of the relations P19"):
        find_relation_files([tmp_path], ["P19"])


def test_error_lists_files_of_folder_without_usable_file(tmp_path: Path) -> None:
    for name in ("P20.json", "people.json", "P19.json.gz", "notes.txt"):
        file(tmp_path, "[]", name)
    with pytest.raises(SourceError, match=r"\(holds P19\.json\.gz, P20\.json, people\.json\); expected names"):
        find_relation_files([tmp_path], ["P19"])


def test_real_files_load_completely(shared_data: Path) -> None:
    folder = shared_data / "entityquestions" / "dev"
    relations = [pid for pid, relation in load_entity_questions_relations().items() if relation.is_default]
    files = find_relation_files([folder], relations)
    rows = [
        row
        for paths in files.values()
        for path in paths
        for row in load_entity_questions(make_source_file_without_digest(path))
    ]
    assert len(rows) == 15318
    assert not [row for row in rows if row.problem]
