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

from factmill.tasks.core.fingerprints import digest_json
from factmill.tasks.world.data import (
    Item,
    ItemValue,
    Property,
    QuantityValue,
    Statement,
    TextValue,
    TimeValue,
    UnknownValue,
    Value,
    WorldData,
)

WD = "http://www.wikidata.org/entity/"
WDT = "http://www.wikidata.org/prop/direct/"
P = "http://www.wikidata.org/prop/"
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
GREGORIAN, JULIAN = "Q1985727", "Q1985786"
UNITLESS = "Q199"

_PRECISIONS = {"day": 11, "month": 10, "year": 9, "decade": 8, "century": 7}
_RANKS = {"preferred": "PreferredRank", "normal": "NormalRank", "deprecated": "DeprecatedRank"}
_TYPES = {"item": "WikibaseItem", "time": "Time", "quantity": "Quantity", "string": "String", "external": "ExternalId"}
# Our type `external` covers several Wikidata types.
_EXTERNAL_TYPES = {"P18": "CommonsMedia", "P373": "String", "P856": "Url", "P973": "Url"}
_URL_CHARACTERS = ":/?#[]@!$&'()*+,;=%~"
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def write_rdf(data: WorldData, stream: IO[str]) -> int:
    """Write the world to a text stream as N-Triples, one per line; return their number."""
    count = 0
    for triple in iterate_triples(data):
        stream.write(triple)
        count += 1
    return count


def iterate_triples(data: WorldData) -> Iterator[str]:
    """Yield the world's triples as N-Triples lines, in fixed order, each once."""
    seen_values: set[str] = set()
    for prop in data.properties.values():
        yield from _property_triples(prop)
    for item in data.items.values():
        yield from _item_triples(item)
        yield from _sitelink_triples(item)
        best = {id(statement) for statement in item.best_statements()}
        truthy: set[str] = set()
        for statement in item.statements:
            yield from _statement_triples(item.qid, statement, id(statement) in best, truthy, seen_values)
    yield _line(f"<{ENGLISH_WIKIPEDIA}>", _iri(WIKIBASE, "wikiGroup"), _text("wikipedia"))


def dbpedia_iri(title: str) -> str:
    """Return the DBpedia IRI of an English article; DBpedia leaves non-ASCII letters unescaped."""
    return DBPEDIA + "".join(f"%{ord(c):02X}" if c in '<>"{}|^`\\%' else c for c in title.replace(" ", "_"))


def date_time(time: TimeValue) -> str:
    """Return a time as xsd:dateTime: astronomical four-digit year; a missing month or day is 1."""
    sign = "-" if time.year < 0 else ""
    return f"{sign}{abs(time.year):04d}-{time.month:02d}-{time.day:02d}T00:00:00Z"


def _property_triples(prop: Property) -> Iterator[str]:
    subject = _iri(WD, prop.pid)
    kind = _TYPES[prop.data_type]
    if prop.data_type == "external":
        kind = _EXTERNAL_TYPES.get(prop.pid, kind)
    yield _line(subject, RDF_TYPE, _iri(WIKIBASE, "Property"))
    yield _line(subject, _iri(WIKIBASE, "propertyType"), _iri(WIKIBASE, kind))
    yield from (_line(subject, RDFS_LABEL, _text(label, language)) for language, label in prop.labels.items())
    roles = {"directClaim": WDT, "claim": P, "statementProperty": PS, "statementValue": PSV, "qualifier": PQ}
    for role, prefix in (*roles.items(), ("qualifierValue", PQV)):
        yield _line(subject, _iri(WIKIBASE, role), _iri(prefix, prop.pid))


def _item_triples(item: Item) -> Iterator[str]:
    subject = _iri(WD, item.qid)
    yield _line(subject, RDF_TYPE, _iri(WIKIBASE, "Item"))
    yield from (_line(subject, RDFS_LABEL, _text(label, language)) for language, label in item.labels.items())
    yield from (_line(subject, SKOS_ALT_LABEL, _text(alias, "en")) for alias in dict.fromkeys(item.aliases))
    if item.description:
        yield _line(subject, _iri(SCHEMA, "description"), _text(item.description, "en"))
    version = 2_000_000_000 + int(item.qid[1:]) % 100_000_000
    yield _line(subject, _iri(SCHEMA, "version"), _typed(str(version), "integer"))
    # if unknown, made up: a time in 2025 that depends on the item's number
    made_up = datetime(2025, 1, 1, tzinfo=UTC) + timedelta(minutes=int(item.qid[1:]) * 7919 % (360 * 24 * 60))
    modified = item.modified or made_up.strftime("%Y-%m-%dT%H:%M:%SZ")
    yield _line(subject, _iri(SCHEMA, "dateModified"), _typed(modified, "dateTime"))
    yield _line(subject, _iri(WIKIBASE, "statements"), _typed(str(len(item.statements)), "integer"))
    yield _line(subject, _iri(WIKIBASE, "sitelinks"), _typed("1" if item.title else "0", "integer"))


