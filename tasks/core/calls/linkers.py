"""Calls to Falcon 2.0 and DBpedia for entity linking, and their responses (MultiHal, paper §2.2, Appendix C, Listing 1).

Linkers return some resources with unescaped characters that DBpedia escapes (a percent sign, quotes); they are sent
escaped, since an endpoint refuses a whole query for one invalid IRI.

Falcon's response is recorded unchanged, because its format has changed over the years: a better parser can read it again
without a new request. Since 2022 a link is an object with `URI` and `surface form`; before, it was a pair of unreliable
order, in which the URI is recognised by its form. Any list may be missing or null, and candidates repeat.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.calls.operation import Operation, Sparql, Terms, is_count, is_text
from factmill.tasks.core.fingerprints import Json
from factmill.tasks.core.sparql import ENTITY, Row, by_texts, iri_term
from factmill.tasks.text.ids import id_number, is_pid, is_qid


@dataclass(frozen=True, slots=True)
class Link:
    """One candidate entity or relation for a mention in the text."""

    id: str
    """QID, PID, or the URI of a DBpedia resource."""
    surface: str
    """The mention in the text, as Falcon delimits it."""


@dataclass(frozen=True, slots=True)
class Links:
    """Candidates that Falcon found in a text, each once, in its order."""

    items: tuple[Link, ...]
    properties: tuple[Link, ...]
    dbpedia_entities: tuple[Link, ...]
    dbpedia_relations: tuple[Link, ...]


def call_link(service: str, text: str, k: int = 3) -> Call:
    """Make the call for the entities and relations of a text, with up to k candidates per mention."""
    return LINK.call(service, text=text, k=k)


def read_links(body: Any) -> Links:
    """Parse the body of link, skipping invalid links (no URI, an id of another kind)."""
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


LINK = Operation("link", service="falcon", parts={"text": is_text, "k": is_count}, read=read_links)
"""Body: Falcon's own JSON object, unchanged."""


_TO_ESCAPE = re.compile(r'%(?![0-9A-Fa-f]{2})|["^`\\]')


def call_same_as(service: str, resource: str) -> Call:
    """Make the call for the Wikidata items that a DBpedia resource is the same as."""
    return SAME_AS.call(service, resource=resource)


def read_same_as(body: Any) -> str | None:
    """Parse the body of same_as: the item with the smallest number; None if there is none."""
    return body[0] if body else None


def _resource_of(call: Call) -> str:
    """Return the call's resource IRI, escaped as in DBpedia."""
    return _TO_ESCAPE.sub(lambda found: f"%{ord(found[0]):02X}", str(call.parts["resource"]))


def _list_terms(calls: Sequence[Call]) -> Terms:
    return {"resource": [iri_term(each) for each in dict.fromkeys(map(_resource_of, calls))]}


def _read_items(calls: Sequence[Call], rows: Sequence[Row]) -> list[Json]:
    found: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        qid = row["item"].removeprefix(ENTITY)
        if is_qid(qid):
            found[row["resource"]].add(qid)
    return [sorted(found[_resource_of(call)], key=id_number) for call in calls]


SAME_AS = Operation(
    "same_as",
    service="dbpedia",
    parts={"resource": is_text},
    read=read_same_as,
    sparql=Sparql(files=("dbpedia/same_as",), own=("resource",), terms=_list_terms, read=by_texts(_read_items)),
    graph="a graph holds a Wikidata, whose dumps do not link to DBpedia",
)
"""`resource` is an IRI. Body: the QIDs that it is the same as, by number."""
