"""`factmill jobs`: batch jobs that builds and evaluations have handed in, and what can be done about each."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tasks.clients.batch_jobs.job_files import JobFile, forget_job, read_jobs
from tasks.clients.batch_jobs.lines import count_requests
from tasks.clients.batch_jobs.looking import Looked, cancel_job, look_at
from tasks.core.calls.call import Mode
from tasks.errors import ServiceError, UsageError
from tasks.processes import is_held
from tasks.reports.texts import shorten_line
from tasks.storage.recording.folders import jobs_folder
from tasks.text.ages import tell_age

_USER_AGENT = "factmill"
_MODES: tuple[Mode, ...] = ("record", "refresh")


@dataclass(frozen=True, slots=True)
class _Known:
    """A job, and the warehouse whose builds asked for it."""

    warehouse: Path
    job: JobFile

    @property
    def name(self) -> str:
        return self.job.job_id or self.job.name


def list_warehouses(home: Path) -> list[Path]:
    """Return the warehouses of a home, the usual one first."""
    beside = sorted(home.glob("*.duckdb.runs"))
    return [home / "factmill.duckdb", *(folder.with_name(folder.name.removesuffix(".runs")) for folder in beside)]


def list_jobs(warehouses: Sequence[Path], *, ask: bool) -> list[dict[str, Any]]:
    """Return the jobs of warehouses, the oldest first; `ask`: have their servers say how far they are."""
    known = _find_known(warehouses)
    looked = look_at([each.job for each in known], _USER_AGENT) if ask else [Looked(each.job) for each in known]
    return [_describe(each, look, ask) for each, look in zip(known, looked, strict=True)]


def _find_known(warehouses: Sequence[Path]) -> list[_Known]:
    folders = [(each, jobs_folder(each, mode)) for each in warehouses for mode in _MODES]
    known = [_Known(warehouse, job) for warehouse, folder in folders for job in read_jobs(folder)]
    return sorted(known, key=lambda each: (each.job.begun, each.job.name))


def _describe(known: _Known, looked: Looked, asked: bool) -> dict[str, Any]:
    job, state = known.job, looked.state
    followed = is_held(job.path)
    return {
        "job": known.name,
        "state": _name_state(job, looked),
        "model": job.server.model,
        "url": job.server.url,
        "requests": len(job.ids),
        "left": len(job.left),
        "done": state.done if state else None,
        "failed": state.failed if state else None,
        "handed_in_at": datetime.fromtimestamp(job.begun, UTC).isoformat(timespec="seconds"),
        "age_s": max(0, round(time.time() - job.begun)),
        "build": job.run,
        "warehouse": str(known.warehouse),
        "followed": followed,
        "note": looked.trouble or _advise(looked, followed=followed, asked=asked),
    }


def _name_state(job: JobFile, looked: Looked) -> str:
    if looked.state:
        return looked.state.status
    if not job.job_id:
        return "uploaded" if job.file_id else "not_handed_in"
    return "unknown" if looked.trouble else "handed_in"


def _advise(looked: Looked, *, followed: bool, asked: bool) -> str:
    """Return what is to be done about a job; empty: nothing."""
    if followed:
        return "a running process waits for it"
    if looked.state and looked.state.is_lost:
        return "its server knows it no more; the same build asks, and pays, anew what is left of it"
    if looked.state and looked.state.has_ended:
        return "its answers wait for the same build to take them"
    if looked.job.job_id or asked:
        return "no process waits for it; the same build goes on with it"
    return ""


def format_jobs(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines that tell of jobs."""
    wide = max((len(each["job"]) for each in found), default=0)
    for each in found:
        done = "" if each["done"] is None else f"{each['done']:,} of "
        failed = f", {each['failed']:,} failed" if each["failed"] else ""
        left = f", {each['left']:,} to be taken" if each["left"] < each["requests"] else ""
        yield (
            f"{each['job']:{wide}}  {each['state']:14} {done}{count_requests(each['requests'])}{failed}{left} to "
            f"{shorten_line(each['model'])}, {tell_age(each['age_s'])} ago, for {each['build'] or 'a build'}"
        )
        if each["note"]:
            yield f"    {each['note']}"


def cancel_jobs(warehouses: Sequence[Path], name: str | None) -> list[dict[str, Any]]:
    """Have a job cancelled, or without a name all that go on; return what their servers say."""
    if name is not None:
        chosen = [_find_job(warehouses, name)]
    else:
        known = _find_known(warehouses)
        looked = look_at([each.job for each in known], _USER_AGENT)
        if silent := next((look for look in looked if look.trouble), None):
            raise ServiceError(f"nothing was cancelled, since not all jobs can be seen: {silent.trouble}")
        chosen = [each for each, look in zip(known, looked, strict=True) if look.state and not look.state.has_ended]
    told = []
    for each in chosen:
        state = cancel_job(each.job, _USER_AGENT)
        told.append({"job": state.job_id, "state": state.status, "done": state.done, "requests": len(each.job.ids)})
    return told


def forget(warehouses: Sequence[Path], name: str) -> dict[str, Any]:
    """Leave a job out of account: what it was to answer is asked, and paid, anew."""
    known = _find_job(warehouses, name)
    if not forget_job(known.job):
        raise UsageError(f"{known.name}: a running process waits for this job; stop that first (Ctrl-C)")
    return {"job": known.name, "forgotten": True, "requests": len(known.job.left), "build": known.job.run}


def _find_job(warehouses: Sequence[Path], name: str) -> _Known:
    """Return the job of an id, or of the beginning of one; UsageError where there is none, or there are several."""
    known = _find_known(warehouses)
    found = [each for each in known if name in (each.job.job_id, each.job.name)] or [
        each for each in known if name and name in (each.job.job_id[: len(name)], each.job.name[: len(name)])
    ]
    if len(found) == 1:
        return found[0]
    names = ", ".join(each.name for each in (found or known)[:10])
    if found:
        raise UsageError(f"{name}: several jobs begin so: {names}; write one out")
    told = f"known are: {names}" if known else "no job is known"
    raise UsageError(
        f"{name}: no such job in {', '.join(map(str, warehouses))}; {told}. One of another warehouse: --warehouse FILE"
    )
