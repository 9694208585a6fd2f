"""Builds in the warehouse: their locks, stages, rejects, the calls they rest on, and their published tables.

Publishing is one transaction. The Parquet bytes of a published table are made from its rows sorted by id, without the
build's own id, so that two builds with the same content have the same bytes. What builds and pilots asked, forecasts are made of.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import duckdb
import pyarrow as pa
from pydantic import BaseModel

from factmill.tasks.core.fingerprints import canonical_json, combine_digests, digest_json
from factmill.tasks.core.receipts import SUMMED, Receipt
from factmill.tasks.errors import UnknownBuild
from factmill.tasks.progress import say
from factmill.tasks.storage.schema import make_published_table, make_statement_views, name_kinds
from factmill.tasks.storage.shards import digest_rows, read_shard
from factmill.tasks.storage.warehouse import Connection, is_there, open_warehouse, read_json, read_records
from factmill.tasks.text.whole import shorten_middle

LATEST_OF = "latest:"
"""What stands before a benchmark's name where its latest build is meant."""
_MOST_NAMED = 5
"""Builds named in one message."""
_OF_RUNS = ("build_stages", "rejects", "merged_rows", "build_calls", "kept_calls")
"""Tables that hold what a run leaves under its own id until it is published."""


@dataclass(frozen=True, slots=True)
class BuildRecord:
    """One published build."""

    build_id: str
    benchmark: str
    lock_digest: str
    lock: dict[str, Any]
    origin: dict[str, Any]
    content_digest: str
    report: dict[str, Any]
    started_at: datetime
    published_at: datetime

    @property
    def narrowed_by(self) -> list[str]:
        """Options that made it of another source than the default one, or of less: `limit 5`; none for an evaluation, since those
        are of one model after another."""
        flow = self.origin.get("flow", {})
        if {"build", "evaluation"} & flow.keys():
            return []
        lists = {name: value for name, value in flow.items() if isinstance(value, list) and value}
        limit = [] if flow.get("limit") is None else [f"limit {flow['limit']}"]
        return [*(f"{name} {' '.join(map(str, value))}" for name, value in sorted(lists.items())), *limit]

    @property
    def made_by(self) -> str:
        """The version of factmill and the digest of the code that made it, in a few words; a release names no version."""
        version = self.origin.get("version") or self.lock.get("version") or "of a version that is not stated"
        code = self.lock["code"]
        return f"factmill {version}, code {(code if isinstance(code, str) else digest_json(code))[:16]}"

    @property
    def caution(self) -> str:
        """What its rows are not for; empty where nothing is to be said."""
        return describe_caution(self.lock)


_COLUMNS = ", ".join(BuildRecord.__slots__)
_JSON = ("lock", "origin", "report")


def is_scripted(lock: Mapping[str, Any]) -> bool:
    """True where no model wrote the rows of a build, by its lock: replies from files did, or the rules of older versions."""
    return bool(lock.get("scripted") or lock.get("rules"))


def describe_scripted(counts: Mapping[str, Mapping[str, int]]) -> str:
    """Return what share of scripted replies are planted faults, by prompt, in one clause (`BuildReport.scripted`)."""
    told = [
        f"{prompt} {each['faults']:,} of {each['replies']:,} ({each['faults'] / each['replies']:.1%})"
        for prompt, each in counts.items()
    ]
    return f"faults that are planted on purpose among the replies: {', '.join(told)}" if told else ""


def describe_caution(lock: Mapping[str, Any]) -> str:
    """Return what the rows of a build are not for, by its lock: scripted replies are of the embedded world alone."""
    services = lock.get("services", {})
    if not is_scripted(lock) or all(services[name].startswith("embedded-") for name in ("wikidata", "wikipedia")):
        return ""
    return (
        f"these rows show the pipeline and are not for use: {lock['author']}, which stand in for a model, are made for the "
        "embedded world"
    )


