"""Builds in the warehouse: manifests, stages, rejects, the recorded calls they use, published tables and forecasts.

Publishing is one transaction. The Parquet bytes of a published table contain its rows sorted by id, without the build's
own id, so two builds with the same content have the same bytes. Forecasts are computed from the calls of builds and pilots.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any

import duckdb
import pyarrow as pa
from pydantic import BaseModel

from factmill.tasks.core.batch_receipts import SUMMED_COUNTS, BatchReceipt
from factmill.tasks.core.digests import canonical_json, combine_digests, digest_json
from factmill.tasks.errors import UnknownBuild, UsageError
from factmill.tasks.progress import print_and_log
from factmill.tasks.storage.schema import (
    create_wikidata_statement_views,
    ensure_published_table_and_latest_view,
    map_duckdb_types,
)
from factmill.tasks.storage.shards import digest_table_as_parquet, load_shard_table
from factmill.tasks.storage.warehouse import Connection, open_warehouse, parse_json_column, query_rows, warehouse_exists
from factmill.tasks.text.sanitize import format_did_you_mean, shorten_middle

BENCHMARK_ENTRY_POINTS = "factmill.benchmarks"
"""Entry points by which installed packages name their benchmarks."""
LATEST_PREFIX = "latest:"
"""Prefix of a benchmark's name that means its latest build."""
_MAX_LISTED_BUILDS = 5
"""Maximum number of builds named in one message."""
_RUN_TABLES = ("build_stages", "rejects", "merged_rows", "build_calls", "kept_calls")
"""Tables that hold a run's rows under the run's id until it is published."""


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
    def narrowing_options(self) -> list[str]:
        """Options that changed or limited the default source, such as `limit 5`; empty for an evaluation, since each one
        measures another model."""
        flow = self.origin.get("flow", {})
        if {"build", "evaluation"} & flow.keys():
            return []
        lists = {name: value for name, value in flow.items() if isinstance(value, list) and value}
        limit = [] if flow.get("limit") is None else [f"limit {flow['limit']}"]
        return [*(f"{name} {' '.join(map(str, value))}" for name, value in sorted(lists.items())), *limit]

    @property
    def code_version(self) -> str:
        """Version of factmill and digest of the code that made it, as text; a release records no version."""
        version = self.origin.get("version") or self.lock.get("version") or "of an unknown version"
        code = self.lock["code"]
        return f"factmill {version}, code {(code if isinstance(code, str) else digest_json(code))[:16]}"

    @property
    def own_prompts(self) -> dict[str, str]:
        """Id → text of the prompts of the user's own that it used in place of packaged ones."""
        texts: dict[str, str] = self.origin.get("prompts") or {}
        return texts

    @property
    def own_prompt_digests(self) -> dict[str, str]:
        """Id → SHA-256 of these prompts, as in the manifest."""
        return {name: self.lock["prompts"][name] for name in self.own_prompts}

    @property
    def caution(self) -> str:
        """What its rows must not be used for; empty if there is no restriction."""
        return format_scripted_rows_use_restriction(self.lock)


_COLUMNS = ", ".join(BuildRecord.__slots__)
_JSON_COLUMNS = ("lock", "origin", "report")


def is_scripted(manifest: Mapping[str, Any]) -> bool:
    """True if, by its manifest, a build's rows come from scripted replies or the rules of older versions, not a model."""
    return bool(manifest.get("scripted") or manifest.get("rules"))


def format_faulty_scripted_reply_shares(counts: Mapping[str, Mapping[str, int]]) -> str:
    """Return the share of planted faults among scripted replies, by prompt, as one clause (`BuildReport.scripted`)."""
    shares = [
        f"{prompt} {each['faults']:,} of {each['replies']:,} replies ({100 * each['faults'] / each['replies']:.1f} %)"
        for prompt, each in counts.items()
    ]
    return f"deliberately planted faults among the replies: {', '.join(shares)}" if shares else ""


