"""Labels of items and properties, through the recorder: a look-up that several steps make."""

from collections.abc import Iterable

from tasks.batches import Work
from tasks.core.knowledge import call_label


def look_up_labels(
    work: Work, asked: Iterable[tuple[str, str]], language: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Return id → label of every (row id, item or property), and row id → why its labels cannot be had."""
    service = work.run.services.wikidata
    pairs = [(row_id, each, call_label(service.identity, each, language)) for row_id, each in dict.fromkeys(asked)]
    records = work.call(service, ((row_id, call) for row_id, _, call in pairs))
    labels: dict[str, str] = {}
    failed: dict[str, str] = {}
    for row_id, each, call in pairs:
        reply = records[call.key].reply()
        if reply.status != "ok":
            failed[row_id] = reply.error or "no reason given"
        elif reply.body is not None:
            labels[each] = str(reply.body)
    return labels, failed
