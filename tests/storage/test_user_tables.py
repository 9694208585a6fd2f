"""Test own tables: which files of a folder are read, and the checks before a build starts."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.core.rows import NO_LICENCE_STATED
from factmill.tasks.core.table_columns import ExpectedTableField
from factmill.tasks.errors import SourceError, UsageError
from factmill.tasks.options import UserSourceParams
from factmill.tasks.storage.source_files import SourceFile
from factmill.tasks.storage.user_tables import (
    CheckedUserTables,
    check_and_digest_user_tables,
    find_licence_problem,
    find_table_files,
    iterate_user_table,
    make_user_source,
)

FORM = (
    ExpectedTableField("question", "text of the question", is_required=True),
    ExpectedTableField("answers", "gold answers", "list", True, "answer"),
    ExpectedTableField("id", "id of the row"),
)
EMBEDDED = ASSETS_ROOT / "data/world/sources/simpleqa/simple_qa_test_set.csv"


def write(path: Path, content: str | bytes = "question,answers\nWho?,Ada\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def pin(*paths: Path, **options: Any) -> CheckedUserTables:
    return check_and_digest_user_tables(UserSourceParams(source=tuple(map(str, paths)), **options), FORM, id_field="id")


@pytest.mark.parametrize(
    ("names", "split", "found"),
    [
        (["b.csv", "a.jsonl", "notes.md"], None, ["a.jsonl", "b.csv"]),
        (["test.csv"], None, ["test.csv"]),
        (["train.csv", "test.csv"], "test", ["test.csv"]),
        (["train.csv", "test.csv"], "TEST", ["test.csv"]),
        (
            [
                "data/train-00000-of-00002.parquet",
                "data/train-00001-of-00002.parquet",
                "data/test-00000-of-00001.parquet",
            ],
            "train",
            ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"],
        ),
        (["test/0000.parquet", "train/0000.parquet"], "test", ["test/0000.parquet"]),
        (["P19.dev.json", "P19.test.json"], "dev", ["P19.dev.json"]),
        (["easy.csv", "hard.csv"], "hard", ["hard.csv"]),
        (["x.csv", "dataset_infos.json"], None, ["x.csv"]),
    ],
)
def test_files_of_split_are_recognised_by_name(
    tmp_path: Path, names: list[str], split: str | None, found: list[str]
) -> None:
    for name in names:
        write(tmp_path / name)
    assert [file.relative_to(tmp_path).as_posix() for file in find_table_files([tmp_path], split)] == found


@pytest.mark.parametrize(
    ("names", "split", "said"),
    [
        (["train.csv", "test.csv"], None, "holds the splits test, train; choose one, like --source-split test"),
        (["train.csv"], "dev", r"--source-split dev: no file of this name in .*; it holds train\.csv"),
        (["notes.md"], None, "no table in .* expected files that end in .csv"),
    ],
)
def test_folder_without_requested_split_reports_what_it_holds(
    tmp_path: Path, names: list[str], split: str | None, said: str
) -> None:
    for name in names:
        write(tmp_path / name)
    with pytest.raises(SourceError, match=said):
        find_table_files([tmp_path], split)


def test_compressed_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"rows\.csv\.gz: unknown kind of file"):
        find_table_files([write(tmp_path / "rows.csv.gz")])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", "q,gold\nWho?,Ada\n"),
        ("t.csv", "\ufeffq,gold\r\nWho?,Ada\r\n"),
        ("t.tsv", "q\tgold\nWho?\tAda\n"),
        ("t.json", '[{"q": "Who?", "gold": ["Ada"]}]'),
        ("t.jsonl", '{"q": "Who?", "gold": "Ada"}\n'),
        ("t.ndjson", '{"q": "Who?", "gold": "Ada"}\n'),
    ],
    ids=["csv", "mark and line ends", "tabs", "array", "lines", "ndjson"],
)
def test_all_file_formats_give_same_rows(tmp_path: Path, name: str, content: str) -> None:
    tables = pin(write(tmp_path / name, content), map="question=q,answers=gold")
    assert tables.own.columns == {"question": "q", "answers": "gold"}
    (row,) = iterate_user_table(tables.files[0], tables.own, FORM)
    assert (row.number, row.fields) == (1, {"question": "Who?", "answers": ["Ada"], "id": None})


def test_parquet_lists_and_struct_fields_are_read_even_through_unsuffixed_link(tmp_path: Path) -> None:
    table = pa.table({"question": ["Who?"], "answer": [{"value": ["Ada", "A. L."]}], "score": [1.0]})
    pq.write_table(table, tmp_path / "blob")
    (tmp_path / "test.parquet").symlink_to(tmp_path / "blob")
    tables = pin(tmp_path / "test.parquet", map="answers=answer.value")
    (file,) = tables.files
    # the form in which a build finds the file
    resolved = SourceFile(file.path.resolve(), file.name, file.sha256)
    (row,) = iterate_user_table(resolved, tables.own, FORM)
    assert row.fields == {"question": "Who?", "answers": ["Ada", "A. L."], "id": None}
    assert tables.notes[0] == "test.parquet: question, answers = answer.value; not read: answer, score"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", "\ufeffquestion;answers\r\nHow high is it?;1141,2\r\n", "semicolons"),
        ("t.csv", 'question;answers;note, short\nWho?;1141,2;a,b,c\n"One; two?";1141,2;\n', "semicolons"),
        ("t.csv", "question\tanswers\nHow high is it?\t1141,2\n", "tabs"),
        ("t.csv", "question|answers\nHow high is it?|1141,2\n", "vertical bars"),
        ("t.tsv", "question;answers\nHow high is it?;1141,2\n", "semicolons"),
        ("t.tsv", "question\tanswers\nHow high; how wide?\t1141,2\n", ""),
        ("t.csv", 'question,answers\nHow high; how wide?,"1141,2"\n', ""),
    ],
)
def test_csv_separator_is_detected_from_file(tmp_path: Path, name: str, content: str, said: str) -> None:
    tables = pin(write(tmp_path / name, content))
    assert {each.fields["answers"][0] for each in iterate_user_table(tables.files[0], tables.own, FORM)} == {"1141,2"}  # type: ignore[index]
    assert (f"its cells are separated by {said}" in tables.notes[0]) if said else "separated" not in tables.notes[0]


def test_uncertain_csv_separator_is_refused_with_advice(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "question;answers\nWho?;Ada;Bo\n")
    with pytest.raises(
        SourceError, match=r"separated by semicolons, but its first rows .* name the columns with --map"
    ):
        pin(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"question,answers\nWho,\xff\n", "not UTF-8 at byte"),
        ("", "the file is empty"),
        ("question,answers\n", "no rows"),
        ("question,answers\nWho?,Ada\nWhere\n", r"row 2 \(line 3\) has 1 cells instead of 2"),
        ("question,question,answers\na,b,c\n", "row 1: the column question appears twice"),
        ("question,answers\n,\n,x\n", "row 1: the column question is empty; .*, and no other row is better"),
        ("question,answers,id\na,b,1\nc,d,2\ne,f,1\n", r"row 3 has the id '1' of t\.csv, row 1; expected each once"),
    ],
)
def test_invalid_file_is_refused_before_build(tmp_path: Path, content: str | bytes, said: str) -> None:
    with pytest.raises(SourceError, match=rf"t\.csv: {said}"):
        pin(write(tmp_path / "t.csv", content))


def test_file_changed_since_build_start_is_refused(tmp_path: Path) -> None:
    tables = pin(write(tmp_path / "t.csv"))
    write(tmp_path / "t.csv", "question,answers\nWho?,Bo\n")
    with pytest.raises(SourceError, match="the file has changed since the build began"):
        list(iterate_user_table(tables.files[0], tables.own, FORM))


def test_cell_of_one_megabyte_is_read(tmp_path: Path) -> None:
    tables = pin(write(tmp_path / "t.csv", f"question,answers\n{'x' * 1_000_000},Ada\n"))
    (row,) = iterate_user_table(tables.files[0], tables.own, FORM)
    assert not isinstance(row.fields, str) and len(row.fields["question"]) == 1_000_000


def test_tables_of_one_source_must_have_same_columns(tmp_path: Path) -> None:
    write(tmp_path / "a.csv")
    write(tmp_path / "b.csv", "question,answer\nWho?,Ada\n")
    with pytest.raises(SourceError, match=r"expected tables with the same columns"):
        pin(tmp_path)


def test_files_with_same_name_are_distinguished_by_folder(tmp_path: Path) -> None:
    paths = [write(tmp_path / "one" / "t.csv"), write(tmp_path / "two" / "t.csv")]
    assert [file.name for file in pin(*paths, source_name="Quiz").files] == ["Quiz/one/t.csv", "Quiz/two/t.csv"]


def test_licence_is_stated_one_or_none(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv")
    stated, none = pin(path, source_licence="CC-BY-4.0"), pin(path)
    assert [file.licence for file in (*stated.files, *none.files)] == ["CC-BY-4.0", NO_LICENCE_STATED]
    assert len(stated.notes) == 1
    assert "no licence of this source is stated (--source-licence)" in none.notes[1]


@pytest.mark.parametrize(
    ("given", "stated"),
    [
        ("cc-by-4.0", "CC-BY-4.0"),
        ("mit or apache-2.0", "MIT OR Apache-2.0"),
        ("my own terms", "my own terms"),
        ("https://town.example/Terms", "https://town.example/Terms"),
        (NO_LICENCE_STATED, NO_LICENCE_STATED),
    ],
)
def test_stated_licence_is_written_as_spdx_writes_it(tmp_path: Path, given: str, stated: str) -> None:
    assert [file.licence for file in pin(write(tmp_path / "a.csv"), source_licence=given).files] == [stated]


def test_rows_of_all_files_are_counted(tmp_path: Path) -> None:
    files = [write(tmp_path / "a.csv"), write(tmp_path / "b.csv", "question,answers\nWho?,Ada\nWho?,\n")]
    assert pin(*files).row_count == 3


def test_known_licence_of_published_file_cannot_be_restated() -> None:
    with pytest.raises(UsageError, match=r"is a published file under Apache-2\.0; leave the option out"):
        check_and_digest_user_tables(
            UserSourceParams(source=(str(EMBEDDED),), map="question=problem", source_licence="MIT"), FORM
        )


@pytest.mark.parametrize(
    ("option", "value"),
    [("map", ("question=q",)), ("source_name", "x"), ("source_licence", "MIT"), ("list_separator", ";")],
)
def test_file_options_require_files(option: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"--{option.replace('_', '-')} is about files of your own"):
        make_user_source(UserSourceParams(**{option: value}), from_files=False)


@pytest.mark.parametrize(
    ("licence", "said"),
    [
        *((each, "") for each in ("CC-BY-4.0", "MIT OR Apache-2.0", "LicenseRef-town", "https://town.example/terms", NO_LICENCE_STATED)),
        ("CC BY 4.0", "no SPDX id, .* did you mean CC-BY-4.0"),
        ("GPL-3", "did you mean GPL-3.0-"),
        ("CC BY 4", r"did you mean CC-BY-4\.0\?$"),
        ("GPL", r"did you mean GPL-3\.0-only or GPL-3\.0-or-later\?$"),
        ("GPLv3", r"did you mean GPL-3\.0-only or GPL-3\.0-or-later\?$"),
        ("CC BY-SA", r"did you mean CC-BY-SA-4\.0\?$"),
        ("BSD", r"as it is$"),
        ("my own terms", "no SPDX id, address or LicenseRef-NAME, so rows and cards state it as it is$"),
        ("cc-by-4.0", ""),
    ],
)  # fmt: skip
def test_stated_licence_is_checked_against_spdx_ids(licence: str, said: str) -> None:
    problem = find_licence_problem(UserSourceParams(source_licence=licence).source_licence or "")
    assert re.search(said, problem) if said else problem == ""


def test_licence_containing_slashes_must_be_url() -> None:
    for wrong in ("a/b", "https://town.example/my terms"):
        with pytest.raises(ValueError, match="at most 100 characters"):
            UserSourceParams(source_licence=wrong)


@pytest.mark.parametrize("name", ["", " ", "a/b", "two\nlines", "x" * 101])
def test_source_name_must_be_one_short_line(name: str) -> None:
    with pytest.raises(ValueError, match="expected a text of at most 100 characters"):
        UserSourceParams(source_name=name)


def test_columns_missing_from_first_json_row_are_found_in_others(tmp_path: Path) -> None:
    rows = [{"question": "Who?", "answers": ["Ada"]}, {"question": "Where?", "answers": ["Ulm"], "id": "b"}]
    tables = pin(write(tmp_path / "t.jsonl", "\n".join(map(json.dumps, rows))))
    assert tables.own.columns == {"question": "question", "answers": "answers", "id": "id"}
