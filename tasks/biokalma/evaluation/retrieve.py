"""What is known of the people whom a question names: names, items, graphs of one hop, and the likeliest of several bearers (paper §3.1, §3.2).

The world's Wikidata is asked, through the recorder, whoever answers: what a model was shown is part of what is measured.
"""

from collections.abc import Iterable, Mapping, Sequence

from tasks.assets import load_list
from tasks.biokalma.core.evaluation.retrieval import Name, choose_item, choose_names, list_spans
from tasks.biokalma.core.evaluation.rows import BioAsked
from tasks.biokalma.core.evaluation.settings import Graph, show_graphs
from tasks.biokalma.pools import load_left_out, make_pool
from tasks.core.calls.knowledge import (
    HUMAN,
    Candidate,
    Fact,
    call_find_items,
    call_item_facts,
    read_candidates,
    read_facts,
)
from tasks.core.rows import Reject
from tasks.engine.batches import Work
from tasks.lookups.classes import find_instances

MOST_BEARERS = 40
"""Items looked at of each name: by label first, then by number; only a common name has more."""


def retrieve_graphs(work: Work, rows: Sequence[BioAsked], class_qid: str) -> list[BioAsked]:
    """Return the questions with the graphs of the items of a class that they name.

    A question whose names cannot be looked up is shown nothing, and says why (`lookup_failure`).
    """
    named, failed = _find_names(work, rows, class_qid)
    facts, failed_facts = _look_up_facts(work, named)
    failed |= failed_facts
    left_out = load_left_out(class_qid)
    shown = []
    for row in rows:
        if failure := failed.get(row.id):
            work.unsettled += failure.retryable
            shown.append(row.replace(lookup_failure=f"{failure.reason}: {failure.detail}"))
        else:
            shown.append(show_graphs(row, _list_graphs(row.question, named[row.id], facts, left_out)))
    return shown


def _find_names(
    work: Work, rows: Sequence[BioAsked], class_qid: str
) -> tuple[dict[str, list[Name]], dict[str, Reject]]:
    """Return question → the names in it, and question → why they are not known."""
    service = work.run.services.wikidata
    function_words = frozenset(load_list("function_words"))
    # a person is named in full, as in the questions (Appendix A.1)
    shortest = 2 if class_qid == HUMAN else 1
    spans = {row.id: list_spans(row.question, shortest, function_words) for row in rows}
    spelled = [(row_id, each) for row_id, mine in spans.items() for span in mine for each in span.spellings]
    found, failed = work.look_up(
        service, ((row_id, each, call_find_items(service.identity, each)) for row_id, each in spelled), read_candidates
    )
    asked = [(row_id, item.qid) for row_id, each in spelled for item in found.get(each, [])[:MOST_BEARERS]]
    is_instance, failed_class = find_instances(work, asked, class_qid)
    bearers: dict[str, list[Candidate]] = {
        each: [item for item in items[:MOST_BEARERS] if is_instance.get(item.qid)] for each, items in found.items()
    }
    return {row_id: choose_names(mine, bearers) for row_id, mine in spans.items()}, failed | failed_class


def _look_up_facts(work: Work, named: Mapping[str, Iterable[Name]]) -> tuple[dict[str, list[Fact]], dict[str, Reject]]:
    service = work.run.services.wikidata
    asked = [(row_id, item.qid) for row_id, names in named.items() for name in names for item in name.candidates]
    calls = ((row_id, qid, call_item_facts(service.identity, qid)) for row_id, qid in dict.fromkeys(asked))
    return work.look_up(service, calls, read_facts)


def _list_graphs(
    question: str, names: Iterable[Name], facts: Mapping[str, Sequence[Fact]], left_out: set[str]
) -> list[Graph]:
    """Return the graphs of what the names mean, each once; an item of which nothing is known has none."""
    graphs: dict[str, Graph] = {}
    for name in names:
        qid = choose_item(question, name, facts)
        if pool := make_pool(qid, facts[qid], left_out):
            graphs.setdefault(qid, Graph(qid, name.text, tuple(pool)))
    return list(graphs.values())
