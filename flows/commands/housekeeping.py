"""`factmill gc`, `upgrade` and `jobs`: remove old or unused data, shrink the database files to their content, migrate a
warehouse of an earlier factmill; list, cancel and forget batch jobs at model servers."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

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
from factmill.tasks.clients.batch_jobs import job_files
from factmill.tasks.clients.batch_jobs.job_control import InspectedJob, cancel_job, inspect_jobs
from factmill.tasks.clients.batch_jobs.job_files import JobStateFile, load_job_files
from factmill.tasks.clients.batch_jobs.jsonl import format_request_count
from factmill.tasks.core.calls.call import CallCacheMode
from factmill.tasks.core.rows import MAX_SETTING_NUMBER
from factmill.tasks.errors import ServiceError, ServiceUnreachable, UnknownBuild, UsageError, WarehouseError
from factmill.tasks.options import RunOptions, resolve_warehouse_path
from factmill.tasks.processes import is_file_locked
from factmill.tasks.reports.formatting import shorten_line
from factmill.tasks.settings import factmill_home, get_environment_variable
from factmill.tasks.storage.housekeeping.prefect_history import (
    clean_history,
    prefect_database_path,
    vacuum_history_or_find_problem,
)
from factmill.tasks.storage.housekeeping.reclaimed_space import (
    OWN_SERVER,
    ReclaimedSpaceOfKind,
    find_servers_by_crashed_run_marker,
    get_prefect_server_address,
    measure_bytes,
)
from factmill.tasks.storage.housekeeping.warehouse_cleanup import (
    RetentionPolicy,
    clean_files_of_dead_processes,
    clean_warehouse,
)
from factmill.tasks.storage.housekeeping.warehouse_rewriting import compact_warehouse, upgrade_warehouse
from factmill.tasks.storage.recording.work_folders import batch_jobs_folder, work_folder
from factmill.tasks.storage.schema import SCHEMA_VERSION
from factmill.tasks.storage.warehouse import warehouse_exists
from factmill.tasks.text.durations import format_age_in_words, parse_validated_duration


def gc(
    keep: int = typer.Option(
        10,
        min=1,
        max=MAX_SETTING_NUMBER,
        help="Number of newest builds to keep for each benchmark and author (the model that wrote its texts).",
        metavar="NUMBER",
    ),
    builds_older_than: str | None = typer.Option(
        None,
        help="Also remove builds older than this (12h, 30d, 4w), even within --keep. The newest build of each benchmark and author stays.",
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
    yes: bool = typer.Option(False, "--yes/--dry-run", help="--yes removes the listed data; --dry-run only lists it."),
    compact: bool = typer.Option(
        False,
        "--compact",
        help="Afterwards, rewrite the warehouse and Prefect's database in FACTMILL_HOME to free the disk space of removed rows.",
    ),
    warehouse: WarehouseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove old builds, unused replies, and data of stopped runs.

    Without --yes the command only lists what it would remove: old builds, calls that no build and no run uses, run
    folders, Prefect's history and orphan files. It also ends killed runs that Prefect still lists as running. Data of
    running processes stays, and the remaining builds can still be verified.

    The warehouse reuses the space of removed rows; --compact returns it to the disk. Compacting locks the warehouse
    and needs free disk space of twice its size. It replaces the file only after comparing the content of the copy. If
    a build is using the warehouse, the file stays unchanged and the exit code is 1.

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
    freed += clean_files_of_dead_processes(factmill_home(), path, since, remove=yes)
    shown = [
        asdict(each)
        | {"young_until": _format_time_when_all_removable(each, ages), "young_option": _get_age_option(each)}
        for each in freed
    ]
    how = "removed" if yes else "nothing was removed; to remove the data above, run the same command with --yes"
    lines = [line for each in freed for line in _format_reclaimed_space(each, ages)]
    trouble = next((each.trouble for each in freed if each.trouble), "")
    result: dict[str, Any] = {"warehouse": str(path), "removed": yes, "freed": shown}
    lines.append(how)
    if compact and not trouble:
        result["compacted"], more = _compact_warehouse_and_prefect_database(path)
        lines += more
    print_result(as_json, result, lines)
    if trouble:
        raise WarehouseError(trouble)


def _format_reclaimed_space(freed: ReclaimedSpaceOfKind, age_options: Mapping[str, str]) -> Iterator[str]:
    """Yield lines about the reclaimed space of one kind; `age_options`: option → age given on the command line."""
    counts = f"{freed.kind:16} {freed.count:>9,} {_format_size(freed.size_bytes):>10}"
    left = freed.left or ("failed: see the error" if freed.trouble else "")
    yield f"{counts}  {left}".rstrip()
    yield from (f"    {name}" for name in freed.names[:20])
    if hidden := freed.names[20:]:
        yield f"    … {len(hidden):,} more (--json lists all)"
    if freed.young:
        size = f" ({_format_size(freed.young_bytes)})" if freed.young_bytes else ""
        option = _get_age_option(freed)
        yield (
            f"    {freed.young:,} more{size} stay only because they are younger than {age_options[option]}; all of them can be "
            f"removed from {_format_time_when_all_removable(freed, age_options)}, or now with {option} 0s"
        )


def _get_age_option(freed: ReclaimedSpaceOfKind) -> str:
    return "--builds-older-than" if freed.kind == "builds" else "--older-than"


def _format_time_when_all_removable(freed: ReclaimedSpaceOfKind, ages: Mapping[str, str]) -> str:
    """Return the minute (UTC) from which all of this kind is old enough to go; empty if all of it is already."""
    if not freed.young:
        return ""
    try:
        age = timedelta(seconds=parse_validated_duration(ages[_get_age_option(freed)]))
        return f"{datetime.fromisoformat(freed.young_newest) + age:%Y-%m-%d %H:%M} UTC"
    except OverflowError:
        return "the end of the calendar"


def _compact_warehouse_and_prefect_database(warehouse: Path) -> tuple[dict[str, Any], list[str]]:
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

    All builds and recorded calls are kept, so no paid request is sent again. The command needs free disk space of
    twice the file's size, and replaces the file only after every row is copied. If a build is using the warehouse,
    the file stays unchanged and the exit code is 1.

    \b
    Examples:
      factmill upgrade data/factmill.duckdb
      factmill upgrade old.duckdb --json
    """
    progress.set_progress_style()
    path = resolve_warehouse_path(RunOptions(warehouse=file))
    if not warehouse_exists(path):
        raise UnknownBuild(f"{path}: no such warehouse; give an existing one: `factmill upgrade FILE`")
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


