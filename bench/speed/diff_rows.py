"""Time `factmill diff` on large builds against a pandas merge that finds the same rows.

    python bench speed.diff_rows [--rows 100000] [--share 0.01]     (share of rows that differ)

Publishes synthetic builds with GRANOLA-EQ's columns in a warehouse of a temporary folder. Each row depends on eleven
cached responses; in the rows that differ, the author's response differs. Prints seconds, peak memory, and the rows that
each method found.
"""

import resource
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scripts import read_options

from factmill.tasks.core.digests import canonical_json, digest_bytes
from factmill.tasks.core.rows import arrow_schema
from factmill.tasks.diff.compare import compare_builds
from factmill.tasks.granola.benchmark import GRANOLA
from factmill.tasks.granola.core.rows import GranolaRow
from factmill.tasks.storage.builds import load_published_table, publish_build_tables, resolve_build
from factmill.tasks.storage.warehouse import open_warehouse

CALLS = 11
STAGES = ("link_question_entities", "describe_entities", "generate_granular_answers")


def make_rows(count: int, changed: set[int], shift: int) -> pa.Table:
    """Return rows of the published table; rows in `changed` have another second answer, and ids start at `shift`."""
    numbers = range(shift, count + shift)
    plain: dict[Any, Any] = {pa.string(): "text", pa.int64(): 7, pa.float64(): 0.25, pa.bool_(): True}
    columns: dict[str, Any] = {
        each.name: [["a"]] * count if pa.types.is_list(each.type) else [plain[each.type]] * count
        for each in arrow_schema(GranolaRow)
    }
    columns["id"] = [f"P19-{number:08d}" for number in numbers]
    columns["question"] = [
        f"Where was number {number} born, of all the people of whom this is asked?" for number in numbers
    ]
    columns["question_entity_qid"] = [f"Q{number}" for number in numbers]
    columns["source_row"] = list(numbers)
    columns["granola_answers"] = [[f"place {n}", "country", "other" if n in changed else "continent"] for n in numbers]
    return pa.table(columns, schema=arrow_schema(GranolaRow))


def make_build(warehouse: Path, table: pa.Table, changed: set[int], code: str) -> str:
    """Publish rows with their calls; changed rows have a different author response."""
    count, lock = table.num_rows, make_lock(code)
    ids = np.asarray(table["id"].to_pylist(), dtype=object)
    is_changed = np.isin(table["source_row"].to_numpy(), list(changed))
    with open_warehouse(warehouse) as db:
        for position, stage in enumerate(STAGES, 1):
            db.execute(
                "INSERT INTO build_stages (build_id, position, stage, rows_in, rows_out, rejects, merged, calls_sent, "
                "calls_replayed, tokens_in, tokens_out, cost_usd, seconds) VALUES ('run', ?, ?, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)",
                [position, stage],
            )
        for at in range(CALLS):
            is_chat = at == CALLS - 1
            said = np.where(
                is_changed & is_chat, '{"texts":["1:: place\\n2:: other"]}', '{"texts":["1:: place\\n2:: continent"]}'
            )
            marks = np.where(is_changed & is_chat, code, "same")
            records = [f"{each}-{at}-{mark}" for each, mark in zip(ids, marks, strict=True)]
            parts = [
                canonical_json(
                    {"prompt": "p", "variables": {"name": f"{each}-{at}"}} if is_chat else {"qid": f"{each}-{at}"}
                )
                for each in ids
            ]
            keys = [f"{each}-{at}" for each in ids]
            db.register(
                "made",
                pa.table({"id": list(ids), "key": keys, "record_id": records, "parts": parts, "body": list(said)}),
            )
            operation, stage = ("chat", STAGES[2]) if is_chat else ("describe_items", STAGES[at % 2])
            db.execute(
                "INSERT INTO calls SELECT record_id, key, 'https://x', ?, parts, 'ok', NULL, false, body, 0, 0, 0, 0, now() "
                "FROM made ANTI JOIN calls USING (record_id)",
                [operation],
            )
            db.execute(
                "INSERT INTO build_calls (build_id, stage, id, key, record_id) SELECT 'run', ?, id, key, record_id FROM made",
                [stage],
            )
            db.unregister("made")
        report = {"rows": count, "rejects": 0}
        return publish_build_tables(
            db, "run", "granola", lock, {}, {"granola_eq": table}, report, datetime.now(UTC)
        ).build_id


def make_lock(code: str) -> dict[str, Any]:
    """Return a run lock with every field that a diff compares."""
    return {
        "benchmark": "granola",
        "code": code,
        "world": {"name": "speed", "digest": "", "epoch": "2026-01-01"},
        "services": {},
        "models": {},
        "author": "none",
        "scripted": None,
        "sources": {"files": {}, "wikidata": None},
        "params": {},
    }


def main() -> None:
    options = read_options(__doc__, rows=100_000, share=0.01)
    rows, share = options.rows, options.share
    shift = max(rows // 1000, 1)
    changed = set(np.random.default_rng(1).choice(np.arange(shift, rows), int(rows * share), replace=False).tolist())
    with tempfile.TemporaryDirectory() as folder:
        warehouse = Path(folder) / "speed.duckdb"
        made = [
            make_build(warehouse, make_rows(rows, of, by), of, code)
            for of, by, code in ((set[int](), 0, digest_bytes(b"a")[:8]), (changed, shift, digest_bytes(b"b")[:8]))
        ]
        before, after = (resolve_build(warehouse, each) for each in made)
        print(
            f"{rows:,} rows, {rows * CALLS:,} calls a build; {len(changed):,} rows differ, {shift:,} new, {shift:,} gone"
        )
        start = time.perf_counter()
        diff = compare_builds(warehouse, GRANOLA, before, after)
        print(
            f"factmill diff: {time.perf_counter() - start:.1f} s, {diff.count_rows_by_kind()}, {diff.count_rows_by_cause()}"
        )
        with open_warehouse(warehouse) as db:
            frames = [load_published_table(db, each, "granola_eq").to_pandas() for each in made]
        start = time.perf_counter()
        print(f"pandas merge: {merge(*frames)} in {time.perf_counter() - start:.1f} s; no causes")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")


def merge(before: Any, after: Any) -> dict[str, int]:
    """Return the numbers of added, removed and changed rows, as a notebook would compute them."""
    both = before.merge(after, on="id", how="outer", suffixes=("_a", "_b"), indicator=True)
    same = both[both["_merge"] == "both"]
    differs = np.zeros(len(same), dtype=bool)
    for name in (each for each in before.columns if each != "id"):
        old, new = same[f"{name}_a"], same[f"{name}_b"]
        differs |= old.map(str).to_numpy() != new.map(str).to_numpy()
    counts = both["_merge"].value_counts()
    return {"added": int(counts["right_only"]), "removed": int(counts["left_only"]), "changed": int(differs.sum())}
