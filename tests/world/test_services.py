"""Test page views, Falcon, SPARQL and faults of the running world."""

import json
import time
from typing import Any

import httpx
import mwclient
import pytest
import requests

from factmill.tasks.world.data import WorldData
from factmill.tasks.world.pageviews import (
    FIRST_PAGEVIEWS_DAY,
    PageviewsRequestError,
    find_made_up_mean_daily_views,
    iterate_pageview_items,
)
from factmill.tasks.world.serving import RunningWorld

VIEWS = "/api/rest_v1/metrics/pageviews/per-article"


def views(data: WorldData, title: str, start: str, end: str, **other: str) -> list[dict[str, Any]]:
    chosen = {"project": "en.wikipedia", "access": "all-access", "agent": "user", "granularity": "daily", **other}
    parts = [chosen["project"], chosen["access"], chosen["agent"], title, chosen["granularity"], start, end]
    return list(iterate_pageview_items(data, parts))


def test_page_views_have_format_of_real_api(ask: Any) -> None:
    reply = ask.get(f"{VIEWS}/en.wikipedia/all-access/all-agents/Berlin,_New_Hampshire/daily/20230101/2023010500")
    items = reply.json()["items"]
    assert [item["timestamp"] for item in items] == [f"202301{day:02d}00" for day in range(1, 6)]
    assert {key: items[0][key] for key in ("project", "article", "granularity", "access", "agent")} == {
        "project": "en.wikipedia",
        "article": "Berlin,_New_Hampshire",
        "granularity": "daily",
        "access": "all-access",
        "agent": "all-agents",
    }
    assert all(isinstance(item["views"], int) and item["views"] > 0 for item in items)


@pytest.mark.parametrize(
    ("path", "status", "title"),
    [
        ("en.wikipedia/all-access/user/Nope/daily/20230101/20230105", 404, "Not Found"),
        ("de.wikipedia/all-access/user/Berlin/daily/20230101/20230105", 404, "Not Found"),
        ("en.wikipedia/all-access/user/Berlin/daily/20140101/20150630", 404, "Not Found"),
        ("en.wikipedia/all-access/user/Berlin%20%28disambiguation%29/daily/20230101/20230105", 404, "Not Found"),
        ("en.wikipedia/all-access/user/Berlin/hourly/20230101/20230105", 400, "Bad Request"),
        ("en.wikipedia/all-access/user/Berlin/daily/2023/20230105", 400, "Bad Request"),
        ("en.wikipedia/all-access/user/Berlin/daily/20230106/20230105", 400, "Bad Request"),
        ("en.wikipedia/telepathy/user/Berlin/daily/20230101/20230105", 400, "Bad Request"),
        ("en.wikipedia/all-access/user/A%2FB/daily/20230101/20230105", 404, "Not Found"),
    ],
)
def test_missing_page_views_return_problem_document(ask: Any, path: str, status: int, title: str) -> None:
    reply = ask.get(f"{VIEWS}/{path}")
    assert (reply.status_code, reply.json()["status"], reply.json()["title"]) == (status, status, title)
    assert reply.headers["Content-Type"].startswith("application/problem+json")


def test_page_views_are_deterministic_and_near_stated_mean(sample: WorldData) -> None:
    year = views(sample, "Berlin", "20230101", "20231231")
    assert year == views(sample, "Berlin", "20230101", "20231231")
    assert year[100:110] == views(sample, "Berlin", year[100]["timestamp"], year[109]["timestamp"])
    mean = sum(day["views"] for day in year) / len(year)
    assert 0.6 * 4200 < mean < 1.6 * 4200
    assert len({day["views"] for day in year}) > 100


def test_page_views_start_in_july_2015(sample: WorldData) -> None:
    assert views(sample, "Berlin", "20150101", "20150702")[0]["timestamp"] == f"{FIRST_PAGEVIEWS_DAY:%Y%m%d}00"


