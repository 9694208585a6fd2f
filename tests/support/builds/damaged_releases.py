"""Damage release folders: each kind of damage by name, as a function on the folder."""

import json
import os
import shutil
import socket
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from support.builds.published import publish_rows
from support.builds.released import fanout_tables
from support.commands.command import Factmill

from factmill.tasks.core.digests import combine_digests, digest_json
from factmill.tasks.fanoutqa.benchmark import FANOUTQA
from factmill.tasks.storage.released_folders import load_verified_release
from factmill.tasks.storage.shards import digest_table_as_parquet

DEV = "data/fanoutqa/dev.parquet"
"""The table of questions with answers."""
INDEX, LOCK, SUMS = "release.json", "lock.json", "SHA256SUMS"
Change = Callable[[Any], Any]
COMMANDS = ("diff", "evaluate", "release", "release --force")
"""Commands that read a release's folder; the last may replace it."""
REPLACED = {
    "form of an earlier factmill",
    "column of numbers, all digests updated",
    "column of nulls, all digests updated",
}
"""Damages that --force replaces: the files agree with each other, so only released content is lost."""


def make_released(factmill: Factmill, folder: Path) -> Path:
    """Return a folder with a warehouse, w.duckdb, and the undamaged release of its build."""
    publish_rows(folder / "w.duckdb", FANOUTQA, fanout_tables(("dev", "dev", "test")))
    to = ("--to", folder / "whole", "--with-answers", "--warehouse", folder / "w.duckdb")
    ran = factmill("release", "latest:fanoutqa", *to)
    assert ran.code == 0, ran.err
    return folder


def copy_damaged(released: Path, folder: Path, damage: str) -> Path:
    """Return a damaged copy of the release."""
    shutil.copytree(released / "whole", folder)
    DAMAGES[damage](folder)
    return folder


def run_commands(factmill: Factmill, released: Path, folder: Path, damage: str, commands: Sequence[str]) -> None:
    """Check that commands which read a damaged release end with an error that names it.

    `released` comes from `make_released`.
    """
    none, warehouse = folder.with_name("none.duckdb"), released / "w.duckdb"
    release = ("release", "latest:fanoutqa", "--to", folder, "--with-answers", "--warehouse", warehouse)
    arguments: dict[str, Sequence[str | Path]] = {
        "diff": ("diff", released / "whole", folder, "--warehouse", warehouse),
        "evaluate": ("evaluate", "fanoutqa", "--release", folder, "--model", "silent", "--warehouse", none),
        "release": release,
        "release --force": (*release, "--force"),
    }
    for command in commands:
        ran = factmill(*arguments[command])
        last = ran.err.splitlines()[-1]
        print(f"{damage} | {command} | {ran.code} | {last}")
        if command == "release --force" and damage in REPLACED:
            assert (ran.code, load_verified_release(folder).index.rows) == (0, 3)
            continue
        assert ran.code in (1, 2), (command, ran)
        assert last.startswith("factmill: ") and str(folder) in last, (command, last)
        assert "Traceback" not in ran.err + ran.out
    assert not none.exists()


def resum(folder: Path, tables: bool = False, content: bool = False) -> None:
    """Update sizes and digests to the current files; on request also the digests of tables and of all rows."""
    index = json.loads((folder / INDEX).read_bytes())
    splits = [split for config in index["configs"] for split in config["splits"]]
    for file in (file for split in splits for file in split["files"]):
        if (folder / file["path"]).is_file():
            data = (folder / file["path"]).read_bytes()
            file |= {"size": len(data), "sha256": sha256(data).hexdigest()}
    for name in index.get("tables", {}) if tables or content else ():
        found = [split for split in splits if split["table"] == name]
        parts = [pq.read_table(folder / each["files"][0]["path"]).select(each["columns"]) for each in found]
        for split, part in zip(found, parts, strict=True):
            split["rows"] = part.num_rows
        if parts:
            table = pa.concat_tables(parts)
            index["tables"][name] = {"rows": table.num_rows, "sha256": digest_table_as_parquet(table.sort_by("id"))}
    if content:
        result = sorted(index.get("tables", {}).items())
        index["content_digest"] = combine_digests(f"{name} {each['sha256']}" for name, each in result)
        edit(LOCK, lambda lock: lock | {"content_digest": index["content_digest"]}, sums=False)(folder)
    (folder / INDEX).write_text(json.dumps(index), "utf-8")
    write_sums(folder)