def format_scripted_rows_use_restriction(manifest: Mapping[str, Any]) -> str:
    """Return what a build's rows must not be used for, by its manifest: scripted replies fit only the embedded world."""
    services = manifest.get("services", {})
    asked = [services[name] for name in ("wikidata", "wikipedia") if name in services]
    if not is_scripted(manifest) or all(each.startswith("embedded-") for each in asked):
        return ""
    return (
        f"these rows demonstrate the pipeline and are not for use: {manifest['author']}, which replace a model, are written for the "
        "embedded world"
    )


def write_finished_stage_records(
    db: duckdb.DuckDBPyConnection,
    run_id: str,
    position: int,
    receipts: Sequence[BatchReceipt],
    summary: Mapping[str, Any],
) -> None:
    """Write a finished stage's rejects, merged rows, call uses and counts under the run's id."""
    stage = summary["stage"]
    for table in ("build_stages", "rejects", "merged_rows", "build_calls"):
        db.execute(f"DELETE FROM {table} WHERE build_id = ? AND stage = ?", [run_id, stage])
    for kind, table, columns in (
        ("rejects", "rejects", "id, reason, detail, row"),
        ("merged", "merged_rows", "id, into_id"),
        ("uses", "build_calls", "id, key, record_id, taken_off"),
    ):
        parts = [load_shard_table(receipt.shard, kind) for receipt in receipts]
        if parts:
            db.register("part", pa.concat_tables(parts))
            db.execute(
                f"INSERT INTO {table} (build_id, stage, {columns}) SELECT ?, ?, {columns} FROM part", [run_id, stage]
            )
            db.unregister("part")
    names = [*SUMMED_COUNTS, "rows_out", "seconds"]
    marks = ", ".join("?" for _ in range(len(names) + 3))
    db.execute(
        f"INSERT INTO build_stages (build_id, position, stage, {', '.join(names)}) VALUES ({marks})",
        [run_id, position, stage, *(summary[name] for name in names)],
    )


def publish_build_tables(
    db: duckdb.DuckDBPyConnection,
    run_id: str,
    benchmark: str,
    manifest: Mapping[str, Any],
    origin: Mapping[str, Any],
    tables: Mapping[str, pa.Table],
    report: Mapping[str, Any],
    started_at: datetime,
    models: Mapping[str, type[BaseModel]] = MappingProxyType({}),
    statements_sql: str = "",
) -> BuildRecord:
    """Publish a run's tables (name → rows with an `id` column) as a build, in the open transaction.

    `models`: table → row model that documents its columns. `statements_sql`: a SELECT of the Wikidata statements behind the
    rows (`create_wikidata_statement_views`).

    The build's id is the benchmark and the manifest's digest. If the same manifest gave other content before (calls were
    refreshed), a number is appended and the old build stays.
    """
    # sorted again below: holding all tables twice at once would be the memory peak of a large build
    digests = {name: digest_table_as_parquet(table.sort_by("id")) for name, table in sorted(tables.items())}
    content = combine_digests(f"{name} {digest}" for name, digest in digests.items())
    lock_digest = digest_json(manifest)
    build_id = _find_or_make_build_id(db, benchmark, lock_digest, content)
    full_report = {**report, "build_id": build_id}
    inputs = (benchmark, lock_digest, dict(manifest), dict(origin), content)
    record = BuildRecord(build_id, *inputs, full_report, started_at, datetime.now(UTC))
    for table in (*_RUN_TABLES, "build_tables", "builds"):
        db.execute(f"DELETE FROM {table} WHERE build_id = ?", [build_id])
    for table in _RUN_TABLES:
        db.execute(f"UPDATE {table} SET build_id = ? WHERE build_id = ?", [build_id, run_id])
    for name, table in sorted(tables.items()):
        insert_published_table_rows(db, build_id, name, table.sort_by("id"), digests[name], models.get(name))
    if statements_sql:
        create_wikidata_statement_views(db, benchmark, statements_sql)
    values = (getattr(record, name) for name in BuildRecord.__slots__)
    row = [canonical_json(value) if isinstance(value, dict) else value for value in values]
    db.execute(f"INSERT INTO builds ({_COLUMNS}) VALUES ({', '.join('?' for _ in row)})", row)
    return record