def merge_stage(
    db: duckdb.DuckDBPyConnection, run_id: str, position: int, receipts: Sequence[Receipt], summary: Mapping[str, Any]
) -> None:
    """Write a finished stage's rejects, merged rows, call uses and counts under a run's id."""
    stage = summary["stage"]
    for table in ("build_stages", "rejects", "merged_rows", "build_calls"):
        db.execute(f"DELETE FROM {table} WHERE build_id = ? AND stage = ?", [run_id, stage])
    for kind, table, columns in (
        ("rejects", "rejects", "id, reason, detail, row"),
        ("merged", "merged_rows", "id, into_id"),
        ("uses", "build_calls", "id, key, record_id, taken_off"),
    ):
        parts = [read_shard(receipt.shard, kind) for receipt in receipts]
        if parts:
            db.register("part", pa.concat_tables(parts))
            db.execute(
                f"INSERT INTO {table} (build_id, stage, {columns}) SELECT ?, ?, {columns} FROM part", [run_id, stage]
            )
            db.unregister("part")
    names = [*SUMMED, "rows_out", "seconds"]
    marks = ", ".join("?" for _ in range(len(names) + 3))
    db.execute(
        f"INSERT INTO build_stages (build_id, position, stage, {', '.join(names)}) VALUES ({marks})",
        [run_id, position, stage, *(summary[name] for name in names)],
    )


def publish(
    db: duckdb.DuckDBPyConnection,
    run_id: str,
    benchmark: str,
    lock: Mapping[str, Any],
    origin: Mapping[str, Any],
    tables: Mapping[str, pa.Table],
    report: Mapping[str, Any],
    started_at: datetime,
    models: Mapping[str, type[BaseModel]] = MappingProxyType({}),
    statements: str = "",
) -> BuildRecord:
    """Publish a run's tables (name → rows with an `id` column) as a build, in the open transaction.

    `models`: table → the model that says what its columns mean. `statements`: a SELECT of the statements that rows rest on
    (`make_statement_views`).

    The build's id is the benchmark and the lock's digest; when the same lock gave other content before (calls were
    refreshed), a number is added and the old build stays.
    """
    # sorted again below: all tables twice at once are what a large build takes most memory for
    digests = {name: digest_rows(table.sort_by("id")) for name, table in sorted(tables.items())}
    content = combine_digests(f"{name} {digest}" for name, digest in digests.items())
    lock_digest = digest_json(lock)
    build_id = _name_build(db, benchmark, lock_digest, content)
    told = {**report, "build_id": build_id}
    inputs = (benchmark, lock_digest, dict(lock), dict(origin), content)
    record = BuildRecord(build_id, *inputs, told, started_at, datetime.now(UTC))
    for table in (*_OF_RUNS, "build_tables", "builds"):
        db.execute(f"DELETE FROM {table} WHERE build_id = ?", [build_id])
    for table in _OF_RUNS:
        db.execute(f"UPDATE {table} SET build_id = ? WHERE build_id = ?", [build_id, run_id])
    for name, table in sorted(tables.items()):
        insert_rows(db, build_id, name, table.sort_by("id"), digests[name], models.get(name))
    if statements:
        make_statement_views(db, benchmark, statements)
    values = (getattr(record, name) for name in BuildRecord.__slots__)
    row = [canonical_json(value) if isinstance(value, dict) else value for value in values]
    db.execute(f"INSERT INTO builds ({_COLUMNS}) VALUES ({', '.join('?' for _ in row)})", row)
    return record


def forget_run(db: duckdb.DuckDBPyConnection, run_id: str) -> None:
    """Remove what a run left under its own id."""
    for table in _OF_RUNS:
        db.execute(f"DELETE FROM {table} WHERE build_id = ?", [run_id])


