"""Runs: what a process has open while it works on a build, and the lock by which one process makes it at a time.

A run is opened once a process, from the folder that a batch names, so tasks work in the flow's own process and in a
worker's alike.
"""

import json
import math
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from factmill.tasks.clients.batch_jobs.job_files import JobsPlace
from factmill.tasks.clients.batch_jobs.request_files import RequestFiles
from factmill.tasks.core.calls.call import Mode
from factmill.tasks.core.fingerprints import digest_json
from factmill.tasks.core.spending.forecasting import count_characters
from factmill.tasks.engine.naming.identities import find_max_ages, find_oldest_moments
from factmill.tasks.engine.services import Services
from factmill.tasks.errors import BuildError, BuildHeld
from factmill.tasks.files import absolute_path
from factmill.tasks.options import RunOptions, warehouse_of
from factmill.tasks.processes import lock_now
from factmill.tasks.settings import home, load_world
from factmill.tasks.storage.recording.folders import jobs_folder, make_work_folder, work_folder
from factmill.tasks.storage.recording.recorder import Recorder
from factmill.tasks.storage.recording.records import newest_record

M = TypeVar("M", bound=BaseModel)
NOW = "0s"
_GOES_ON_S = 86_400.0
"""Seconds within which a run that was stopped goes on, however young the replies have to be that it rests on."""


@dataclass(slots=True)
class Run:
    """One run of a build in this process."""

    folder: Path
    lock: dict[str, Any]
    origin: dict[str, Any]
    """Where the inputs were found (paths); no part of the lock."""
    options: dict[str, Any]
    services: Services
    recorder: Recorder
    inputs: Any = None
    """The lock's inputs, as the model that steps read them by; kept once they were read."""
    pilot_by: tuple[str, ...] = ()
    """Columns whose values a pilot's rows have as often as all rows."""
    pilot_sides: str = ""
    """Column of whose values as many rows are drawn together."""
    pilot_size: Callable[[Mapping[str, Any]], int] = count_characters
    """Row → its size."""

    def read_inputs(self, model: type[M]) -> M:
        """Return the build's inputs as its lock has them."""
        if not isinstance(self.inputs, model):
            self.inputs = model.model_validate(self.lock["params"])
        return self.inputs


RUN, _FILE = "run.json", "held"
_runs: dict[str, Run] = {}
_opening = threading.Lock()


def open_run(folder: str) -> Run:
    """Return the run of a folder, opened once a process."""
    with _opening:
        if folder not in _runs:
            described = read_run(Path(folder))
            if described is None:
                raise BuildError(f"{folder} is no folder of a run; build again")
            options = described["options"]
            mode: Mode = options["mode"]
            warehouse, oldest = Path(options["warehouse"]), read_moments(options["oldest"])
            serving = (options["floor"], options["pinned_build"], oldest, options["stale_if_error"])
            recorder = Recorder(warehouse, mode, *serving)
            jobs = JobsPlace(jobs_folder(warehouse, mode), Path(folder).name, warehouse)
            requests, replies = (Path(given) if given else None for given in (options["requests"], options["replies"]))
            files = RequestFiles(jobs.run, Path(folder), requests, replies) if requests or replies else None
            services = Services.open(options["world"], options["graph"], Path(options["home"]), jobs, files)
            _runs[folder] = Run(Path(folder), described["lock"], described["origin"], options, services, recorder)
        return _runs[folder]


def find_run_ages(options: RunOptions) -> dict[str, float]:
    """Return identity → seconds that a recorded reply serves a run: none too old is served unseen (engine/naming/identities.py).

    Since an earlier build everything is looked at that is older than the run, unless an age is given beside.
    """
    given = options.max_age or (NOW if options.since else None)
    return find_max_ages(load_world(options.world, options.graph), given)


def read_moments(written: Mapping[str, str]) -> dict[str, datetime]:
    """Return service → the oldest moment of replies that serve, of what stands in a run's description."""
    return {service: datetime.fromisoformat(moment) for service, moment in written.items()}


