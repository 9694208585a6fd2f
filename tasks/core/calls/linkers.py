"""What is asked of Falcon 2.0 and of DBpedia, and how their replies are read (MultiHal, paper §2.2, Appendix C, Listing 1).

Linkers give some resources with characters of the title that DBpedia escapes (a percent sign, quotes); they are sent
escaped, since an endpoint refuses the whole query for one IRI that is none.

The reply is recorded as it came, because its form has changed over the years: a better reader re-reads, and asks
nothing again. Since 2022 a link is an object with `URI` and `surface form`; before, it was a pair whose order is not
reliable and is told by what looks like a URI. Any list may be missing or null, and candidates repeat.
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
    return LINK.call(service, text=text, k=k)


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


LINK = Operation("link", service="falcon", parts={"text": is_text, "k": is_count}, read=read_links)
"""Body: Falcon's own JSON object, as it came."""


_TO_ESCAPE = re.compile(r'%(?![0-9A-Fa-f]{2})|["^`\\]')


def call_same_as(service: str, resource: str) -> Call:
    """Ask which items of Wikidata a resource is the same as."""
    return SAME_AS.call(service, resource=resource)


def read_same_as(body: Any) -> str | None:
    """Return the item, the one with the smallest number where there are several; None when there is none."""
    return body[0] if body else None


def _resource_of(call: Call) -> str:
    """Return the resource as DBpedia names it."""
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
