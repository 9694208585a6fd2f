"""Where what a run works with lies, beside its warehouse."""

import os
from pathlib import Path

from factmill.tasks.core.calls.call import Mode


def jobs_folder(warehouse: Path, mode: Mode) -> Path:
    """Return the folder of what is known of batch jobs; a refresh goes on with its own alone."""
    return work_folder(warehouse) / ("jobs-refresh" if mode == "refresh" else "jobs")


def make_work_folder(folder: Path) -> None:
    """Make a folder in a work folder. A new work folder is for its user alone: what lies in it, prompts and replies, is too."""
    folder.parent.parent.mkdir(parents=True, exist_ok=True)
    folder.parent.mkdir(0o700, exist_ok=True)
    folder.mkdir(exist_ok=True)


def work_folder(warehouse: Path) -> Path:
    """Return the folder for journals and run files beside a warehouse; this user's own where another user's is closed to others."""
    folder = (
        warehouse.parent / "runs"
        if warehouse.name == "factmill.duckdb"
        else warehouse.with_name(warehouse.name + ".runs")
    )
    is_closed = folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK)
    return folder.with_name(f"{folder.name}-{os.getuid()}") if is_closed else folder
