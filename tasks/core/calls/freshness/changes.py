"""What a recorded reply rests on, and whether that has changed since the reply came.

A reply rests on things: what an item says, what an item or property is called, where a title leads. Services are asked
for the state of many things in one request:

| operation | parts | body of the reply |
|---|---|---|
| item_states | ids (sorted), language, on | id → `{"modified", "version", "label"}`, each null when unknown |
| page_states | titles (sorted), follow, on | title → `{"title", "pageid", "missing", "redirected_from", "revid", "timestamp", "qid", "is_disambiguation"}`; null for no title of a page |

`on` is the moment (ISO 8601, UTC) from which on the state is wanted: a later look is another call. `revid` and
`timestamp` are those of the page's newest revision (lastrevid).

A service may answer from a copy that lags behind: what was changed shortly before a reply came may not be in it. So a
thing counts as unchanged only when its last change lies LAG before the reply. What a reply says itself (a label, an
item's date of change, where a title leads) is compared instead, and needs no such margin.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from urllib.parse import quote

from tasks.core.calls.call import Call

LAG = timedelta(days=1)
MOST_THINGS = 50
"""Of one request."""
_LONGEST_TITLES = 5000

Kind = Literal["item", "label", "page"]


@dataclass(frozen=True, slots=True)
class Thing:
    """One thing that a reply rests on."""

    kind: Kind
    name: str
    """QID, PID or title."""
    how: str = ""
    """Language of a label; `follow` or `stay` of a title: whether redirects are followed."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a recorded reply would come again."""

    is_unchanged: bool | None
    """None: that cannot be told."""
    why: str
    """What shows it, or why nothing does."""


States = Mapping[Thing, Any]
"""Thing → its part of the body of item_states or page_states; a thing that nothing was told of is absent."""


def call_item_states(service: str, ids: Iterable[str], language: str, on: str) -> Call:
    """Ask when items were last changed and what they and properties are called, of up to MOST_THINGS."""
    return Call(service, "item_states", {"ids": sorted(ids), "language": language, "on": on})


def call_page_states(service: str, titles: Iterable[str], follow: bool, on: str) -> Call:
    """Ask where titles lead and which revision of it is the newest, of up to MOST_THINGS."""
    return Call(service, "page_states", {"titles": sorted(titles), "follow": follow, "on": on})


def list_looks(
    wikidata: str, wikipedia: str, things: Iterable[Thing], most: int, on: str
) -> list[tuple[Call, list[Thing]]]:
    """Return the calls that ask for the states of things, each with the things that it tells of; `most`: of one call."""
    items: dict[str, dict[str, list[Thing]]] = {}
    pages: dict[str, dict[str, list[Thing]]] = {}
    for thing in things:
        if thing.kind == "page":
            pages.setdefault(thing.how, {}).setdefault(thing.name, []).append(thing)
        else:
            items.setdefault(thing.how or "en", {}).setdefault(thing.name, []).append(thing)
    looks = []
    for language, by_id in sorted(items.items()):
        for group in _pack(by_id, most):
            looks.append(
                (call_item_states(wikidata, group, language, on), [each for name in group for each in by_id[name]])
            )
    for how, by_title in sorted(pages.items()):
        for group in _pack(by_title, most):
            call = call_page_states(wikipedia, group, how == "follow", on)
            looks.append((call, [each for name in group for each in by_title[name]]))
    return looks


def read_states(body: Any, things: Sequence[Thing]) -> dict[Thing, Any]:
    """Return what a reply to item_states or page_states says of each thing that was asked for."""
    return {thing: body[thing.name] for thing in things}


def rests_on(operation: str, parts: Mapping[str, Any], body: Any) -> list[Thing] | None:
    """Return what a reply rests on; None: on more than can be looked at.

    Who bears a name, is in a class or a category, is found by words or how often a page was viewed can change without
    any change of what the reply names, and a path of two hops with the item in its middle.
    """
    find = _RESTS_ON.get(operation)
    return None if find is None else find(parts, body)


def judge(operation: str, parts: Mapping[str, Any], body: Any, asked_at: datetime, states: States) -> Verdict:
    """Return whether a reply that came at a moment would come again."""
    things = rests_on(operation, parts, body)
    if things is None:
        return Verdict(None, f"{operation}: nothing tells whether its answer changed")
    told = []
    for thing in things:
        if thing not in states:
            return Verdict(None, f"{thing.name}: its state was not told")
        verdict = _judge_thing(thing, states[thing], operation, body, asked_at)
        if not verdict.is_unchanged:
            return verdict
        told.append(verdict.why)
    return Verdict(True, _shorten(told))