def insert_published_table_rows(
    db: duckdb.DuckDBPyConnection,
    build_id: str,
    name: str,
    table: pa.Table,
    sha256: str = "",
    model: type[BaseModel] | None = None,
) -> None:
    """Write a build's rows into a published table, and their columns into `build_tables`.

    `sha256`: of their Parquet bytes; `model`: documents the columns. WarehouseError if the existing table with older
    builds cannot take the rows.
    """
    kinds = map_duckdb_types(table.schema)
    ensure_published_table_and_latest_view(db, name, kinds, model)
    db.register("published", table)
    db.execute(f"DELETE FROM {name} WHERE build_id = ?", [build_id])
    db.execute(f"INSERT INTO {name} BY NAME SELECT ? AS build_id, * FROM published", [build_id])
    db.unregister("published")
    columns = [{"name": column, "kind": kind} for column, kind in kinds.items()]
    db.execute("INSERT INTO build_tables VALUES (?, ?, ?, ?, ?)", [build_id, name, table.num_rows, sha256, columns])


def resolve_build(warehouse: Path, name: str) -> BuildRecord:
    """Return a build by id, unique prefix of its id, or `latest:BENCHMARK` (`rank_builds_for_latest`); UnknownBuild otherwise.

    A note on the builds that `latest` passes over is printed among the lines of progress.
    """
    build, note = resolve_build_and_latest_choice_note(warehouse, name)
    if note:
        print_and_log(f"note: {note}")
    return build


def resolve_build_and_latest_choice_note(warehouse: Path, name: str) -> tuple[BuildRecord, str]:
    """Return a build as `resolve_build`, and a note on the builds that `latest` passes over (empty: none)."""
    builds = list_builds(warehouse)
    note = ""
    if name.startswith(LATEST_PREFIX):
        found = rank_builds_for_latest(build for build in builds if build.benchmark == name.removeprefix(LATEST_PREFIX))
        note = format_latest_build_choice_note(found)
        found = found[:1]
    else:
        found = [b for b in builds if b.build_id == name] or [b for b in builds if b.build_id.startswith(name)]
    if len(found) == 1:
        return found[0], note
    wanted = shorten_middle(name)
    if name.startswith(LATEST_PREFIX) and (
        unknown := _find_unknown_benchmark_problem(name.removeprefix(LATEST_PREFIX))
    ):
        there = ", ".join(f"{LATEST_PREFIX}{each}" for each in sorted({build.benchmark for build in builds}))
        raise UnknownBuild(
            f"no build {wanted!r}: {unknown}"
            + (f"; builds in {warehouse}: {there} (`factmill show` lists all)" if there else "")
        )
    command = _format_command_to_make_latest_build(name)
    if not builds:
        raise UnknownBuild(f"no build {wanted!r}: {warehouse} has no builds yet; make one, for example: {command}")
    if name.startswith(LATEST_PREFIX):
        raise UnknownBuild(
            f"no build {wanted!r} in {warehouse}; make one: {command} (`factmill show` lists the builds there)"
        )
    what = f"{len(found)} builds begin with {wanted!r}" if found else f"no build {wanted!r}"
    meant = f"; did you mean {LATEST_PREFIX}{wanted}?" if any(build.benchmark == name for build in builds) else ""
    same_benchmark = [build for build in builds if name.startswith(f"{build.benchmark}-")]
    known = ", ".join(build.build_id for build in (found or same_benchmark or builds)[-_MAX_LISTED_BUILDS:])
    raise UnknownBuild(
        f"{what} in {warehouse}; expected a build's id, the start of an id, or {LATEST_PREFIX}BENCHMARK; builds there: {known} "
        f"(`factmill show` lists all){meant}"
    )


def _format_command_to_make_latest_build(name: str) -> str:
    """Return the command that makes the build of a name like `latest:slaq`, or a first build for any other name."""
    benchmark = name.removeprefix(LATEST_PREFIX) if name.startswith(LATEST_PREFIX) else "granola"
    measured = benchmark.removesuffix("_evaluation")
    if measured != benchmark:
        return f"`factmill evaluate {measured} --model NAME`"
    if benchmark.endswith("_mechanism"):
        return "`factmill mechanism latest:slaq_evaluation --model DIR`"
    return f"`factmill build {benchmark}`"


