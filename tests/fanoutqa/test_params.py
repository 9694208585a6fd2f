"""Test parameters of a FanOutQA build: files, kinds of sets, the epoch."""

from pathlib import Path

import pytest

from factmill.tasks.errors import SourceError, UsageError
from factmill.tasks.fanoutqa.params import (
    find_question_files,
    parse_past_epoch,
    pin_titles_file,
    select_question_set_kinds,
)


def write(folder: Path, *names: str) -> list[Path]:
    paths = [folder / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("[]")
    return paths


def test_files_with_same_name_are_distinguished_by_parent_folders(tmp_path: Path) -> None:
    paths = write(tmp_path, "x/two/a.json", "y/two/a.json", "y/two/b.jsonl", "y/two/notes.txt")
    found = find_question_files([paths[0], tmp_path / "y" / "two", paths[0]])
    assert found == {"x/two/a.json": paths[0], "y/two/a.json": paths[1], "b.jsonl": paths[2]}


def test_missing_question_files_raise_source_error(tmp_path: Path) -> None:
    write(tmp_path, "notes.txt")
    for path, result in ((tmp_path, r"no \.json or \.jsonl file"), (tmp_path / "none.json", "no such file or folder")):
        with pytest.raises(SourceError, match=result):
            find_question_files([path])


def test_relation_selects_all_set_kinds_of_that_relation() -> None:
    kinds = select_question_set_kinds([])
    assert select_question_set_kinds(["P150"]) == [kind for kind in kinds if kind.startswith("P150 ")]
    assert len(select_question_set_kinds(["P150"])) > 1
    assert select_question_set_kinds(["P47", kinds[-1]]) == ["P47 Q6256", kinds[-1]]
    with pytest.raises(UsageError, match="unknown kind of sets 'P1'"):
        select_question_set_kinds(["P1"])


def test_future_epoch_raises_usage_error() -> None:
    assert parse_past_epoch("2023-11-20") == "2023-11-20T00:00:00Z"
    with pytest.raises(UsageError, match=r"epoch '2099-01-01.*past"):
        parse_past_epoch("2099-01-01")


def test_missing_titles_file_raises_usage_error(tmp_path: Path) -> None:
    assert pin_titles_file(None) == []
    with pytest.raises(UsageError, match=r"--titles .*titles.txt: .*one title per line"):
        pin_titles_file(str(tmp_path / "titles.txt"))
