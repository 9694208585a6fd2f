"""The questions that are put to a Wikidata, a Wikipedia and the Pageviews API, and the form of their answers.

Every Wikidata (SPARQL endpoint or local graph) answers the same calls with the same JSON bodies; a parity test holds
them to it. All lists are in a fixed order, so that answers can be compared and recorded byte for byte.

| operation | parts | body of the reply |
|---|---|---|
| find_items | name, language | `[{"qid", "via": "label" or "alias"}]`, labels first, then by number of the QID; one entry a QID |
| describe_items | qid, language | `{"label", "description", "title", "modified"}`, each null when unknown; a QID nobody knows gives nulls |
| resolve_item | qid, language | the QID that it redirects to, through as many redirects as there are; itself when it is no redirect |
| neighbours | qid, pids (sorted), language | `[{"pid", "qid", "label"}]`: direct claims with an item as value, by number of pid and qid; label null when unknown |
| label | id (of an item or property), language | the label as text, or null when it has none in the language nor one for all languages |
| list_facts | pid, after (a subject's QID or null), limit, language | `[{"subject", "object"}]`: direct item claims of the property by number of subject, then object; only subjects behind `after`; a subject is never cut in two, so up to `limit` subjects |
| item_facts | qid, language | `[{"pid", "property", "qid", "value", "precision", "unit", "statement"}]`: the graph of one hop, in the order and form of `write_facts` |
| pageviews | title, start, end (YYYYMMDD, inclusive) | `{"views": int, "days": int}`: sum over the days that the API lists; null when it knows none (404) |
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NewType

from tasks.core.calls.call import Call
from tasks.core.fingerprints import Json
from tasks.text.ids import id_number

Qid = NewType("Qid", str)
Pid = NewType("Pid", str)

HUMAN = Qid("Q5")
"""The class that people are instances of."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One item that bears a name."""

    qid: Qid
    via: Literal["label", "alias"]
    """What of the item the name is."""


@dataclass(frozen=True, slots=True)
class Description:
    """What a Wikidata says of an item, in one language."""

    label: str | None
    description: str | None
    title: str | None
    """Title of the English Wikipedia article."""
    modified: str | None
    """When the item was last changed (ISO 8601), or the date of the dump; None when the source does not say."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """One direct claim of an item whose value is an item."""

    pid: Pid
    qid: Qid
    label: str | None


@dataclass(frozen=True, slots=True)
class Fact:
    """What an item says in one hop: a direct claim to an item, or a date or number.

    Dates and numbers are those of statements that are not deprecated, or of a direct claim where the item has no
    statement of the property. Texts, external ids, addresses and coordinates are no facts.
    """

    pid: Pid
    property: str | None
    """Label of the property."""
    qid: Qid | None
    """The value, when it is an item."""
    value: str | None
    """Label of that item; a date as written in the RDF, a number in canonical form (text/values/literals.py)."""
    precision: int | None
    """Of a date, as Wikidata counts it (text/values/literals.py); None where the data do not say it, and for all else."""
    unit: Qid | None
    """Of a number; None for none."""
    statement: str | None
    """Its id as in the RDF; the smallest of those not deprecated that say a claim; None where no statement says it."""


def call_find_items(service: str, name: str, language: str = "en") -> Call:
    """Ask which items have a name as label or alias, exactly."""
    return Call(service, "find_items", {"name": name, "language": language})


def call_describe_item(service: str, qid: str, language: str = "en") -> Call:
    """Ask for an item's label, description and English article."""
    return Call(service, "describe_items", {"qid": qid, "language": language})


def call_resolve_item(service: str, qid: str, language: str = "en") -> Call:
    """Ask which item a QID stands for now: items that were merged leave redirects behind."""
    return Call(service, "resolve_item", {"qid": qid, "language": language})


def call_neighbours(service: str, qid: str, pids: Sequence[str], language: str = "en") -> Call:
    """Ask for an item's direct claims of some properties."""
    return Call(service, "neighbours", {"qid": qid, "pids": sorted(pids, key=id_number), "language": language})


def call_label(service: str, entity_id: str, language: str = "en") -> Call:
    """Ask for the label of an item or property."""
    return Call(service, "label", {"id": entity_id, "language": language})


def call_list_facts(service: str, pid: str, after: str | None, limit: int, language: str = "en") -> Call:
    """Ask for the next facts of a property, up to `limit` subjects behind `after`."""
    return Call(service, "list_facts", {"pid": pid, "after": after, "limit": limit, "language": language})


def call_item_facts(service: str, qid: str, language: str = "en") -> Call:
    """Ask for the graph of one hop around an item: its direct claims to items, its dates and its numbers."""
    return Call(service, "item_facts", {"qid": qid, "language": language})


def call_pageviews(service: str, title: str, start: str, end: str) -> Call:
    """Ask for the views of an English article from day `start` to day `end` (YYYYMMDD, both included)."""
    return Call(service, "pageviews", {"title": title, "start": start, "end": end})


def read_candidates(body: Any) -> list[Candidate]:
    """Read the answer to find_items."""
    return [Candidate(Qid(found["qid"]), found["via"]) for found in body]


def read_description(body: Any) -> Description:
    """Read the answer to describe_items."""
    return Description(body["label"], body["description"], body["title"], body["modified"])


def write_description(known: Description) -> Json:
    """Return the answer to describe_items."""
    return {
        "label": known.label,
        "description": known.description,
        "title": known.title,
        "modified": known.modified,
    }


def read_neighbours(body: Any) -> list[Neighbour]:
    """Read the answer to neighbours."""
    return [Neighbour(Pid(edge["pid"]), Qid(edge["qid"]), edge["label"]) for edge in body]


def read_facts(body: Any) -> list[Fact]:
    """Read the answer to item_facts."""
    return [Fact(**fact) for fact in body]


def read_fact_pairs(body: Any) -> list[tuple[Qid, Qid]]:
    """Read the answer to list_facts as (subject, value)."""
    return [(Qid(fact["subject"]), Qid(fact["object"])) for fact in body]


def write_facts(facts: Iterable[Fact]) -> list[Json]:
    """Return the answer to item_facts: a JSON object a fact.

    They are in the order of their properties' numbers; dates and numbers come first, by text and statement, then
    claims, by number of the item.
    """
    return [asdict(fact) for fact in sorted(facts, key=_order_fact)]


def _order_fact(fact: Fact) -> tuple[int, bool, int, str, str, int, int]:
    return (
        id_number(fact.pid),
        fact.qid is not None,
        id_number(fact.qid) if fact.qid else 0,
        fact.value or "",
        fact.statement or "",
        -1 if fact.precision is None else fact.precision,
        id_number(fact.unit) if fact.unit else 0,
    )


def choose_candidate(candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate with the smallest number, items with the name as label before those with it as alias.

    The paper's rule (Appendix B, "QID disambiguation"): small numbers were given early, to what is widely known.
    """
    return min(candidates, key=lambda candidate: (candidate.via != "label", id_number(candidate.qid)))