def write_sums(folder: Path) -> None:
    """Write the list of digests of the current files."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SUMS)
    lines = [f"{sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n" for path in files]
    (folder / SUMS).write_text("".join(lines), "utf-8", "surrogateescape")


def edit(name: str, change: Change, sums: bool = True) -> Callable[[Path], None]:
    """Return a function that changes an object in one of the folder's JSON files."""

    def apply(folder: Path) -> None:
        result = change(json.loads((folder / name).read_bytes()))
        (folder / name).write_text(json.dumps(result), "utf-8")
        if sums:
            write_sums(folder)

    return apply


def rewrite(change: Change, path: str = DEV, store_schema: bool = False, **resumming: bool) -> Callable[[Path], None]:
    """Return a function that writes a changed table with matching digests."""

    def apply(folder: Path) -> None:
        pq.write_table(change(pq.read_table(folder / path)), folder / path, store_schema=store_schema)
        resum(folder, **resumming)

    return apply


def put(name: str, data: bytes, sums: bool = False) -> Callable[[Path], None]:
    """Return a function that replaces a file with bytes."""

    def apply(folder: Path) -> None:
        (folder / name).write_bytes(data)
        if sums:
            write_sums(folder)

    return apply


def alter_questions(table: pa.Table) -> pa.Table:
    asked = pa.array([f"{each} Truly?" for each in table["question"].to_pylist()], pa.string())
    return table.set_column(table.column_names.index("question"), "question", asked)


def fill_column(name: str, values: Callable[[int], pa.Array]) -> Change:
    """Return a function that replaces a column's values (number of rows → values)."""
    return lambda table: table.set_column(table.column_names.index(name), name, values(table.num_rows))


def _swap(table: pa.Table) -> pa.Table:
    other = {"question": "answer", "answer": "question"}
    return table.rename_columns([other.get(name, name) for name in table.column_names])


def _replace(make: Callable[[Path, Path], object], name: str = DEV) -> Callable[[Path], None]:
    """Return a function that moves a file and calls `make` with its old and new path."""

    def apply(folder: Path) -> None:
        moved = folder.with_name(f"{folder.name}-moved")
        (folder / name).rename(moved)
        make(folder / name, moved)

    return apply


def _listen(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:  # socket addresses are short: use a relative path
        here = Path.cwd()
        os.chdir(path.parent)
        listener.bind(path.name)
        os.chdir(here)


def _enlarge(name: str, size: int) -> Callable[[Path], None]:
    return lambda folder: os.truncate(folder / name, size)  # sparse, so it fills no disk


def _split(**changed: Any) -> Callable[[Path], None]:
    return edit(INDEX, lambda index: index["configs"][0]["splits"][0].update(changed) or index)


def _file(**changed: Any) -> Callable[[Path], None]:
    return edit(INDEX, lambda index: index["configs"][0]["splits"][0]["files"][0].update(changed) or index)


def _twins(one: str, other: str) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        for name in (one, other):
            (folder / name).write_text("twin")
        write_sums(folder)

    return apply


def _forge_lock(change: Change) -> Callable[[Path], None]:
    """Return a function that changes a manifest, with all dependent digests and ids."""

    def apply(folder: Path) -> None:
        result = json.loads((folder / LOCK).read_bytes())
        result["lock"] = change(result["lock"])
        result["lock_digest"] = digest_json(result["lock"])
        result["build_id"] = f"{result['benchmark']}-{result['lock_digest'][:12]}"
        (folder / LOCK).write_text(json.dumps(result), "utf-8")
        edit(INDEX, lambda index: index | {"build_id": result["build_id"]})(folder)

    return apply


def _drop_line(folder: Path) -> None:
    lines = (folder / SUMS).read_text("utf-8").splitlines(keepends=True)
    (folder / SUMS).write_text("".join(line for line in lines if DEV not in line), "utf-8")


def _bomb(table: pa.Table) -> pa.Table:
    rows = 400_000
    text = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * 100_000]))
    columns = {name: pa.array(["x"] * rows) for name in table.column_names}
    return pa.table({**columns, "question": text})


def _count_bomb(folder: Path) -> None:
    rewrite(_bomb)(folder)
    _split(rows=400_000)(folder)


