"""Where what a run works with lies, beside its warehouse."""

from pathlib import Path

from tasks.core.calls.call import Mode


def jobs_folder(warehouse: Path, mode: Mode) -> Path:
    """Return the folder of what is known of batch jobs; a refresh goes on with its own alone."""
    return work_folder(warehouse) / ("jobs-refresh" if mode == "refresh" else "jobs")


def work_folder(warehouse: Path) -> Path:
    """Return the folder for journals and run files beside a warehouse."""
    return (
        warehouse.parent / "runs"
        if warehouse.name == "factmill.duckdb"
        else warehouse.with_name(warehouse.name + ".runs")
    )
