"""Labels of items and properties, through the recorder: a look-up that several steps make."""

from collections.abc import Iterable
from typing import Any

from tasks.core.calls.knowledge import call_label
from tasks.core.rows import Reject
from tasks.engine.batches import Work


def look_up_labels(
    work: Work, asked: Iterable[tuple[str, str]], language: str
) -> tuple[dict[str, str], dict[str, Reject]]:
    """Return id → label of every (row id, item or property), and row id → Reject where its labels cannot be had."""
    service = work.run.services.wikidata
    calls = ((row_id, each, call_label(service.identity, each, language)) for row_id, each in dict.fromkeys(asked))
    found, failed = work.look_up(service, calls, _read_label)
    return {each: label for each, label in found.items() if label is not None}, failed


def _read_label(body: Any) -> str | None:
    return None if body is None else str(body)
