"""`factmill gc` and `upgrade`: remove old or unused data, shrink the database files to their content, and migrate a
warehouse of an earlier factmill."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import typer

from factmill.flows.benchmarks import BENCHMARKS
from factmill.flows.cli.options import (
    JsonOption,
    WarehouseOption,
    check_age_option,
    check_warehouse_exists,
    print_result,
)
from factmill.flows.evaluate.evaluations import list_evaluations_and_analyses
from factmill.flows.prefect_server import apply_prefect_settings, standing_or_own_prefect_server
from factmill.tasks import progress
from factmill.tasks.core.rows import MAX_SETTING_NUMBER
from factmill.tasks.errors import ServiceUnreachable, UnknownBuild, WarehouseError
from factmill.tasks.options import RunOptions, resolve_warehouse_path
from factmill.tasks.settings import factmill_home, get_environment_variable
from factmill.tasks.storage.housekeeping.prefect_history import (
    clean_history,
    prefect_database_path,
    vacuum_history_or_find_problem,
)
from factmill.tasks.storage.housekeeping.reclaimed_space import (
    OWN_SERVER,
    ReclaimedSpace,
    find_crashed_run_markers_and_servers,
    get_prefect_server,
    measure_bytes,
)
from factmill.tasks.storage.housekeeping.warehouse_cleanup import RetentionPolicy, clean_orphan_files, clean_warehouse
from factmill.tasks.storage.housekeeping.warehouse_rewriting import compact_warehouse, upgrade_warehouse
from factmill.tasks.storage.schema import SCHEMA_VERSION
from factmill.tasks.storage.warehouse import warehouse_exists
from factmill.tasks.text.durations import parse_validated_duration


def gc(
    keep: int = typer.Option(
        10,
        min=1,
        max=MAX_SETTING_NUMBER,
        help="Number of newest builds to keep for each benchmark and author.",
        metavar="NUMBER",
    ),
    builds_older_than: str | None = typer.Option(
        None,
        help="Also remove builds older than this (12h, 30d, 4w), even within --keep; the newest of each benchmark and author stays.",
        metavar="AGE",
        callback=check_age_option,
    ),
    older_than: str = typer.Option(
        "30d",
        help="Minimum age of the unused calls, run folders, Prefect history and orphan files to remove (12h, 30d, 4w).",
        metavar="AGE",
        callback=check_age_option,
    ),
    with_measured: bool = typer.Option(
        False, "--with-measured", help="Also remove builds that were evaluated or audited; by default they stay."
    ),
    yes: bool = typer.Option(False, "--yes/--dry-run", help="Remove the listed data, or only list it."),
    compact: bool = typer.Option(
        False,
        "--compact",
        help="Then rewrite the warehouse, and Prefect's database in FACTMILL_HOME, to free the disk space of removed rows.",
    ),
    warehouse: WarehouseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove old builds, unused calls and data of stopped runs.

    Without --yes the command only lists what it would remove: old builds, calls that no build and no run uses, run folders,
    Prefect's history and orphan files. It also ends killed runs that Prefect still lists as running. Data of running processes
    stays, and the remaining builds can still be verified.

    The warehouse reuses the space of removed rows; --compact returns it to the disk. Compacting locks the warehouse, needs free
    disk space of twice its size, and replaces the file only with a copy of the same content. If a build is using the
    warehouse, the file stays unchanged and the exit code is 1.

    \b
    Examples:
      factmill gc
      factmill gc --yes --compact
      factmill gc --keep 3 --builds-older-than 90d --older-than 7d --yes
    """
    progress.set_progress_style()
    path = resolve_warehouse_path(RunOptions(warehouse=warehouse))
    if compact and not path.is_file():
        raise UnknownBuild(f"{path}: no such warehouse; give an existing one with --warehouse FILE")
    ages = {"--older-than": older_than, "--builds-older-than": builds_older_than or ""}
    since = _get_age_cutoff(older_than)
    builds_since = _get_age_cutoff(builds_older_than) if builds_older_than else None
    keeping = RetentionPolicy(keep, builds_since, since, keep_evaluated=not with_measured)
    freed = clean_warehouse(path, keeping, remove=yes)
    freed.append(_end_or_count_crashed_runs(remove=yes))
    history = clean_history(factmill_home(), since, remove=yes)
    if server := get_environment_variable("PREFECT_API_URL"):
        # a standing server keeps its history outside factmill's home
        left = (
            f"{server} keeps its own history; PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED=events,flow_runs in that server's "
            "environment limits it (docker-compose.yml sets it)"
        )
        history = replace(history, left=history.left or left)
    freed.append(history)
    freed += clean_orphan_files(factmill_home(), path, since, remove=yes)
    shown = [
        asdict(each) | {"young_until": _format_earliest_removal_time(each, ages), "young_option": _get_age_option(each)}
        for each in freed
    ]
    how = "removed" if yes else "nothing was removed; to remove the data above, run the same command with --yes"
    lines = [line for each in freed for line in _format_reclaimed(each, ages)]
    trouble = next((each.trouble for each in freed if each.trouble), "")
    result: dict[str, Any] = {"warehouse": str(path), "removed": yes, "freed": shown}
    lines.append(how)
    if compact and not trouble:
        result["compacted"], more = _compact_databases(path)
        lines += more
    print_result(as_json, result, lines)
    if trouble:
        raise WarehouseError(trouble)


