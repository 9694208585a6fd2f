"""Write the embedded world as RDF (N-Triples), in the form that Wikidata's query service holds.

The triples follow the real dumps (statement, value and sitelink nodes, ranks, best ranks, value nodes shared by equal
values) with the query service's two changes: version and modification date belong to the item itself, and labels use
rdfs:label alone. Versions are made up from the item's number; so is the modification date, if the item's file has none.
Dates appear as written in the files; those before 15 October 1582 name the Julian calendar.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import IO
from urllib.parse import quote

from factmill.tasks.core.digests import digest_json
from factmill.tasks.world.data import (
    Item,
    ItemValue,
    QuantityValue,
    Statement,
    StatementValue,
    StringIdOrUrlValue,
    TimeValue,
    UnknownValue,
    WikidataProperty,
    WorldData,
)

WD = "http://www.wikidata.org/entity/"
WDT = "http://www.wikidata.org/prop/direct/"
P_CLAIM = "http://www.wikidata.org/prop/"
WDS = "http://www.wikidata.org/entity/statement/"
WDV = "http://www.wikidata.org/value/"
PS = "http://www.wikidata.org/prop/statement/"
PSV = "http://www.wikidata.org/prop/statement/value/"
PQ = "http://www.wikidata.org/prop/qualifier/"
PQV = "http://www.wikidata.org/prop/qualifier/value/"
WIKIBASE = "http://wikiba.se/ontology#"
SCHEMA = "http://schema.org/"
RDF_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
RDFS_LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
SKOS_ALT_LABEL = "<http://www.w3.org/2004/02/skos/core#altLabel>"
OWL_SAME_AS = "<http://www.w3.org/2002/07/owl#sameAs>"
XSD = "http://www.w3.org/2001/XMLSchema#"
ENGLISH_WIKIPEDIA = "https://en.wikipedia.org/"
DBPEDIA = "http://dbpedia.org/resource/"
GREGORIAN_CALENDAR_QID, JULIAN_CALENDAR_QID = "Q1985727", "Q1985786"
UNITLESS_QID = "Q199"

_PRECISION_NUMBERS = {"day": 11, "month": 10, "year": 9, "decade": 8, "century": 7}
_RANK_NAMES = {"preferred": "PreferredRank", "normal": "NormalRank", "deprecated": "DeprecatedRank"}
_PROPERTY_TYPES = {
    "item": "WikibaseItem",
    "time": "Time",
    "quantity": "Quantity",
    "string": "String",
    "external": "ExternalId",
}
# Our type `external` covers several Wikidata types.
_EXTERNAL_PROPERTY_TYPES = {"P18": "CommonsMedia", "P373": "String", "P856": "Url", "P973": "Url"}
_URL_CHARACTERS = ":/?#[]@!$&'()*+,;=%~"
_LITERAL_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def write_world_ntriples(data: WorldData, stream: IO[str]) -> int:
    """Write the world to a text stream as N-Triples, one per line; return their number."""
    count = 0
    for triple in iterate_world_triples(data):
        stream.write(triple)
        count += 1
    return count


def iterate_world_triples(data: WorldData) -> Iterator[str]:
    """Yield the world's triples as N-Triples lines, in fixed order, each once."""
    seen_values: set[str] = set()
    for prop in data.properties.values():
        yield from _iterate_property_triples(prop)
    for item in data.items.values():
        yield from _iterate_item_terms_and_metadata_triples(item)
        yield from _iterate_sitelink_triples(item)
        best = {id(statement) for statement in item.iterate_best_statements()}
        truthy: set[str] = set()
        for statement in item.statements:
            yield from _iterate_statement_triples(item.qid, statement, id(statement) in best, truthy, seen_values)
    yield _format_triple(f"<{ENGLISH_WIKIPEDIA}>", _format_iri(WIKIBASE, "wikiGroup"), _format_literal("wikipedia"))


def make_dbpedia_iri(title: str) -> str:
    """Return the DBpedia IRI of an English article; DBpedia leaves non-ASCII letters unescaped."""
    return DBPEDIA + "".join(f"%{ord(c):02X}" if c in '<>"{}|^`\\%' else c for c in title.replace(" ", "_"))


def format_xsd_datetime(time: TimeValue) -> str:
    """Return a time as xsd:dateTime: astronomical four-digit year; a missing month or day is 1."""
    sign = "-" if time.year < 0 else ""
    return f"{sign}{abs(time.year):04d}-{time.month:02d}-{time.day:02d}T00:00:00Z"


