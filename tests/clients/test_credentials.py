"""Test what requests carry with their body: headers, query parameters and keys of commands; no text shows a secret."""

import asyncio
import logging
import sys
import threading
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.webs.loopback import Loopback, Seen

from factmill.tasks.clients.batch_jobs.job_files import JobStateFile
from factmill.tasks.clients.batch_jobs.openai_batches import OpenAiBatchClient
from factmill.tasks.clients.chat import ChatClient
from factmill.tasks.clients.openai_server import OpenAiServerClient
from factmill.tasks.clients.perplexity import TextPerplexityClient
from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.calls.chat import make_chat_call
from factmill.tasks.core.calls.translation_and_perplexity import make_log_probability_call
from factmill.tasks.core.prompts import fill_prompt_template, parse_prompt_file
from factmill.tasks.core.service_settings import ModelSettings, ServiceLimits
from factmill.tasks.errors import ServiceUnreachable, SettingsError
from factmill.tasks.settings import read_api_key

PROMPT = parse_prompt_file(
    "test/p", b'+++\nrole = "author"\ninputs = ["name"]\ntemperature = 0\nmax_tokens = 9\n+++\n# user\nWho is $name?\n'
)
SECRET = "cf-secret/0123+456789"
PYTHON = (sys.executable, "-c")
ANSWER = {
    "json": {"choices": [{"message": {"content": "fine"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1}}
}


def model(server: Loopback, **changed: Any) -> ModelSettings:
    limits = ServiceLimits(parallel=16, timeout_s=20, attempts=3, backoff_s=0.01)
    return ModelSettings.model_validate(
        {"kind": "openai", "name": "m", "url": f"{server.url}/v1", "limits": limits} | changed
    )


def open_chat(server: Loopback, **changed: Any) -> ChatClient:
    settings = model(server, **changed)
    return ChatClient("m", settings, lambda: read_api_key(settings), "tests")


def ask(number: int = 0) -> Call:
    return make_chat_call("m", "m", fill_prompt_template(PROMPT, name=str(number)))


def count_runs(folder: Path) -> int:
    return (folder / "runs").read_text().count("ran")


@pytest.fixture
def tokens(tmp_path: Path) -> list[str]:
    """Return a command that prints `token-1-…`, `token-2-…` and so on, and counts its runs in the file `runs`."""
    script = tmp_path / "token.py"
    script.write_text(
        "import pathlib, time\n"
        f"runs = pathlib.Path({str(tmp_path / 'runs')!r})\n"
        "with runs.open('a') as file:\n    file.write('ran\\n')\n"
        "time.sleep(0.1)\n"
        "print(f'token-{runs.read_text().count(\"ran\")}-abcdefgh')\n"
    )
    return [sys.executable, str(script)]


def test_every_request_carries_headers_and_query_parameters(server, inbox, monkeypatch):
    monkeypatch.setenv("CF_TOKEN", SECRET)
    server.script(ANSWER)
    headers = {"X-Org": "acme", "cf-aig-authorization": {"env": "CF_TOKEN"}}
    query = {"api-version": "2024-10-21", "sig-token": {"env": "CF_TOKEN"}}
    open_chat(server, headers=headers, query=query).send([ask()], inbox)
    seen = server.seen[0]
    assert (seen.headers["x-org"], seen.headers["cf-aig-authorization"]) == ("acme", SECRET)
    assert seen.query == {"api-version": "2024-10-21", "sig-token": SECRET}
    assert seen.headers["authorization"] == "Bearer none" and seen.headers["user-agent"] == "tests"


@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        ({"key_env": "MY_KEY", "key_header": "api-key"}, {"api-key": "Basic bWU6cGFzcw==", "authorization": None}),
        ({"headers": {"authorization": {"env": "MY_KEY"}}}, {"authorization": "Basic bWU6cGFzcw=="}),
    ],
    ids=["key header", "header of the file"],
)
def test_authorization_header_can_be_replaced(settings, sent, server, inbox, monkeypatch):
    monkeypatch.setenv("MY_KEY", "Basic bWU6cGFzcw==")
    server.script(ANSWER)
    open_chat(server, **settings).send([ask()], inbox)
    assert {name: server.seen[0].headers.get(name) for name in sent} == sent