def _spoil_text(table: pa.Table) -> pa.Table:
    bad = pa.array([b"\xff\xfe"] * table.num_rows, pa.binary()).view(pa.string())
    return table.set_column(table.column_names.index("question"), "question", bad)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "table cut off": lambda folder: os.truncate(folder / DEV, 200),
    "table cut off, sums updated": lambda folder: (os.truncate(folder / DEV, 200), resum(folder)),  # type: ignore[dict-item]
    "table empty, sums updated": lambda folder: (os.truncate(folder / DEV, 0), resum(folder)),  # type: ignore[dict-item]
    "table is text, sums updated": lambda folder: (put(DEV, b"id,question\n")(folder), resum(folder)),  # type: ignore[dict-item]
    "rows altered": lambda folder: pq.write_table(alter_questions(pq.read_table(folder / DEV)), folder / DEV),
    "rows altered, sums updated": rewrite(alter_questions),
    "rows altered, sums and digests of tables updated": rewrite(alter_questions, tables=True),
    "last row gone, sums updated": rewrite(lambda table: table.slice(0, table.num_rows - 1), tables=True),
    "no rows, sums updated": rewrite(lambda table: table.slice(0, 0), tables=True),
    "columns swapped, sums updated": rewrite(_swap),
    "column of numbers, all digests updated": rewrite(fill_column("answer", lambda rows: pa.array(range(rows))), content=True),
    "column of nulls, all digests updated": rewrite(fill_column("question", lambda rows: pa.nulls(rows, pa.string())), content=True),
    "texts that are no UTF-8, sums updated": rewrite(_spoil_text),
    "column too many, sums updated": rewrite(lambda table: table.append_column("more", pa.array(range(table.num_rows)))),
    "column missing, sums updated": rewrite(lambda table: table.drop_columns(["categories"])),
    "column with a name that is no UTF-8, sums updated": lambda folder: put(
        DEV, (folder / DEV).read_bytes().replace(b"decomposition", b"d\xffcomposition"))(folder) or resum(folder),  # type: ignore[func-returns-value]
    "column that cannot be sorted, sums updated": rewrite(
        fill_column("answer", lambda rows: pa.array(["x"] * rows, pa.string_view())), store_schema=True),
    "one id twice, sums updated": rewrite(fill_column("id", lambda rows: pa.array(["q0"] * rows))),
    "one id twice, all digests updated": rewrite(
        lambda table: pa.concat_tables([table, table]), "data/articles/full.parquet", content=True
    ),
    "bomb of repeated text, sums updated": rewrite(_bomb),
    "bomb of repeated text, rows counted": _count_bomb,
    "path absolute": lambda folder: _replace(lambda _, moved: _file(path=str(moved))(folder))(folder),
    "path with ..": lambda folder: _replace(lambda _, moved: _file(path=f"../{moved.name}")(folder))(folder),
    "path with backslashes": _file(path="data\\fanoutqa\\dev.parquet"),
    "path with NUL": _file(path="data/fanoutqa/dev\0.parquet"),
    "path empty": _file(path=""),
    "path of 100,000 characters": _file(path="x" * 100_000),
    "path not normal": _file(path="data/./fanoutqa//dev.parquet"),
    "path of another split's file": _file(path="data/articles/full.parquet"),
    "path a number": _file(path=7),
    "table a link to /etc/passwd": _replace(lambda path, _: path.symlink_to("/etc/passwd")),
    "table a link to itself": _replace(lambda path, _: path.symlink_to(path.name)),
    "table a link to its own bytes": _replace(lambda path, moved: path.symlink_to(moved)),
    "folder a link": _replace(lambda path, moved: path.symlink_to(moved), "data"),
    "table a FIFO": _replace(lambda path, _: os.mkfifo(path)),
    "table a folder": _replace(lambda path, _: path.mkdir()),
    "table a socket": _replace(lambda path, _: _listen(path)),
    "table missing": lambda folder: (folder / DEV).unlink(),
    "rejects missing": lambda folder: (folder / "rejects.parquet").unlink(),
    "rejects of other columns, sums updated": rewrite(lambda table: table.drop_columns(["reason"]), "rejects.parquet"),
    "rejects of numbers, sums updated": rewrite(fill_column("detail", lambda rows: pa.array(range(rows))), "rejects.parquet"),
    "table not listed": put("data/fanoutqa/more.parquet", b"PAR1"),
    "FIFO not listed": lambda folder: os.mkfifo(folder / "data/pipe"),
    "card altered": put("README.md", b"# Mine\n"),
    "table of 1 TB": _enlarge(DEV, 2**40),
    "column id named twice": edit(INDEX, lambda index: index["configs"][0]["splits"][0]["columns"].append("id") or index),
    "size too large": _file(size=2**70),
    "size negative": _file(size=-1),
    "rows beyond count": _split(rows=10**30),
    "rows negative": _split(rows=-1),
    "rows NaN": _split(rows=float("nan")),
    "split without files": _split(files=[]),
    "split named twice": edit(INDEX, lambda index: index["configs"][0]["splits"].append(index["configs"][0]["splits"][0]) or index),
    "configs a number": edit(INDEX, lambda index: index | {"configs": 3}),
    "tables a list": edit(INDEX, lambda index: index | {"tables": []}),
    "content digest another's": edit(INDEX, lambda index: index | {"content_digest": "0" * 64}),
    "build's id another's": edit(INDEX, lambda index: index | {"build_id": "fanoutqa-000000000000"}),
    "benchmark unknown": edit(INDEX, lambda index: index | {"benchmark": "nothing"}),
    "day of publishing no day": edit(INDEX, lambda index: index | {"published_at": "2026-02-30"}),
    "left out: a number": edit(INDEX, lambda index: index | {"left_out": [3]}),
    "form of a newer factmill": edit(INDEX, lambda index: index | {"factmill_release": 99}),
    "form of an earlier factmill": edit(INDEX, lambda index: index | {"factmill_release": 0}),
    "form a text": edit(INDEX, lambda index: index | {"factmill_release": "1"}),
    "index missing": lambda folder: (folder / INDEX).unlink(),
    "index a list": put(INDEX, b"[]", sums=True),
    "index cut off": lambda folder: (os.truncate(folder / INDEX, 300), write_sums(folder)),  # type: ignore[dict-item]
    "index empty": put(INDEX, b"", sums=True),
    "index no UTF-8": put(INDEX, b'{"factmill_release": "\xff"}', sums=True),
    "index with a byte order mark": lambda folder: put(INDEX, b"\xef\xbb\xbf" + (folder / INDEX).read_bytes(), sums=True)(folder),
    "index with a key twice": lambda folder: put(
        INDEX, b'{"rows": 1, ' + (folder / INDEX).read_bytes().lstrip()[1:], sums=True
    )(folder),
    "index with a key twice behind a million others": put(
        INDEX, json.dumps(dict.fromkeys(map(str, range(1_000_000)))).encode()[:-1] + b', "999999": 1}', sums=True
    ),
    "index 100,000 lists deep": put(INDEX, b'{"factmill_release": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", sums=True),
    "index 400 objects deep": put(INDEX, b'{"factmill_release": 1, "left_out": ' + b'{"a": ' * 400 + b"1" + b"}" * 401, sums=True),
    "index with a number of 10,000 digits": put(INDEX, b'{"factmill_release": ' + b"9" * 10_000 + b"}", sums=True),
    "index of 1 TB": _enlarge(INDEX, 2**40),
    "index a FIFO": _replace(lambda path, _: os.mkfifo(path), INDEX),
    "lock missing": lambda folder: (folder / LOCK).unlink(),
    "lock a list": put(LOCK, b"[]", sums=True),
    "lock altered, sums updated": edit(LOCK, lambda expected: expected["lock"].update(author="me") or expected),
    "lock of another build": edit(LOCK, lambda expected: expected | {"build_id": "fanoutqa-000000000000"}),
    "lock of another benchmark": _forge_lock(lambda lock: lock | {"benchmark": "granola"}),
    "lock without services, all digests updated": _forge_lock(lambda lock: {**lock, "services": {}}),
    "lock without sources, all digests updated": _forge_lock(lambda lock: {**lock, "sources": []}),
    "lock with prompts of numbers, all digests updated": _forge_lock(lambda lock: {**lock, "prompts": [1]}),
    "lock with units of numbers, all digests updated": _forge_lock(lambda lock: {**lock, "params": {"units": [[1]]}}),
    "lock with decisions of numbers, all digests updated": _forge_lock(
        lambda lock: {**lock, "params": {"params": {}, "reviewing": {"decisions": [1]}}}
    ),
    "lock a FIFO": _replace(lambda path, _: os.mkfifo(path), LOCK),
    "sums missing": lambda folder: (folder / SUMS).unlink(),
    "sums empty": put(SUMS, b""),
    "sums without the table": _drop_line,
    "sums no text": put(SUMS, b"\xff" * 100),
    "sums a FIFO": _replace(lambda path, _: os.mkfifo(path), SUMS),
    "sums of 1 TB": _enlarge(SUMS, 2**40),
    "two names that differ in case alone": _twins("NOTE", "Note"),
    "two names of one normal form": _twins("caf\u00e9", "cafe\u0301"),
}  # fmt: skip
"""Name → function that damages a FanOutQA release of a whole build."""
