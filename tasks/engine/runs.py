"""Runs: what a process has open while it works on a build.

A run is opened once a process, from the folder that a batch names, so tasks work in the flow's own process and in a
worker's alike.
"""

import json
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tasks.clients.batch_jobs.job_files import JobsPlace
from tasks.clients.batch_jobs.request_files import RequestFiles
from tasks.core.calls.call import Mode
from tasks.core.fingerprints import digest_json
from tasks.core.spending.forecasting import count_characters
from tasks.engine.naming.identities import find_max_ages, find_oldest_moments
from tasks.engine.services import Services
from tasks.errors import BuildError
from tasks.files import absolute_path
from tasks.options import RunOptions, warehouse_of
from tasks.settings import home, load_world
from tasks.storage.recording.folders import jobs_folder
from tasks.storage.recording.recorder import Recorder
from tasks.storage.recording.records import newest_record

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


RUN = "run.json"
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
            recorder = Recorder(
                Path(options["warehouse"]),
                mode,
                options["floor"],
                options["pinned_build"],
                read_moments(options["oldest"]),
                options["stale_if_error"],
            )
            warehouse = Path(options["warehouse"])
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
    before = described["options"]
    if described.get("settled") != digest_json(
        {name: before.get(name) for name in ("floor", "begun", "oldest", *told)}
    ):
        return None  # it is damaged, or of another factmill
    age_s = (now - datetime.fromisoformat(before["begun"])).total_seconds()
    goes_on = age_s <= max(min(told["max_ages"].values(), default=math.inf), _GOES_ON_S)
    if not goes_on or any(before.get(name) != each for name, each in told.items()):
        return None
    return {name: before[name] for name in ("floor", "begun", "oldest", *told)}