def _find_unknown_benchmark_problem(name: str) -> str:
    """Return that no installed benchmark has this name, with those there are; empty if one has it, or its evaluation may."""
    known = sorted(each.name for each in entry_points(group=BENCHMARK_ENTRY_POINTS))
    if any(name == each or name.startswith(f"{each}_") for each in known):
        return ""
    return f"there is no benchmark {shorten_middle(name)!r}; benchmarks: {', '.join(known)}{format_did_you_mean(name, known)}"


def rank_builds_for_latest(builds: Iterable[BuildRecord]) -> list[BuildRecord]:
    """Return builds (given oldest first) in the order of preference of `latest`: whole builds of the default source
    first, then newest first."""
    return sorted(builds, key=lambda build: not build.narrowing_options)[::-1]


def format_latest_build_choice_note(ranked: Sequence[BuildRecord]) -> str:
    """Return a note on the builds that `latest` passes over; empty if it takes the newest and that is a whole build.

    `ranked`: builds of one benchmark in the order of `rank_builds_for_latest`.
    """
    if not ranked or (
        not ranked[0].narrowing_options and ranked[0] == max(ranked, key=lambda build: build.published_at)
    ):
        return ""
    first, *others = ranked
    named = join_described_builds(others, lambda each: ", ".join(each.narrowing_options) or "whole")
    what = (
        f"made with {', '.join(first.narrowing_options)}"
        if first.narrowing_options
        else "the newest complete build of the default source"
    )
    alone = "there is no complete build of the default source" if first.narrowing_options else ""
    remarks = [
        alone,
        f"others: {named}; to use one, give its id (--build, or in place of {LATEST_PREFIX}{first.benchmark})"
        if named
        else "",
    ]
    return f"{LATEST_PREFIX}{first.benchmark} is {first.build_id}, {what}; {'; '.join(filter(None, remarks))}"


def check_latest_passes_over_no_user_source(warehouse: Path, name: str) -> None:
    """UsageError if `latest:BENCHMARK` passes over a newer build of a source of the user's own, which may be the one meant."""
    if not name.startswith(LATEST_PREFIX):
        return
    chosen = resolve_build_and_latest_choice_note(warehouse, name)[0]
    for build in reversed(list_builds(warehouse)):
        if build.build_id == chosen.build_id:
            return
        source = build.origin.get("flow", {}).get("source")
        if build.benchmark == chosen.benchmark and source:
            raise UsageError(
                f"{name} is {chosen.build_id}, but {build.build_id} is newer, made from {', '.join(source)}; name the build to release"
            )


def join_described_builds(newest_first: Sequence[BuildRecord], describe: Callable[[BuildRecord], str]) -> str:
    """Return the ids of the first five builds with their descriptions; those of one description together, with their times."""
    alike: dict[str, list[BuildRecord]] = {}
    for build in newest_first[:_MAX_LISTED_BUILDS]:
        alike.setdefault(describe(build), []).append(build)
    named = []
    for what, builds in alike.items():
        dated = [f"{each.build_id} of {each.published_at:%Y-%m-%d %H:%M}" for each in builds]
        named.append(f"{builds[0].build_id} ({what})" if len(builds) == 1 else f"{' and '.join(dated)} (each {what})")
    left = len(newest_first) - _MAX_LISTED_BUILDS
    return ", ".join([*named, *([f"{left} more"] if left > 0 else [])])


def resolve_build_id_and_reject_count(warehouse: Path, name: str) -> tuple[str, int]:
    """Return id and number of rejects of a build, or of an unpublished run given by its full name."""
    if warehouse_exists(warehouse):
        with open_warehouse(warehouse) as db:
            found = db.execute(
                "SELECT build_id, sum(rejects)::BIGINT FROM build_stages WHERE build_id = ? GROUP BY 1", [name]
            ).fetchone()
        if found:
            return found[0], found[1]
    record = resolve_build(warehouse, name)
    return record.build_id, record.report["rejects"]


