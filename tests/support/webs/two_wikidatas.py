"""Serve the same triples by a SPARQL endpoint and as a local graph, and compare what steps make with both."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from support.graphs.rdf_lines import spell_out
from support.steps.steps import Left
from support.webs.loopback import Loopback, Seen
from support.webs.wikidata_web import answer_from, open_store, read_query

from factmill.tasks.clients.sparql import SparqlClient
from factmill.tasks.core.service_settings import ServiceLimits
from factmill.tasks.graph.load import load_graph
from factmill.tasks.graph.lookup import open_graph

LIMITS = ServiceLimits(parallel=2, timeout_s=5, attempts=2, backoff_s=0.01, batch=50)
AGENT = "factmill tests"


class TwoWikidatas:
    """The triples (rdf_lines.spell_out), served twice."""

    def __init__(self, triples: str, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "all.nt").write_text(spell_out(triples), "utf-8", newline="")
        load_graph([folder / "all.nt"], "all", folder / "graphs")
        self.graph = open_graph("all", folder / "graphs")
        self.server = Loopback()
        self.server.handle = self._answer
        self.too_much = ""
        """The endpoint aborts queries with these words, as if they took too long."""
        self._store = answer_from(open_store(triples))

    def close(self) -> None:
        """Stop the server and close the graph."""
        self.server.close()
        self.graph.close()

    def sparql(self, limits: ServiceLimits = LIMITS) -> SparqlClient:
        """Return a new client of the endpoint, as each build has."""
        return SparqlClient("Wikidata", self.server.url, "w", limits, AGENT)

    def run(self, run: Callable[[Any, Path], Left], folder: Path, **services: Any) -> Left:
        """Run a step, given services and a folder, with the endpoint and with the graph; return both results."""
        left = run(SimpleNamespace(wikidata=self.sparql(), **services), folder / "sparql")
        again = run(SimpleNamespace(wikidata=self.graph, **services), folder / "graph")
        assert (left.rows, left.rejects, left.merged) == (again.rows, again.rejects, again.merged)
        assert (left.extras, left.receipt.unsettled) == (again.extras, again.receipt.unsettled)
        return left

    def _answer(self, seen: Seen) -> dict[str, Any]:
        if self.too_much and self.too_much in read_query(seen):
            return {"status": 504, "text": "Gateway Time-out"}
        return self._store(seen)


class Served:
    """Items (triples each) served twice; all tests share the servers of the same items."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, TwoWikidatas] = {}

    def open(self, items: Sequence[str]) -> TwoWikidatas:
        """Return the servers of these items, with faults reset."""
        triples = "\n".join(items)
        if triples not in self._open:
            self._open[triples] = TwoWikidatas(triples, self._folder / str(len(self._open)))
        self._open[triples].too_much = ""
        return self._open[triples]

    def close(self) -> None:
        """Stop all servers."""
        for each in self._open.values():
            each.close()
