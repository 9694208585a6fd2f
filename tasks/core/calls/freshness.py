"""Revalidate recorded responses: find what they depend on, and whether that has changed since, in live services and in the
embedded world.

A response depends on things: an item's statements, the label of an item or property, the target of a title (`list_dependencies` of an operation). One request returns the states of many things (`item_states`, `page_states`).

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
from factmill.tasks.core.calls.operation import (
    Operation,
    ResponseDependency,
    WikiItemLabelOrPageDependency,
    find_operation,
    is_positive_count,
)
from factmill.tasks.core.calls.wikidata import make_entity_last_changes_and_labels_call
from factmill.tasks.core.calls.wikipedia import make_newest_page_revisions_call
from factmill.tasks.core.digests import JsonValue

MAX_REPLICATION_LAG = timedelta(days=1)
MAX_RESOURCES_PER_REQUEST = 50
"""Maximum number of things in one request."""
_MAX_NAMES_CHARACTERS = 5000
_CHANGE_VERBS = {"label": "is called", "modified": "was last changed at"}


@dataclass(frozen=True, slots=True)
class ResponseFreshnessVerdict:
    """Whether a recorded response is still valid."""

    is_unchanged: bool | None
    """None: undecidable."""
    why: str
    """Evidence, or why there is none."""


ResourceStates = Mapping[WikiItemLabelOrPageDependency, Any]
"""Thing → its part of the body of item_states or page_states; things of unknown state are absent."""


def make_state_calls(
    wikidata: str,
    wikipedia: str,
    resources: Iterable[WikiItemLabelOrPageDependency],
    max_resources: int,
    checked_on: str,
) -> list[tuple[Call, list[WikiItemLabelOrPageDependency]]]:
    """Make the calls for the states of things, each with its things; `max_resources`: maximum number of things per call."""
    groups: dict[tuple[bool, str], dict[str, list[WikiItemLabelOrPageDependency]]] = {}
    for thing in resources:
        is_page = thing.kind == "page"
        by_name = groups.setdefault((is_page, thing.variant if is_page else thing.variant or "en"), {})
        by_name.setdefault(thing.name, []).append(thing)
    looks = []
    for (is_page, variant), by_name in sorted(groups.items()):
        for names in _group_names_by_request(by_name, max_resources):
            if is_page:
                call = make_newest_page_revisions_call(wikipedia, names, variant == "follow", checked_on)
            else:
                call = make_entity_last_changes_and_labels_call(wikidata, names, variant, checked_on)
            looks.append((call, [each for name in names for each in by_name[name]]))
    return looks


def parse_resource_states(
    body: Any, resources: Sequence[WikiItemLabelOrPageDependency]
) -> dict[WikiItemLabelOrPageDependency, Any]:
    """Return the state of each requested thing in a body of item_states or page_states."""
    return {thing: body[thing.name] for thing in resources}


def find_resources_response_depends_on(
    operation: str, parts: Mapping[str, Any], body: Any
) -> list[WikiItemLabelOrPageDependency] | None:
    """Return the things that a response depends on; None: they cannot be checked.

    The items with a name or in a class, members of a category, search results and page views can change without a change of
    any thing named in the response; a path of two hops can change with its middle item.
    """
    found = _find_dependencies(operation, parts, body)
    return None if found is None else [each.resource for each in found]


def judge_live_freshness(
    operation: str, parts: Mapping[str, Any], body: Any, asked_at: datetime, states: ResourceStates
) -> ResponseFreshnessVerdict:
    """Return whether a response received at `asked_at` is still valid, given the current states of things."""
    found = _find_dependencies(operation, parts, body)
    if found is None:
        return ResponseFreshnessVerdict(None, f"{operation}: no check shows whether its response has changed")
    reasons = []
    for each in found:
        verdict = _judge_dependency(each, states.get(each.resource), asked_at)
        if not verdict.is_unchanged:
            return verdict
        reasons.append(verdict.why)
    return ResponseFreshnessVerdict(True, _join_first(reasons) or "it depends on nothing that changes")


def _find_dependencies(operation: str, parts: Mapping[str, Any], body: Any) -> list[ResponseDependency] | None:
    known = find_operation(operation)
    return known.list_dependencies(parts, body) if known is not None and known.list_dependencies else None


def _judge_dependency(dependency: ResponseDependency, state: Any, asked_at: datetime) -> ResponseFreshnessVerdict:
    thing = dependency.resource
    if state is None:
        return ResponseFreshnessVerdict(None, f"{thing.name}: its current state is unknown")
    for name, value in dependency.stated_values.items():
        if state[name] != value:
            return ResponseFreshnessVerdict(
                False, f"{thing.name}: {_CHANGE_VERBS.get(name, name)} {state[name]!r}, before: {value!r}"
            )
    if thing.kind == "page" and (state["missing"] or not dependency.must_be_unchanged):
        return ResponseFreshnessVerdict(
            True, f"{thing.name} still leads to {'no page' if state['missing'] else state['title']}"
        )
    if thing.kind == "page":
        return _judge_last_change(f"lastrevid {state['revid']} of {state['title']} is of", state["timestamp"], asked_at)
    if dependency.must_be_unchanged:
        return _judge_last_change(f"{thing.name} was last changed at", state["modified"], asked_at)
    values = ", ".join(f"{_CHANGE_VERBS.get(name, name)} {value!r}" for name, value in dependency.stated_values.items())
    return ResponseFreshnessVerdict(True, f"{thing.name} {values} as before")


def _judge_last_change(change_description: str, changed_at: str | None, asked_at: datetime) -> ResponseFreshnessVerdict:
    try:
        moment = datetime.fromisoformat(changed_at or "")
        is_unchanged = moment + MAX_REPLICATION_LAG <= asked_at
    except (ValueError, TypeError, OverflowError):
        return ResponseFreshnessVerdict(None, f"{change_description} an unknown date")
    return ResponseFreshnessVerdict(is_unchanged, f"{change_description} {changed_at}")


def _join_first(texts: Sequence[str]) -> str:
    return "; ".join(texts[:3]) + (f"; and {len(texts) - 3} more" if len(texts) > 3 else "")


def _group_names_by_request(names: Iterable[str], max_names: int) -> list[list[str]]:
    """Split names into groups that fit into one request each."""
    groups: list[list[str]] = []
    length = 0
    for name in sorted(names):
        longer = len(quote(name)) + 3
        if (
            not groups
            or len(groups[-1]) >= min(max_names, MAX_RESOURCES_PER_REQUEST)
            or length + longer > _MAX_NAMES_CHARACTERS
        ):
            groups.append([])
            length = 0
        groups[-1].append(name)
        length += longer
    return groups


def get_oldest_usable_response_time(operation: str, parts: Mapping[str, JsonValue], oldest: datetime) -> datetime:
    """Return the earliest valid time of a response to a call: `oldest`, or earlier if the response is immutable."""
    known = find_operation(operation)
    return oldest if known is None or known.get_immutable_from is None else min(oldest, known.get_immutable_from(parts))


WORLD_CONTENTS_VERSION = 1
"""Version of the things and digests; increased when their definition changes."""
ANSWERS_CONTENT = "answers"
_FULLY_LISTED_KINDS = ("item", "near", "label", "name", "about")
"""Kinds whose things are all listed, so that an absent one is unknown to the world; titles have several spellings."""
_SPECIAL_TITLE_CHARACTERS = frozenset("_:#&%~<>[]|{}/")
"""Characters that allow several spellings of a title."""


def make_embedded_world_digests_call(service: str) -> Call:
    """Make the call for the digests of all things in a state of the embedded world."""
    return WORLD_CONTENTS_OPERATION.make_call(service, form=WORLD_CONTENTS_VERSION)


def judge_embedded_world_freshness(
    operation: str,
    parts: Mapping[str, Any],
    body: Any,
    old_contents: Mapping[str, str],
    new_contents: Mapping[str, str],
) -> ResponseFreshnessVerdict:
    """Return whether a response of one state of the embedded world is valid in another (bodies of world_contents)."""
    known = find_operation(operation)
    things: list[str] | None
    if known is not None and known.list_world_contents:
        things = known.list_world_contents(parts)
    else:
        resources = find_resources_response_depends_on(operation, parts, body)
        things = None if resources is None else [f"{each.kind} {each.name}" for each in resources]
    if things is None:
        return ResponseFreshnessVerdict(None, f"{operation}: no check shows whether its response has changed")
    for thing in (ANSWERS_CONTENT, *things):
        if thing not in old_contents:
            kind, _, name = thing.partition(" ")
            is_plain = (
                name.isprintable() and name == " ".join(name.split()) and not _SPECIAL_TITLE_CHARACTERS & set(name)
            )
            # no other spelling of a plain title can be listed in its place
            is_plain_title = kind in ("page", "views") and is_plain and name[:1] == name[:1].upper()
            if kind not in _FULLY_LISTED_KINDS and not is_plain_title:
                return ResponseFreshnessVerdict(None, f"{thing}: the earlier state does not list it")
        if old_contents.get(thing) != new_contents.get(thing):
            return ResponseFreshnessVerdict(False, f"{thing} has changed")
    listed = _join_first(things)
    return ResponseFreshnessVerdict(
        True, f"the same content: {listed}" if listed else "it depends on no content of the world"
    )


WORLD_CONTENTS_OPERATION = Operation(
    "world_contents", service="world", part_checks={"form": is_positive_count}, parse_body=dict
)
"""Body: thing → digest of its content in the world."""