def _sitelink_triples(item: Item) -> Iterator[str]:
    if not item.title:
        return
    article = f"<{ENGLISH_WIKIPEDIA}wiki/{quote(item.title.replace(' ', '_'), safe=';@$!*(),/:~')}>"
    yield _line(article, RDF_TYPE, _iri(SCHEMA, "Article"))
    yield _line(article, _iri(SCHEMA, "about"), _iri(WD, item.qid))
    yield _line(article, _iri(SCHEMA, "inLanguage"), _text("en"))
    yield _line(article, _iri(SCHEMA, "isPartOf"), f"<{ENGLISH_WIKIPEDIA}>")
    yield _line(article, _iri(SCHEMA, "name"), _text(item.title, "en"))
    yield _line(f"<{dbpedia_iri(item.title)}>", OWL_SAME_AS, _iri(WD, item.qid))


def _statement_triples(
    qid: str, statement: Statement, is_best: bool, truthy: set[str], seen_values: set[str]
) -> Iterator[str]:
    told = [qid, statement.pid, repr(statement.value), repr(statement.qualifiers), statement.rank]
    digest = digest_json(told).upper()
    # an id like Q42-D8404CDA-25E4-4334-AF13-A3290BCD9C0F; equal content gives equal ids
    name = f"{qid}-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"
    node, pid = _iri(WDS, name), statement.pid
    simple = _simple_value(statement.value, pid, name)
    if is_best:
        # statements that differ only in qualifiers share one direct claim
        direct = _line(_iri(WD, qid), _iri(WDT, pid), simple)
        if direct not in truthy:
            truthy.add(direct)
            yield direct
        yield _line(node, RDF_TYPE, _iri(WIKIBASE, "BestRank"))
    yield _line(_iri(WD, qid), _iri(P, pid), node)
    yield _line(node, RDF_TYPE, _iri(WIKIBASE, "Statement"))
    yield _line(node, _iri(WIKIBASE, "rank"), _iri(WIKIBASE, _RANKS[statement.rank]))
    yield _line(node, _iri(PS, pid), simple)
    yield from _value_node(node, _iri(PSV, pid), statement.value, seen_values)
    for each in dict.fromkeys(statement.qualifiers):
        yield _line(node, _iri(PQ, each.pid), _simple_value(each.value, each.pid, f"{name} {each.pid}"))
        yield from _value_node(node, _iri(PQV, each.pid), each.value, seen_values)


def _simple_value(value: Value, pid: str, owner: str) -> str:
    """Return the value as one RDF term; `owner` distinguishes blank nodes of unknown values."""
    if isinstance(value, ItemValue):
        return _iri(WD, value.qid)
    if isinstance(value, TimeValue):
        return _typed(date_time(value), "dateTime")
    if isinstance(value, QuantityValue):
        return _typed(_signed(value.amount), "decimal")
    if isinstance(value, UnknownValue):
        return f"_:genid{digest_json([owner])[:32]}"
    if _EXTERNAL_TYPES.get(pid) == "CommonsMedia":
        return f"<http://commons.wikimedia.org/wiki/Special:FilePath/{quote(value.text, safe='')}>"
    is_url = value.text.startswith(("http://", "https://"))
    return f"<{quote(value.text, safe=_URL_CHARACTERS)}>" if is_url else _text(value.text)


def _value_node(node: str, predicate: str, value: Value, seen_values: set[str]) -> Iterator[str]:
    """Yield the link to a time's or quantity's value node, and the node itself on first use."""
    if isinstance(value, ItemValue | TextValue | UnknownValue):
        return
    full = _iri(WDV, digest_json([repr(value)])[:32])
    yield _line(node, predicate, full)
    if full in seen_values:
        return
    seen_values.add(full)
    if isinstance(value, TimeValue):
        yield _line(full, RDF_TYPE, _iri(WIKIBASE, "TimeValue"))
        yield _line(full, _iri(WIKIBASE, "timeValue"), _typed(date_time(value), "dateTime"))
        yield _line(full, _iri(WIKIBASE, "timePrecision"), _typed(str(_PRECISIONS[value.precision]), "integer"))
        yield _line(full, _iri(WIKIBASE, "timeTimezone"), _typed("0", "integer"))
        yield _line(full, _iri(WIKIBASE, "timeCalendarModel"), _iri(WD, JULIAN if value.is_julian else GREGORIAN))
    else:
        yield _line(full, RDF_TYPE, _iri(WIKIBASE, "QuantityValue"))
        yield _line(full, _iri(WIKIBASE, "quantityAmount"), _typed(_signed(value.amount), "decimal"))
        yield _line(full, _iri(WIKIBASE, "quantityUnit"), _iri(WD, value.unit or UNITLESS))


def _signed(amount: str) -> str:
    return amount if amount.startswith("-") else f"+{amount}"


def _iri(prefix: str, name: str) -> str:
    return f"<{prefix}{name}>"


def _text(text: str, language: str = "") -> str:
    return f'"{text.translate(_ESCAPES)}"' + (f"@{language}" if language else "")


def _typed(text: str, kind: str) -> str:
    return f'"{text}"^^<{XSD}{kind}>'


def _line(subject: str, predicate: str, obj: str) -> str:
    return f"{subject} {predicate} {obj} .\n"
