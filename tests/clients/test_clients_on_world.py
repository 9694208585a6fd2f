"""Test the clients against the embedded world as served, with and without injected faults."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import requests
from support.webs.prepared import copy_prepared

from factmill.tasks.clients.falcon import FalconEntityLinkingClient
from factmill.tasks.clients.pageviews import PageviewsClient
from factmill.tasks.clients.sparql import SparqlClient
from factmill.tasks.clients.wikipedia import WikipediaClient
from factmill.tasks.core.calls.call import Call, CallResponse, CallService
from factmill.tasks.core.calls.entity_linking import make_entity_and_relation_linking_call, parse_entity_linking_result
from factmill.tasks.core.calls.pageviews import make_pageviews_call
from factmill.tasks.core.calls.path_calls import (
    WikidataCallPathFinder,
    make_fixed_hops_item_paths_call,
    make_uncached_sender,
)
from factmill.tasks.core.calls.wikidata import make_find_items_call
from factmill.tasks.core.calls.wikipedia import (
    make_newest_page_revisions_call,
    make_page_revision_at_call,
    make_resolve_title_call,
    make_revision_html_call,
    parse_page_revision_call_body,
    parse_resolve_title_body,
)
from factmill.tasks.core.service_settings import ServiceLimits
from factmill.tasks.core.wikidata_paths import PathSearchOptions, PathsFoundForPairs, make_start_to_end_id_lists
from factmill.tasks.text.values.wikidata_literals import PartialDate
from factmill.tasks.world.serving import RunningWorld, running_world

LIMITS = ServiceLimits(parallel=2, timeout_s=5, attempts=4, backoff_s=0.02, batch=50)
AGENT = "factmill tests"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorld]:
    with running_world(copy_prepared(tmp_path_factory.mktemp("home"))) as running:
        yield running


@pytest.fixture
def clients(world: RunningWorld) -> Iterator[dict[str, CallService]]:
    yield {
        "wikidata": SparqlClient("Wikidata", world.sparql_proxy, "w", LIMITS, AGENT),
        "wikipedia": WikipediaClient(world.endpoints["wikipedia"], "p", LIMITS, AGENT),
        "pageviews": PageviewsClient(world.endpoints["pageviews"], "v", LIMITS, AGENT),
        "falcon": FalconEntityLinkingClient(world.endpoints["falcon"], "f", LIMITS, AGENT),
    }
    requests.delete(f"{world.app_url}/faults", timeout=5)


def ask(service: CallService, calls: Sequence[Call]) -> list[CallResponse]:
    replies: dict[str, CallResponse] = {}
    service.send(calls, lambda call, reply: replies.__setitem__(call.key, reply))
    return [replies[call.key] for call in calls]


def test_article_is_read_as_of_date(clients: dict[str, CallService]) -> None:
    early, late = ask(
        clients["wikipedia"],
        [
            make_page_revision_at_call("p", "Saturn", "2023-01-01T00:00:00Z"),
            make_page_revision_at_call("p", "Saturn", "2026-01-01T00:00:00Z"),
        ],
    )
    first, last = parse_page_revision_call_body(early.body), parse_page_revision_call_body(late.body)
    assert first is not None
    assert last is not None
    assert first.revid < last.revid
    old, new = ask(
        clients["wikipedia"], [make_revision_html_call("p", each.revid, each.title) for each in (first, last)]
    )
    assert "82" in str(old.body)
    assert "274" in str(new.body)


def test_redirect_leads_to_its_article_and_item(clients: dict[str, CallService]) -> None:
    (reply,) = ask(clients["wikipedia"], [make_resolve_title_call("p", "Red Planet")])
    resolved = parse_resolve_title_body(reply.body)
    assert (resolved.title, resolved.qid) == ("Mars", "Q111")


def test_falcon_links_names_in_question(clients: dict[str, CallService]) -> None:
    (reply,) = ask(clients["falcon"], [make_entity_and_relation_linking_call("f", "Who painted the Mona Lisa?", 3)])
    assert "Q12418" in str(parse_entity_linking_result(reply.body))


CALLS: dict[str, Call] = {
    "wikidata": make_find_items_call("w", "Berlin"),
    "wikipedia": make_resolve_title_call("p", "Berlin"),
    "pageviews": make_pageviews_call("v", "Berlin", "20250101", "20250131"),
    "falcon": make_entity_and_relation_linking_call("f", "Where is Berlin?", 3),
}
PATHS = {"wikidata": "/sparql", "wikipedia": "/w/api.php", "pageviews": "/api/rest_v1", "falcon": "/falcon2"}
FAULTS: list[dict[str, Any]] = [
    {"kind": "status", "status": 429, "retry_after": 1},
    {"kind": "status", "status": 503},
    {"kind": "cut"},
    {"kind": "html"},
    {"kind": "truncate"},
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: str(fault.get("status", fault["kind"])))
@pytest.mark.parametrize("name", CALLS)
def test_single_fault_is_retried_and_yields_same_response(
    world: RunningWorld, clients: dict[str, CallService], name: str, fault: dict[str, Any]
) -> None:
    (calm,) = ask(clients[name], [CALLS[name]])
    assert calm.status == "ok"
    put = requests.post(f"{world.app_url}/faults", json={"path": PATHS[name], "times": 1, **fault}, timeout=5)
    assert put.ok, put.text
    (after,) = ask(clients[name], [CALLS[name]])
    assert (after.status, after.body) == ("ok", calm.body)
    assert requests.get(f"{world.app_url}/faults", timeout=5).json() in ([], {"faults": []})


def test_maxlag_error_is_retried_after_waiting(world: RunningWorld, clients: dict[str, CallService]) -> None:
    requests.post(
        f"{world.app_url}/faults",
        json={"path": "/w/api.php", "kind": "maxlag", "times": 1, "retry_after": 1},
        timeout=5,
    )
    (reply,) = ask(clients["wikipedia"], [CALLS["wikipedia"]])
    assert reply.status == "ok"


SUBJECTS, OBJECTS = np.array([42, *range(60, 119)]), np.full(60, 145)


def find_paths(service: CallService) -> PathsFoundForPairs:
    """Find the paths of one and two hops between sixty items and a country."""
    return WikidataCallPathFinder(make_uncached_sender(service), "w").find_item_paths(
        SUBJECTS, OBJECTS, PathSearchOptions(always_two_hops=True)
    )


def test_paths_are_found_in_world(clients: dict[str, CallService]) -> None:
    found = find_paths(clients["wikidata"])
    ids = make_start_to_end_id_lists(found.paths, SUBJECTS, OBJECTS).to_pylist()
    assert ["Q42", "P27", "Q145"] in ids
    assert ["Q42", "P69", "Q691283", "P17", "Q145"] in ids
    assert found.failures == {}
    school = WikidataCallPathFinder(make_uncached_sender(clients["wikidata"]), "w").find_literal_paths(
        np.array([42]), [PartialDate(1974)], frozenset({582}), PathSearchOptions()
    )
    assert make_start_to_end_id_lists(school.paths, np.array([42])).to_pylist() == [
        ["Q42", "P69", "Q691283", "P582", "1974-01-01T00:00:00Z"]
    ]


EXCESSES: list[dict[str, Any]] = [
    {"kind": "status", "status": 413},
    {"kind": "status", "status": 504},
    {"kind": "status", "status": 429, "retry_after": 1},
    {"kind": "truncate"},
    {"kind": "delay", "seconds": 1.5},
]


@pytest.mark.parametrize("fault", EXCESSES, ids=lambda fault: str(fault.get("status", fault["kind"])))
def test_paths_are_same_when_large_queries_are_refused(
    world: RunningWorld, clients: dict[str, CallService], fault: dict[str, Any]
) -> None:
    calm = find_paths(clients["wikidata"])
    limits = LIMITS.model_copy(update={"timeout_s": 1.0})
    put = requests.post(f"{world.app_url}/faults", json={"path": PATHS["wikidata"], "times": 3, **fault}, timeout=5)
    assert put.ok, put.text
    after = find_paths(SparqlClient("Wikidata", world.sparql_proxy, "w", limits, AGENT))
    assert after == calm
    assert requests.get(f"{world.app_url}/faults", timeout=5).json() in ([], {"faults": []})


def test_permanently_refused_path_call_fails_with_its_code(
    world: RunningWorld, clients: dict[str, CallService]
) -> None:
    ask(clients["wikidata"], [CALLS["wikidata"]])
    requests.post(
        f"{world.app_url}/faults",
        json={"path": PATHS["wikidata"], "kind": "status", "status": 413, "times": LIMITS.attempts},
        timeout=5,
    )
    (reply,) = ask(clients["wikidata"], [make_fixed_hops_item_paths_call("w", 42, 145, 1)])
    assert (reply.status, str(reply.error).partition(":")[0], reply.transient) == ("failed", "http_413", True)


TITLES = ("Saturn", "saturn", "Cambridge (disambiguation)", "Ringed planet", "No such page", "SI_unit")


@pytest.mark.parametrize("follow", [True, False])
def test_page_states_match_separate_title_and_revision_calls(clients: dict[str, CallService], follow: bool) -> None:
    """The state of a page agrees with separate requests for its title and its revision."""
    wiki = clients["wikipedia"]
    (looked,) = ask(wiki, [make_newest_page_revisions_call("p", TITLES, follow, "now")])
    at = "2100-01-01T00:00:00Z"
    alone = ask(wiki, [make_page_revision_at_call("p", title, at, follow) for title in TITLES])
    for title, revision in zip(TITLES, alone, strict=True):
        own = {name: value for name, value in revision.body.items() if name != "first"}
        assert {name: looked.body[title][name] for name in own} == own, title
    if follow:
        for title, resolved in zip(
            TITLES, ask(wiki, [make_resolve_title_call("p", each) for each in TITLES]), strict=True
        ):
            assert {name: looked.body[title][name] for name in resolved.body} == resolved.body, title