def _judge_thing(thing: Thing, state: Any, operation: str, body: Any, asked_at: datetime) -> Verdict:
    if state is None:
        return Verdict(None, f"{thing.name}: its state was not told")
    if thing.kind == "label":
        said = _find_label(thing.name, operation, body)
        return _compare(f"{thing.name} is called", said, state["label"])
    if thing.kind == "page":
        return _judge_page(thing, state, operation, body, asked_at)
    if operation == "describe_items" and body["modified"] is not None:
        return _compare(f"{thing.name} was last changed", body["modified"], state["modified"])
    return _judge_age(f"{thing.name} was last changed", state["modified"], asked_at)


def _judge_page(thing: Thing, state: Any, operation: str, body: Any, asked_at: datetime) -> Verdict:
    """Return whether a title leads where it did, and, unless the reply says no more than that, to the same revision."""
    more = ("qid", "is_disambiguation") if operation == "resolve_title" else ()
    for name in ("title", "pageid", "missing", "redirected_from", *more):
        if state[name] != body[name]:
            return Verdict(False, f"{thing.name}: {name} was {body[name]!r} and is {state[name]!r}")
    if operation == "resolve_title" or state["missing"]:
        return Verdict(True, f"{thing.name} leads to {'no page' if state['missing'] else state['title']} as it did")
    return _judge_age(f"lastrevid {state['revid']} of {state['title']} is", state["timestamp"], asked_at)


def _judge_age(what: str, changed_at: str | None, asked_at: datetime) -> Verdict:
    try:
        moment = datetime.fromisoformat(changed_at or "")
        is_unchanged = moment + LAG <= asked_at
    except (ValueError, TypeError, OverflowError):
        return Verdict(None, f"{what} of no known date")
    return Verdict(is_unchanged, f"{what} of {changed_at}")


def _compare(what: str, said: Any, now: Any) -> Verdict:
    return Verdict(said == now, f"{what} {now!r} as it was" if said == now else f"{what} {now!r} and was {said!r}")


def _shorten(told: Sequence[str]) -> str:
    shown = "; ".join(told[:3])
    return f"{shown}; and {len(told) - 3} more" if len(told) > 3 else shown or "it rests on nothing that changes"


def _pack(names: Iterable[str], most: int) -> list[list[str]]:
    """Return names in groups that fit into one request."""
    groups: list[list[str]] = []
    length = 0
    for name in sorted(names):
        longer = len(quote(name)) + 3
        if not groups or len(groups[-1]) >= min(most, MOST_THINGS) or length + longer > _LONGEST_TITLES:
            groups.append([])
            length = 0
        groups[-1].append(name)
        length += longer
    return groups


def _list_named(operation: str, body: Any) -> dict[str, str | None]:
    """Return id → label of what a reply names beside the item that was asked for."""
    if operation == "neighbours":
        return {edge["qid"]: edge["label"] for edge in body}
    named = {fact["pid"]: fact["property"] for fact in body}
    return named | {fact["qid"]: fact["value"] for fact in body if fact["qid"] is not None}


def _find_label(name: str, operation: str, body: Any) -> str | None:
    return body if operation == "label" else _list_named(operation, body)[name]


def _language(parts: Mapping[str, Any]) -> str:
    return str(parts.get("language", "en"))


def _rests_on_item(parts: Mapping[str, Any], _body: Any) -> list[Thing]:
    return [Thing("item", str(parts["qid"]))]


def _rests_on_named(operation: str) -> Callable[[Mapping[str, Any], Any], list[Thing]]:
    def find(parts: Mapping[str, Any], body: Any) -> list[Thing]:
        return [
            Thing("item", str(parts["qid"])),
            *(Thing("label", name, _language(parts)) for name in _list_named(operation, body)),
        ]

    return find


def _rests_on_redirect(parts: Mapping[str, Any], body: Any) -> list[Thing] | None:
    # what is a redirect has no date of change of its own
    return [Thing("item", str(parts["qid"]))] if body == parts["qid"] else None


def _rests_on_ends(parts: Mapping[str, Any], _body: Any) -> list[Thing] | None:
    ends = [str(parts[name]) for name in ("subject", "object") if name in parts]
    return [Thing("item", each) for each in ends] if parts["hops"] == 1 else None


def _rests_on_page(parts: Mapping[str, Any], _body: Any) -> list[Thing]:
    return [Thing("page", str(parts["title"]), "follow" if parts.get("follow", True) else "stay")]


_RESTS_ON: Mapping[str, Callable[[Mapping[str, Any], Any], list[Thing] | None]] = {
    "describe_items": _rests_on_item,
    "resolve_item": _rests_on_redirect,
    "label": lambda parts, _: [Thing("label", str(parts["id"]), _language(parts))],
    "neighbours": _rests_on_named("neighbours"),
    "item_facts": _rests_on_named("item_facts"),
    "item_paths": _rests_on_ends,
    "date_paths": _rests_on_ends,
    "number_paths": _rests_on_ends,
    "page_revision_at": _rests_on_page,
    "resolve_title": _rests_on_page,
}
