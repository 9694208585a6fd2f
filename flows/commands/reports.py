"""`factmill report`: what was measured, as files to read."""

import json
from collections.abc import Sequence
from pathlib import Path

from flows.commands.evaluate import read_metrics
from tasks.errors import OutputError


def report_evaluations(warehouse: Path, evaluation_ids: Sequence[str], folder: Path) -> list[Path]:
    """Write the report of evaluations into a folder and return its files."""
    rows = [metric.model_dump() for each in evaluation_ids for metric in read_metrics(warehouse, each)]
    path = folder / f"{evaluation_ids[0]}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"metrics": rows}, ensure_ascii=False, indent=1), "utf-8")
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}; name another folder with --reports") from error
    return [path]
