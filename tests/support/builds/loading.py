"""Load a release with other libraries and check that every config and split equals what was published."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd

Rows = list[dict[str, Any]]


def list_splits(folder: Path) -> Iterator[tuple[str, dict[str, Any], dict[str, Path]]]:
    """Yield config, split as the index has it, and the split's files by form."""
    for config in json.loads((folder / "release.json").read_text("utf-8"))["configs"]:
        for split in config["splits"]:
            yield config["name"], split, {file["format"]: folder / file["path"] for file in split["files"]}


def check_loads(folder: Path) -> int:
    """Load every config and split with rows with every library, compare them, and return their number."""
    import datasets
    import polars

    checked = 0
    for config, split, files in list_splits(folder):
        if not split["rows"]:
            assert polars.read_parquet(files["parquet"]).is_empty()
            assert _by_duckdb(files["parquet"]) == []
            continue
        loaded = datasets.load_dataset(str(folder), config, split=split["name"])
        rows: Rows = loaded.to_list()
        assert len(rows) == split["rows"]
        assert [row["id"] for row in rows] == sorted(row["id"] for row in rows)
        assert _by_duckdb(files["parquet"]) == rows
        assert polars.read_parquet(files["parquet"]).to_dicts() == rows
        assert len(pd.read_parquet(files["parquet"])) == len(rows)
        own = [*split["columns"], "canary"]
        assert polars.read_parquet(files["parquet"]).columns == loaded.column_names
        for each in (_lines(files["jsonl"]), pd.read_json(files["jsonl"], lines=True, dtype=False).to_dict("records")):
            assert [row["id"] for row in each] == [row["id"] for row in rows]
            assert not rows or list(each[0]) == own
        tables = (pd.read_csv(files["csv"], dtype=str), polars.read_csv(files["csv"], infer_schema=False))
        assert {len(table) for table in tables} == {len(rows)}
        assert list(tables[0].columns)[-1] == tables[1].columns[-1] == "canary"
        checked += 1
    assert checked
    return checked


def _by_duckdb(file: Path) -> Rows:
    with duckdb.connect() as db:
        rows: Rows = db.sql("SELECT * FROM read_parquet($1)", params=[str(file)]).to_arrow_table().to_pylist()
    return rows


def _lines(file: Path) -> Rows:
    return [json.loads(line) for line in file.read_text("utf-8").split("\n")[:-1]]
