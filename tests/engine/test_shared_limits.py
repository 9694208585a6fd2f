"""Test rate limits on a loopback server: Wikimedia's services share a limiter, and the Query Service has its own."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.webs.loopback import Loopback, Seen

from factmill.tasks import settings
from factmill.tasks.clients.sending import limiter as limiting
from factmill.tasks.core.calls.call import Call, CallResponse
from factmill.tasks.core.calls.pageviews import make_pageviews_call
from factmill.tasks.core.calls.wikidata import make_label_call
from factmill.tasks.core.calls.wikipedia import make_search_call
from factmill.tasks.engine import services as opening
from factmill.tasks.engine.services import WorldServices
from factmill.tasks.errors import SettingsError

ANSWERS: dict[str, Any] = {
    "/w/api.php": {"query": {"search": []}},
    "/sparql": {"head": {"vars": []}, "results": {"bindings": []}},
}


class Wikimedia(Loopback):
    """Answers searches, page views and queries, each in 20 ms."""

    def __init__(self) -> None:
        super().__init__()
        self.handle = self.answer

    def answer(self, seen: Seen) -> dict[str, Any]:
        body = next((json for path, json in ANSWERS.items() if seen.path.startswith(path)), {"items": [{"views": 1}]})
        return {"json": body, "delay_s": 0.02}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wikimedia]:
    web = Wikimedia()
    monkeypatch.setattr(limiting, "_limiters", {})
    monkeypatch.setattr(opening, "is_wikidata_query_service", lambda url: url == f"{web.url}/sparql")
    for module in (opening, settings):
        monkeypatch.setattr(
            module, "is_wikimedia_url_except_query_service", lambda url: url.startswith(web.url) and "sparql" not in url
        )
    yield web
    web.close()


def write_world(path: Path, url: str, more: str = "", limits: str = "{ parallel = 16 }") -> str:
    path.write_text(
        f'name = "w"\nuser_agent = "tests"\n{more}[wikidata]\nurl = "{url}/sparql"\nlimits = {limits}\n'
        f'[wikipedia]\nurl = "{url}"\nlimits = {limits}\n'
        f'[pageviews]\nurl = "{url}/api/rest_v1"\nlimits = {limits}\n[models]\n'
    )
    return str(path)


def ask_all(service: Any, calls: list[Call]) -> None:
    replies: list[CallResponse] = []
    service.send(calls, lambda _, reply: replies.append(reply))
    assert [reply.status for reply in replies] == ["ok"] * len(calls), replies


def test_services_of_two_worlds_share_wikimedia_limits(tmp_path: Path, server: Wikimedia) -> None:
    rules = "[wikimedia]\nparallel = 2\nrequests_per_minute = 1200\n"
    first = write_world(tmp_path / "a.toml", server.url, rules)
    second = write_world(tmp_path / "b.toml", server.url, "[wikimedia]\nrequests_per_minute = 9000\n")
    with (
        closing(WorldServices.open(first, None, tmp_path)) as one,
        closing(WorldServices.open(second, None, tmp_path)) as other,
    ):
        started = time.monotonic()
        work = [
            (one.wikipedia, [make_search_call("a", f"word {number}", 1) for number in range(20)]),
            (
                one.pageviews,
                [make_pageviews_call("a", f"Page {number}", "20240101", "20240102") for number in range(20)],
            ),
            (other.wikipedia, [make_search_call("b", f"word {number}", 1) for number in range(20)]),
        ]
        with ThreadPoolExecutor(len(work)) as pool:
            list(pool.map(lambda each: ask_all(*each), work))
    times = [seen.at - started for seen in server.seen]
    assert len(times) == 60
    assert server.most_at_once <= 2
    # a request may arrive late, but never before its turn: one in 50 ms
    assert all(at >= number * 0.05 - 0.01 for number, at in enumerate(sorted(times)))


def test_query_service_has_its_own_limits(tmp_path: Path, server: Wikimedia) -> None:
    rules = "[wikimedia]\nrequests_per_minute = 0.001\nquery_parallel = 3\n"
    world = write_world(tmp_path / "a.toml", server.url, rules, "{ parallel = 16, batch = 1 }")
    with closing(WorldServices.open(world, None, tmp_path)) as services:
        ask_all(services.wikidata, [make_label_call("a", f"Q{number}") for number in range(1, 31)])
    assert len(server.seen) == 30
    assert server.most_at_once <= 3


@pytest.mark.parametrize(
    ("more", "tokens", "per_minute"),
    [("", "", 200), ("", "both", 2000), ("", "one", 200), ("[wikimedia]\nrequests_per_minute = 50\n", "both", 50)],
)
def test_rate_limit_depends_on_access_tokens_unless_world_sets_one(
    tmp_path: Path, server: Wikimedia, monkeypatch: pytest.MonkeyPatch, more: str, tokens: str, per_minute: int
) -> None:
    monkeypatch.setenv("WIKI_TOKEN", "token-of-an-account")
    world = Path(write_world(tmp_path / "a.toml", server.url, more))
    line = f'url = "{server.url}'
    if tokens:
        result = world.read_text().replace(f'{line}"\n', f'{line}"\ntoken_env = "WIKI_TOKEN"\n')
        if tokens == "both":
            result = result.replace(f'{line}/api/rest_v1"\n', f'{line}/api/rest_v1"\ntoken_env = "WIKI_TOKEN"\n')
        world.write_text(result)
    with closing(WorldServices.open(str(world), None, tmp_path)) as services:
        ask_all(services.wikipedia, [make_search_call("a", "word", 1)])
    assert server.seen[0].headers.get("authorization") == ("Bearer token-of-an-account" if tokens else None)
    assert limiting._limiters["wikimedia"]._start_cost_s == pytest.approx(60 / per_minute)
    assert limiting._limiters["wikimedia"].max_parallel == 3


def test_external_service_requires_contact_address(tmp_path: Path) -> None:
    world = tmp_path / "a.toml"
    world.write_text('name = "w"\nuser_agent = "x"\n[wikipedia]\nurl = "http://wiki.invalid"\n[models]\n')
    with (
        closing(WorldServices.open(str(world), None, tmp_path)) as services,
        pytest.raises(SettingsError, match=r"wikipedia.* http://wiki.invalid .*user_agent"),
    ):
        ask_all(services.wikipedia, [make_search_call("a", "word", 1)])


def test_hosts_outside_wikimedia_share_no_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limiting, "_limiters", {})
    web = Wikimedia()
    try:
        with closing(WorldServices.open(write_world(tmp_path / "a.toml", web.url), None, tmp_path)) as services:
            ask_all(services.wikipedia, [make_search_call("a", f"word {number}", 1) for number in range(20)])
    finally:
        web.close()
    assert limiting._limiters == {}
