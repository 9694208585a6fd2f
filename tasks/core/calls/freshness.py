"""What a recorded reply rests on, and whether that has changed since the reply came: live, and in the embedded world.

A reply rests on things: what an item says, what an item or property is called, where a title leads (`rests_on` of an
operation). Services are asked for the state of many things in one request (`item_states`, `page_states`).

A service may answer from a copy that lags behind: what was changed shortly before a reply came may not be in it. So a
thing counts as unchanged only when its last change lies LAG before the reply. What a reply says itself (a label, an
item's date of change, where a title leads) is compared instead, and needs no such margin.

Services of the embedded world are named by its content, so every change of a file renames them all. What each state says
of each thing is recorded beside the builds of it, as one call.

| thing | is there for each | what is digested |
|---|---|---|
| `item Q64` | item | all that the item says |
| `near Q64` | item | the same, and all that the items say that it names |
| `label Q64` | item and property | its labels |
| `name en Berlin` | English name | the items that bear it |
| `about en Berlin` | English name | descriptions and claims of these, and of the units they lie in or are seated in, in turn |
| `facts P36` | property | its direct claims |
| `page Berlin` | title of a page | where it leads: the page, its item, its revisions |
| `views Berlin` | title that is viewed | how often |
| `text 8000101` | revision | what it shows |
| `category Algebra` | category | its members |
| `answers` | – | how services answer |

A reply comes again where all that it rests on has the same digest in both states.

All else may be answered otherwise tomorrow: items and facts, which titles redirect, which revision a page had at a moment
(pages are moved), who is in a category, what a linker or a model makes of a text.
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
"""Of one request."""
_LONGEST_TITLES = 5000
_WORDS = {"label": "is called", "modified": "was last changed"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a recorded reply would come again."""

    is_unchanged: bool | None
    """None: that cannot be told."""
    why: str
    """What shows it, or why nothing does."""


States = Mapping[Thing, Any]
"""Thing → its part of the body of item_states or page_states; a thing that nothing was told of is absent."""


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
    found = _list_dependencies(operation, parts, body)
    return None if found is None else [each.thing for each in found]


def judge(operation: str, parts: Mapping[str, Any], body: Any, asked_at: datetime, states: States) -> Verdict:
    """Return whether a reply that came at a moment would come again."""
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


def find_oldest(operation: str, parts: Mapping[str, Json], oldest: datetime) -> datetime:
    """Return how old a reply to a call may be, where replies that do not last may be as old as `oldest`."""
    known = find_operation(operation)
    return oldest if known is None or known.lasts_from is None else min(oldest, known.lasts_from(parts))


FORM = 1
"""Raised when things or digests are made otherwise."""
ANSWERS = "answers"
_ALWAYS_KNOWN = ("item", "near", "label", "name", "about")
"""Kinds of which none is there for what the world knows nothing of; titles can be written in several ways."""
_SPECIAL = frozenset("_:#&%~<>[]|{}/")
"""Characters by which titles are written in several ways."""


def call_world_contents(service: str) -> Call:
    """Ask what a state of the embedded world says of each thing."""
    return WORLD_CONTENTS.call(service, form=FORM)


def judge_content(
    operation: str, parts: Mapping[str, Any], body: Any, then: Mapping[str, str], now: Mapping[str, str]
) -> Verdict:
    """Return whether a reply of one state of the world would come in another; `then`, `now`: bodies of world_contents."""
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
    """True where the world says nothing of a thing that is not told: no title that is written otherwise is meant."""
    kind, _, name = thing.partition(" ")
    is_plain = name.isprintable() and name == " ".join(name.split()) and not _SPECIAL & set(name)
    return kind in _ALWAYS_KNOWN or (kind in ("page", "views") and is_plain and name[:1] == name[:1].upper())


def list_contents(operation: str, parts: Mapping[str, Any], body: Any) -> list[str] | None:
    """Return the things of the world that a reply rests on; None: on more than is digested."""
    known = find_operation(operation)
    if known is not None and known.world:
        return known.world(parts)
    things = rests_on(operation, parts, body)
    return None if things is None else [f"{each.kind} {each.name}" for each in things]


WORLD_CONTENTS = Operation("world_contents", service="world", parts={"form": is_count}, read=dict)
"""Body: thing → digest of what the world says of it."""
