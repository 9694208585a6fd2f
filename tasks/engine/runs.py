"""Runs: the state that a process holds while it works on a build, and the run lock that admits one process at a time.

Each process opens a run once, from the folder that a batch names, so tasks work both in the flow's process and in a
worker's.
"""

import json
import math
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from factmill.tasks.clients.batch_jobs.job_files import BatchJobsFolderAndRun
from factmill.tasks.clients.batch_jobs.offline_batches import OfflineRequestAndReplyFilesOfRun
from factmill.tasks.core.calls.call import CallCacheMode
from factmill.tasks.core.digests import digest_json
from factmill.tasks.core.prompts import PromptTemplate
from factmill.tasks.core.spending.forecasting import count_characters_of_row_as_text
from factmill.tasks.engine.naming.identities import compute_oldest_valid_reply_times, resolve_reply_max_ages_by_identity
from factmill.tasks.engine.services import WorldServices
from factmill.tasks.errors import BuildAlreadyRunning, BuildError
from factmill.tasks.files import resolve_absolute_path
from factmill.tasks.options import RunOptions, resolve_warehouse_path
from factmill.tasks.own_prompts import parse_own_prompts
from factmill.tasks.processes import try_lock_file
from factmill.tasks.settings import factmill_home, load_world
from factmill.tasks.storage.recording.call_cache import CallCache
from factmill.tasks.storage.recording.call_records import load_newest_record_id
from factmill.tasks.storage.recording.work_folders import batch_jobs_folder, make_folder_inside_work_folder, work_folder
from factmill.tasks.storage.source_files import SourceFile

M = TypeVar("M", bound=BaseModel)
ZERO_AGE = "0s"
_RESUME_WITHIN_S = 86_400.0
"""Seconds within which a stopped run can resume, even if replies must be younger than that."""


@dataclass(slots=True)
class BuildRun:
    """One run of a build in this process."""

    folder: Path
    manifest: dict[str, Any]
    origin: dict[str, Any]
    """Where the inputs were found (paths); not part of the manifest."""
    options: dict[str, Any]
    services: WorldServices
    call_cache: CallCache
    inputs: Any = None
    """The manifest's inputs as the model that steps use; cached after the first read."""
    pilot_strata_columns: tuple[str, ...] = ()
    """Columns whose values are as frequent in a pilot as in all rows."""
    pilot_balance_column: str = ""
    """Column for which a pilot draws equally many rows of each value together."""
    pilot_size: Callable[[Mapping[str, Any]], int] = count_characters_of_row_as_text
    """Row → its size, proportional to the calls it needs."""
    own_prompts: Mapping[str, PromptTemplate] = field(default_factory=dict)
    """Id → prompt of the user's own that the run uses in place of the packaged one."""

    def read_inputs(self, model: type[M]) -> M:
        """Return the build's inputs as recorded in its manifest."""
        if not isinstance(self.inputs, model):
            self.inputs = model.model_validate(self.manifest["params"])
        return self.inputs

    def source_files(self, unit: str) -> list[SourceFile]:
        """Return the files of a source unit."""
        found = self.origin["files"].get(unit, ())
        return [SourceFile(Path(path), name, sha256, licence) for path, name, sha256, licence in found]


RUN_FILE, _LOCK_FILE = "run.json", "held"
_open_runs: dict[str, BuildRun] = {}
_opening_lock = threading.Lock()


def open_run(folder: str) -> BuildRun:
    """Return the run of a folder, opened once per process."""
    with _opening_lock:
        if folder not in _open_runs:
            described = load_run_description(Path(folder))
            if described is None:
                raise BuildError(f"{folder} is not a run folder; build again")
            options = described["options"]
            mode: CallCacheMode = options["mode"]
            warehouse, oldest = Path(options["warehouse"]), parse_oldest_valid_reply_times(options["oldest"])
            serving = (options["floor"], options["pinned_build"], oldest, options["stale_if_error"])
            recorder = CallCache(warehouse, mode, *serving)
            jobs = BatchJobsFolderAndRun(batch_jobs_folder(warehouse, mode), Path(folder).name, warehouse)
            requests, replies = (Path(given) if given else None for given in (options["requests"], options["replies"]))
            files = (
                OfflineRequestAndReplyFilesOfRun(jobs.run, Path(folder), requests, replies)
                if requests or replies
                else None
            )
            services = WorldServices.open(options["world"], options["graph"], Path(options["home"]), jobs, files)
            run = BuildRun(Path(folder), described["lock"], described["origin"], options, services, recorder)
            run.own_prompts = _parse_recorded_own_prompts(described["lock"], described["origin"])
            _open_runs[folder] = run
        return _open_runs[folder]


def _parse_recorded_own_prompts(lock: Mapping[str, Any], origin: Mapping[str, Any]) -> dict[str, PromptTemplate]:
    """Return the own prompts of a run from the texts in its description; BuildError unless they are those of its manifest."""
    own = parse_own_prompts(origin.get("prompts", {}))
    for name, prompt in own.items():
        if lock["prompts"].get(name) != prompt.digest:
            raise BuildError(f"the prompt {name} was edited while the build began; run the same command again")
    return own


def resolve_run_reply_max_ages(options: RunOptions) -> dict[str, float]:
    """Return service identity → seconds until a recorded reply expires for a run (engine/naming/identities.py).

    With `--since`, every reply older than the run is revalidated, unless a maximum age is given too.
    """
    given = options.max_age or (ZERO_AGE if options.since else None)
    return resolve_reply_max_ages_by_identity(load_world(options.world, options.graph), given)