def insert_rows(
    db: duckdb.DuckDBPyConnection,
    build_id: str,
    name: str,
    table: pa.Table,
    sha256: str = "",
    model: type[BaseModel] | None = None,
) -> None:
    """Write a build's rows into a published table, and which columns they have into `build_tables`.

    `sha256`: of their Parquet bytes; `model`: says what the columns mean. WarehouseError where the table of older builds
    cannot take them.
    """
    kinds = name_kinds(table.schema)
    make_published_table(db, name, kinds, model)
    db.register("published", table)
    db.execute(f"DELETE FROM {name} WHERE build_id = ?", [build_id])
    db.execute(f"INSERT INTO {name} BY NAME SELECT ? AS build_id, * FROM published", [build_id])
    db.unregister("published")
    columns = [{"name": column, "kind": kind} for column, kind in kinds.items()]
    db.execute("INSERT INTO build_tables VALUES (?, ?, ?, ?, ?)", [build_id, name, table.num_rows, sha256, columns])


def find_build(warehouse: Path, name: str) -> BuildRecord:
    """Return a build by id, by a unique beginning of its id, or as `latest:BENCHMARK` (`rank_latest`); UnknownBuild otherwise."""
    builds = list_builds(warehouse)
    if name.startswith(LATEST_OF):
        found = rank_latest(build for build in builds if build.benchmark == name.removeprefix(LATEST_OF))
        if note := describe_choice(found):
            say(f"note: {note}")
        found = found[:1]
    else:
        found = [b for b in builds if b.build_id == name] or [b for b in builds if b.build_id.startswith(name)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(build.build_id for build in (found or builds)[-_MOST_NAMED:]) or "none"
    named = repr(shorten_middle(name))
    what = f"{len(found)} builds begin with {named}" if found else f"no build {named}"
    raise UnknownBuild(f"{what} in {warehouse}; builds there: {known} (see `factmill builds`)")


def rank_latest(builds: Iterable[BuildRecord]) -> list[BuildRecord]:
    """Return builds (given oldest first) in the order in which `latest` prefers them: whole ones of the default source
    first, and of alike ones the newest."""
    return sorted(builds, key=lambda build: not build.narrowed_by)[::-1]


def describe_choice(ranked: Sequence[BuildRecord]) -> str:
    """Return what `latest` passes over, of builds of one benchmark in the order of `rank_latest`; empty where it takes the newest, and
    that is a whole one."""
    if not ranked or (not ranked[0].narrowed_by and ranked[0] == max(ranked, key=lambda build: build.published_at)):
        return ""
    first, *others = ranked
    named = [f"{each.build_id} ({', '.join(each.narrowed_by) or 'whole'})" for each in others[:_MOST_NAMED]]
    more = [f"{len(others) - _MOST_NAMED} more"] if len(others) > _MOST_NAMED else []
    what = (
        f"made with {', '.join(first.narrowed_by)}"
        if first.narrowed_by
        else "the newest whole build of the default source"
    )
    alone = "there is no whole build of the default source" if first.narrowed_by else ""
    told = [alone, f"others: {', '.join([*named, *more])}; name one to take it" if named else ""]
    return f"{LATEST_OF}{first.benchmark} is {first.build_id}, {what}; {'; '.join(filter(None, told))}"


def find_rejecting(warehouse: Path, name: str) -> tuple[str, int]:
    """Return id and number of rejects of a build, or of a run that published nothing, by the whole name of the run."""
    if is_there(warehouse):
        with open_warehouse(warehouse) as db:
            found = db.execute(
                "SELECT build_id, sum(rejects)::BIGINT FROM build_stages WHERE build_id = ? GROUP BY 1", [name]
            ).fetchone()
        if found:
            return found[0], found[1]
    record = find_build(warehouse, name)
    return record.build_id, record.report["rejects"]


def first_details(warehouse: Path, build_id: str) -> dict[tuple[str, str], str]:
    """Return (stage, reason) → the particulars of the first reject, of a build or of a run that published nothing."""
    with open_warehouse(warehouse) as db:
        found = db.execute(
            "SELECT stage, reason, min_by(detail, id) FROM rejects WHERE build_id = ? GROUP BY ALL", [build_id]
        ).fetchall()
    return {(stage, reason): detail for stage, reason, detail in found}


def list_spoilt_calls(db: duckdb.DuckDBPyConnection, run_id: str, reasons: Collection[str]) -> list[tuple[str, str]]:
    """Return (stage, record id) of a run's calls that failed, and of the chat on which rejects with these reasons rest."""
    return db.execute(
        "SELECT DISTINCT u.stage, u.record_id FROM build_calls u JOIN calls c USING (record_id) "
        "LEFT JOIN rejects r ON r.build_id = u.build_id AND r.stage = u.stage AND r.id = u.id WHERE u.build_id = ? "
        "AND (c.status <> 'ok' OR (c.operation = 'chat' AND coalesce(list_contains(?, r.reason), false)))",
        [run_id, sorted(reasons)],
    ).fetchall()


def list_builds(warehouse: Path) -> list[BuildRecord]:
    """Return all published builds, oldest first."""
    if not is_there(warehouse):
        return []
    with open_warehouse(warehouse) as db:
        found = db.execute(f"SELECT {_COLUMNS} FROM builds ORDER BY published_at, build_id").fetchall()
    rows = [dict(zip(BuildRecord.__slots__, row, strict=True)) for row in found]
    for row in rows:
        row |= {name: read_json(row[name], f"builds.{name} of {row['build_id']}", dict) for name in _JSON}
    return [BuildRecord(**row) for row in rows]


def build_of_lock(warehouse: Path, lock: Mapping[str, Any]) -> BuildRecord | None:
    """Return the newest build made from exactly this lock, if there is one."""
    digest = digest_json(lock)
    found = [build for build in list_builds(warehouse) if build.lock_digest == digest]
    return found[-1] if found else None


def published_table(db: duckdb.DuckDBPyConnection, build_id: str, name: str) -> pa.Table:
    """Return a build's published table as it was published, sorted by id: columns that the table got since are left out."""
    found = db.execute(
        "SELECT unnest(columns, recursive := true) FROM build_tables WHERE build_id = ? AND table_name = ?",
        [build_id, name],
    ).fetchall()
    if not found:
        raise UnknownBuild(f"{build_id} has no table {name}")
    columns = ", ".join(f'CAST("{column}" AS {kind}) AS "{column}"' for column, kind in found)
    return db.sql(f"SELECT {columns} FROM {name} WHERE build_id = ? ORDER BY id", params=[build_id]).to_arrow_table()


def published_names(db: duckdb.DuckDBPyConnection, build_id: str) -> dict[str, str]:
    """Return a build's published tables: name → SHA-256 of their Parquet bytes."""
    return {name: each["sha256"] for name, each in describe_tables(db, build_id).items()}


def describe_tables(db: duckdb.DuckDBPyConnection, build_id: str) -> dict[str, dict[str, Any]]:
    """Return published table → its rows and the SHA-256 of its Parquet bytes."""
    found = db.execute(
        "SELECT table_name, rows, sha256 FROM build_tables WHERE build_id = ? ORDER BY 1", [build_id]
    ).fetchall()
    return {name: {"rows": rows, "sha256": sha256} for name, rows, sha256 in found}


def _name_build(db: duckdb.DuckDBPyConnection, benchmark: str, lock_digest: str, content: str) -> str:
    """Return the id of the build with this lock and content, a new one with a number if the content is new."""
    before = db.execute(
        "SELECT build_id, content_digest FROM builds WHERE lock_digest = ? ORDER BY published_at", [lock_digest]
    ).fetchall()
    for build_id, digest in before:
        if digest == content:
            return str(build_id)
    plain = f"{benchmark}-{lock_digest[:12]}"
    # builds may have been removed since, so the number is not how many there are
    numbers = [int(build_id.removeprefix(plain).removeprefix(".") or 1) for build_id, _ in before]
    return f"{plain}.{max(numbers) + 1}" if before else plain


@dataclass(frozen=True, slots=True)
class Asked:
    """What a build, or a pilot, has asked."""

    stages: list[dict[str, Any]]
    """Its stages in order, with their counts."""
    calls: list[dict[str, Any]]
    """The calls that its rows rest on, by stage and row; `is_new`: its own run sent it; `is_failed`: it got no
    answer. `parts` of chats of which no usage is told."""


def read_asked(warehouse: Path, build_id: str, begun: datetime) -> Asked:
    """Return what a build has asked; `begun`: when it began."""
    with open_warehouse(warehouse) as db:
        stages = read_records(db, "SELECT * FROM build_stages WHERE build_id = ? ORDER BY position", build_id)
        calls = read_records(
            db,
            "SELECT u.stage, u.id AS row, c.key, c.service, c.operation, coalesce(c.parts->>'model', '') AS model, "
            "coalesce(CAST(c.parts->>'samples' AS INTEGER), 1) AS samples, c.tokens_in, c.tokens_out, c.cost_usd, c.latency_s, "
            "c.asked_at >= $2 AS is_new, c.status = 'failed' AS is_failed, "
            "CASE WHEN c.status = 'failed' THEN 0 ELSE length(c.body) END AS said, "
            "CASE WHEN c.operation = 'chat' AND c.tokens_in = 0 THEN c.parts END AS parts "
            "FROM build_calls u JOIN calls c USING (record_id) JOIN build_stages s USING (build_id, stage) "
            "WHERE u.build_id = $1 ORDER BY s.position, u.id, c.key",
            build_id,
            begun,
        )
    return Asked(stages, calls)


def forget_pilot(warehouse: Path, run_id: str) -> None:
    """Remove what a pilot left under its own id; its calls stay."""
    with open_warehouse(warehouse) as db:
        forget_run(db, run_id)


def keep_forecast(warehouse: Path, benchmark: str, lock_digest: str, told: Mapping[str, Any]) -> None:
    """Keep a forecast in place of earlier ones of the same build."""
    with open_warehouse(warehouse) as db:
        db.execute("DELETE FROM forecasts WHERE lock_digest = ?", [lock_digest])
        now = datetime.now(UTC)
        db.execute("INSERT INTO forecasts VALUES (?, ?, ?, ?)", [lock_digest, benchmark, now, json.dumps(dict(told))])


def find_forecast(db: Connection, lock_digest: str) -> dict[str, Any]:
    """Return what was forecast for a build with this lock; empty where nothing was."""
    found = db.execute("SELECT told FROM forecasts WHERE lock_digest = ?", [lock_digest]).fetchall()
    where = f"forecasts.told of {lock_digest}"
    told: dict[str, Any] = read_json(found[0][0], where, dict) if found else {}
    return told


def count_untold_calls(db: Connection, build_id: str) -> list[dict[str, Any]]:
    """Return, by `service` and `model` of the chats that a build rests on, how many got a reply that told no usage (`untold`)."""
    return read_records(
        db,
        "SELECT service, parts->>'model' AS model, count_if(tokens_in = 0 AND tokens_out = 0 AND "
        "(status = 'ok' OR regexp_matches(error, '^(empty_reply|cut_off)'))) AS untold "
        "FROM calls WHERE operation = 'chat' AND record_id IN (SELECT record_id FROM build_calls WHERE build_id = ?) "
        "GROUP BY ALL ORDER BY ALL",
        build_id,
    )


def sum_up_calls(db: Connection, build_id: str) -> dict[str, float]:
    """Return what a build rests on: different calls, those of chat models, their tokens and their price."""
    (found,) = read_records(
        db,
        "SELECT count(*) AS calls, coalesce(sum(tokens_in), 0) AS tokens_in, coalesce(sum(tokens_out), 0) AS tokens_out, "
        "coalesce(sum(cost_usd), 0.0) AS usd FROM calls WHERE record_id IN "
        "(SELECT record_id FROM build_calls WHERE build_id = ? AND stage <> 'since')",
        build_id,
    )
    return {name: float(each) for name, each in found.items()}