def test_page_views_by_access_and_agent_add_up_to_total(sample: WorldData) -> None:
    def one(access: str, agent: str) -> int:
        return int(views(sample, "Berlin", "20230301", "20230301", access=access, agent=agent)[0]["views"])

    ways, agents = ("desktop", "mobile-web", "mobile-app"), ("user", "spider", "automated")
    assert sum(one(way, "user") for way in ways) == one("all-access", "user")
    assert sum(one("desktop", agent) for agent in agents) == one("desktop", "all-agents")


def test_monthly_views_are_sum_of_daily_views(sample: WorldData) -> None:
    months = views(sample, "Berlin", "20230101", "20230228", granularity="monthly")
    assert [month["timestamp"] for month in months] == ["2023010100", "2023020100"]
    assert months[0]["views"] == sum(day["views"] for day in views(sample, "Berlin", "20230101", "20230131"))


def test_redirects_have_few_views_of_their_own(sample: WorldData) -> None:
    redirect = sum(day["views"] for day in views(sample, "BER", "20230101", "20231231"))
    article = sum(day["views"] for day in views(sample, "Berlin", "20230101", "20231231"))
    assert 0 < redirect < article / 10


def test_items_without_own_article_have_page_views_too(sample: WorldData) -> None:
    assert "Paris" not in sample.articles
    assert 3 <= (find_made_up_mean_daily_views(sample, "Paris") or 0) <= 3000
    assert find_made_up_mean_daily_views(sample, "Q90") is None


def test_page_views_have_missing_days(sample: WorldData) -> None:
    """Some of many titles have gaps, and a rarely viewed title has days without a view."""
    counts = []
    for title in ("Berlin", "Germany", "Paris", "Julius Caesar", "BER", "City of Berlin", "Spree Athens"):
        try:
            counts.append(len(views(sample, title, "20220101", "20221231")))
        except PageviewsRequestError:
            counts.append(0)
    assert max(counts) == 365
    assert min(counts) < 365


def test_three_years_of_page_views_are_generated_quickly(sample: WorldData) -> None:
    start = time.process_time()
    assert len(views(sample, "Germany", "20200101", "20221231")) > 1000
    assert time.process_time() - start < 0.2


def link(ask: Any, text: Any, **params: Any) -> requests.Response:
    url = f"{ask.world.endpoints['falcon']}/api"
    return requests.post(url, params={"mode": "long", "k": 1, **params}, json={"text": text}, timeout=10)


def test_falcon_links_longest_names_and_best_known_items_first(ask: Any) -> None:
    reply = link(ask, "What is the capital of the Federal Republic of Germany, Berlin?", k=3, db=1).json()
    assert reply["entities_wikidata"] == [
        {"URI": "http://www.wikidata.org/entity/Q183", "surface form": "Federal Republic of Germany"},
        {"URI": "http://www.wikidata.org/entity/Q64", "surface form": "Berlin"},
        {"URI": "http://www.wikidata.org/entity/Q821244", "surface form": "Berlin"},
    ]
    assert reply["relations_wikidata"] == [{"URI": "http://www.wikidata.org/entity/P36", "surface form": "capital"}]
    assert {"URI": "http://dbpedia.org/resource/Berlin", "surface form": "Berlin"} in reply["entities_dbpedia"]


def test_falcon_returns_k_candidates_and_dbpedia_only_on_request(ask: Any) -> None:
    reply = link(ask, "who lives in berlin's centre?", mode="short").json()
    assert reply == {
        "entities_wikidata": [{"URI": "http://www.wikidata.org/entity/Q64", "surface form": "berlin's"}],
        "relations_wikidata": [],
    }


@pytest.mark.parametrize(
    ("text", "params"), [(None, {}), ("x", {"k": "many"}), ("x", {"k": 0}), ("x", {"mode": "loud"})]
)
def test_falcon_rejects_invalid_requests(ask: Any, text: Any, params: dict[str, Any]) -> None:
    assert link(ask, text, **params).status_code == 400


