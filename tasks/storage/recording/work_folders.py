"""Folders next to a warehouse that hold runs' working files: journals, batch jobs, stages."""

import os
from pathlib import Path

from factmill.tasks.core.calls.call import CallCacheMode


def batch_jobs_folder(warehouse: Path, mode: CallCacheMode) -> Path:
    """Return the folder with the state of batch jobs; mode `refresh` has one of its own."""
    return work_folder(warehouse) / ("jobs-refresh" if mode == "refresh" else "jobs")


def make_folder_inside_work_folder(folder: Path) -> None:
    """Create a folder in a work folder. A new work folder, and so its prompts and replies, is readable only by its user."""
    folder.parent.parent.mkdir(parents=True, exist_ok=True)
    folder.parent.mkdir(0o700, exist_ok=True)
    folder.mkdir(exist_ok=True)


def work_folder(warehouse: Path) -> Path:
    """Return the folder for journals and run files next to a warehouse; one per user if another user's is not accessible."""
    folder = (
        warehouse.parent / "runs"
        if warehouse.name == "factmill.duckdb"
        else warehouse.with_name(warehouse.name + ".runs")
    )
    is_closed = folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK)
    return folder.with_name(f"{folder.name}-{os.getuid()}") if is_closed else folder
