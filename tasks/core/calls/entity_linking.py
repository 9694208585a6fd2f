"""Calls to Falcon 2.0 and DBpedia for entity linking, and their responses (MultiHal, paper §2.2, Appendix C, Listing 1).

Linkers return some resources with unescaped characters that DBpedia escapes (a percent sign, quotes); they are sent
escaped, since an endpoint refuses a whole query for one invalid IRI.

Falcon's response is recorded unchanged, because its format has changed over the years: a better parser can read it again
without a new request. Since 2022 a link is an object with `URI` and `surface form`; before, it was a pair of unreliable
order, in which the URI is recognised by its form. Any list may be missing or null, and candidates repeat.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.calls.operation import (
    Operation,
    OperationSparqlMapping,
    is_positive_count,
    is_string_value,
)
from factmill.tasks.core.digests import JsonValue
from factmill.tasks.core.sparql import ENTITY_NAMESPACE, SolutionValues, adapt_value_reader_to_solutions, iri_term
from factmill.tasks.text.wikidata_ids import get_wikidata_id_number, is_pid, is_qid


@dataclass(frozen=True, slots=True)
class EntityOrRelationCandidate:
    """One candidate entity or relation for a mention in the text."""

    id: str
    """QID, PID, or the URI of a DBpedia resource."""
    mention: str
    """The mention in the text, as Falcon delimits it."""


@dataclass(frozen=True, slots=True)
class EntityLinkingResult:
    """Candidates that Falcon found in a text, each once, in its order."""

    items: tuple[EntityOrRelationCandidate, ...]
    properties: tuple[EntityOrRelationCandidate, ...]
    dbpedia_entities: tuple[EntityOrRelationCandidate, ...]
    dbpedia_relations: tuple[EntityOrRelationCandidate, ...]


def make_entity_and_relation_linking_call(service: str, text: str, k: int = 3) -> Call:
    """Make the call for the entities and relations of a text, with up to k candidates per mention."""
    return LINK_OPERATION.make_call(service, text=text, k=k)


def parse_entity_linking_result(body: Any) -> EntityLinkingResult:
    """Parse the body of link, skipping invalid links (no URI, an id of another kind)."""
    return EntityLinkingResult(
        items=_collect_links(body.get("entities_wikidata"), is_wanted=is_qid),
        properties=_collect_links(body.get("relations_wikidata"), is_wanted=is_pid),
        dbpedia_entities=_collect_links(body.get("entities_dbpedia")),
        dbpedia_relations=_collect_links(body.get("relations_dbpedia")),
    )


def _collect_links(
    entries: Any, is_wanted: Callable[[str], bool] | None = None
) -> tuple[EntityOrRelationCandidate, ...]:
    found: dict[EntityOrRelationCandidate, None] = {}
    for entry in entries or ():
        uri = surface = None
        if isinstance(entry, dict):
            uri, surface = entry.get("URI"), entry.get("surface form")
        elif isinstance(entry, list | tuple) and len(entry) == 2:
            uri, surface = entry if _is_uri(entry[0]) else reversed(entry)
        if not _is_uri(uri):
            continue
        name = uri.strip("<>")
        if is_wanted:
            name = name.rstrip("/").rpartition("/")[2]
        if is_wanted is None or is_wanted(name):
            found[EntityOrRelationCandidate(name, surface if isinstance(surface, str) else "")] = None
    return tuple(found)


def _is_uri(text: Any) -> TypeGuard[str]:
    return isinstance(text, str) and text.lstrip("<").startswith(("http://", "https://"))


LINK_OPERATION = Operation(
    "link",
    service="falcon",
    part_checks={"text": is_string_value, "k": is_positive_count},
    parse_body=parse_entity_linking_result,
)
"""Body: Falcon's own JSON object, unchanged."""


_IRI_ESCAPES = re.compile(r'%(?![0-9A-Fa-f]{2})|["^`\\]')


def make_same_wikidata_items_call(service: str, resource: str) -> Call:
    """Make the call for the Wikidata items that a DBpedia resource is the same as."""
    return SAME_AS_OPERATION.make_call(service, resource=resource)


def parse_same_as_item(body: Any) -> str | None:
    """Parse the body of same_as: the item with the smallest number; None if there is none."""
    return body[0] if body else None


def _get_percent_escaped_dbpedia_iri(call: Call) -> str:
    """Return the call's resource IRI, escaped as in DBpedia."""
    return _IRI_ESCAPES.sub(lambda found: f"%{ord(found[0]):02X}", call.parts["resource"])


def _make_same_as_response_bodies(calls: Sequence[Call], rows: Sequence[SolutionValues]) -> list[JsonValue]:
    found: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        qid = row["item"].removeprefix(ENTITY_NAMESPACE)
        if is_qid(qid):
            found[row["resource"]].add(qid)
    return [sorted(found[_get_percent_escaped_dbpedia_iri(call)], key=get_wikidata_id_number) for call in calls]


SAME_AS_OPERATION = Operation(
    "same_as",
    service="dbpedia",
    part_checks={"resource": is_string_value},
    parse_body=parse_same_as_item,
    sparql=OperationSparqlMapping(
        query_files=("dbpedia/same_as",),
        varying_parts=("resource",),
        make_terms=lambda calls: {
            "resource": [iri_term(each) for each in dict.fromkeys(map(_get_percent_escaped_dbpedia_iri, calls))]
        },
        make_bodies=adapt_value_reader_to_solutions(_make_same_as_response_bodies),
    ),
    load_from_graph="a local graph cannot answer this call: Wikidata dumps hold no links to DBpedia",
)
"""`resource` is an IRI. Body: the QIDs that it is the same as, by number."""
