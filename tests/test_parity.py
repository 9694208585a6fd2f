"""The local graph and the SPARQL endpoint answer alike, on the whole embedded world, body for body."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.webs.prepared import copy_prepared

from tasks.assets import load_query, load_relations
from tasks.clients.wikidata.client import WikidataSparql
from tasks.clients.wikidata.queries import QUERY_IDS
from tasks.core.calls.call import Call, Reply, Service
from tasks.core.calls.knowledge import (
    call_describe_item,
    call_find_items,
    call_item_facts,
    call_label,
    call_list_facts,
    call_neighbours,
    call_resolve_item,
)
from tasks.core.fingerprints import Json
from tasks.engine.services import embedded_graph
from tasks.settings import load_world
from tasks.world.files.reading import load_world_data
from tasks.world.serving import running_world

SOME_PIDS = ("P17", "P19", "P27", "P31", "P50", "P106", "P131", "P279")


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Service]]:
    """Return the SPARQL client on a running Oxigraph, and the local graph of the same triples."""
    home = copy_prepared(tmp_path_factory.mktemp("home"))
    settings = load_world("embedded")
    queries = {name: load_query(query_id) for name, query_id in QUERY_IDS.items()}
    with running_world(home) as world, embedded_graph(home) as graph:
        url = world.endpoints["wikidata"]
        yield WikidataSparql(url, "sparql", settings.wikidata.limits, settings.user_agent, queries), graph


def answer(service: Service, calls: Sequence[Call]) -> list[Json]:
    replies: dict[str, Reply] = {}
    service.send(calls, lambda call, reply: replies.__setitem__(call.key, reply))
    assert [replies[call.key].error for call in calls if replies[call.key].status != "ok"] == []
    return [replies[call.key].body for call in calls]


def questions(kind: str) -> list[Call]:
    items = load_world_data().items
    qids = [*items, "Q999999999"]
    if kind == "candidates":
        names = {name for item in items.values() for name in (item.labels["en"], *item.aliases)}
        return [call_find_items("s", name) for name in sorted(names | {"no such name", 'a "b" {c} \\ d\n'})]
    about_items = {"descriptions": call_describe_item, "redirects": call_resolve_item}
    if kind in about_items:
        return [about_items[kind]("s", qid) for qid in qids]
    if kind in ("labels in en", "labels in pt"):
        ids = [*qids, *load_world_data().properties, "P999999"]
        return [call_label("s", each, kind.removeprefix("labels in ")) for each in ids]
    if kind == "neighbours":
        return [call_neighbours("s", qid, SOME_PIDS) for qid in qids]
    if kind.startswith("facts around items in "):
        return [call_item_facts("s", qid, kind.removeprefix("facts around items in ")) for qid in qids]
    return [
        call_list_facts("s", pid, after, limit)
        for pid in load_relations()
        for after, limit in ((None, 5000), (None, 3), ("Q100", 4))
    ]


@pytest.mark.parametrize(
    "kind",
    [
        "candidates",
        "descriptions",
        "labels in en",
        "labels in pt",
        "redirects",
        "neighbours",
        "facts around items in en",
        "facts around items in pt",
        "facts of properties",
    ],
)
def test_both_give_the_same_bodies(services: tuple[Service, Service], kind: str) -> None:
    sparql, graph = services
    calls = questions(kind)
    by_sparql, by_graph = answer(sparql, calls), answer(graph, calls)
    assert sum(bool(body) for body in by_sparql) > len(calls) / 4
    assert by_sparql == by_graph


def test_facts_of_the_world_have_statements_precisions_and_units(services: tuple[Service, Service]) -> None:
    bodies = answer(services[1], questions("facts around items in en"))
    facts = [fact for body in bodies for fact in body]  # type: ignore[union-attr]
    assert all(fact["statement"] for fact in facts)
    assert all(fact["value"] for fact in facts if fact["qid"] is None)
    assert {fact["precision"] for fact in facts} >= {None, 9, 11}
    assert len({fact["unit"] for fact in facts}) > 3


def test_ambiguous_names_are_in_the_world() -> None:
    names: dict[str, set[str]] = {}
    for qid, item in load_world_data().items.items():
        names.setdefault(item.labels["en"], set()).add(qid)
    assert sum(len(qids) > 1 for qids in names.values()) >= 15


def test_the_graph_is_made_once(tmp_path: Path) -> None:
    with embedded_graph(tmp_path) as first:
        made = first.manifest.created_at
    with embedded_graph(tmp_path) as second:
        assert second.manifest.created_at == made