def _iterate_property_triples(prop: WikidataProperty) -> Iterator[str]:
    kind = _PROPERTY_TYPES[prop.data_type]
    if prop.data_type == "external":
        kind = _EXTERNAL_PROPERTY_TYPES.get(prop.pid, kind)
    roles = {"directClaim": WDT, "claim": P_CLAIM, "statementProperty": PS, "statementValue": PSV, "qualifier": PQ}
    yield from _format_triples(
        _format_iri(WD, prop.pid),
        (RDF_TYPE, _format_iri(WIKIBASE, "Property")),
        (_format_iri(WIKIBASE, "propertyType"), _format_iri(WIKIBASE, kind)),
        *((RDFS_LABEL, _format_literal(label, language)) for language, label in prop.labels.items()),
        *((_format_iri(WIKIBASE, role), _format_iri(prefix, prop.pid)) for role, prefix in roles.items()),
        (_format_iri(WIKIBASE, "qualifierValue"), _format_iri(PQV, prop.pid)),
    )


def _iterate_item_terms_and_metadata_triples(item: Item) -> Iterator[str]:
    number = int(item.qid[1:])
    # if unknown, made up: a time in 2025 that depends on the item's number
    made_up = datetime(2025, 1, 1, tzinfo=UTC) + timedelta(minutes=number * 7919 % (360 * 24 * 60))
    modified = item.modified or made_up.strftime("%Y-%m-%dT%H:%M:%SZ")
    described = [item.description] if item.description else []
    yield from _format_triples(
        _format_iri(WD, item.qid),
        (RDF_TYPE, _format_iri(WIKIBASE, "Item")),
        *((RDFS_LABEL, _format_literal(label, language)) for language, label in item.labels.items()),
        *((SKOS_ALT_LABEL, _format_literal(alias, "en")) for alias in dict.fromkeys(item.aliases)),
        *((_format_iri(SCHEMA, "description"), _format_literal(text, "en")) for text in described),
        (_format_iri(SCHEMA, "version"), _format_xsd_literal(2_000_000_000 + number % 100_000_000, "integer")),
        (_format_iri(SCHEMA, "dateModified"), _format_xsd_literal(modified, "dateTime")),
        (_format_iri(WIKIBASE, "statements"), _format_xsd_literal(len(item.statements), "integer")),
        (_format_iri(WIKIBASE, "sitelinks"), _format_xsd_literal(1 if item.title else 0, "integer")),
    )


def _iterate_sitelink_triples(item: Item) -> Iterator[str]:
    if not item.title:
        return
    yield from _format_triples(
        f"<{ENGLISH_WIKIPEDIA}wiki/{quote(item.title.replace(' ', '_'), safe=';@$!*(),/:~')}>",
        (RDF_TYPE, _format_iri(SCHEMA, "Article")),
        (_format_iri(SCHEMA, "about"), _format_iri(WD, item.qid)),
        (_format_iri(SCHEMA, "inLanguage"), _format_literal("en")),
        (_format_iri(SCHEMA, "isPartOf"), f"<{ENGLISH_WIKIPEDIA}>"),
        (_format_iri(SCHEMA, "name"), _format_literal(item.title, "en")),
    )
    yield _format_triple(f"<{make_dbpedia_iri(item.title)}>", OWL_SAME_AS, _format_iri(WD, item.qid))


def _iterate_statement_triples(
    qid: str, statement: Statement, is_best: bool, truthy: set[str], seen_values: set[str]
) -> Iterator[str]:
    content = [qid, statement.pid, repr(statement.value), repr(statement.qualifiers), statement.rank]
    digest = digest_json(content).upper()
    # an id like Q42-D8404CDA-25E4-4334-AF13-A3290BCD9C0F; equal content gives equal ids
    name = f"{qid}-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"
    node, pid = _format_iri(WDS, name), statement.pid
    simple = _format_value_as_rdf_term(statement.value, pid, name)
    if is_best:
        # statements that differ only in qualifiers share one direct claim
        direct = _format_triple(_format_iri(WD, qid), _format_iri(WDT, pid), simple)
        if direct not in truthy:
            truthy.add(direct)
            yield direct
        yield _format_triple(node, RDF_TYPE, _format_iri(WIKIBASE, "BestRank"))
    yield _format_triple(_format_iri(WD, qid), _format_iri(P_CLAIM, pid), node)
    yield _format_triple(node, RDF_TYPE, _format_iri(WIKIBASE, "Statement"))
    yield _format_triple(node, _format_iri(WIKIBASE, "rank"), _format_iri(WIKIBASE, _RANK_NAMES[statement.rank]))
    yield _format_triple(node, _format_iri(PS, pid), simple)
    yield from _iterate_value_node_triples(node, _format_iri(PSV, pid), statement.value, seen_values)
    for each in dict.fromkeys(statement.qualifiers):
        yield _format_triple(
            node, _format_iri(PQ, each.pid), _format_value_as_rdf_term(each.value, each.pid, f"{name} {each.pid}")
        )
        yield from _iterate_value_node_triples(node, _format_iri(PQV, each.pid), each.value, seen_values)


