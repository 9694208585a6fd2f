"""Where what a run works with lies, beside its warehouse."""

from pathlib import Path

from tasks.core.calls.call import Mode


def jobs_folder(warehouse: Path, mode: Mode) -> Path:
    """Return the folder of what is known of batch jobs; a refresh goes on with its own alone."""
    return work_folder(warehouse) / ("jobs-refresh" if mode == "refresh" else "jobs")


def make_work_folder(folder: Path) -> None:
    """Make a folder in a work folder. A new work folder is for its user alone, as its warehouse is, unless that one has been opened
    to others."""
    work = folder.parent
    warehouse = work.with_name("factmill.duckdb") if work.name == "runs" else work.with_suffix("")
    if not work.is_dir():
        is_shared = warehouse.exists() and bool(warehouse.stat().st_mode & 0o077)
        work.parent.mkdir(parents=True, exist_ok=True)
        work.mkdir(0o777 if is_shared else 0o700, exist_ok=True)
    folder.mkdir(exist_ok=True)


def work_folder(warehouse: Path) -> Path:
    """Return the folder for journals and run files beside a warehouse."""
    return (
        warehouse.parent / "runs"
        if warehouse.name == "factmill.duckdb"
        else warehouse.with_name(warehouse.name + ".runs")
    )
