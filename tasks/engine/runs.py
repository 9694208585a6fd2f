"""Runs: what a process has open while it works on a build.

A run is opened once a process, from the folder that a batch names, so tasks work in the flow's own process and in a
worker's alike.
"""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tasks.core.calls.call import Mode
from tasks.engine.services import Services
from tasks.errors import BuildError
from tasks.storage.recorder import Recorder


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


_runs: dict[str, Run] = {}
_opening = threading.Lock()


def open_run(folder: str) -> Run:
    """Return the run of a folder, opened once a process."""
    with _opening:
        if folder not in _runs:
            path = Path(folder) / "run.json"
            if not path.is_file():
                raise BuildError(f"{folder} is no folder of a run; build again")
            described = json.loads(path.read_text("utf-8"))
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
            services = Services.open(options["world"], options["graph"], Path(options["home"]))
            _runs[folder] = Run(Path(folder), described["lock"], described["origin"], options, services, recorder)
        return _runs[folder]


def read_moments(written: Mapping[str, str]) -> dict[str, datetime]:
    """Return service → the oldest moment of replies that serve, of what stands in a run's description."""
    return {service: datetime.fromisoformat(moment) for service, moment in written.items()}


def close_run(folder: str) -> None:
    """Merge and close a run's journal and stop what it started."""
    with _opening:
        run = _runs.pop(folder, None)
    if run is not None:
        try:
            run.recorder.close()
        finally:
            run.services.close()
