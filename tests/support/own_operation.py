"""Define an operation of a benchmark's own: the description of an item."""

from collections.abc import Sequence
from typing import Any

from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.calls.operation import (
    CallParts,
    Operation,
    OperationSparqlMapping,
    is_item_id,
    is_string_value,
    list_item_dependency,
)
from factmill.tasks.core.calls.wikidata import make_item_and_language_terms
from factmill.tasks.core.digests import JsonValue
from factmill.tasks.core.sparql import (
    SolutionValues,
    adapt_value_reader_to_solutions,
    find_smallest_value,
    group_rows_by_item,
)
from factmill.tasks.text.wikidata_ids import get_wikidata_id_number

_QUERY = """
PREFIX wd: <http://www.wikidata.org/entity/>
PREFIX schema: <http://schema.org/>
SELECT ?item ?description WHERE {
  VALUES ?language { "en" }
  VALUES ?item { wd:Q42 }
  ?item schema:description ?description .
  FILTER(lang(?description) = ?language)
}
"""
_SQL = "SELECT item, text FROM keys JOIN graph.descriptions USING (item) WHERE language = $language"


def _read_rows(calls: Sequence[Call], rows: Sequence[SolutionValues]) -> list[JsonValue]:
    by_qid = group_rows_by_item(rows)
    return [find_smallest_value(row["description"] for row in by_qid[str(call.parts["qid"])]) for call in calls]


def _look_up(graph: Any, parts: Sequence[CallParts], language: str) -> list[JsonValue]:
    import pyarrow as pa

    keys = pa.table({"item": pa.array(sorted({get_wikidata_id_number(each["qid"]) for each in parts}), pa.int64())})
    found = dict(graph.query(_SQL, {"keys": keys}, language=language))
    return [found.get(get_wikidata_id_number(each["qid"])) for each in parts]


DESCRIPTIONS = Operation(
    "descriptions",
    service="wikidata",
    part_checks={"qid": is_item_id, "language": is_string_value},
    parse_body=lambda body: body,
    sparql=OperationSparqlMapping(
        query_text=_QUERY,
        varying_parts=("qid",),
        make_terms=make_item_and_language_terms,
        make_bodies=adapt_value_reader_to_solutions(_read_rows),
    ),
    load_from_graph=_look_up,
    list_dependencies=list_item_dependency,
)