def test_scorer_and_batch_jobs_send_same_headers_query_and_token(server, inbox, monkeypatch, tokens):
    monkeypatch.setenv("CF_TOKEN", SECRET)
    given = {"headers": {"X-Auth": {"env": "CF_TOKEN"}}, "query": {"api-version": "1"}, "key_command": tokens}
    logprobs = {"token_logprobs": [None, -1.0, -2.0], "text_offset": [0, 1, 2]}
    scored = {"choices": [{"text": "a b", "logprobs": logprobs}], "usage": {"prompt_tokens": 2, "completion_tokens": 1}}
    server.handle = lambda seen: {"json": scored if "completions" in seen.path else {"id": "x"}}
    call = make_log_probability_call("m", "a b")
    TextPerplexityClient("m", model(server, **given), lambda: "none", "tests").send([call], inbox)
    assert inbox[call].status == "ok"
    remote = OpenAiBatchClient(
        OpenAiServerClient(model(server, **given), lambda: "none", "tests"), model(server).jobs, 1
    )
    found: list[str] = []

    async def hand_in() -> None:
        found.append(await remote.upload("f", b"{}\n"))
        found.append(await remote.create(JobStateFile(Path("x"), -1, "mark", file_id="x")))

    asyncio.run(hand_in())
    assert found == ["x", "x"]
    assert [seen.path for seen in server.seen] == ["/v1/completions", "/v1/files", "/v1/files/x", "/v1/batches"]
    assert {seen.headers["x-auth"] for seen in server.seen} == {SECRET}
    assert {seen.query["api-version"] for seen in server.seen} == {"1"}
    assert [seen.headers["authorization"][:14] for seen in server.seen] == ["Bearer token-1"] + ["Bearer token-2"] * 3


def test_expired_token_is_replaced_once_for_any_number_of_refused_requests(server, inbox, tokens, tmp_path):
    """The server answers 24 requests, then refuses sixteen concurrent requests that carry the old token."""
    old = []
    all_refused = threading.Event()

    def answer(seen: Seen) -> dict[str, Any]:
        if "token-2" in seen.headers["authorization"]:
            return ANSWER
        old.append(seen)
        if len(old) <= 24:
            return ANSWER
        if len(old) == 24 + 16:
            all_refused.set()
        return {"status": 401, "text": f"{seen.headers['authorization']} has expired", "until": all_refused}

    server.handle = answer
    calls = [ask(number) for number in range(200)]
    open_chat(server, key_command=tokens).send(calls, inbox)
    assert {inbox[call].status for call in calls} == {"ok"}
    assert (count_runs(tmp_path), len(old)) == (2, 40)


def test_refused_new_token_stops_run(server, inbox, tokens, tmp_path):
    server.handle = lambda seen: {"status": 401, "text": f"no: {seen.headers['authorization']}, token-1-abcdefgh"}
    with pytest.raises(ServiceUnreachable, match="HTTP 401") as caught:
        open_chat(server, key_command=tokens).send([ask()], inbox)
    assert "abcdefgh" not in str(caught.value), "neither the old nor the new token is shown"
    assert (count_runs(tmp_path), len(server.seen)) == (2, 2)


def test_refused_environment_key_is_not_read_again(server, inbox, monkeypatch):
    monkeypatch.setenv("MY_KEY", "key-0123")
    server.script({"status": 401, "text": "no"})
    with pytest.raises(ServiceUnreachable, match="HTTP 401"):
        open_chat(server, key_env="MY_KEY").send([ask()], inbox)
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            [*PYTHON, "import sys; sys.exit('no login: run az login')"],
            "failed with exit code 1: no login: run az login",
        ),
        ([*PYTHON, "pass"], "printed nothing"),
        ([*PYTHON, "import sys; print('tok-0123456789'); sys.exit('leaks tok-0123456789')"], r"leaks \*\*\*"),
        (["no-such-program", "x"], r"key_command .no-such-program.* cannot run"),
    ],
)
def test_key_command_that_outputs_no_key_stops_run_with_its_message(command, message, server, inbox):
    with pytest.raises(SettingsError, match=message):
        open_chat(server, key_command=command).send([ask()], inbox)
    assert server.seen == []


def test_key_command_that_never_ends_times_out(server, inbox, monkeypatch):
    monkeypatch.setattr("factmill.tasks.clients.sending.credentials._COMMAND_TIMEOUT_S", 0.2)
    with pytest.raises(ServiceUnreachable, match="gave no key within"):
        open_chat(server, key_command=[*PYTHON, "import time; time.sleep(60)"]).send([ask()], inbox)


