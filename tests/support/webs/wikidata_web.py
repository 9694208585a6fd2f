"""A Wikidata of a few triples behind the tests' web server."""

from collections.abc import Callable
from typing import Any

import pyoxigraph
from support.graphs.rdf_lines import spell_out
from support.webs.loopback import Seen


def open_store(triples: str) -> pyoxigraph.Store:
    """Return a store of triples written short (rdf_lines.spell_out)."""
    store = pyoxigraph.Store()
    store.load(spell_out(triples).encode(), format=pyoxigraph.RdfFormat.N_TRIPLES)
    return store


def read_query(seen: Seen) -> str:
    """Return the query of a request, however it was sent."""
    return seen.query.get("query") or seen.form()["query"]


def answer_from(store: pyoxigraph.Store) -> Callable[[Seen], dict[str, Any]]:
    """Return what answers SPARQL requests from a store."""

    def answer(seen: Seen) -> dict[str, Any]:
        found = store.query(read_query(seen)).serialize(format=pyoxigraph.QueryResultsFormat.JSON)
        return {"text": found.decode(), "type": "application/sparql-results+json"}

    return answer
