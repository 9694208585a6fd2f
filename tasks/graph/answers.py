"""How a local graph answers the calls of core/calls/knowledge.py: the graph as the Wikidata of a build.

All calls of one operation and language are one look-up. A call that cannot be answered fails alone, with a reason.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tasks.core.calls.call import Call, Deliver, Reply
from tasks.core.fingerprints import Json
from tasks.text.ids import is_pid, is_qid

Parts = Mapping[str, Any]
Answer = Callable[[Sequence[Parts], str], list[Json]]
"""Parts of the calls of one operation, and their language → a body each."""
FindProblem = Callable[[str], str | None]
"""Language → why it cannot be asked for, or None."""


def answer_calls(
    calls: Sequence[Call], deliver: Deliver, answers: Mapping[str, Answer], find_language_problem: FindProblem
) -> None:
    """Deliver a reply to each call; `answers`: operation → what answers its calls."""
    groups: dict[tuple[str, str], list[Call]] = {}
    for call in calls:
        problem = _find_problem(call, find_language_problem)
        if problem:
            deliver(call, Reply(None, "failed", problem))
        else:
            groups.setdefault((call.operation, str(call.parts["language"])), []).append(call)
    for (operation, language), group in groups.items():
        started = time.perf_counter()
        bodies = answers[operation]([call.parts for call in group], language)
        latency_s = (time.perf_counter() - started) / len(group)
        for call, body in zip(group, bodies, strict=True):
            deliver(call, Reply(body, latency_s=latency_s))


def _find_problem(call: Call, find_language_problem: FindProblem) -> str | None:
    """Return why a call cannot be answered, as a code and what was wrong, or None."""
    if call.operation not in _PARTS:
        return f"unknown_operation: {call.operation}: a graph answers {', '.join(sorted(_PARTS))}"
    if problem := _find_wrong_part(call):
        return f"bad_call: {call.operation}: {problem}"
    problem = find_language_problem(str(call.parts["language"]))
    if problem and call.operation not in ("list_facts", "resolve_item"):
        return f"language_missing: {problem}"
    return None


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