def test_key_command_slower_than_request_timeout_is_awaited_by_next_attempt(server, inbox, tmp_path):
    server.script(ANSWER)
    code = f"import time; open({str(tmp_path / 'runs')!r}, 'a').write('ran'); time.sleep(0.8); print('token-0123')"
    limits = ServiceLimits(timeout_s=0.5, attempts=8, backoff_s=0.1)
    open_chat(server, key_command=[*PYTHON, code], limits=limits).send([ask()], inbox)
    assert inbox[ask()].status == "ok" and count_runs(tmp_path) == 1


def test_unset_variable_is_named(server, inbox, monkeypatch):
    monkeypatch.delenv("CF_TOKEN", raising=False)
    for setting in ("headers", "query"):
        with pytest.raises(SettingsError, match=rf"{setting}.X is not set"):
            open_chat(server, **{setting: {"X": {"env": "CF_TOKEN"}}}).send([ask()], inbox)


@pytest.mark.parametrize("form", [SECRET, "cf-secret%2F0123%2B456789", "cf-secret/0123%2B456789"])
def test_errors_responses_and_logs_contain_no_secret(form, server, inbox, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("CF_TOKEN", SECRET)
    monkeypatch.setenv("MY_KEY", 'quote"d\\key-0123')
    server.handle = lambda seen: {
        "status": 400,
        "json": {"message": f'{form} {seen.headers} {seen.query} quote"d\\key-0123'},
    }
    given = {"headers": {"X-Sig": {"env": "CF_TOKEN"}}, "query": {"key": {"env": "CF_TOKEN"}}}
    open_chat(server, key_env="MY_KEY", key_header="X-Subscription", **given).send([ask()], inbox)
    assert inbox[ask()].error.startswith("http_400")
    result = inbox[ask()].error + caplog.text
    assert not [each for each in (SECRET, "%2F0123", "key-0123") if each in result]
    assert server.seen[0].query["key"] == SECRET


def test_secrets_are_sent_only_to_host_of_model(server, inbox, monkeypatch):
    monkeypatch.setenv("CF_TOKEN", SECRET)
    other = Loopback()
    other.handle = lambda seen: ANSWER
    server.handle = lambda seen: {"status": 307, "headers": {"Location": f"{other.url}/v1/chat/completions"}}
    limits = ServiceLimits(attempts=1, redirects=(f"127.0.0.1:{other.port}",))
    given = {"headers": {"X-Sig": {"env": "CF_TOKEN"}}, "query": {"sig": {"env": "CF_TOKEN"}}}
    open_chat(server, limits=limits, **given).send([ask()], inbox)
    assert inbox[ask()].status == "ok"
    assert SECRET in str(server.seen[0]) and SECRET not in str(other.seen[0])
    other.close()


def test_redirects_within_host_keep_headers_and_query(server, inbox):
    def answer(seen: Seen) -> dict[str, Any]:
        if seen.path == "/v2/chat/completions":
            return ANSWER
        return {"status": 307, "headers": {"Location": "/v2/chat/completions?api-version=9"}}

    server.handle = answer
    open_chat(server, headers={"X-Org": "acme"}, query={"api-version": "1", "tenant": "t"}).send([ask()], inbox)
    assert Counter(seen.headers["x-org"] for seen in server.seen) == {"acme": 2}
    assert server.seen[1].query == {"api-version": "9", "tenant": "t"}


def test_anthropic_key_is_bearer_token_unless_key_header_names_another_header(server, tokens, monkeypatch):
    monkeypatch.setenv("MY_KEY", "ant-key-0123")
    server.script(ANSWER)
    for given in ({"key_env": "MY_KEY"}, {"key_env": "MY_KEY", "key_header": "api-key"}, {"key_command": tokens}):
        settings = model(server, **given).model_copy(update={"kind": "anthropic"})
        asyncio.run(
            OpenAiServerClient(settings, partial(read_api_key, settings), "tests").post("/chat/completions", {})
        )
    names = "api-key", "authorization"
    found = [[seen.headers.get(name, "")[:14] for name in names] for seen in server.seen]
    assert found == [["", "Bearer ant-key"], ["ant-key-0123", ""], ["", "Bearer token-1"]]
