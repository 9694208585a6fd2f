"""Look up labels, descriptions and aliases of items and properties, through the call cache."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from factmill.tasks.core.calls.knowledge import (
    Candidate,
    Description,
    call_aliases,
    call_describe_item,
    call_find_items,
    call_label,
    read_aliases,
    read_candidates,
    read_description,
    read_label,
)
from factmill.tasks.core.rows import Reject
from factmill.tasks.engine.batches import Work

V = TypeVar("V")


def look_up_labels(
    work: Work, asked: Iterable[tuple[str, str]], language: str
) -> tuple[dict[str, str], dict[str, Reject]]:
    """Return id → label, for every (row id, id of an item or property), and row id → Reject for failed look-ups."""
    service = work.run.services.wikidata
    calls = ((row_id, each, call_label(service.identity, each, language)) for row_id, each in dict.fromkeys(asked))
    found, failed = work.look_up(service, calls, read_label)
    return {each: label for each, label in found.items() if label is not None}, failed


def look_up_items(work: Work, asked: Iterable[tuple[str, str]]) -> tuple[dict[str, Description], dict[str, Reject]]:
    """Return QID → English label, description and article, for every (row id, QID), and row id → Reject on failure."""
    return _look_up_items(work, asked, read_description)


def look_up_names(work: Work, asked: Iterable[tuple[str, str]]) -> tuple[dict[str, str | None], dict[str, Reject]]:
    """Return QID → English label or None, by the same calls as `look_up_items`, and row id → Reject on failure."""
    return _look_up_items(work, asked, lambda body: read_description(body).label)


def look_up_aliases(work: Work, asked: Iterable[tuple[str, str]]) -> tuple[dict[str, list[str]], dict[str, Reject]]:
    """Return QID → sorted English aliases, for every (row id, QID), and row id → Reject on failure."""
    service = work.run.services.wikidata
    calls = ((row_id, qid, call_aliases(service.identity, qid)) for row_id, qid in asked)
    return work.look_up(service, calls, read_aliases)


def look_up_bearers(
    work: Work, asked: Iterable[tuple[str, str]]
) -> tuple[dict[str, list[Candidate]], dict[str, Reject]]:
    """Return name → items with that exact English label or alias, for every (row id, name), and row id → Reject on failure."""
    service = work.run.services.wikidata
    calls = ((row_id, name, call_find_items(service.identity, name)) for row_id, name in asked)
    return work.look_up(service, calls, read_candidates)


def _look_up_items(
    work: Work, asked: Iterable[tuple[str, str]], read: Callable[[Any], V]
) -> tuple[dict[str, V], dict[str, Reject]]:
    service = work.run.services.wikidata
    calls = ((row_id, qid, call_describe_item(service.identity, qid)) for row_id, qid in asked)
    return work.look_up(service, calls, read)