def parse_oldest_valid_reply_times(times_by_service: Mapping[str, str]) -> dict[str, datetime]:
    """Return service → earliest time of a valid reply, parsed from a run's description."""
    return {service: datetime.fromisoformat(moment) for service, moment in times_by_service.items()}


def load_run_description(folder: Path) -> dict[str, Any] | None:
    """Return a run folder's description (manifest, origin, options); None if it is missing or damaged."""
    try:
        described = json.loads((folder / RUN_FILE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    is_whole = isinstance(described, dict) and {"lock", "origin", "options"} <= described.keys()
    return described if is_whole and isinstance(described["options"], dict) else None


def close_run(folder: str) -> None:
    """Merge and close a run's journal, and close its services."""
    with _opening_lock:
        run = _open_runs.pop(folder, None)
    if run is not None:
        try:
            run.call_cache.close()
        finally:
            run.services.close()


def write_run_description(
    folder: Path, manifest: Mapping[str, Any], origin: Mapping[str, Any], options: RunOptions
) -> None:
    """Write the description of a new run, or update that of a resumed one.

    Expiry times are set once: a run resumed after a crash keeps them, so that its parts agree. A run cannot be resumed if
    other maximum ages are requested now, or if it began so long ago that its own replies have expired. Everything else
    follows the current options: the manifest does not fix how a world's services are accessed, at what price, or whether
    access is allowed.
    """
    now = datetime.now(UTC)
    ages = resolve_run_reply_max_ages(options) if options.mode == "record" else {}
    warehouse = resolve_warehouse_path(options)
    requested = {
        "max_ages": ages,
        "stale_if_error": options.stale_if_error,
        "since": options.since,
        "pilot": options.pilot,
    }
    expiry_options = _load_resumable_expiry_options(folder, requested, now) or {
        "floor": load_newest_record_id(warehouse) if options.mode == "refresh" else "",
        "begun": now.isoformat(),
        "oldest": {service: at.isoformat() for service, at in compute_oldest_valid_reply_times(ages, now).items()},
        **requested,
    }
    described: dict[str, Any] = {
        "lock": manifest,
        "origin": origin,
        "settled": digest_json(expiry_options),
        "options": {
            "world": options.resolve_world_path(),
            "graph": options.graph,
            "warehouse": str(warehouse),
            "home": str(factmill_home()),
            "mode": options.mode,
            "pinned_build": options.pinned_build,
            "requests": options.requests and str(resolve_absolute_path(options.requests)),
            "replies": options.replies and str(resolve_absolute_path(options.replies)),
            **expiry_options,
        },
    }
    path = folder / RUN_FILE
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(described, ensure_ascii=False, indent=1), "utf-8")
    draft.replace(path)


def _load_resumable_expiry_options(folder: Path, requested: Mapping[str, Any], now: datetime) -> dict[str, Any] | None:
    """Return the expiry options of a run that can be resumed, else None; `requested`: the options requested now."""
    described = load_run_description(folder)
    if described is None:
        return None
    expiry_options = {name: described["options"].get(name) for name in ("floor", "begun", "oldest", *requested)}
    if described.get("settled") != digest_json(expiry_options):
        return None  # damaged, or of another factmill
    age_s = (now - datetime.fromisoformat(expiry_options["begun"])).total_seconds()
    goes_on = age_s <= max(min(requested["max_ages"].values(), default=math.inf), _RESUME_WITHIN_S)
    return expiry_options if goes_on and all(expiry_options[name] == each for name, each in requested.items()) else None


def get_run_folder_path(name: str, manifest: Mapping[str, Any], options: RunOptions) -> Path:
    """Return the run folder of a build with this manifest; `name`: the benchmark's."""
    run_id = f"{name}-{digest_json(manifest)[:12]}" + ("-refresh" if options.mode == "refresh" else "")
    run_id += f"-pilot{options.pilot}" if options.pilot else ""
    return work_folder(resolve_warehouse_path(options)) / run_id


def acquire_run_lock(folder: Path, activity: str = "making the same build") -> int:
    """Acquire a folder's run lock and return its descriptor, which releases it when closed.

    BuildAlreadyRunning if another process has the lock; `activity`: what that process is then said to do.
    """
    fd = os.open(folder / _LOCK_FILE, os.O_CREAT | os.O_RDWR, 0o644)
    if not try_lock_file(fd):
        holder = os.read(fd, 32).decode("ascii", "replace") or "unknown"
        os.close(fd)
        raise BuildAlreadyRunning(f"process {holder} is {activity} in {folder}; wait until it ends, or stop it")
    os.ftruncate(fd, 0)
    os.write(fd, str(os.getpid()).encode())
    return fd


@contextmanager
def run_lock(folder: Path, activity: str) -> Iterator[None]:
    """Hold a folder's run lock within the context, creating the folder if needed; BuildAlreadyRunning if another process has it."""
    make_folder_inside_work_folder(folder)
    fd = acquire_run_lock(folder, activity)
    try:
        yield
    finally:
        os.close(fd)


def check_run_unlocked(folder: Path) -> None:
    """Raise BuildAlreadyRunning if a process is now making the build of a run folder."""
    if (folder / _LOCK_FILE).is_file():
        os.close(acquire_run_lock(folder))


def remove_finished_run_folder(folder: Path) -> None:
    """Remove the run folder of a published build, left by a process that was stopped just after publishing."""
    if folder.is_dir():
        try:
            holder = acquire_run_lock(folder)
        except (BuildError, OSError):
            return  # in use by another build, or not writable
        shutil.rmtree(folder, ignore_errors=True)
        os.close(holder)
