"""Write N-Triples with prefixed names instead of whole IRIs."""

from collections.abc import Sequence

from factmill.tasks.core.calls.wikidata import ItemNeighbour
from factmill.tasks.graph.lookup import WikidataGraph

PREFIXES = {
    "wd:": "http://www.wikidata.org/entity/",
    "wdt:": "http://www.wikidata.org/prop/direct/",
    "p:": "http://www.wikidata.org/prop/",
    "ps:": "http://www.wikidata.org/prop/statement/",
    "psv:": "http://www.wikidata.org/prop/statement/value/",
    "pq:": "http://www.wikidata.org/prop/qualifier/",
    "pqv:": "http://www.wikidata.org/prop/qualifier/value/",
    "pr:": "http://www.wikidata.org/prop/reference/",
    "v:": "http://www.wikidata.org/value/",
    "ref:": "http://www.wikidata.org/reference/",
    "wds:": "http://www.wikidata.org/entity/statement/",
    "prov:": "http://www.w3.org/ns/prov#",
    "rdf:": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "wikibase:": "http://wikiba.se/ontology#",
    "rdfs:": "http://www.w3.org/2000/01/rdf-schema#",
    "skos:": "http://www.w3.org/2004/02/skos/core#",
    "owl:": "http://www.w3.org/2002/07/owl#",
    "schema:": "http://schema.org/",
    "xsd:": "http://www.w3.org/2001/XMLSchema#",
    "enwiki:": "https://en.wikipedia.org/wiki/",
    "data:": "https://www.wikidata.org/wiki/Special:EntityData/",
}


def spell_out(text: str) -> str:
    """Return N-Triples from lines with prefixed names: `wd:Q1 wdt:P31 wd:Q5`, one triple a line, no full stop.

    Blank lines are skipped.
    """
    return "".join(f"{_spell_line(line.strip())} .\n" for line in text.split("\n") if line.strip())


def _spell_line(line: str) -> str:
    subject, predicate, thing = line.split(" ", 2)
    value, mark, datatype = thing.partition("^^")
    return " ".join([_spell_term(subject), _spell_term(predicate), _spell_term(value) + mark + _spell_term(datatype)])


def _spell_term(term: str) -> str:
    for prefix, full in PREFIXES.items():
        if term.startswith(prefix):
            return f"<{full}{term.removeprefix(prefix)}>"
    return term


def neighbours(graph: WikidataGraph, qids: Sequence[str], pids: Sequence[str]) -> dict[str, list[ItemNeighbour]]:
    """Return each item's direct claims of some properties."""
    return dict(zip(qids, graph.list_neighbours([(qid, pids) for qid in qids]), strict=True))