def _format_value_as_rdf_term(value: StatementValue, pid: str, owner: str) -> str:
    """Return the value as one RDF term; `owner` distinguishes blank nodes of unknown values."""
    if isinstance(value, ItemValue):
        return _format_iri(WD, value.qid)
    if isinstance(value, TimeValue):
        return _format_xsd_literal(format_xsd_datetime(value), "dateTime")
    if isinstance(value, QuantityValue):
        return _format_xsd_literal(_format_signed_amount(value.amount), "decimal")
    if isinstance(value, UnknownValue):
        return f"_:genid{digest_json([owner])[:32]}"
    if _EXTERNAL_PROPERTY_TYPES.get(pid) == "CommonsMedia":
        return f"<http://commons.wikimedia.org/wiki/Special:FilePath/{quote(value.text, safe='')}>"
    is_url = value.text.startswith(("http://", "https://"))
    return f"<{quote(value.text, safe=_URL_CHARACTERS)}>" if is_url else _format_literal(value.text)


def _iterate_value_node_triples(
    node: str, predicate: str, value: StatementValue, seen_values: set[str]
) -> Iterator[str]:
    """Yield the link to a time's or quantity's value node, and the node itself on first use."""
    if isinstance(value, ItemValue | StringIdOrUrlValue | UnknownValue):
        return
    full = _format_iri(WDV, digest_json([repr(value)])[:32])
    yield _format_triple(node, predicate, full)
    if full in seen_values:
        return
    seen_values.add(full)
    if isinstance(value, TimeValue):
        calendar = JULIAN_CALENDAR_QID if value.is_julian else GREGORIAN_CALENDAR_QID
        yield from _format_triples(
            full,
            (RDF_TYPE, _format_iri(WIKIBASE, "TimeValue")),
            (_format_iri(WIKIBASE, "timeValue"), _format_xsd_literal(format_xsd_datetime(value), "dateTime")),
            (
                _format_iri(WIKIBASE, "timePrecision"),
                _format_xsd_literal(_PRECISION_NUMBERS[value.precision], "integer"),
            ),
            (_format_iri(WIKIBASE, "timeTimezone"), _format_xsd_literal(0, "integer")),
            (_format_iri(WIKIBASE, "timeCalendarModel"), _format_iri(WD, calendar)),
        )
    else:
        yield from _format_triples(
            full,
            (RDF_TYPE, _format_iri(WIKIBASE, "QuantityValue")),
            (
                _format_iri(WIKIBASE, "quantityAmount"),
                _format_xsd_literal(_format_signed_amount(value.amount), "decimal"),
            ),
            (_format_iri(WIKIBASE, "quantityUnit"), _format_iri(WD, value.unit or UNITLESS_QID)),
        )


def _format_signed_amount(amount: str) -> str:
    return amount if amount.startswith("-") else f"+{amount}"


def _format_iri(prefix: str, name: str) -> str:
    return f"<{prefix}{name}>"


def _format_literal(text: str, language: str = "") -> str:
    return f'"{text.translate(_LITERAL_ESCAPES)}"' + (f"@{language}" if language else "")


def _format_xsd_literal(value: str | int, kind: str) -> str:
    return f'"{value}"^^<{XSD}{kind}>'


def _format_triples(subject: str, *rows: tuple[str, str]) -> Iterator[str]:
    """Yield the triples of a subject with these predicates and objects."""
    return (_format_triple(subject, *row) for row in rows)


def _format_triple(subject: str, predicate: str, obj: str) -> str:
    return f"{subject} {predicate} {obj} .\n"
