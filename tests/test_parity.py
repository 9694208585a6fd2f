"""Test that the local graph and the SPARQL endpoint give the same bodies over the whole embedded world."""

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from support.own_operation import DESCRIPTIONS
from support.webs.prepared import copy_prepared

from factmill.tasks.assets import load_entity_questions_relations
from factmill.tasks.clients.sparql import SparqlClient
from factmill.tasks.core.calls.call import Call, CallResponse, CallService
from factmill.tasks.core.calls.item_facts import ITEM_FACTS_OPERATION
from factmill.tasks.core.calls.operation import Operation, list_operations
from factmill.tasks.core.calls.wikidata import ALIASES_OPERATION
from factmill.tasks.core.digests import JsonValue
from factmill.tasks.engine.services import open_or_build_embedded_graph
from factmill.tasks.settings import load_world
from factmill.tasks.world.files import load_world_data
from factmill.tasks.world.serving import running_world

SOME_PIDS = ("P17", "P19", "P27", "P31", "P50", "P106", "P131", "P279")


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[CallService, CallService]]:
    """Return the SPARQL client on a running Oxigraph, and the local graph of the same triples."""
    home = copy_prepared(tmp_path_factory.mktemp("home"))
    settings = load_world("embedded")
    with running_world(home) as world, open_or_build_embedded_graph(home) as graph:
        url = world.endpoints["wikidata"]
        yield SparqlClient("Wikidata", url, "sparql", settings.wikidata.limits, settings.user_agent), graph


def answer(service: CallService, calls: Sequence[Call]) -> list[JsonValue]:
    replies: dict[str, CallResponse] = {}
    service.send(calls, lambda call, reply: replies.__setitem__(call.key, reply))
    assert [replies[call.key].error for call in calls if replies[call.key].status != "ok"] == []
    return [replies[call.key].body for call in calls]


def list_calls(operation: Operation[Any], language: str) -> list[Call]:
    """Return calls of an operation about everything in the world, and about unknown values."""
    world = load_world_data()
    qids = [*world.items, "Q999999999"]
    values: dict[str, Sequence[Any]] = {
        "name": sorted(
            {name for item in world.items.values() for name in item.names} | {"no name", 'a "b" {c} \\ d\n'}
        ),
        "qid": qids,
        "id": [*qids, *world.properties, "P999999"],
        "pid": list(load_entity_questions_relations()),
        "pids": [list(SOME_PIDS)],
        "after": (None, "Q100"),
        "limit": (3, 5000),
        "language": (language,),
    }
    chosen = product(*(values[name] for name in operation.part_checks))
    return [operation.make_call("s", **dict(zip(operation.part_checks, each, strict=True))) for each in chosen]


@pytest.mark.parametrize("language", ["en", "pt"])
@pytest.mark.parametrize(
    "operation", [each for each in list_operations() if callable(each.load_from_graph)], ids=lambda each: each.name
)
def test_sparql_and_graph_return_same_bodies(
    services: tuple[CallService, CallService], operation: Operation[Any], language: str
) -> None:
    sparql, graph = services
    calls = list_calls(operation, language)
    by_sparql, by_graph = answer(sparql, calls), answer(graph, calls)
    if operation not in (ALIASES_OPERATION, DESCRIPTIONS):
        assert sum(map(bool, by_sparql)) > len(calls) / 4
    else:  # the world has them in English alone
        assert any(by_sparql) == (language == "en")
    assert by_sparql == by_graph


def test_world_facts_have_statements_precisions_and_units(services: tuple[CallService, CallService]) -> None:
    bodies = answer(services[1], list_calls(ITEM_FACTS_OPERATION, "en"))
    facts = [fact for body in bodies for fact in body]  # type: ignore[union-attr]
    assert all(fact["statement"] for fact in facts)
    assert all(fact["value"] for fact in facts if fact["qid"] is None)
    assert {fact["precision"] for fact in facts} >= {None, 9, 11}
    assert len({fact["unit"] for fact in facts}) > 3


def test_world_contains_ambiguous_names() -> None:
    names: dict[str, set[str]] = {}
    for qid, item in load_world_data().items.items():
        names.setdefault(item.labels["en"], set()).add(qid)
    assert sum(len(qids) > 1 for qids in names.values()) >= 15


def test_embedded_graph_is_built_once(tmp_path: Path) -> None:
    with open_or_build_embedded_graph(tmp_path) as first:
        made = first.manifest.created_at
    with open_or_build_embedded_graph(tmp_path) as second:
        assert second.manifest.created_at == made
