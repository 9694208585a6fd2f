"""Test the world as RDF: it has the shapes of Wikidata's own dumps."""

import io
import re
from pathlib import Path

import pyoxigraph
import pytest

from factmill.tasks.world.data import WorldData
from factmill.tasks.world.rdf import iterate_world_triples, write_world_ntriples

PREFIXES = """
PREFIX wd: <http://www.wikidata.org/entity/>
PREFIX wdt: <http://www.wikidata.org/prop/direct/>
PREFIX p: <http://www.wikidata.org/prop/>
PREFIX ps: <http://www.wikidata.org/prop/statement/>
PREFIX psv: <http://www.wikidata.org/prop/statement/value/>
PREFIX pq: <http://www.wikidata.org/prop/qualifier/>
PREFIX pqv: <http://www.wikidata.org/prop/qualifier/value/>
PREFIX wikibase: <http://wikiba.se/ontology#>
PREFIX schema: <http://schema.org/>
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
PREFIX skos: <http://www.w3.org/2004/02/skos/core#>
PREFIX owl: <http://www.w3.org/2002/07/owl#>
"""


@pytest.fixture(scope="module")
def store(sample: WorldData) -> pyoxigraph.Store:
    text = io.StringIO()
    write_world_ntriples(sample, text)
    store = pyoxigraph.Store()
    store.load(text.getvalue().encode(), format=pyoxigraph.RdfFormat.N_TRIPLES)
    return store


def select(store: pyoxigraph.Store, pattern: str) -> list[list[str]]:
    """Return the sorted rows of a pattern, as N-Triples with short prefixes."""
    rows = store.query(f"{PREFIXES} SELECT * WHERE {{ {pattern} }}")
    names = [variable.value for variable in rows.variables]
    return sorted([_shorten(str(row[name])) for name in sorted(names)] for row in rows)


def _shorten(term: str) -> str:
    term = re.sub(r"<http://www\.w3\.org/2001/XMLSchema#(\w+)>", r"xsd:\1", term)
    term = re.sub(r"<http://wikiba\.se/ontology#(\w+)>", r"wikibase:\1", term)
    return re.sub(r"<http://www\.wikidata\.org/entity/([QP]\d+)>", r"wd:\1", term)


@pytest.mark.parametrize(
    ("claim", "text", "precision", "calendar"),
    [
        ("Q1048 P569", "-0099-07-12T00:00:00Z", 11, "Q1985786"),
        ("Q1048 P570", "-0043-03-15T00:00:00Z", 11, "Q1985786"),
        ("Q868 P569", "-0383-01-01T00:00:00Z", 9, "Q1985786"),
        ("Q868 P571", "-0499-01-01T00:00:00Z", 7, "Q1985786"),
        ("Q23 P569", "1870-01-01T00:00:00Z", 8, "Q1985727"),
        ("Q23 P570", "1932-02-01T00:00:00Z", 10, "Q1985727"),
        ("Q64 P571", "1201-01-01T00:00:00Z", 7, "Q1985786"),
    ],
)
def test_times_of_every_precision_have_direct_claim_and_value_node(
    store: pyoxigraph.Store, claim: str, text: str, precision: int, calendar: str
) -> None:
    item, pid = claim.split()
    literal = f'"{text}"^^xsd:dateTime'
    assert select(store, f"wd:{item} wdt:{pid} ?t") == [[literal]]
    node = f"wd:{item} p:{pid} ?s . ?s ps:{pid} ?simple ; psv:{pid} ?v . "
    node += "?v a wikibase:TimeValue ; wikibase:timeValue ?t ; wikibase:timePrecision ?p ; "
    node += "wikibase:timeTimezone ?z ; wikibase:timeCalendarModel ?c"
    [row] = select(store, node)
    calendar_model, precision_text, _, simple, time, _, timezone = row
    assert (time, simple) == (literal, literal)
    assert (precision_text, timezone) == (f'"{precision}"^^xsd:integer', '"0"^^xsd:integer')
    assert calendar_model == f"wd:{calendar}"


def test_quantities_carry_sign_and_unit(store: pyoxigraph.Store, sample: WorldData) -> None:
    pattern = "wd:Q23 p:P2048/psv:P2048 ?v . ?v wikibase:quantityAmount ?a ; wikibase:quantityUnit ?u"
    assert [row[:2] for row in select(store, pattern)] == [
        ['"-3"^^xsd:decimal', "wd:Q199"],
        ['"1.96"^^xsd:decimal', "wd:Q11573"],
    ]
    # the store drops Wikidata's plus sign, as the real query service does
    direct = [
        line
        for line in iterate_world_triples(sample)
        if "/entity/Q23> <http://www.wikidata.org/prop/direct/P2048>" in line
    ]
    assert '"+1.96"^^' in direct[0]


_SITELINK = 'wd:Q821244 ^schema:about ?a . ?a schema:name ?n ; schema:inLanguage "en" ; '
_PARIS = [("en", "Paris"), ("de", "Paris"), ("fr", "Paris"), ("it", "Parigi"), ("es", "París"), ("pt", "Paris")]


