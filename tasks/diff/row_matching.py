"""Pair the rows of two builds and find the columns that differ, with columnar SQL in the warehouse."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from factmill.tasks.core.rows import BuildRowMatchingRules, arrow_schema
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.storage.builds import load_table_digests
from factmill.tasks.storage.warehouse import Connection

_PAIRS_TABLE = "diff_pairs"


@dataclass(frozen=True, slots=True)
class BuildIdPair:
    """Ids of the two compared builds."""

    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ChangedRowPair:
    """A row of both builds whose columns differ."""

    id_before: str
    id_after: str
    changed_columns: tuple[tuple[str, str, Any, Any], ...]
    """(table, column, before, after)."""


@contextmanager
def temporary_row_pairs_table(db: Connection, benchmark: Benchmark, sides: BuildIdPair) -> Iterator[None]:
    """Keep a temporary table of row pairs (id_before, id_after) during the block; pair by the benchmark's keys."""
    db.execute(f"CREATE OR REPLACE TEMP TABLE {_PAIRS_TABLE} (id_before VARCHAR, id_after VARCHAR)")
    try:
        for key in benchmark.matching.keys:
            db.execute(_build_pairing_query(benchmark.main_table, key), [sides.before, sides.after])
        yield
    finally:
        db.execute(f"DROP TABLE IF EXISTS {_PAIRS_TABLE}")


def load_unpaired_rows(db: Connection, benchmark: Benchmark, sides: BuildIdPair) -> tuple[pa.Table, pa.Table]:
    """Return the rows of the earlier build alone and those of the later build alone, sorted by id."""
    found = [
        db.sql(
            f"SELECT * EXCLUDE (build_id) FROM {benchmark.main_table} t WHERE build_id = ? AND NOT EXISTS "
            f"(SELECT 1 FROM {_PAIRS_TABLE} p WHERE p.{column} = t.id) ORDER BY id",
            params=[build_id],
        ).to_arrow_table()
        for column, build_id in (("id_before", sides.before), ("id_after", sides.after))
    ]
    return found[0], found[1]


def count_paired_rows(db: Connection) -> int:
    """Return how many rows are in both builds."""
    return int(db.sql(f"SELECT count(*) FROM {_PAIRS_TABLE}").fetchall()[0][0])


def find_columns_empty_in_one_build(db: Connection, benchmark: Benchmark, sides: BuildIdPair) -> list[str]:
    """Return required columns that one build was made without: all null there, filled in the other."""
    required = [each.name for each in arrow_schema(benchmark.main_row_model) if not each.nullable and each.name != "id"]
    counted = ", ".join(f'count("{name}")' for name in required)
    query = f"SELECT count(*), {counted} FROM {benchmark.main_table} WHERE build_id = ?"
    counts = [db.execute(query, [build_id]).fetchall()[0] for build_id in (sides.before, sides.after)]
    return [
        name
        for at, name in enumerate(required, 1)
        if any(count[0] and not count[at] for count in counts) and any(count[at] for count in counts)
    ]


def load_changed_pairs_count_provenance_only(
    db: Connection, benchmark: Benchmark, sides: BuildIdPair, excluded_columns: Sequence[str]
) -> tuple[list[ChangedRowPair], int]:
    """Return the rows whose columns differ, by id, and how many others differ in provenance columns alone.

    `excluded_columns`: columns of the main table that are not compared.
    """
    matching = benchmark.matching
    columns = _list_compared_columns(db, benchmark.main_table, excluded_columns)
    marks = [name for name in columns if name in matching.provenance_columns]
    found = _compare_paired_rows(db, benchmark.main_table, columns, sides)
    there = load_table_digests(db, sides.before).keys() & load_table_digests(db, sides.after).keys()
    for table in (each for each in matching.wide_tables if each in there):
        for ids, changed in _compare_paired_rows(db, table, _list_compared_columns(db, table, ("id",)), sides).items():
            found.setdefault(ids, []).extend(changed)
    pairs = [
        ChangedRowPair(*ids, tuple(changed))
        for ids, changed in sorted(found.items(), key=lambda each: each[0][1])
        if any(table != benchmark.main_table or name not in marks for table, name, _, _ in changed)
    ]
    return pairs, len(found) - len(pairs)


