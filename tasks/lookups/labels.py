"""Look up labels, descriptions and aliases of items and properties, through the call cache."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from factmill.tasks.core.calls.wikidata import (
    ItemDescription,
    ItemMatchedByName,
    make_aliases_call,
    make_describe_item_call,
    make_find_items_call,
    make_label_call,
    parse_aliases,
    parse_item_candidates,
    parse_item_description,
    parse_label_call_body,
)
from factmill.tasks.core.rows import Reject
from factmill.tasks.engine.batches import BatchInProgress

V = TypeVar("V")


def look_up_labels_by_entity_id(
    work: BatchInProgress, row_entity_pairs: Iterable[tuple[str, str]], language: str
) -> tuple[dict[str, str], dict[str, Reject]]:
    """Return id → label, for every (row id, id of an item or property), and row id → Reject for failed look-ups."""
    service = work.run.services.wikidata
    pairs = dict.fromkeys(row_entity_pairs)
    calls = ((row_id, each, make_label_call(service.identity, each, language)) for row_id, each in pairs)
    found, failed = work.call_and_parse(service, calls, parse_label_call_body)
    return {each: label for each, label in found.items() if label is not None}, failed


def look_up_item_descriptions_by_qid(
    work: BatchInProgress, row_qid_pairs: Iterable[tuple[str, str]]
) -> tuple[dict[str, ItemDescription], dict[str, Reject]]:
    """Return QID → English label, description and article, for every (row id, QID), and row id → Reject on failure."""
    return _describe_and_parse_items_by_qid(work, row_qid_pairs, parse_item_description)


def look_up_item_names_by_qid(
    work: BatchInProgress, row_qid_pairs: Iterable[tuple[str, str]]
) -> tuple[dict[str, str | None], dict[str, Reject]]:
    """Return QID → English label or None, by the same calls as `look_up_item_descriptions_by_qid`, and row id → Reject on failure."""
    return _describe_and_parse_items_by_qid(work, row_qid_pairs, lambda body: parse_item_description(body).label)


def look_up_aliases_by_qid(
    work: BatchInProgress, row_qid_pairs: Iterable[tuple[str, str]]
) -> tuple[dict[str, list[str]], dict[str, Reject]]:
    """Return QID → sorted English aliases, for every (row id, QID), and row id → Reject on failure."""
    service = work.run.services.wikidata
    calls = ((row_id, qid, make_aliases_call(service.identity, qid)) for row_id, qid in row_qid_pairs)
    return work.call_and_parse(service, calls, parse_aliases)


def look_up_item_candidates_by_name(
    work: BatchInProgress, row_name_pairs: Iterable[tuple[str, str]]
) -> tuple[dict[str, list[ItemMatchedByName]], dict[str, Reject]]:
    """Return name → items with that exact English label or alias, for every (row id, name), and row id → Reject on failure."""
    service = work.run.services.wikidata
    calls = ((row_id, name, make_find_items_call(service.identity, name)) for row_id, name in row_name_pairs)
    return work.call_and_parse(service, calls, parse_item_candidates)


def _describe_and_parse_items_by_qid(
    work: BatchInProgress, row_qid_pairs: Iterable[tuple[str, str]], parse_description: Callable[[Any], V]
) -> tuple[dict[str, V], dict[str, Reject]]:
    service = work.run.services.wikidata
    calls = ((row_id, qid, make_describe_item_call(service.identity, qid)) for row_id, qid in row_qid_pairs)
    return work.call_and_parse(service, calls, parse_description)
