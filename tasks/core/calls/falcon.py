"""What is asked of Falcon 2.0, and how its replies are read.

`link`: parts are text and k; the body is Falcon's own JSON object, as it came.

The reply is recorded as it came, because its form has changed over the years: a better reader re-reads, and asks
nothing again. Since 2022 a link is an object with `URI` and `surface form`; before, it was a pair whose order is not
reliable and is told by what looks like a URI. Any list may be missing or null, and candidates repeat.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeGuard

from tasks.core.calls.call import Call
from tasks.text.ids import is_pid, is_qid


@dataclass(frozen=True, slots=True)
class Link:
    """One candidate that Falcon links a part of the text to."""

    id: str
    """QID, PID, or the URI of a DBpedia resource."""
    surface: str
    """The words of the text, as Falcon cut them."""


@dataclass(frozen=True, slots=True)
class Links:
    """What Falcon found in a text: each candidate once, in its order."""

    items: tuple[Link, ...]
    properties: tuple[Link, ...]
    dbpedia_entities: tuple[Link, ...]
    dbpedia_relations: tuple[Link, ...]


def call_link(service: str, text: str, k: int = 3) -> Call:
    """Ask for the entities and relations of a text, with up to k candidates for each mention."""
    return Call(service, "link", {"text": text, "k": k})


def read_links(body: Any) -> Links:
    """Read the answer to link; what is no link (no URI, an id of another kind) is left out."""
    return Links(
        items=_collect(body.get("entities_wikidata"), is_wanted=is_qid),
        properties=_collect(body.get("relations_wikidata"), is_wanted=is_pid),
        dbpedia_entities=_collect(body.get("entities_dbpedia")),
        dbpedia_relations=_collect(body.get("relations_dbpedia")),
    )


def _collect(entries: Any, is_wanted: Callable[[str], bool] | None = None) -> tuple[Link, ...]:
    found: dict[Link, None] = {}
    for uri, surface in _read_entries(entries or ()):
        name = uri.rstrip("/").rpartition("/")[2] if is_wanted else uri
        if is_wanted is None or is_wanted(name):
            found[Link(name, surface)] = None
    return tuple(found)


def _read_entries(entries: Iterable[Any]) -> Iterable[tuple[str, str]]:
    for entry in entries:
        if isinstance(entry, dict):
            uri, surface = entry.get("URI"), entry.get("surface form")
        elif isinstance(entry, list | tuple) and len(entry) == 2:
            uri, surface = entry if _is_uri(entry[0]) else reversed(entry)
        else:
            continue
        if _is_uri(uri):
            yield uri.strip("<>"), surface if isinstance(surface, str) else ""


def _is_uri(text: Any) -> TypeGuard[str]:
    return isinstance(text, str) and text.lstrip("<").startswith(("http://", "https://"))
