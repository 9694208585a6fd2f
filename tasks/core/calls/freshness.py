"""Revalidate recorded responses: find what they depend on, and whether that has changed since, in live services and in the
embedded world.

A response depends on things: an item's statements, the label of an item or property, the target of a title (`rests_on` of an
operation). One request returns the states of many things (`item_states`, `page_states`).

A service may respond from a replica that lags behind and lacks the latest changes. So a thing counts as unchanged only if
its last change was at least LAG before the response. Values within the response itself (a label, an item's date of change,
the target of a title) are compared instead, and need no such margin.

The identity of services of the embedded world contains a digest of its content, so every change of a file changes it. One
recorded call holds the digests of all things in each state of the world.

| thing | exists for each | content of the digest |
|---|---|---|
| `item Q64` | item | all its statements |
| `near Q64` | item | the same, and all statements of the items that it names |
| `label Q64` | item and property | its labels |
| `name en Berlin` | English name | the items with this name |
| `about en Berlin` | English name | descriptions and claims of these, and of their administrative units and seats, recursively |
| `facts P36` | property | its direct claims |
| `page Berlin` | title of a page | its target: the page, its item, its revisions |
| `views Berlin` | title with page views | number of views |
| `text 8000101` | revision | its text |
| `category Algebra` | category | its members |
| `answers` | – | how services respond |

A response is still valid if all things that it depends on have the same digest in both states.

Everything else may change: items and facts, redirects, the revision of a page at a moment (pages are moved), members of
categories, results of a linker or a model.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.calls.knowledge import call_item_states
from factmill.tasks.core.calls.operation import Dependency, Operation, Thing, find_operation, is_count
from factmill.tasks.core.calls.wikipedia import call_page_states
from factmill.tasks.core.fingerprints import Json

LAG = timedelta(days=1)
MOST_THINGS = 50
"""Maximum number of things in one request."""
_LONGEST_TITLES = 5000
_WORDS = {"label": "is called", "modified": "was last changed"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a recorded response is still valid."""

    is_unchanged: bool | None
    """None: undecidable."""
    why: str
    """Evidence, or why there is none."""


States = Mapping[Thing, Any]
"""Thing → its part of the body of item_states or page_states; things of unknown state are absent."""


def list_looks(
    wikidata: str, wikipedia: str, things: Iterable[Thing], most: int, on: str
) -> list[tuple[Call, list[Thing]]]:
    """Make the calls for the states of things, each with its things; `most`: maximum number of things per call."""
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
    """Return the state of each requested thing in a body of item_states or page_states."""
    return {thing: body[thing.name] for thing in things}


def rests_on(operation: str, parts: Mapping[str, Any], body: Any) -> list[Thing] | None:
    """Return the things that a response depends on; None: they cannot be checked.

    The items with a name or in a class, members of a category, search results and page views can change without a change of
    any thing named in the response; a path of two hops can change with its middle item.
    """
    found = _list_dependencies(operation, parts, body)
    return None if found is None else [each.thing for each in found]


def judge(operation: str, parts: Mapping[str, Any], body: Any, asked_at: datetime, states: States) -> Verdict:
    """Return whether a response received at `asked_at` is still valid, given the current states of things."""
    found = _list_dependencies(operation, parts, body)
    if found is None:
        return Verdict(None, f"{operation}: nothing tells whether its answer changed")
    told = []
    for each in found:
        verdict = _judge_dependency(each, states.get(each.thing), asked_at)
        if not verdict.is_unchanged:
            return verdict
        told.append(verdict.why)
    return Verdict(True, _shorten(told))


def _list_dependencies(operation: str, parts: Mapping[str, Any], body: Any) -> list[Dependency] | None:
    known = find_operation(operation)
    return known.rests_on(parts, body) if known is not None and known.rests_on else None


