"""What items say in one hop, with the statements that say it: the neighbourhood of each, joined with table `claims`.

The arrays hold claims without their statements, since paths do not need them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from tasks.core.calls.knowledge import Fact, Qid
from tasks.graph.neighbourhoods import Neighbourhood, read_numbers
from tasks.text.ids import id_number

if TYPE_CHECKING:
    from tasks.graph.lookup import Graph

_CLAIMS = "SELECT item, property, object, min(statement) FROM keys JOIN graph.claims USING (item) GROUP BY ALL"

_Said = Mapping[tuple[int, int, int], str]
"""Item, property and value of a claim → the statement that says it."""


def read_facts(graph: "Graph", qids: Sequence[str], language: str) -> list[list[Fact]]:
    """Return what each item says in one hop; see Graph.item_facts.

    Of the statements that say one claim the smallest id is told, so that the answer is one whatever the order.
    """
    keys = pa.table({"item": pa.array(read_numbers(qids))})
    said = {(item, pid, qid): statement for item, pid, qid, statement in graph.query(_CLAIMS, {"keys": keys})}
    around = graph.neighbourhoods(qids, language)
    return [list(_list_facts(id_number(qid), around[Qid(qid)], said)) for qid in qids]


def _list_facts(item: int, around: Neighbourhood, said: _Said) -> Iterator[Fact]:
    for each in around.literals:
        yield Fact(each.pid, each.property_label, None, each.value, each.precision, each.unit, each.statement)
    for claim in around.claims:
        statement = said.get((item, id_number(claim.pid), id_number(claim.qid)))
        yield Fact(claim.pid, claim.property_label, claim.qid, claim.label, None, None, statement)