def _end_or_count_crashed_runs(*, remove: bool) -> ReclaimedSpaceOfKind:
    """End runs that Prefect lists as running but whose process is gone; only count them unless `remove`.

    Runs of a server other than the current one are left, since only that server knows them.
    """
    servers = Counter(find_servers_by_crashed_run_marker(factmill_home()).values())
    count = servers.pop(get_prefect_server_address(), 0)
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
            return ReclaimedSpaceOfKind(CRASHED_RUNS_KIND, left="; ".join([*left, str(error)]))
    return ReclaimedSpaceOfKind(CRASHED_RUNS_KIND, count, left="; ".join(left))


JobsWarehouseOption = Annotated[
    Path | None,
    typer.Option(
        help="Only jobs of this DuckDB file. Default: those of all warehouses in FACTMILL_HOME.", metavar="FILE"
    ),
]


def jobs(
    cancel: str | None = typer.Option(
        None,
        "--cancel",
        metavar="JOB",
        help="Cancel this job (its id, or the start of its id). You pay for the requests that are already answered. To use these answers, run the build again.",
    ),
    cancel_all: bool = typer.Option(False, "--cancel-all", help="Cancel all running jobs."),
    forget: str | None = typer.Option(
        None,
        "--forget",
        metavar="JOB",
        help="Forget a job that its server may have lost. The next run of the build sends its unanswered requests again, and you pay for them again.",
    ),
    ask: bool = typer.Option(
        True, "--ask/--no-ask", help="Ask the servers for the progress of their jobs (free of charge)."
    ),
    warehouse: JobsWarehouseOption = None,
    as_json: JsonOption = False,
) -> None:
    """List, cancel and forget batch jobs at model servers.

    Builds and evaluations submit batch jobs for models with mode = "batch" in the world's file. The list shows jobs
    with answers that factmill has not read yet, oldest first.

    \b
    Examples:
      factmill jobs
      factmill jobs --no-ask --json
      factmill jobs --cancel batch_68a1
      factmill jobs --forget batch_68a1
    """
    if [cancel is not None, cancel_all, forget is not None].count(True) > 1:
        raise UsageError(
            "expected only one of --cancel JOB, --cancel-all and --forget JOB; `factmill jobs` lists the jobs"
        )
    warehouses = _resolve_batch_job_warehouses(warehouse)
    if cancel is not None or cancel_all:
        _cancel_jobs(warehouses, cancel, as_json)
        return
    if forget is not None:
        gone = _resolve_job(warehouses, forget)
        if not job_files.delete_job_file_if_unlocked(gone.job):
            raise UsageError(f"{gone.name}: a running process waits for this job; stop that process first (Ctrl-C)")
        count = len(gone.job.open_ids)
        line = f"{gone.name}: forgotten; {count:,} of its requests are sent again when a build needs them"
        print_result(as_json, {"job": gone.name, "forgotten": True, "requests": count, "build": gone.job.run}, [line])
        return
    known = _list_batch_jobs_of_warehouses(warehouses)
    looked = (
        inspect_jobs([each.job for each in known], _USER_AGENT) if ask else [InspectedJob(each.job) for each in known]
    )
    found = [_make_job_json(each, look, ask) for each, look in zip(known, looked, strict=True)]
    none = f'no batch jobs of {", ".join(map(str, warehouses))}; a model uses them if its world has mode = "batch"'
    print_result(as_json, {"jobs": found}, _format_provider_batch_jobs(found), "" if found else none)