def test_sparql_answers_directly_and_through_the_app(world: RunningWorld) -> None:
    query = "SELECT ?l WHERE { <http://www.wikidata.org/entity/Q90> <http://www.w3.org/2000/01/rdf-schema#label> ?l }"
    headers = {"Accept": "application/sparql-results+json"}
    for url in (world.endpoints["wikidata"], world.sparql_proxy):
        for reply in (
            requests.get(url, params={"query": query}, headers=headers, timeout=10),
            requests.post(url, data={"query": query}, headers=headers, timeout=10),
        ):
            labels = {row["l"]["xml:lang"]: row["l"]["value"] for row in reply.json()["results"]["bindings"]}
            assert labels["it"] == "Parigi"
    refused = requests.get(world.sparql_proxy, params={"query": "SELECT"}, timeout=10)
    assert refused.status_code == 400


PAGE = "/w/api.php?action=parse&page=Berlin&format=json"


def test_status_fault_sends_retry_after_and_counts_down(ask: Any) -> None:
    ask.order_fault(kind="status", path="/w/", status=429, retry_after=2, times=2)
    assert ask.get(f"{VIEWS}/en.wikipedia/all-access/user/Berlin/daily/20230101/20230101").status_code == 200
    replies = [ask.get(PAGE) for _ in range(3)]
    assert [reply.status_code for reply in replies] == [429, 429, 200]
    assert replies[0].headers["Retry-After"] == "2"


def test_html_fault_returns_html_instead_of_json(ask: Any) -> None:
    ask.order_fault(kind="html")
    reply = ask.get(PAGE)
    assert (reply.status_code, reply.headers["Content-Type"]) == (200, "text/html; charset=utf-8")


def test_truncate_fault_returns_invalid_json(ask: Any) -> None:
    right = ask.get(PAGE).text
    ask.order_fault(kind="truncate")
    cut = ask.get(PAGE).text
    assert cut
    assert right.startswith(cut)
    with pytest.raises(json.JSONDecodeError):
        json.loads(cut)


def test_cut_fault_closes_connection_without_response(ask: Any) -> None:
    ask.order_fault(kind="cut", times=2)
    with pytest.raises(requests.exceptions.ConnectionError):
        requests.get(ask.world.app_url + PAGE, timeout=10)
    with pytest.raises(httpx.TransportError):
        httpx.get(ask.world.app_url + PAGE)
    assert ask.get(PAGE).status_code == 200


def test_delay_fault_delays_response(ask: Any) -> None:
    ask.order_fault(kind="delay", seconds=0.3)
    start = time.monotonic()
    assert ask.get(PAGE).status_code == 200
    assert time.monotonic() - start >= 0.3


def test_sparql_faults_apply_through_app(ask: Any) -> None:
    ask.order_fault(kind="status", path="/sparql", status=503)
    query = {"query": "ASK {}"}
    assert requests.get(ask.world.sparql_proxy, params=query, timeout=10).status_code == 503
    assert requests.get(ask.world.sparql_proxy, params=query, timeout=10).status_code == 200


def test_faults_are_validated_listed_and_cleared(ask: Any) -> None:
    url = f"{ask.world.app_url}/faults"
    assert requests.post(url, json={"kind": "earthquake"}, timeout=10).status_code == 422
    ask.order_fault(kind="status", times=3)
    assert [fault["times"] for fault in requests.get(url, timeout=10).json()] == [3]
    assert requests.delete(url, timeout=10).json() == []
    assert ask.get(PAGE).status_code == 200


def test_mwclient_survives_lag_and_server_errors(ask: Any) -> None:
    # a site object of its own, with no pause between attempts
    host = ask.world.endpoints["wikipedia"].removeprefix("http://")
    site = mwclient.Site(host, scheme="http", max_retries=3, retry_timeout=0)
    ask.order_fault(kind="status", path="/w/", status=503)
    ask.order_fault(kind="cut", path="/w/")
    assert site.pages["Berlin"].exists


def test_large_responses_are_compressed(ask: Any) -> None:
    assert ask.get(PAGE).headers["Content-Encoding"] == "gzip"