def _judge_dependency(dependency: Dependency, state: Any, asked_at: datetime) -> Verdict:
    thing = dependency.thing
    if state is None:
        return Verdict(None, f"{thing.name}: its state was not told")
    for name, said in dependency.says.items():
        if state[name] != said:
            return Verdict(False, f"{thing.name}: {_WORDS.get(name, name)} {state[name]!r} and was {said!r}")
    if thing.kind == "page" and (state["missing"] or not dependency.by_date):
        return Verdict(True, f"{thing.name} leads to {'no page' if state['missing'] else state['title']} as it did")
    if thing.kind == "page":
        return _judge_age(f"lastrevid {state['revid']} of {state['title']} is", state["timestamp"], asked_at)
    if dependency.by_date:
        return _judge_age(f"{thing.name} was last changed", state["modified"], asked_at)
    told = ", ".join(f"{_WORDS.get(name, name)} {said!r}" for name, said in dependency.says.items())
    return Verdict(True, f"{thing.name} {told} as it was")


def _judge_age(what: str, changed_at: str | None, asked_at: datetime) -> Verdict:
    try:
        moment = datetime.fromisoformat(changed_at or "")
        is_unchanged = moment + LAG <= asked_at
    except (ValueError, TypeError, OverflowError):
        return Verdict(None, f"{what} of no known date")
    return Verdict(is_unchanged, f"{what} of {changed_at}")


def _shorten(told: Sequence[str]) -> str:
    shown = "; ".join(told[:3])
    return f"{shown}; and {len(told) - 3} more" if len(told) > 3 else shown or "it rests on nothing that changes"


def _pack(names: Iterable[str], most: int) -> list[list[str]]:
    """Split names into groups that fit into one request each."""
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


def find_oldest(operation: str, parts: Mapping[str, Json], oldest: datetime) -> datetime:
    """Return the earliest valid time of a response to a call: `oldest`, or earlier if the response is immutable."""
    known = find_operation(operation)
    return oldest if known is None or known.lasts_from is None else min(oldest, known.lasts_from(parts))


FORM = 1
"""Version of the things and digests; increased when their definition changes."""
ANSWERS = "answers"
_ALWAYS_KNOWN = ("item", "near", "label", "name", "about")
"""Kinds whose things are all listed, so that an absent one is unknown to the world; titles have several spellings."""
_SPECIAL = frozenset("_:#&%~<>[]|{}/")
"""Characters that allow several spellings of a title."""


def call_world_contents(service: str) -> Call:
    """Make the call for the digests of all things in a state of the embedded world."""
    return WORLD_CONTENTS.call(service, form=FORM)


def judge_content(
    operation: str, parts: Mapping[str, Any], body: Any, then: Mapping[str, str], now: Mapping[str, str]
) -> Verdict:
    """Return whether a response of one state of the embedded world is valid in another; `then`, `now`: bodies of
    world_contents."""
    things = list_contents(operation, parts, body)
    if things is None:
        return Verdict(None, f"{operation}: nothing tells whether its answer changed")
    for thing in (ANSWERS, *things):
        if thing not in then and not _is_surely_absent(thing):
            return Verdict(None, f"{thing}: nothing is known of it")
        if then.get(thing) != now.get(thing):
            return Verdict(False, f"{thing} is not what it was")
    told = "; ".join(things[:3]) + (f"; and {len(things) - 3} more" if len(things) > 3 else "")
    return Verdict(True, f"the same content: {told}" if told else "it rests on nothing of the world")


def _is_surely_absent(thing: str) -> bool:
    """True when the world certainly lacks an unlisted thing: it is not a title with another spelling."""
    kind, _, name = thing.partition(" ")
    is_plain = name.isprintable() and name == " ".join(name.split()) and not _SPECIAL & set(name)
    return kind in _ALWAYS_KNOWN or (kind in ("page", "views") and is_plain and name[:1] == name[:1].upper())


def list_contents(operation: str, parts: Mapping[str, Any], body: Any) -> list[str] | None:
    """Return the things of the embedded world that a response depends on; None: digests do not cover them."""
    known = find_operation(operation)
    if known is not None and known.world:
        return known.world(parts)
    things = rests_on(operation, parts, body)
    return None if things is None else [f"{each.kind} {each.name}" for each in things]


WORLD_CONTENTS = Operation("world_contents", service="world", parts={"form": is_count}, read=dict)
"""Body: thing → digest of its content in the world."""
