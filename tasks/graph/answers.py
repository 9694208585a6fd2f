"""How a local graph answers the calls of core/calls/knowledge.py: the graph as the Wikidata of a build.

All calls of one operation and language are one look-up. A call that cannot be answered fails alone, with a reason.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tasks.core.calls.call import Call, Deliver, Reply
from tasks.core.calls.knowledge import write_facts
from tasks.core.fingerprints import Json
from tasks.text.ids import is_pid, is_qid

if TYPE_CHECKING:
    from tasks.graph.lookup import Graph

Parts = Mapping[str, Any]


def answer_calls(graph: "Graph", calls: Sequence[Call], deliver: Deliver) -> None:
    """Deliver a reply to each call."""
    groups: dict[tuple[str, str], list[Call]] = {}
    for call in calls:
        problem = _find_problem(graph, call)
        if problem:
            deliver(call, Reply(None, "failed", problem))
        else:
            groups.setdefault((call.operation, str(call.parts["language"])), []).append(call)
    for (operation, language), group in groups.items():
        started = time.perf_counter()
        bodies = _ANSWERS[operation](graph, [call.parts for call in group], language)
        latency_s = (time.perf_counter() - started) / len(group)
        for call, body in zip(group, bodies, strict=True):
            deliver(call, Reply(body, latency_s=latency_s))


def _find_problem(graph: "Graph", call: Call) -> str | None:
    """Return why a call cannot be answered, as a code and what was wrong, or None."""
    if call.operation not in _ANSWERS:
        return f"unknown_operation: {call.operation}: a graph answers {', '.join(sorted(_ANSWERS))}"
    if problem := _find_wrong_part(call):
        return f"bad_call: {call.operation}: {problem}"
    problem = graph.find_language_problem(str(call.parts["language"]))
    if problem and call.operation not in ("list_facts", "resolve_item"):
        return f"language_missing: {problem}"
    return None


def _answer_find_items(graph: "Graph", parts: Sequence[Parts], language: str) -> list[Json]:
    found = graph.find([each["name"] for each in parts], language)
    return [[{"qid": item.qid, "via": item.via} for item in found[each["name"]]] for each in parts]


def _answer_describe_items(graph: "Graph", parts: Sequence[Parts], language: str) -> list[Json]:
    found = graph.describe([each["qid"] for each in parts], language)
    return [asdict(found[each["qid"]]) for each in parts]


def _answer_label(graph: "Graph", parts: Sequence[Parts], language: str) -> list[Json]:
    found = graph.labels([each["id"] for each in parts], language)
    return [found.get(each["id"]) for each in parts]


def _answer_resolve_item(graph: "Graph", parts: Sequence[Parts], _language: str) -> list[Json]:
    found = graph.resolve([each["qid"] for each in parts])
    return [found[each["qid"]] for each in parts]


def _answer_neighbours(graph: "Graph", parts: Sequence[Parts], language: str) -> list[Json]:
    found = graph.neighbours_of_each([(each["qid"], each["pids"]) for each in parts], language)
    return [[{"pid": edge.pid, "qid": edge.qid, "label": edge.label} for edge in edges] for edges in found]


def _answer_list_facts(graph: "Graph", parts: Sequence[Parts], _language: str) -> list[Json]:
    facts = [graph.list_facts(each["pid"], each["after"], each["limit"]) for each in parts]
    return [[{"subject": subject, "object": thing} for subject, thing in page] for page in facts]


def _answer_item_facts(graph: "Graph", parts: Sequence[Parts], language: str) -> list[Json]:
    found = graph.item_facts([each["qid"] for each in parts], language)
    return [write_facts(found[each["qid"]]) for each in parts]


_ANSWERS: dict[str, Callable[["Graph", Sequence[Parts], str], list[Json]]] = {
    "find_items": _answer_find_items,
    "describe_items": _answer_describe_items,
    "label": _answer_label,
    "resolve_item": _answer_resolve_item,
    "neighbours": _answer_neighbours,
    "list_facts": _answer_list_facts,
    "item_facts": _answer_item_facts,
}
_PARTS = {
    "find_items": ("name", "language"),
    "describe_items": ("qid", "language"),
    "label": ("id", "language"),
    "resolve_item": ("qid", "language"),
    "neighbours": ("qid", "pids", "language"),
    "list_facts": ("pid", "after", "limit", "language"),
    "item_facts": ("qid", "language"),
}
_IS_RIGHT: dict[str, Callable[[Any], bool]] = {
    "language": lambda value: isinstance(value, str),
    "name": lambda value: isinstance(value, str),
    "qid": lambda value: isinstance(value, str) and is_qid(value),
    "id": lambda value: isinstance(value, str) and (is_qid(value) or is_pid(value)),
    "pid": lambda value: isinstance(value, str) and is_pid(value),
    "pids": lambda value: isinstance(value, list) and all(isinstance(pid, str) and is_pid(pid) for pid in value),
    "after": lambda value: value is None or (isinstance(value, str) and is_qid(value)),
    "limit": lambda value: isinstance(value, int) and value > 0,
}


def _find_wrong_part(call: Call) -> str | None:
    for part in _PARTS[call.operation]:
        if part not in call.parts:
            return f"{part} is missing"
        if not _IS_RIGHT[part](call.parts[part]):
            return f"{part} cannot be {call.parts[part]!r}"
    return None