@pytest.mark.parametrize(
    ("pattern", "rows"),
    [
        ("wd:Q1048 p:P19/psv:P19 ?v", []),  # an unknown value is a blank node without value node
        ("wd:Q23 wdt:P345 ?id", [['"nm0010930"']]),
        ("wd:Q64 wdt:P856 ?url", [["<https://www.berlin.de/%C3%A4>"]]),
        (
            "wd:Q64 wdt:P18 ?file",
            [["<http://commons.wikimedia.org/wiki/Special:FilePath/Siegessaeule%20at%20dusk.jpg>"]],
        ),
        ("wd:Q90 rdfs:label ?l", sorted([f'"{name}"@{code}'] for code, name in _PARIS)),
        ("wd:Q64 skos:altLabel ?a", [['"Berlin-on-Spree"@en']]),
        ("wd:Q1048 schema:description ?d", [['"Roman \\"general\\" and statesman"@en']]),
        (
            f"{_SITELINK} schema:isPartOf <https://en.wikipedia.org/>",
            [["<https://en.wikipedia.org/wiki/Berlin,_New_Hampshire>", '"Berlin, New Hampshire"@en']],
        ),
        ("?r owl:sameAs wd:Q821244", [["<http://dbpedia.org/resource/Berlin,_New_Hampshire>"]]),
        (
            "?p a wikibase:Property ; wikibase:directClaim wdt:P36 ; wikibase:propertyType ?t",
            [["wd:P36", "wikibase:WikibaseItem"]],
        ),
        ("wd:Q64 wdt:P1082 ?n", [['"3755251"^^xsd:decimal']]),  # only the best rank is truthy
        ("wd:Q64 p:P1082 [ a wikibase:BestRank ; ps:P1082 ?n ]", [['"3755251"^^xsd:decimal']]),
        (
            "wd:Q64 p:P1082 [ ps:P1082 ?n ; wikibase:rank ?r ]",
            [
                ['"3644826"^^xsd:decimal', "wikibase:NormalRank"],
                ['"3755251"^^xsd:decimal', "wikibase:PreferredRank"],
                ['"9999999"^^xsd:decimal', "wikibase:DeprecatedRank"],
            ],
        ),
        (
            "wd:Q64 p:P1082 [ ps:P1082 3644826.0 ; pq:P459 ?how ; pq:P585 ?when ; pqv:P585/wikibase:timePrecision ?p ]",
            [["wd:Q39825", '"11"^^xsd:integer', '"2018-12-31T00:00:00Z"^^xsd:dateTime']],
        ),
    ],
)
def test_rdf_layout_of_values_names_links_ranks_and_qualifiers_matches_wikidata(
    store: pyoxigraph.Store, pattern: str, rows: list[list[str]]
) -> None:
    assert select(store, pattern) == rows


def test_unknown_value_is_blank_node_and_properties_have_types(store: pyoxigraph.Store) -> None:
    [[direct]] = select(store, "wd:Q1048 wdt:P19 ?place")
    assert direct.startswith("_:")
    types = {row[0]: row[1] for row in select(store, "?p wikibase:propertyType ?t")}
    assert [types[f"wd:{pid}"] for pid in ("P18", "P345", "P856", "P569", "P2048", "P1545")] == [
        f"wikibase:{name}" for name in ("CommonsMedia", "ExternalId", "Url", "Time", "Quantity", "String")
    ]


def test_statement_ids_have_form_of_wikidata(store: pyoxigraph.Store) -> None:
    found = select(store, "wd:Q64 p:P1082 ?statement")
    assert len(found) == 3
    assert all(re.search("/statement/Q64-[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}>$", name) for (name,) in found)


def test_triples_are_unique_and_deterministic(sample: WorldData) -> None:
    lines = list(iterate_world_triples(sample))
    assert len(lines) == len(set(lines))
    assert lines == list(iterate_world_triples(sample))


def test_predicates_match_those_of_real_dump(sample: WorldData, shared_data: Path) -> None:
    """Every kind of triple about an item of ours occurs in Wikidata's dump of Q42, or is a known addition."""
    real = pyoxigraph.Store()
    real.load(path=str(shared_data / "wikidata" / "rdf" / "Q42.ttl"), format=pyoxigraph.RdfFormat.TURTLE)
    ours = pyoxigraph.Store()
    ours.load("".join(iterate_world_triples(sample)).encode(), format=pyoxigraph.RdfFormat.N_TRIPLES)
    not_in_dumps = {
        # on the item in the query service, on the data node in a dump
        *("http://schema.org/version", "http://schema.org/dateModified"),
        *("http://wikiba.se/ontology#statements", "http://wikiba.se/ontology#sitelinks"),
        # stated by DBpedia
        "http://www.w3.org/2002/07/owl#sameAs",
    }
    missing = _kinds(ours) - _kinds(real) - not_in_dumps
    assert missing == set()


def _kinds(store: pyoxigraph.Store) -> set[str]:
    """Return a store's predicates with property ids replaced, without those of properties themselves."""
    subjects = (quad for quad in store if "/entity/P" not in str(quad.subject))
    return {re.sub(r"/P\d+$", "/P", quad.predicate.value) for quad in subjects}
