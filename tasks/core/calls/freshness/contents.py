"""What a reply of the embedded world rests on, and whether that is the same in another state of the world.

Services of the embedded world are named by its content, so every change of a file renames them all. What each state says
of each thing is recorded beside the builds of it, as one call:

| operation | parts | body of the reply |
|---|---|---|
| world_contents | form | thing → digest of what the world says of it |

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
"""

from collections.abc import Callable, Mapping
from typing import Any

from tasks.core.calls.call import Call
from tasks.core.calls.freshness.changes import Verdict, rests_on

FORM = 1
"""Raised when things or digests are made otherwise."""
ANSWERS = "answers"
_ALWAYS_KNOWN = ("item", "near", "label", "name", "about")
"""Kinds of which none is there for what the world knows nothing of; titles can be written in several ways."""
_SPECIAL = frozenset("_:#&%~<>[]|{}/")
"""Characters by which titles are written in several ways."""


def call_world_contents(service: str) -> Call:
    """Ask what a state of the embedded world says of each thing."""
    return Call(service, "world_contents", {"form": FORM})


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
    if find := _RESTS_ON.get(operation):
        return find(parts)
    things = rests_on(operation, parts, body)
    if things is None:
        return None
    return [f"{each.kind} {each.name}" for each in things]


def _list_ends(parts: Mapping[str, Any]) -> list[str]:
    kind = "item" if parts["hops"] == 1 else "near"
    return [f"{kind} {parts[name]}" for name in ("subject", "object") if name in parts]


def _list_name(parts: Mapping[str, Any]) -> list[str] | None:
    return [f"name en {parts['name']}"] if parts["language"] == "en" else None


_RESTS_ON: Mapping[str, Callable[[Mapping[str, Any]], list[str] | None]] = {
    "find_items": _list_name,
    "list_facts": lambda parts: [f"facts {parts['pid']}"],
    "item_paths": _list_ends,
    "date_paths": _list_ends,
    "number_paths": _list_ends,
    "page_text": lambda parts: [f"text {parts['revid']}"],
    "category_members": lambda parts: [f"category {parts['category']}"],
    "pageviews": lambda parts: [f"views {parts['title']}"],
}