def load_first_reject_details(warehouse: Path, build_id: str) -> dict[tuple[str, str], str]:
    """Return (stage, reason) → detail of the first reject, of a build or of an unpublished run."""
    with open_warehouse(warehouse) as db:
        found = db.execute(
            "SELECT stage, reason, min_by(detail, id) FROM rejects WHERE build_id = ? GROUP BY ALL", [build_id]
        ).fetchall()
    return {(stage, reason): detail for stage, reason, detail in found}


def list_failed_and_rejected_calls_to_retry(
    db: duckdb.DuckDBPyConnection, run_id: str, reject_reasons: Collection[str]
) -> list[tuple[str, str]]:
    """Return (stage, record id) of a run's failed calls, and of the chat calls behind rejects with these reasons."""
    return db.execute(
        "SELECT DISTINCT u.stage, u.record_id FROM build_calls u JOIN calls c USING (record_id) "
        "LEFT JOIN rejects r ON r.build_id = u.build_id AND r.stage = u.stage AND r.id = u.id WHERE u.build_id = ? "
        "AND (c.status <> 'ok' OR (c.operation = 'chat' AND coalesce(list_contains(?, r.reason), false)))",
        [run_id, sorted(reject_reasons)],
    ).fetchall()


def list_builds(warehouse: Path) -> list[BuildRecord]:
    """Return all published builds, oldest first."""
    if not warehouse_exists(warehouse):
        return []
    with open_warehouse(warehouse) as db:
        found = db.execute(f"SELECT {_COLUMNS} FROM builds ORDER BY published_at, build_id").fetchall()
    rows = [dict(zip(BuildRecord.__slots__, row, strict=True)) for row in found]
    for row in rows:
        row |= {
            name: parse_json_column(row[name], f"builds.{name} of {row['build_id']}", dict) for name in _JSON_COLUMNS
        }
    return [BuildRecord(**row) for row in rows]


def find_build_by_manifest(warehouse: Path, manifest: Mapping[str, Any]) -> BuildRecord | None:
    """Return the newest build with exactly this manifest, or None."""
    digest = digest_json(manifest)
    found = [build for build in list_builds(warehouse) if build.lock_digest == digest]
    return found[-1] if found else None


def load_published_table(db: duckdb.DuckDBPyConnection, build_id: str, name: str) -> pa.Table:
    """Return a build's table as it was published, sorted by id, without columns that were added later."""
    found = db.execute(
        "SELECT unnest(columns, recursive := true) FROM build_tables WHERE build_id = ? AND table_name = ?",
        [build_id, name],
    ).fetchall()
    if not found:
        raise UnknownBuild(f"build {build_id} has no table {name}")
    columns = ", ".join(f'CAST("{column}" AS {kind}) AS "{column}"' for column, kind in found)
    return db.sql(f"SELECT {columns} FROM {name} WHERE build_id = ? ORDER BY id", params=[build_id]).to_arrow_table()


def load_table_digests(db: duckdb.DuckDBPyConnection, build_id: str) -> dict[str, str]:
    """Return a build's published tables: name → SHA-256 of their Parquet bytes."""
    return {name: each["sha256"] for name, each in load_table_row_counts_and_digests(db, build_id).items()}


def load_table_row_counts_and_digests(db: duckdb.DuckDBPyConnection, build_id: str) -> dict[str, dict[str, Any]]:
    """Return published table → number of rows and SHA-256 of its Parquet bytes."""
    found = db.execute(
        "SELECT table_name, rows, sha256 FROM build_tables WHERE build_id = ? ORDER BY 1", [build_id]
    ).fetchall()
    return {name: {"rows": rows, "sha256": sha256} for name, rows, sha256 in found}


