"""`factmill jobs`: list, cancel and forget batch jobs at model servers."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from factmill.flows.cli.options import (
    JsonOption,
    check_warehouse_exists,
    print_result,
)
from factmill.tasks.clients.batch_jobs import job_files
from factmill.tasks.clients.batch_jobs.job_control import InspectedJob, cancel_job, inspect_jobs
from factmill.tasks.clients.batch_jobs.job_files import JobFile, load_job_files
from factmill.tasks.clients.batch_jobs.jsonl import format_request_count
from factmill.tasks.core.calls.call import CallCacheMode
from factmill.tasks.errors import ServiceError, UsageError
from factmill.tasks.options import (
    RunOptions,
    resolve_warehouse_path,
)
from factmill.tasks.processes import is_file_locked
from factmill.tasks.reports.formatting import shorten_line
from factmill.tasks.settings import factmill_home
from factmill.tasks.storage.recording.work_folders import batch_jobs_folder, work_folder
from factmill.tasks.text.durations import format_age_in_words

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
        help="Cancel this job (its id, or the start of its id). You pay for the requests that are already answered; run the build again to use them.",
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

    Builds and evaluations submit batch jobs for models with mode = "batch" in the world's file. The list shows the jobs whose
    answers have not all been read, oldest first.

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
    warehouses = _resolve_job_warehouses(warehouse)
    if cancel is not None or cancel_all:
        _cancel_jobs(warehouses, cancel, as_json)
        return
    if forget is not None:
        _forget_job(warehouses, forget, as_json)
        return
    known = _list_warehouse_jobs(warehouses)
    looked = (
        inspect_jobs([each.job for each in known], _USER_AGENT) if ask else [InspectedJob(each.job) for each in known]
    )
    found = [_make_job_json(each, look, ask) for each, look in zip(known, looked, strict=True)]
    none = f'no batch jobs of {", ".join(map(str, warehouses))}; a model uses them if its world has mode = "batch"'
    print_result(as_json, {"jobs": found}, _format_jobs(found), "" if found else none)


def _cancel_jobs(warehouses: Sequence[Path], job: str | None, as_json: bool) -> None:
    """Cancel a job at its server, or all running ones for None."""
    if job is not None:
        chosen = [_resolve_job(warehouses, job)]
    else:
        known = _list_warehouse_jobs(warehouses)
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


def _forget_job(warehouses: Sequence[Path], job: str, as_json: bool) -> None:
    """Delete the record of a job, so that the same build sends what is left of it again."""
    known = _resolve_job(warehouses, job)
    if not job_files.delete_job_file_if_unlocked(known.job):
        raise UsageError(f"{known.name}: a running process waits for this job; stop that process first (Ctrl-C)")
    count = len(known.job.open_ids)
    result = {"job": known.name, "forgotten": True, "requests": count, "build": known.job.run}
    line = f"{known.name}: forgotten; {count:,} of its requests are sent again when a build needs them"
    print_result(as_json, result, [line])


def _resolve_job_warehouses(warehouse: Path | None) -> list[Path]:
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
class _WarehouseJob:
    """A batch job, and the warehouse whose build submitted it."""

    warehouse: Path
    job: JobFile

    @property
    def name(self) -> str:
        return self.job.job_id or self.job.name


def _list_warehouse_jobs(warehouses: Sequence[Path]) -> list[_WarehouseJob]:
    folders = [(each, batch_jobs_folder(each, mode)) for each in warehouses for mode in _MODES]
    known = [_WarehouseJob(warehouse, job) for warehouse, folder in folders for job in load_job_files(folder)]
    return sorted(known, key=lambda each: (each.job.created_s, each.job.name))


def _make_job_json(known: _WarehouseJob, looked: InspectedJob, asked: bool) -> dict[str, Any]:
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


def _format_jobs(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield lines of text about jobs."""
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


def _resolve_job(warehouses: Sequence[Path], name: str) -> _WarehouseJob:
    """Return the job with this id, or beginning of an id; UsageError if there is none, or several."""
    known = _list_warehouse_jobs(warehouses)
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