def read_run(folder: Path) -> dict[str, Any] | None:
    """Return what a run's folder says of it: lock, origin and options; None where there is nothing, or it is damaged."""
    try:
        described = json.loads((folder / RUN).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    is_whole = isinstance(described, dict) and {"lock", "origin", "options"} <= described.keys()
    return described if is_whole and isinstance(described["options"], dict) else None


def close_run(folder: str) -> None:
    """Merge and close a run's journal and stop what it started."""
    with _opening:
        run = _runs.pop(folder, None)
    if run is not None:
        try:
            run.recorder.close()
        finally:
            run.services.close()


def describe_run(folder: Path, lock: Mapping[str, Any], origin: Mapping[str, Any], options: RunOptions) -> None:
    """Write down what a run is, or what it is by now, where it goes on with one that was begun before.

    What is too old is settled once: a run that goes on after a crash keeps to it, so that its halves agree. It does not go on
    when other ages are asked for now, or when it was begun so long ago that its own replies are too old. All else is as it
    is told now: the lock leaves open how a world's services are asked, at what price, and whether any may be.
    """
    now = datetime.now(UTC)
    ages = find_run_ages(options) if options.mode == "record" else {}
    warehouse = warehouse_of(options)
    told = {"max_ages": ages, "stale_if_error": options.stale_if_error, "since": options.since, "pilot": options.pilot}
    settled = _read_settled(folder, told, now) or {
        "floor": newest_record(warehouse) if options.mode == "refresh" else "",
        "begun": now.isoformat(),
        "oldest": {service: at.isoformat() for service, at in find_oldest_moments(ages, now).items()},
        **told,
    }
    described: dict[str, Any] = {
        "lock": lock,
        "origin": origin,
        "settled": digest_json(settled),
        "options": {
            "world": options.absolute_world(),
            "graph": options.graph,
            "warehouse": str(warehouse),
            "home": str(home()),
            "mode": options.mode,
            "pinned_build": options.pinned_build,
            "requests": options.requests and str(absolute_path(options.requests)),
            "replies": options.replies and str(absolute_path(options.replies)),
            **settled,
        },
    }
    path = folder / RUN
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(described, ensure_ascii=False, indent=1), "utf-8")
    draft.replace(path)


def _read_settled(folder: Path, told: Mapping[str, Any], now: datetime) -> dict[str, Any] | None:
    """Return what the run of a folder has settled of replies, where it goes on; `told`: what is asked for now."""
    described = read_run(folder)
    if described is None:
        return None
    settled = {name: described["options"].get(name) for name in ("floor", "begun", "oldest", *told)}
    if described.get("settled") != digest_json(settled):
        return None  # it is damaged, or of another factmill
    age_s = (now - datetime.fromisoformat(settled["begun"])).total_seconds()
    goes_on = age_s <= max(min(told["max_ages"].values(), default=math.inf), _GOES_ON_S)
    return settled if goes_on and all(settled[name] == each for name, each in told.items()) else None


def run_folder(name: str, lock: Mapping[str, Any], options: RunOptions) -> Path:
    """Return the folder in which a build with this lock is made; `name`: the benchmark's."""
    run_id = f"{name}-{digest_json(lock)[:12]}" + ("-refresh" if options.mode == "refresh" else "")
    run_id += f"-pilot{options.pilot}" if options.pilot else ""
    return work_folder(warehouse_of(options)) / run_id


def hold(folder: Path, doing: str = "making this very build") -> int:
    """Hold a folder until the descriptor that is returned is closed; BuildHeld when another process does.

    `doing`: what that one then does.
    """
    fd = os.open(folder / _FILE, os.O_CREAT | os.O_RDWR, 0o644)
    if not lock_now(fd):
        holder = os.read(fd, 32).decode("ascii", "replace") or "unknown"
        os.close(fd)
        raise BuildHeld(f"process {holder} is {doing} in {folder}; wait for it or stop it")
    os.ftruncate(fd, 0)
    os.write(fd, str(os.getpid()).encode())
    return fd


@contextmanager
def holding(folder: Path, doing: str) -> Iterator[None]:
    """Hold a folder, which is made if need be, for as long as something is done; BuildHeld when another process does it."""
    make_work_folder(folder)
    fd = hold(folder, doing)
    try:
        yield
    finally:
        os.close(fd)


def refuse_held(folder: Path) -> None:
    """BuildHeld when a process makes the build of a run folder just now."""
    if (folder / _FILE).is_file():
        os.close(hold(folder))


def forget_finished(folder: Path) -> None:
    """Remove the run folder of a build that is published, as a process that was stopped just then leaves it."""
    if folder.is_dir():
        try:
            holder = hold(folder)
        except (BuildError, OSError):
            return  # it is being made anew, or cannot be written
        shutil.rmtree(folder, ignore_errors=True)
        os.close(holder)
