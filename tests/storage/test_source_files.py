"""Test source files as streams: the same rows for every block size, and errors with file, row and column."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.core.rows import EMBEDDED_WORLD_LICENCE, NO_LICENCE_STATED
from factmill.tasks.errors import SourceError
from factmill.tasks.storage import source_files
from factmill.tasks.storage.source_files import (
    SourceFile,
    format_unused_files_note,
    iterate_numbered_csv_rows,
    iterate_numbered_json_values,
    iterate_numbered_parquet_rows,
    list_source_files,
    make_source_file_with_digest,
    make_source_file_without_digest,
    peek_columns,
)

ROWS = [{"a": 1, "b": "x, [y] {"}, {"a": 234567, "b": 'é "q"\n'}, {"a": None, "b": "😀"}]


def file(tmp_path: Path, content: str | bytes, name: str = "rows.json") -> SourceFile:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return make_source_file_without_digest(path)


@pytest.mark.parametrize("block", [1, 2, 7, 64, 1 << 20])
@pytest.mark.parametrize(
    "text",
    [
        json.dumps(ROWS),
        json.dumps(ROWS, indent="\t", ensure_ascii=False),
        "\ufeff" + json.dumps(ROWS),
        "".join(f"{json.dumps(row)}\n" for row in ROWS),
        "\n\n".join(json.dumps(row) for row in ROWS),
    ],
    ids=["array", "indented", "byte order mark", "lines", "lines apart"],
)
def test_json_rows_do_not_depend_on_block_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, block: int
) -> None:
    monkeypatch.setattr(source_files, "_BLOCK", block)
    assert list(iterate_numbered_json_values(file(tmp_path, text), "rows")) == list(enumerate(ROWS, start=1))


@pytest.mark.parametrize("block", [1, 1 << 20])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty; expected rows"),
        (" \n\t", "the file is empty; expected rows"),
        (b'{"a": "caf\xe9"}', r"not UTF-8 at byte 10 \(line 1\)"),
        (b'{"a": 1}\n{"a": "\xc3', r"not UTF-8 at byte 16 \(line 2\)"),
        ('{"a": 1}\n{"a": 2}\n{"a": "x', r"broken JSON in row 3 \(line 3, column \d+\)"),
        ('[{"a": 1},\n{"a": 2', r"broken JSON in row 2 \(line 2, column \d+\)"),
        ('[{"a": 1}, {"a": 2}', "the array is not closed after row 2; the file is cut off"),
        ('[{"a": 1}] and more', "unexpected text after the array: 'and more'"),
        ("a,b\n1,2\n", r"broken JSON in row 1 \(line 1, column 1\)"),
        ("[" * 100_000, r"broken JSON in row 1 \(line 1\): nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", r"broken JSON in row 1 \(line 1\): an integer of more than 4,300 digits"),
        (f'[{{"a": 1}}, {{"a": {"[" * 101}{"]" * 101}}}]', r"broken JSON in row 2 \(line 1\): nested too deeply"),
    ],
)
def test_unreadable_json_reports_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | bytes, message: str, block: int
) -> None:
    monkeypatch.setattr(source_files, "_BLOCK", block)
    with pytest.raises(SourceError, match=rf"rows\.json: {message}"):
        list(iterate_numbered_json_values(file(tmp_path, content), "rows"))


def test_unterminated_json_row_is_read_only_up_to_size_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_files, "_BLOCK", 10)
    monkeypatch.setattr(source_files, "_MAX_ROW_CHARS", 100)
    seen: list[int] = []
    read = source_files.json.JSONDecoder.raw_decode

    def count(decoder: Any, text: str, position: int) -> Any:
        seen.append(len(text) - position)
        return read(decoder, text, position)

    monkeypatch.setattr(source_files.json.JSONDecoder, "raw_decode", count)
    with pytest.raises(SourceError, match="broken JSON in row 1"):
        list(iterate_numbered_json_values(file(tmp_path, '{"a": "' + "x" * 100_000), "rows"))
    assert max(seen) < 1000


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a,b\n1,2\n", [{"a": "1", "b": "2"}]),
        ("\ufeffa,b\r\n1,2\r\n\r\n3,4", [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]),
        ('b,c,a\n"x, ""y""\nz",,1\n', [{"b": 'x, "y"\nz', "c": "", "a": "1"}]),
    ],
    ids=["plain", "mark, line ends, blank line", "quotes, more columns"],
)
def test_csv_rows_are_read_by_column(tmp_path: Path, text: str, rows: list[dict[str, str]]) -> None:
    assert [row for _, row in iterate_numbered_csv_rows(file(tmp_path, text), ("a", "b"))] == rows


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty; expected a CSV file with the columns a, b"),
        (b"a,b\n1,\xff\n", r"not UTF-8 at byte 6 \(line 2\)"),
        ("a,c\n1,2\n", r"row 1: the column b is missing \(found: a, c\); expected the columns a, b"),
        ("a,b,a\n1,2,3\n", "row 1: the column a appears twice"),
        ("a,b\n1,2\n3\n", r"row 2 \(line 3\) has 1 cells instead of 2, column b; the file is cut off"),
        ("a,b\n1,2,3\n", r"row 1 \(line 2\) has 3 cells instead of 2"),
        ('a,b\n1,2\n3,"x\ny', r"broken CSV in row 2 \(line 4\), columns a, b: unexpected end of data"),
        ('a,b\n1,"x"y\n', r"broken CSV in row 1 \(line 2\)"),
    ],
)
def test_unreadable_csv_reports_position(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(SourceError, match=rf"rows\.csv: {message}"):
        list(iterate_numbered_csv_rows(file(tmp_path, content, "rows.csv"), ("a", "b")))


def test_parquet_rows_are_read_by_column(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"c": [1, 2], "a": ["x", None], "b": ["y", "z"]}), path)
    assert list(iterate_numbered_parquet_rows(make_source_file_without_digest(path), ("a", "b"))) == [
        (1, {"a": "x", "b": "y"}),
        (2, {"a": None, "b": "z"}),
    ]
    assert peek_columns(path) == ("c", "a", "b")
    with pytest.raises(SourceError, match=r"rows\.parquet: row 1: the column d is missing \(found: c, a, b\)"):
        list(iterate_numbered_parquet_rows(make_source_file_without_digest(path), ("a", "d")))


@pytest.mark.parametrize("keep", [0, 4, -1, -20])
def test_truncated_parquet_is_reported(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": ["x"] * 50}), path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(SourceError, match=r"rows\.parquet: .*Parquet file"):
        list(iterate_numbered_parquet_rows(make_source_file_without_digest(path), ("a",)))


READERS: list[tuple[str, Callable[[SourceFile], Any]]] = [
    ("rows.json", lambda source: iterate_numbered_json_values(source, "rows")),
    ("rows.csv", lambda source: iterate_numbered_csv_rows(source, ("a", "b"))),
    ("rows.parquet", lambda source: iterate_numbered_parquet_rows(source, ("a",))),
]


@pytest.mark.parametrize(("name", "read"), READERS, ids=[name for name, _ in READERS])
def test_file_changed_since_build_start_yields_no_row(
    tmp_path: Path, name: str, read: Callable[[SourceFile], Any]
) -> None:
    path = tmp_path / name
    if name.endswith("parquet"):
        pq.write_table(pa.table({"a": ["x"]}), path)
    else:
        path.write_text("a,b\n1,2\n" if name.endswith("csv") else '{"a": 1}')
    rows = read(SourceFile(path, name, hashlib.sha256(path.read_bytes()).hexdigest()))
    assert len(list(rows)) == 1
    with pytest.raises(SourceError, match="has changed since the build began"):
        next(iter(read(SourceFile(path, name, "0" * 64))))
    with pytest.raises(SourceError, match=r"gone\.csv: cannot be read: No such file"):
        next(iter(read(SourceFile(tmp_path / "gone.csv", "gone.csv"))))


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("a.csv", "x,y\n1,2\n", ("x", "y")),
        ("a.json", '[{"x": 1, "y": 2}]', ("x", "y")),
        ("a.jsonl", '{"x": 1, "y": 2}\n', ("x", "y")),
        ("a.json", "[1, 2]", ()),
        ("a.json", "no json", ()),
        ("a.csv", b"\xff\xfe", ()),
        ("a.csv", "", ()),
        ("a.parquet", "PAR", ()),
    ],
)
def test_peeking_at_columns_never_raises(
    tmp_path: Path, name: str, content: str | bytes, columns: tuple[str, ...]
) -> None:
    assert peek_columns(file(tmp_path, content, name).path) == columns


def test_source_is_pinned_with_digest_only_if_it_has_row(tmp_path: Path) -> None:
    whole = file(tmp_path, '{"a": 1}')
    assert make_source_file_with_digest(whole.path).sha256 == hashlib.sha256(b'{"a": 1}').hexdigest()
    for name, content in (("a.json", "[]"), ("a.jsonl", " [ ]\n"), ("a.csv", "a,b\n")):
        with pytest.raises(SourceError, match=rf"{name}: no rows; remove the file"):
            make_source_file_with_digest(file(tmp_path, content, name).path)
    pq.write_table(pa.table({"a": pa.array([], pa.string())}), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"a\.parquet: no rows"):
        make_source_file_with_digest(tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"gone\.json: cannot be read: No such file"):
        make_source_file_with_digest(tmp_path / "gone.json")


@pytest.mark.parametrize("name", ["entityquestions/P19.json", "halueval/qa_data.json", "fanoutqa/places.json"])
def test_licence_follows_unchanged_content_wherever_file_is_stored(tmp_path: Path, name: str) -> None:
    content = (ASSETS_ROOT / "data" / "world" / "sources" / name).read_bytes()
    assert make_source_file_with_digest(file(tmp_path, content, "mine.json").path).licence == EMBEDDED_WORLD_LICENCE
    assert make_source_file_with_digest(file(tmp_path, content + b"\n", "mine.json").path).licence == NO_LICENCE_STATED


def test_published_files_have_their_licence_and_extracts_have_none(shared_data: Path) -> None:
    assert {make_source_file_with_digest(path).licence for path in shared_data.glob("entityquestions/dev/*.json")} == {
        "MIT"
    }
    assert make_source_file_with_digest(shared_data / "truthfulqa" / "TruthfulQA.csv").licence == NO_LICENCE_STATED, (
        "300 of its 817 rows"
    )


def test_path_that_is_neither_file_nor_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "loop.json").symlink_to(tmp_path / "s" / "loop.json")
    with pytest.raises(SourceError, match=r"loop\.json: cannot be read: Too many levels of symbolic links"):
        list_source_files(tmp_path / "s")
    with pytest.raises(SourceError, match=r"null: not a regular file"):
        list_source_files(Path("/dev/null"))


def test_unused_files_are_reported_except_non_data_files(tmp_path: Path) -> None:
    for number in range(12):
        file(tmp_path, "[]", f"{number:02}.json")
    file(tmp_path, "", "README.md")
    used = [tmp_path / "00.json"]
    result = ", ".join(f"{number:02}.json" for number in range(1, 9))
    assert format_unused_files_note([tmp_path], used, "for a reason") == [
        f"not used, for a reason: {result} and 3 more"
    ]
    assert format_unused_files_note(used, used, "for a reason") == []