def _cancel_jobs(warehouses: Sequence[Path], job: str | None, as_json: bool) -> None:
    if job is not None:
        chosen = [_resolve_job(warehouses, job)]
    else:
        known = _list_batch_jobs_of_warehouses(warehouses)
        looked = inspect_jobs([each.job for each in known], _USER_AGENT)
        if silent := next((look for look in looked if look.trouble), None):
            raise ServiceError(f"no job was cancelled, because not all jobs can be read: {silent.trouble}")
        chosen = [each for each, look in zip(known, looked, strict=True) if look.state and not look.state.has_ended]
    cancelled, lines = list[dict[str, Any]](), list[str]()
    for each in chosen:
        state, count = cancel_job(each.job, _USER_AGENT), len(each.job.request_ids)
        cancelled.append({"job": state.job_id, "state": state.status, "done": state.done, "requests": count})
        lines.append(
            f"{state.job_id}: {state.status}, with {state.done:,} of {count:,} requests done; run the build again to read "
            "these replies, and once more to request the rest"
        )
    print_result(as_json, {"cancelled": cancelled}, lines, "" if cancelled else "no job is running: nothing to cancel")


def _resolve_batch_job_warehouses(warehouse: Path | None) -> list[Path]:
    """Return the warehouses whose jobs are selected; UsageError if the named one does not exist."""
    if warehouse is None:  # all of the home, the default one first
        run_folders = sorted(factmill_home().glob("*.duckdb.runs"))
        return [
            factmill_home() / "factmill.duckdb",
            *(each.with_name(each.name.removesuffix(".runs")) for each in run_folders),
        ]
    path = resolve_warehouse_path(RunOptions(warehouse=warehouse))
    if not work_folder(path).is_dir():  # jobs outlive their warehouse
        check_warehouse_exists(warehouse)
    return [path]


