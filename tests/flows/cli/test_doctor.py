"""Test `factmill doctor` on loopback servers: healthy, wrong path, dead port, missing key, supported parameters."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Factmill
from support.messages.server import KEY, MessagesServer
from support.webs.loopback import Loopback, Seen
from support.webs.proxies import LoopbackProxy

from factmill.flows.commands.doctor import run_diagnostics
from factmill.tasks.storage.housekeeping.prefect_history import prefect_database_path


@pytest.fixture
def server() -> Iterator[Loopback]:
    loopback = Loopback()
    yield loopback
    loopback.close()


def look(tmp_path: Path, server: Loopback, path: str = "", ask: bool = False, url: str = "") -> dict[str, Any]:
    """Return findings by name, for a world with one service and one model at this address."""
    url = url or f"{server.url}{path}"
    world = tmp_path / "world.toml"
    world.write_text(
        f'name = "w"\nuser_agent = "me"\n[pageviews]\nurl = "{url}"\ndbpedia = {{ url = "{url}" }}\n'.replace(
            f'dbpedia = {{ url = "{url}" }}\n', f'[dbpedia]\nurl = "{url}"\n'
        )
        + f'[models.author]\nkind = "openai"\nname = "m"\nurl = "{url}/v1"\nlimits = {{ attempts = 1 }}\n'
    )
    return {finding["what"]: finding for finding in run_diagnostics(str(world), tmp_path / "w.duckdb", ask)}


def test_responding_server_passes(tmp_path: Path, server: Loopback) -> None:
    server.handle = lambda _: {"json": {}}
    found = look(tmp_path, server)
    assert found["pageviews"]["ok"] and found["dbpedia"]["ok"] and found["model author"]["ok"]
    assert found["compute"]["found"] == "this machine"


def test_reports_damaged_prefect_history(tmp_path: Path, server: Loopback, own_home: Path) -> None:
    assert look(tmp_path, server)["prefect history"]["found"] == f"{prefect_database_path(own_home)} (none yet)"
    prefect_database_path(own_home).parent.mkdir(parents=True)
    prefect_database_path(own_home).write_text("no database\n" * 100)
    found = look(tmp_path, server)["prefect history"]
    assert (
        not found["ok"]
        and found["found"] == f"{prefect_database_path(own_home)} cannot be used: file is not a database"
    )


def test_unresponsive_cluster_is_reported(tmp_path: Path, server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("factmill.tasks.engine.cluster.driver._CONNECT_S", 0.1)
    monkeypatch.setenv("FACTMILL_CLUSTER", "tcp://127.0.0.1:9")
    server.handle = lambda _: {"json": {}}
    found = look(tmp_path, server)["compute"]
    assert not found["ok"] and "no Dask scheduler answers at tcp://127.0.0.1:9" in found["found"]


@pytest.mark.parametrize("status", [404, 401, 500])
def test_wrong_path_and_refusal_fail_check(tmp_path: Path, server: Loopback, status: int) -> None:
    server.handle = lambda _: {"status": status, "text": "no"}
    found = look(tmp_path, server, "/wrong")
    for what in ("pageviews", "dbpedia", "model author"):
        assert not found[what]["ok"] and f"HTTP {status}" in found[what]["found"]


def test_server_without_model_list_passes_when_chat_works(tmp_path: Path, server: Loopback) -> None:
    server.handle = lambda seen: {"status": 400 if seen.path == "/v1/chat/completions" else 404, "text": "no"}
    assert look(tmp_path, server)["model author"]["ok"]
    assert "HTTP 404" in look(tmp_path, server, "/wrong/v2")["model author"]["found"]


def test_benchmarks_unsupported_by_world_are_listed_without_failure(
    factmill: Factmill, tmp_path: Path, server: Loopback
) -> None:
    found = look(tmp_path, server)["build slaq"]
    assert found["ok"]
    assert found["found"] == "not possible in this world, which lacks [wikipedia], [models.judge]"
    assert "[models.perplexity]" in look(tmp_path, server)["build biokalma"]["found"]
    shown = factmill("doctor", "--world", tmp_path / "world.toml", "--warehouse", tmp_path / "w.duckdb").out
    assert "–       build slaq             not possible in this world" in shown


def test_embedded_world_services_answer_probes(tmp_path: Path) -> None:
    found = {each["what"]: each["ok"] for each in run_diagnostics("embedded", tmp_path / "w.duckdb", ask=True)}
    assert {what: ok for what, ok in found.items() if what.startswith("ask ")} == dict.fromkeys(
        [f"ask {name}" for name in ("wikidata", "wikipedia", "pageviews", "falcon", "dbpedia")], True
    )


def test_closed_port_fails_check(tmp_path: Path, server: Loopback) -> None:
    found = look(tmp_path, server, url="http://127.0.0.1:9")
    assert not found["pageviews"]["ok"] and not found["model author"]["ok"]
    assert found["model author"]["found"] == "http://127.0.0.1:9/v1 is not reachable: All connection attempts failed"


def test_ask_option_reports_supported_parameters_and_setting_to_add(tmp_path: Path, server: Loopback) -> None:
    def answer(seen: Seen) -> dict[str, Any]:
        if not seen.path.endswith("/chat/completions"):
            return {"status": 404, "text": "no"}
        if "max_tokens" in seen.json():
            return {"status": 400, "json": {"error": {"message": "no", "param": "max_tokens"}}}
        usage = {"prompt_tokens": 10, "completion_tokens": 5}
        return {"json": {"choices": [{"message": {"content": "Blue"}, "finish_reason": "stop"}], "usage": usage}}

    server.handle = answer
    found = look(tmp_path, server, ask=True)
    assert found["ask author"]["ok"]
    result = found["ask author"]["found"]
    assert "schema no; n no; temperature yes; system role yes; token limit max_completion_tokens" in result
    assert "30 + 15 tokens" in result and 'under [models.author]: token_limit = "max_completion_tokens"' in result


def test_model_is_probed_like_in_builds_and_its_proxy_is_named(
    tmp_path: Path, server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CF_TOKEN", "cf-secret-0123456789")
    proxy = LoopbackProxy({"model.invalid": server.port}, password="me:swordfish-1")
    monkeypatch.setenv("HTTP_PROXY", f"http://me:swordfish-1@127.0.0.1:{proxy.port}")
    monkeypatch.setenv("NO_PROXY", "localhost")
    server.handle = lambda seen: {"json": {}} if seen.query == {"api-version": "1"} else {"status": 404, "text": "no"}
    world = tmp_path / "world.toml"
    world.write_text(
        'name = "w"\nuser_agent = "me"\n[models.author]\nkind = "openai"\nname = "m"\nurl = "http://model.invalid/v1"\n'
        f'key_command = ["{sys.executable}", "-c", "print(\'token-0123\')"]\nkey_header = "api-key"\n'
        'query = { "api-version" = "1" }\nheaders = { "X-Sig" = { env = "CF_TOKEN" } }\n'
    )
    [found] = [each for each in run_diagnostics(str(world), tmp_path / "w.duckdb") if each["what"] == "model author"]
    proxy.close()
    assert found["ok"], found
    assert found["found"].endswith(f"key comes from key_command, through the proxy http://127.0.0.1:{proxy.port}")
    assert (server.seen[0].headers["api-key"], server.seen[0].headers["x-sig"]) == (
        "token-0123",
        "cf-secret-0123456789",
    )
    assert not [secret for secret in ("swordfish", "cf-secret", "token-0123") if secret in str(found)]


@pytest.mark.parametrize(
    "accepts", [frozenset[str](), frozenset({"temperature"})], ids=["no temperature", "temperature"]
)
def test_ask_option_finds_supported_parameters_of_anthropic_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accepts: frozenset[str]
) -> None:
    reply = {"message": {"content": '{"colour": "blue"}'}, "finish_reason": "stop"}
    server = MessagesServer(tmp_path / "messages", lambda _: {"json": {"choices": [reply]}}, accepts=accepts)
    monkeypatch.setenv("ANTHROPIC_TEST_KEY", KEY)
    world = tmp_path / "world.toml"
    world.write_text(
        'name = "w"\nuser_agent = "me"\n[models.author]\nkind = "anthropic"\nname = "m"\n'
        f'url = "{server.url}"\nkey_env = "ANTHROPIC_TEST_KEY"\n'
    )
    found = {finding["what"]: finding for finding in run_diagnostics(str(world), tmp_path / "w.duckdb", ask=True)}
    server.close()
    assert found["model author"]["ok"] and "/v1/messages answers (400)" in found["model author"]["found"]
    asked = found["ask author"]
    assert asked["ok"], asked["found"]
    assert "schema yes; n no" in asked["found"] and "json_schema = true" in asked["found"]
    assert ('temperature = "none"' in asked["found"]) == (not accepts)


def test_remote_service_requires_contact_address_in_user_agent(tmp_path: Path, server: Loopback) -> None:
    server.handle = lambda _: {"json": {}}
    assert look(tmp_path, server)["user agent"]["ok"]
    found = look(tmp_path, server, url="http://wiki.invalid")["user agent"]
    assert (found["ok"], found["found"]) == (False, "me")
    assert 'user_agent = "factmill/0.1 (you@example.org)"' in found["advice"]


def test_service_is_probed_with_token_and_unset_token_is_named(
    tmp_path: Path, server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.handle = lambda seen: {"json": {}, "status": 200 if "authorization" in seen.headers else 401}
    world = tmp_path / "world.toml"
    text = f'name = "w"\nuser_agent = "me"\n[wikipedia]\nurl = "{server.url}"\ntoken_env = "MY_TOKEN"\n[models]\n'
    world.write_text(text)
    findings = {each["what"]: each for each in run_diagnostics(str(world), tmp_path / "w.duckdb")}
    assert not findings["wikipedia"]["ok"]
    assert "the environment variable MY_TOKEN (token_env) is not set" in findings["wikipedia"]["found"]
    monkeypatch.setenv("MY_TOKEN", "token-of-an-account")
    findings = {each["what"]: each for each in run_diagnostics(str(world), tmp_path / "w.duckdb")}
    assert findings["wikipedia"]["ok"]
    assert findings["wikipedia"]["found"].endswith("answers (200), authenticated by a token")
    assert "token-of-an-account" not in str(findings)
