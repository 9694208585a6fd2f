"""Export a build's published tables as Parquet, CSV and JSON Lines, and its rejects as Parquet.

The Parquet bytes are those the build was published with. A benchmark's BenchmarkExportFormat sets its special forms: list columns
spread over several CSV columns, columns that hold JSON, a table as a JSON array.
"""

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from factmill.tasks.core.publishing.release_spec import BenchmarkExportFormat
from factmill.tasks.errors import OutputError, WarehouseError
from factmill.tasks.storage.builds import BuildRecord, load_published_table, load_table_digests
from factmill.tasks.storage.shards import digest_table_as_parquet, parquet_bytes
from factmill.tasks.storage.warehouse import Connection, open_warehouse

LIST_SEPARATOR = "<SEP>"
"""Separates the entries of a list column in a CSV, unless the benchmark sets another separator."""


def export_build(
    warehouse: Path,
    build: BuildRecord,
    folder: Path,
    forms: BenchmarkExportFormat,
    held_out: Sequence[str] = (),
    audit: Sequence[str] = (),
) -> list[Path]:
    """Write a build's tables, except held-out ones, in the benchmark's export forms; return the files written.

    `audit`: findings of human readers, as lines for the build's card. WarehouseError if a table differs from what was
    published.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot write to this folder: {error.strerror}; name another with --to") from error
    written: list[Path] = []

    def write(name: str, data: bytes) -> None:
        try:
            (folder / name).write_bytes(data)
        except OSError as error:
            raise OutputError(f"{folder / name}: cannot be written: {error.strerror}") from error
        written.append(folder / name)

    with open_warehouse(warehouse) as db:
        tables = load_verified_tables(db, warehouse, build, held_out)
        rejects = read_rejects(db, build.build_id)
    for name, table in tables.items():
        data = parquet_bytes(table)
        columns = forms.json_columns.get(name, ())
        write(f"{name}.parquet", data)
        write(f"{name}.csv", csv_bytes(table, forms))
        write(f"{name}.jsonl", jsonl_bytes(table, columns))
        if name in forms.json_array_tables:
            write(f"{name}.json", json_bytes(table, columns))
    write("rejects.parquet", parquet_bytes(rejects))
    write("build.md", format_build_card(build, audit).encode("utf-8"))
    return written


def load_verified_tables(
    db: Connection, warehouse: Path, build: BuildRecord, held_out: Sequence[str] = ()
) -> dict[str, pa.Table]:
    """Return a build's published tables, except held-out ones; WarehouseError if one differs from what was published."""
    tables = {}
    for name, expected in load_table_digests(db, build.build_id).items():
        if name in held_out:
            continue
        tables[name] = load_published_table(db, build.build_id, name)
        if digest_table_as_parquet(tables[name]) != expected:
            raise WarehouseError(
                f"{warehouse}: table {name} of {build.build_id} differs from what was published; build again with --force"
            )
    return tables


def read_rejects(db: Connection, build_id: str) -> pa.Table:
    """Return the rejects of a build: stage, id, reason, detail."""
    return db.sql(
        "SELECT stage, id, reason, detail FROM rejects WHERE build_id = ? ORDER BY ALL", params=[build_id]
    ).to_arrow_table()


def format_build_card(build: BuildRecord, audit: Sequence[str] = ()) -> str:
    """Return the Markdown card of an exported build: origin, restrictions on use, findings of human readers."""
    report = build.report
    author = f" by {report['author']}" if report["author"] else ""
    made = f"{report['rows']} rows{author} in world {report['world']}, published {build.published_at:%Y-%m-%d}"
    note = f"\n**Note: {build.caution}.**\n" if build.caution else ""
    found = "".join(f"{'- ' if line.startswith(' ') else chr(10)}{line.strip()}\n" for line in audit)
    return f"# {build.build_id}\n\n{made}.\n{note}{found}"


def csv_bytes(table: pa.Table, forms: BenchmarkExportFormat) -> bytes:
    """Return a table as CSV: UTF-8, with header, null as an empty cell, list columns spread or joined, lists of records
    as JSON, ids as in the paper."""
    spread = forms.spread_columns
    if forms.csv_id_column in table.column_names:
        table = table.set_column(table.column_names.index("id"), "id", table[forms.csv_id_column]).drop_columns(
            [forms.csv_id_column]
        )
    columns: dict[str, Any] = {}
    for name in table.column_names:
        values, kind = table[name].to_pylist(), table.schema.field(name).type
        if name in spread:
            for position in range(max((len(value) for value in values), default=0)):
                at = [value[position] if position < len(value) else None for value in values]
                columns[f"{spread[name]}{position + 1}"] = at
        elif pa.types.is_struct(kind.value_type if pa.types.is_list(kind) else kind):
            columns[name] = [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
        elif pa.types.is_list(kind):
            between = forms.separators.get(name, LIST_SEPARATOR)
            columns[name] = [None if value is None else between.join(map(str, value)) for value in values]
        else:
            columns[name] = values
    frame = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})
    return frame.to_csv(index=False, lineterminator="\n").encode("utf-8")


def jsonl_bytes(table: pa.Table, json_columns: Collection[str] = ()) -> bytes:
    """Return a table as JSON Lines, columns in the table's order; texts of `json_columns` are decoded."""
    rows = _decode_json_columns(table, json_columns)
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode("utf-8")


def json_bytes(table: pa.Table, json_columns: Collection[str] = ()) -> bytes:
    """Return a table as one JSON array, columns in the table's order; texts of `json_columns` are decoded."""
    return (json.dumps(_decode_json_columns(table, json_columns), ensure_ascii=False, indent=1) + "\n").encode("utf-8")


def _decode_json_columns(table: pa.Table, json_columns: Collection[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        row |= {name: None if row[name] is None else json.loads(row[name]) for name in json_columns}
    return rows
