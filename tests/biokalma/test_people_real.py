"""Test that a SPARQL endpoint and a local graph draw and resolve the same people in the real Wikidata subset."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyoxigraph
import pytest
from support.steps.inputs import biokalma_inputs
from support.steps.steps import Left, read_unit, run_step
from support.webs.loopback import Loopback
from support.webs.two_wikidatas import AGENT
from support.webs.wikidata_web import answer_from

from factmill.tasks.biokalma.core.rows import PersonPair
from factmill.tasks.biokalma.pair_preparation import make_person_pairs_from_facts, resolve_people
from factmill.tasks.clients.sparql import SparqlClient
from factmill.tasks.core.service_settings import ServiceLimits
from factmill.tasks.graph.load import load_graph
from factmill.tasks.graph.lookup import open_graph

RELATIONS = ("P26", "P40", "P22", "P25", "P3373", "P1066", "P184", "P737")
LIMITS = ServiceLimits(parallel=2, timeout_s=60, attempts=2, backoff_s=0.01, batch=200)


@pytest.fixture(scope="module")
def services(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Serve the real subset by SPARQL, and load it as a graph."""
    folder, dump = tmp_path_factory.mktemp("real"), shared_data / "wikidata" / "truthy_labelled.nt.gz"
    load_graph([dump], "real", folder)
    store, server = pyoxigraph.Store(), Loopback()
    with gzip.open(dump) as lines:
        store.bulk_load(lines, pyoxigraph.RdfFormat.N_TRIPLES)
    server.handle = answer_from(store)
    with open_graph("real", folder) as graph:
        sparql = SparqlClient("Wikidata", server.url, "w", LIMITS, AGENT)
        yield {"sparql": SimpleNamespace(wikidata=sparql), "graph": SimpleNamespace(wikidata=graph)}
    server.close()


def test_both_engines_draw_and_resolve_same_pairs(
    services: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = biokalma_inputs(limits=dict.fromkeys(RELATIONS))
    left: dict[str, Left] = {}
    for engine, each in services.items():
        rows = []
        for pid in RELATIONS:
            drawn = read_unit(make_person_pairs_from_facts, pid, each, tmp_path / engine / pid, monkeypatch, given)
            rows += [PersonPair.model_validate({**row, "source_name": "real"}) for row in drawn.rows.values()]
        left[engine] = run_step(resolve_people, rows, each, tmp_path / engine, monkeypatch, given)
    assert left["sparql"].rows == left["graph"].rows
    assert left["sparql"].rejects == left["graph"].rejects
    assert left["sparql"].extras == left["graph"].extras
    ambiguous = [
        row for row in left["graph"].rows.values() if max(row["person_candidates"], row["other_candidates"]) > 1
    ]
    print(f"{len(left['graph'].rows)} pairs resolved, {len(ambiguous)} with a name of several")
    assert len(left["graph"].rows) > 500
    assert ambiguous