def _format_reclaimed(freed: ReclaimedSpace, age_options: Mapping[str, str]) -> Iterator[str]:
    """Yield lines about the reclaimed space of one kind; `age_options`: option → age given on the command line."""
    counts = f"{freed.kind:16} {freed.count:>9,} {_format_size(freed.size_bytes):>10}"
    left = freed.left or ("failed: see the error" if freed.trouble else "")
    yield f"{counts}  {left}".rstrip()
    yield from (f"    {name}" for name in freed.names[:20])
    if len(freed.names) > 20:
        yield f"    … {len(freed.names) - 20:,} more (--json lists all)"
    if freed.young:
        size = f" ({_format_size(freed.young_bytes)})" if freed.young_bytes else ""
        option = _get_age_option(freed)
        yield (
            f"    {freed.young:,} more{size} stay only because they are younger than {age_options[option]}; all of them can be "
            f"removed from {_format_earliest_removal_time(freed, age_options)}, or now with {option} 0s"
        )


def _get_age_option(freed: ReclaimedSpace) -> str:
    """Return the option that sets the age from which this kind is removed."""
    return "--builds-older-than" if freed.kind == "builds" else "--older-than"


def _format_earliest_removal_time(freed: ReclaimedSpace, ages: Mapping[str, str]) -> str:
    """Return the minute (UTC) from which all of this kind is old enough to go; empty if all of it is already."""
    if not freed.young:
        return ""
    try:
        age = timedelta(seconds=parse_validated_duration(ages[_get_age_option(freed)]))
        return f"{datetime.fromisoformat(freed.young_newest) + age:%Y-%m-%d %H:%M} UTC"
    except OverflowError:
        return "the end of the calendar"


def _compact_databases(warehouse: Path) -> tuple[dict[str, Any], list[str]]:
    """Rewrite the warehouse and Prefect's database without the space of removed rows; return sizes in bytes, and lines."""
    history = prefect_database_path(factmill_home())
    sizes = {"warehouse": compact_warehouse(warehouse)}
    before = measure_bytes(history)
    left = vacuum_history_or_find_problem(factmill_home())
    if history.is_file():
        sizes["prefect"] = (before, measure_bytes(history))
    lines = [f"{name:10} {_format_size(was):>10} → {_format_size(now)}" for name, (was, now) in sizes.items()]
    lines += [f"Prefect's database is unchanged: {left}"] if left else []
    return {**{name: {"before": was, "after": now} for name, (was, now) in sizes.items()}, "left": left}, lines


def upgrade(
    file: Path | None = typer.Argument(
        None,
        help="Warehouse to convert. Default: factmill.duckdb in FACTMILL_HOME.",
        callback=check_warehouse_exists,
        metavar="FILE",
    ),
    as_json: JsonOption = False,
) -> None:
    """Convert a warehouse of an earlier factmill version.

    All builds and recorded calls are kept, so no paid request is sent again. The command needs free disk space of twice the
    file's size, and replaces the file only after every row is copied. If a build is using the warehouse, the file stays
    unchanged and the exit code is 1.

    \b
    Examples:
      factmill upgrade data/factmill.duckdb
      factmill upgrade old.duckdb --json
    """
    progress.set_progress_style()
    path = resolve_warehouse_path(RunOptions(warehouse=file))
    if not warehouse_exists(path):
        raise UnknownBuild(f"{path}: no such warehouse; give an existing one: factmill upgrade FILE")
    models = {
        name: model
        for each in (*BENCHMARKS.values(), *list_evaluations_and_analyses().values())
        for name, model in each.tables.items()
    }
    done = upgrade_warehouse(path, models, {each.name: each.statements_sql for each in BENCHMARKS.values()})
    if done.tables:
        counted = f"{done.tables['builds']:,} builds, {done.tables['calls']:,} recorded calls"
        line = f"{path}: schema version {done.version} → {SCHEMA_VERSION}; {counted}"
    else:
        line = f"{path}: already has schema version {SCHEMA_VERSION}"
    print_result(
        as_json, {"file": str(path), "from": done.version, "to": SCHEMA_VERSION, "tables": done.tables}, [line]
    )


def _get_age_cutoff(age: str) -> datetime:
    """Return the moment that lies `age` in the past, 1970 at the earliest."""
    return datetime.fromtimestamp(max(time.time() - parse_validated_duration(age), 0), UTC)


def _format_size(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.1f} MB" if size_bytes >= 100_000 else f"{size_bytes:,} B"


CRASHED_RUNS_KIND = "killed runs"


def _end_or_count_crashed_runs(*, remove: bool) -> ReclaimedSpace:
    """End runs that Prefect lists as running but whose process is gone; only count them unless `remove`.

    Runs of a server other than the current one are left, since only that server knows them.
    """
    servers = Counter(find_crashed_run_markers_and_servers(factmill_home()).values())
    count = servers.pop(get_prefect_server(), 0)
    left = [
        f"{others:,} started without a standing server: unset PREFECT_API_URL and run this command again"
        if server == OWN_SERVER
        else f"{others:,} of the server {server}: set PREFECT_API_URL to it and run this command again"
        for server, others in servers.items()
    ]
    if count and remove:
        try:
            # use the standing server, or start one; Prefect is imported only here
            apply_prefect_settings(factmill_home())
            with standing_or_own_prefect_server(factmill_home()) as server:
                progress.print_and_log("ending runs that were killed …")
                from factmill.flows.watching.flow_runs import mark_crashed_runs

                if server:
                    server.wait_ready()
                mark_crashed_runs()
        except ServiceUnreachable as error:
            return ReclaimedSpace(CRASHED_RUNS_KIND, left="; ".join([*left, str(error)]))
    return ReclaimedSpace(CRASHED_RUNS_KIND, count, left="; ".join(left))