_USER_AGENT = "factmill"
_MODES: tuple[CallCacheMode, ...] = ("record", "refresh")


@dataclass(frozen=True, slots=True)
class _BatchJobAndWarehouse:
    """A batch job, and the warehouse whose build submitted it."""

    warehouse: Path
    job: JobStateFile

    @property
    def name(self) -> str:
        return self.job.job_id or self.job.name


def _list_batch_jobs_of_warehouses(warehouses: Sequence[Path]) -> list[_BatchJobAndWarehouse]:
    folders = [(each, batch_jobs_folder(each, mode)) for each in warehouses for mode in _MODES]
    known = [_BatchJobAndWarehouse(warehouse, job) for warehouse, folder in folders for job in load_job_files(folder)]
    return sorted(known, key=lambda each: (each.job.created_s, each.job.name))


def _make_job_json(known: _BatchJobAndWarehouse, looked: InspectedJob, asked: bool) -> dict[str, Any]:
    job, state, followed = known.job, looked.state, is_file_locked(known.job.path)
    if state:
        name = state.status
    elif not job.job_id:
        name = "uploaded" if job.file_id else "not_handed_in"
    else:
        name = "unknown" if looked.trouble else "handed_in"
    note = looked.trouble
    if not note and followed:
        note = "a running process waits for it"
    elif not note and state and state.is_lost:
        note = "its server no longer has it; the same build sends its unanswered requests again, and you pay for them again"
    elif not note and state and state.has_ended:
        note = "it has ended; run the same build again to read its answers"
    elif not note and (job.job_id or asked):
        note = "no process waits for it; run the same build again to continue with it"
    return {
        "job": known.name,
        "state": name,
        "model": job.server.model,
        "url": job.server.url,
        "requests": len(job.request_ids),
        "left": len(job.open_ids),
        "done": state.done if state else None,
        "failed": state.failed if state else None,
        "handed_in_at": datetime.fromtimestamp(job.created_s, UTC).isoformat(timespec="seconds"),
        "age_s": max(0, round(time.time() - job.created_s)),
        "build": job.run,
        "warehouse": str(known.warehouse),
        "followed": followed,
        "note": note,
    }


def _format_provider_batch_jobs(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    wide = max((len(each["job"]) for each in found), default=0)
    for each in found:
        done = "" if each["done"] is None else f"{each['done']:,} of "
        failed = f", {each['failed']:,} failed" if each["failed"] else ""
        left = f", {each['left']:,} not yet read" if each["left"] < each["requests"] else ""
        yield (
            f"{each['job']:{wide}}  {each['state']:14} {done}{format_request_count(each['requests'])}{failed}{left} to "
            f"{shorten_line(each['model'])}, {format_age_in_words(each['age_s'])} ago, for {each['build'] or 'a build'}"
        )
        if each["note"]:
            yield f"    {each['note']}"


def _resolve_job(warehouses: Sequence[Path], name: str) -> _BatchJobAndWarehouse:
    """Return the job with this id, or beginning of an id; UsageError if there is none, or several."""
    known = _list_batch_jobs_of_warehouses(warehouses)
    found = [each for each in known if name in (each.job.job_id, each.job.name)] or [
        each for each in known if name and name in (each.job.job_id[: len(name)], each.job.name[: len(name)])
    ]
    if len(found) == 1:
        return found[0]
    names = ", ".join(each.name for each in (found or known)[:10])
    if found:
        raise UsageError(f"{name}: several job ids begin with this: {names}; give a complete id")
    jobs_text = f"known jobs: {names}" if known else "there are no jobs"
    raise UsageError(
        f"{name}: no such job in {', '.join(map(str, warehouses))}; {jobs_text}. For a job of another warehouse, add --warehouse FILE"
    )