def _find_or_make_build_id(db: duckdb.DuckDBPyConnection, benchmark: str, lock_digest: str, content: str) -> str:
    """Return the id of the build with this manifest and content; a new, numbered id if the content is new."""
    before = db.execute(
        "SELECT build_id, content_digest FROM builds WHERE lock_digest = ? ORDER BY published_at", [lock_digest]
    ).fetchall()
    for build_id, digest in before:
        if digest == content:
            return str(build_id)
    plain = f"{benchmark}-{lock_digest[:12]}"
    # builds may have been removed, so their count is not the next number
    numbers = [int(build_id.removeprefix(plain).removeprefix(".") or 1) for build_id, _ in before]
    return f"{plain}.{max(numbers) + 1}" if before else plain


@dataclass(frozen=True, slots=True)
class BuildStagesAndCalls:
    """Stages and calls of a build or a pilot."""

    stages: list[dict[str, Any]]
    """Its stages in order, with their counts."""
    calls: list[dict[str, Any]]
    """Calls that its rows use, by stage and row. `is_new`: its own run sent the call; `is_failed`: it got no answer;
    `parts`: only of chat calls without reported usage."""


def load_build_stage_and_call_rows(warehouse: Path, build_id: str, begun: datetime) -> BuildStagesAndCalls:
    """Return the stages and calls of a build; `begun`: when it began."""
    with open_warehouse(warehouse) as db:
        stages = query_rows(db, "SELECT * FROM build_stages WHERE build_id = ? ORDER BY position", build_id)
        calls = query_rows(
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
    return BuildStagesAndCalls(stages, calls)


def delete_pilot_rows(warehouse: Path, run_id: str) -> None:
    """Delete the rows that a pilot wrote under its own id; its recorded calls stay."""
    with open_warehouse(warehouse) as db:
        for table in _RUN_TABLES:
            db.execute(f"DELETE FROM {table} WHERE build_id = ?", [run_id])


def write_forecast(warehouse: Path, benchmark: str, lock_digest: str, forecast: Mapping[str, Any]) -> None:
    """Write a forecast, replacing earlier ones of the same build."""
    with open_warehouse(warehouse) as db:
        db.execute("DELETE FROM forecasts WHERE lock_digest = ?", [lock_digest])
        now = datetime.now(UTC)
        db.execute(
            "INSERT INTO forecasts VALUES (?, ?, ?, ?)", [lock_digest, benchmark, now, json.dumps(dict(forecast))]
        )


def find_forecast(db: Connection, lock_digest: str) -> dict[str, Any]:
    """Return the forecast of the build with this manifest digest; empty if there is none."""
    found = db.execute("SELECT told FROM forecasts WHERE lock_digest = ?", [lock_digest]).fetchall()
    where = f"forecasts.told of {lock_digest}"
    forecast: dict[str, Any] = parse_json_column(found[0][0], where, dict) if found else {}
    return forecast


def count_calls_without_usage_by_model(db: Connection, build_id: str) -> list[dict[str, Any]]:
    """Return, for each `service` and `model` of a build's chat calls, how many replies report no usage (`untold`)."""
    return query_rows(
        db,
        "SELECT service, parts->>'model' AS model, count_if(tokens_in = 0 AND tokens_out = 0 AND "
        "(status = 'ok' OR regexp_matches(error, '^(empty_reply|cut_off)'))) AS untold "
        "FROM calls WHERE operation = 'chat' AND record_id IN (SELECT record_id FROM build_calls WHERE build_id = ?) "
        "GROUP BY ALL ORDER BY ALL",
        build_id,
    )


def sum_call_usage(db: Connection, build_id: str) -> dict[str, float]:
    """Return totals of the distinct calls that a build uses: `calls`, `tokens_in`, `tokens_out` and `usd`."""
    (found,) = query_rows(
        db,
        "SELECT count(*) AS calls, coalesce(sum(tokens_in), 0) AS tokens_in, coalesce(sum(tokens_out), 0) AS tokens_out, "
        "coalesce(sum(cost_usd), 0.0) AS usd FROM calls WHERE record_id IN "
        "(SELECT record_id FROM build_calls WHERE build_id = ? AND stage <> 'since')",
        build_id,
    )
    return {name: float(each) for name, each in found.items()}