def count_companion_table_changes(
    db: Connection, benchmark: Benchmark, table: str, sides: BuildIdPair
) -> dict[str, int]:
    """Count the added, removed and changed rows of a companion table, by id; an empty dict if there are none."""
    columns = " OR ".join(
        f'a."{name}" IS DISTINCT FROM b."{name}"'
        for name in _list_compared_columns(db, table, ("id", *benchmark.matching.provenance_columns))
    )
    added, removed, changed = db.execute(
        f"SELECT count(*) FILTER (a.id IS NULL), count(*) FILTER (b.id IS NULL), "
        f"count(*) FILTER (a.id IS NOT NULL AND b.id IS NOT NULL AND ({columns})) "
        f"FROM (SELECT * FROM {table} WHERE build_id = ?) a FULL JOIN (SELECT * FROM {table} WHERE build_id = ?) b "
        "ON a.id = b.id",
        [sides.before, sides.after],
    ).fetchall()[0]
    counts = {"added": added, "removed": removed, "changed": changed}
    return counts if any(counts.values()) else {}


def _build_pairing_query(table: str, key: Sequence[str]) -> str:
    """Return the SQL that pairs unpaired rows by a key that is unique within each build."""
    columns = ", ".join(f'"{name}"' for name in key)
    named = ", ".join(f'"{name}" AS k{at}' for at, name in enumerate(key))

    def left_over(id_column: str) -> str:
        return (
            f"(SELECT any_value(id) AS row_id, {named} FROM {table} t WHERE build_id = ? "
            f"AND NOT EXISTS (SELECT 1 FROM {_PAIRS_TABLE} p WHERE p.{id_column} = t.id) "
            f"GROUP BY {columns} HAVING count(*) = 1)"
        )

    joined = " AND ".join(f"a.k{at} = b.k{at}" for at in range(len(key)))
    return (
        f"INSERT INTO {_PAIRS_TABLE} SELECT a.row_id, b.row_id FROM {left_over('id_before')} a JOIN {left_over('id_after')} b "
        f"ON {joined}"
    )


def _list_compared_columns(db: Connection, table: str, excluded_columns: Sequence[str]) -> list[str]:
    found = [name for name, *_ in db.execute(f"DESCRIBE {table}").fetchall()]
    return [name for name in found if name != "build_id" and name not in excluded_columns]


def _compare_paired_rows(
    db: Connection, table: str, columns: Sequence[str], sides: BuildIdPair
) -> dict[tuple[str, str], list[tuple[str, str, Any, Any]]]:
    """Return (id before, id after) → differing columns."""
    tests = {name: f'a."{name}" IS DISTINCT FROM b."{name}"' for name in columns}
    differences = ", ".join(
        f'{test} AS d{at}, CASE WHEN {test} THEN a."{name}" END AS a{at}, CASE WHEN {test} THEN b."{name}" END AS b{at}'
        for at, (name, test) in enumerate(tests.items())
    )
    rows = db.sql(
        f"SELECT p.id_before, p.id_after, {differences} FROM {_PAIRS_TABLE} p "
        f"JOIN (SELECT * FROM {table} WHERE build_id = ?) a ON a.id = p.id_before "
        f"JOIN (SELECT * FROM {table} WHERE build_id = ?) b ON b.id = p.id_after WHERE {' OR '.join(tests.values())}",
        params=[sides.before, sides.after],
    ).to_arrow_table()
    return {
        (row["id_before"], row["id_after"]): [
            (table, name, row[f"a{at}"], row[f"b{at}"]) for at, name in enumerate(columns) if row[f"d{at}"]
        ]
        for batch in rows.to_batches(max_chunksize=10_000)
        for row in batch.to_pylist()
    }


def list_ids_for_tracing_row(
    matching: BuildRowMatchingRules, trace_columns: Sequence[str], row: Mapping[str, Any]
) -> list[str]:
    """Return the ids under which a row's calls, rejects and merges are filed."""
    known = [str(row[name]) for name in trace_columns if row.get(name)]
    return list(dict.fromkeys([*known, *matching.list_source_ids(row)]))
