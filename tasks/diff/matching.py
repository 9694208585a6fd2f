"""Which rows of two builds are the same, and which columns of theirs differ: in the warehouse, by columns, not row by row."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from factmill.tasks.core.rows import Matching, arrow_schema
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.storage.builds import published_names
from factmill.tasks.storage.warehouse import Connection

_PAIRS = "diff_pairs"


@dataclass(frozen=True, slots=True)
class Sides:
    """Ids of the two builds."""

    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Pair:
    """A row of both builds of which columns differ."""

    id_before: str
    id_after: str
    columns: tuple[tuple[str, str, Any, Any], ...]
    """Table, column, before, after."""


@contextmanager
def matching_rows(db: Connection, benchmark: Benchmark, sides: Sides) -> Iterator[None]:
    """Pair the rows of two builds for as long as the block lasts (table of id_before, id_after), by the benchmark's keys."""
    db.execute(f"CREATE OR REPLACE TEMP TABLE {_PAIRS} (id_before VARCHAR, id_after VARCHAR)")
    try:
        for key in benchmark.matching.keys:
            db.execute(_pair_by(benchmark.main_table, key), [sides.before, sides.after])
        yield
    finally:
        db.execute(f"DROP TABLE IF EXISTS {_PAIRS}")


def find_unpaired(db: Connection, benchmark: Benchmark, sides: Sides) -> tuple[pa.Table, pa.Table]:
    """Return the rows that only the earlier build has, and those that only the later one has, by id."""
    found = [
        db.sql(
            f"SELECT * EXCLUDE (build_id) FROM {benchmark.main_table} t WHERE build_id = ? AND NOT EXISTS "
            f"(SELECT 1 FROM {_PAIRS} p WHERE p.{column} = t.id) ORDER BY id",
            params=[build_id],
        ).to_arrow_table()
        for column, build_id in (("id_before", sides.before), ("id_after", sides.after))
    ]
    return found[0], found[1]


def count_pairs(db: Connection) -> int:
    """Return how many rows both builds have."""
    return int(db.sql(f"SELECT count(*) FROM {_PAIRS}").fetchall()[0][0])


def find_new_columns(db: Connection, benchmark: Benchmark, sides: Sides) -> list[str]:
    """Return the columns that one of the builds was made without: all null there, though their rows always hold something."""
    required = [each.name for each in arrow_schema(benchmark.row) if not each.nullable and each.name != "id"]
    told = ", ".join(f'count("{name}")' for name in required)
    query = f"SELECT count(*), {told} FROM {benchmark.main_table} WHERE build_id = ?"
    counts = [db.execute(query, [build_id]).fetchall()[0] for build_id in (sides.before, sides.after)]
    return [
        name
        for at, name in enumerate(required, 1)
        if any(count[0] and not count[at] for count in counts) and any(count[at] for count in counts)
    ]


def find_changed(
    db: Connection, benchmark: Benchmark, sides: Sides, leave_out: Sequence[str]
) -> tuple[list[Pair], int]:
    """Return the rows of which columns differ, by id, and how many others differ in marks alone.

    `leave_out`: columns of the main table that are not compared.
    """
    matching = benchmark.matching
    columns = _list_columns(db, benchmark.main_table, leave_out)
    marks = [name for name in columns if name in matching.marks]
    found = _compare(db, benchmark.main_table, columns, sides)
    there = published_names(db, sides.before).keys() & published_names(db, sides.after).keys()
    for table in (each for each in matching.whole if each in there):
        for ids, changed in _compare(db, table, _list_columns(db, table, ("id",)), sides).items():
            found.setdefault(ids, []).extend(changed)
    pairs = [
        Pair(*ids, tuple(changed))
        for ids, changed in sorted(found.items(), key=lambda each: each[0][1])
        if any(table != benchmark.main_table or name not in marks for table, name, _, _ in changed)
    ]
    return pairs, len(found) - len(pairs)


def count_table(db: Connection, benchmark: Benchmark, table: str, sides: Sides) -> dict[str, int]:
    """Return how many rows of a table beside the main one were added, removed and changed, by id; nothing where none was."""
    columns = " OR ".join(
        f'a."{name}" IS DISTINCT FROM b."{name}"'
        for name in _list_columns(db, table, ("id", *benchmark.matching.marks))
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


def _pair_by(table: str, key: Sequence[str]) -> str:
    """Return the query that pairs rows left over by a key which each of the two has alone."""
    columns = ", ".join(f'"{name}"' for name in key)
    named = ", ".join(f'"{name}" AS k{at}' for at, name in enumerate(key))

    def left_over(mine: str) -> str:
        return (
            f"(SELECT any_value(id) AS row_id, {named} FROM {table} t WHERE build_id = ? "
            f"AND NOT EXISTS (SELECT 1 FROM {_PAIRS} p WHERE p.{mine} = t.id) "
            f"GROUP BY {columns} HAVING count(*) = 1)"
        )

    joined = " AND ".join(f"a.k{at} = b.k{at}" for at in range(len(key)))
    return (
        f"INSERT INTO {_PAIRS} SELECT a.row_id, b.row_id FROM {left_over('id_before')} a JOIN {left_over('id_after')} b "
        f"ON {joined}"
    )


def _list_columns(db: Connection, table: str, leave_out: Sequence[str]) -> list[str]:
    found = [name for name, *_ in db.execute(f"DESCRIBE {table}").fetchall()]
    return [name for name in found if name != "build_id" and name not in leave_out]


def _compare(
    db: Connection, table: str, columns: Sequence[str], sides: Sides
) -> dict[tuple[str, str], list[tuple[str, str, Any, Any]]]:
    """Return (id before, id after) → columns that differ."""
    tests = {name: f'a."{name}" IS DISTINCT FROM b."{name}"' for name in columns}
    told = ", ".join(
        f'{test} AS d{at}, CASE WHEN {test} THEN a."{name}" END AS a{at}, CASE WHEN {test} THEN b."{name}" END AS b{at}'
        for at, (name, test) in enumerate(tests.items())
    )
    rows = db.sql(
        f"SELECT p.id_before, p.id_after, {told} FROM {_PAIRS} p "
        f"JOIN (SELECT * FROM {table} WHERE build_id = ?) a ON a.id = p.id_before "
        f"JOIN (SELECT * FROM {table} WHERE build_id = ?) b ON b.id = p.id_after WHERE {' OR '.join(tests.values())}",
        params=[sides.before, sides.after],
    ).to_arrow_table()
    return {
        (row["id_before"], row["id_after"]): _tell_columns(table, columns, row)
        for batch in rows.to_batches(max_chunksize=10_000)
        for row in batch.to_pylist()
    }


def _tell_columns(table: str, columns: Sequence[str], row: Mapping[str, Any]) -> list[tuple[str, str, Any, Any]]:
    return [(table, name, row[f"a{at}"], row[f"b{at}"]) for at, name in enumerate(columns) if row[f"d{at}"]]


def list_ids(matching: Matching, trace: Sequence[str], row: Mapping[str, Any]) -> list[str]:
    """Return the ids under which a row's calls, rejects and unions are filed."""
    known = [str(row[name]) for name in trace if row.get(name)]
    return list(dict.fromkeys([*known, *matching.read_ids(row)]))
