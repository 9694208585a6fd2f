"""Serve a Wikidata of a few triples on loopback."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pyoxigraph
from support.graphs.rdf_lines import spell_out
from support.webs.loopback import Seen

from factmill.tasks.assets import load_sparql_query
from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.calls.operation import find_operation
from factmill.tasks.core.digests import JsonValue
from factmill.tasks.core.sparql import parse_sparql_results


def open_store(triples: str) -> pyoxigraph.Store:
    """Return a store of short triples (rdf_lines.spell_out)."""
    store = pyoxigraph.Store()
    store.load(spell_out(triples).encode(), format=pyoxigraph.RdfFormat.N_TRIPLES)
    return store


def read_query(seen: Seen) -> str:
    """Return the query of a request, however it was sent."""
    return seen.query.get("query") or seen.form()["query"]


def answer_from(store: pyoxigraph.Store) -> Callable[[Seen], dict[str, Any]]:
    """Return a function that answers SPARQL requests from a store."""

    def answer(seen: Seen) -> dict[str, Any]:
        found = store.query(read_query(seen)).serialize(format=pyoxigraph.QueryResultsFormat.JSON)
        return {"text": found.decode(), "type": "application/sparql-results+json"}

    return answer


def answer_together(store: pyoxigraph.Store, calls: Sequence[Call]) -> list[JsonValue]:
    """Return the bodies that a client makes from a store's response to one query for all these calls."""
    operation = find_operation(calls[0].operation)
    assert operation
    assert operation.sparql, f"{calls[0].operation} is not asked of an endpoint"
    sparql = operation.sparql
    query = sparql.fill_query(sparql.query_text or load_sparql_query(sparql.get_query_file(calls[0].parts)), calls)
    found = store.query(query).serialize(format=pyoxigraph.QueryResultsFormat.JSON)  # type: ignore[union-attr]
    return sparql.make_bodies(calls, parse_sparql_results(json.loads(found)))
