"""An operation that a benchmark brings along: how an item is described, defined here and nowhere else."""

from collections.abc import Sequence
from typing import Any

from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.calls.knowledge import list_item_terms
from factmill.tasks.core.calls.operation import Operation, Parts, Sparql, is_item, is_text, rest_on_item
from factmill.tasks.core.fingerprints import Json
from factmill.tasks.core.sparql import Row, by_texts, find_first, group_by_item
from factmill.tasks.text.ids import id_number

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


def _read_rows(calls: Sequence[Call], rows: Sequence[Row]) -> list[Json]:
    by_qid = group_by_item(rows)
    return [find_first(row["description"] for row in by_qid[str(call.parts["qid"])]) for call in calls]


def _look_up(graph: Any, parts: Sequence[Parts], language: str) -> list[Json]:
    import pyarrow as pa

    keys = pa.table({"item": pa.array(sorted({id_number(each["qid"]) for each in parts}), pa.int64())})
    found = dict(graph.query(_SQL, {"keys": keys}, language=language))
    return [found.get(id_number(each["qid"])) for each in parts]


DESCRIPTIONS = Operation(
    "descriptions",
    service="wikidata",
    parts={"qid": is_item, "language": is_text},
    read=lambda body: body,
    sparql=Sparql(text=_QUERY, own=("qid",), terms=list_item_terms, read=by_texts(_read_rows)),
    graph=_look_up,
    rests_on=rest_on_item,
)
