"""Test the chat client: what it sends, how it joins samples, and how it classifies failures."""

import re
import threading
from collections import Counter

import pytest

from factmill.tasks.clients.chat import ChatClient
from factmill.tasks.core.calls.chat import make_chat_call
from factmill.tasks.core.prompts import fill_prompt_template, parse_prompt_file
from factmill.tasks.core.service_settings import ModelSettings, ServiceLimits
from factmill.tasks.errors import AccountBlocked, ServiceUnreachable, SettingsError

HERE = "test-model"
KEY = "sk-secret-0123456789"
PROMPT = b"""+++
role = "author"
inputs = ["name"]
temperature = 0.7
max_tokens = 99
[schema]
type = "object"
properties = { level = { type = "string" } }
+++
# system
Answer.
# user
Who is $name?
"""


def model(server, **changed) -> ModelSettings:
    given = {
        "kind": "openai",
        "name": "m-1",
        "url": f"{server.url}/v1",
        "usd_per_million_in": 2.0,
        "usd_per_million_out": 10.0,
        "limits": ServiceLimits(parallel=4, timeout_s=5, attempts=3, backoff_s=0.01),
    }
    return ModelSettings.model_validate({**given, **changed})


def open_chat(server, read_key=lambda: KEY, **changed) -> ChatClient:
    return ChatClient(HERE, model(server, **changed), read_key, "factmill-tests")


def ask(name="Ada", samples=1, data=PROMPT):
    return make_chat_call(
        HERE, "m-1", fill_prompt_template(parse_prompt_file("test/p", data), samples=samples, name=name)
    )


def says(*texts, finish="stop"):
    choices = [
        {"index": number, "finish_reason": finish, "message": {"role": "assistant", "content": text}}
        for number, text in enumerate(texts)
    ]
    return {
        "json": {
            "choices": choices[::-1],
            "usage": {"prompt_tokens": 100, "completion_tokens": 20},
            "system_fingerprint": "fp",
        }
    }


def test_prompt_is_sent_as_messages_and_response_is_counted_and_priced(server, inbox):
    server.script(says("a mathematician"))
    open_chat(server).send([ask()], inbox)
    reply = inbox[ask()]
    assert reply.body == {"texts": ["a mathematician"], "finish": ["stop"], "fingerprint": "fp"}
    assert (reply.tokens_in, reply.tokens_out) == (100, 20)
    assert reply.cost_usd == pytest.approx(100 * 2e-6 + 20 * 10e-6)
    assert reply.latency_s > 0
    sent = server.seen[0]
    assert (sent.method, sent.path) == ("POST", "/v1/chat/completions")
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.headers["user-agent"] == "factmill-tests"
    assert sent.json() == {
        "model": "m-1",
        "messages": [{"role": "system", "content": "Answer."}, {"role": "user", "content": "Who is Ada?"}],
        "temperature": 0.7,
        "max_tokens": 99,
        "stream": False,
    }


def test_call_records_variables_but_not_messages():
    call = ask()
    assert call.parts["variables"] == {"name": "Ada"} and call.parts["model"] == "m-1"
    assert set(call.unrecorded_parts) == {"messages", "schema"}
    assert ask("Ada").key == call.key != ask("Bob").key


def test_server_supporting_choices_gets_one_request_for_all_samples(server, inbox):
    server.script(says("one", "two", "three"))
    open_chat(server, choices=True).send([ask(samples=3)], inbox)
    assert inbox[ask(samples=3)].body["texts"] == ["one", "two", "three"]
    assert len(server.seen) == 1
    assert server.seen[0].json()["n"] == 3 and "seed" not in server.seen[0].json()


def test_other_servers_get_one_request_per_sample_with_seed(server, inbox):
    server.handle = lambda seen: says(f"sample {seen.json()['seed']}")
    calls = [ask("Ada", samples=3), ask("Bob", samples=2)]
    open_chat(server).send(calls, inbox)
    assert inbox[calls[0]].body["texts"] == ["sample 0", "sample 1", "sample 2"]
    assert inbox[calls[1]].body["texts"] == ["sample 0", "sample 1"]
    assert (inbox[calls[0]].tokens_in, inbox[calls[0]].tokens_out) == (300, 60)
    assert inbox[calls[0]].cost_usd == pytest.approx(3 * 4e-4)
    assert all("n" not in seen.json() for seen in server.seen)


def test_failing_sample_is_retried_alone_and_finally_fails_call(server, inbox):
    server.handle = lambda seen: {"status": 503, "text": "x"} if seen.json()["seed"] == 1 else says("fine")
    call = ask(samples=3)
    open_chat(server).send([call], inbox)
    assert (inbox[call].status, inbox[call].error, inbox[call].transient) == ("failed", "http_503: x", True)
    assert Counter(seen.json()["seed"] for seen in server.seen) == {0: 1, 1: 3, 2: 1}
    assert inbox[call].tokens_in == 200, "the cost is counted nevertheless"


def test_schema_is_sent_to_servers_that_support_it(server, inbox):
    server.script(says("{}"))
    open_chat(server, json_schema=True).send([ask()], inbox)
    assert server.seen[0].json()["response_format"] == {
        "type": "json_schema",
        "json_schema": {
            "name": "reply",
            "strict": True,
            "schema": {"type": "object", "properties": {"level": {"type": "string"}}},
        },
    }
    plain = ask(data=re.sub(rb"\[schema\].*?\n\+\+\+", b"+++", PROMPT, flags=re.S))
    open_chat(server, json_schema=True).send([plain], inbox)
    assert "response_format" not in server.seen[1].json()


def test_server_with_older_schema_format_gets_that_format(server, inbox):
    def answer(seen):
        if seen.json()["response_format"]["type"] == "json_schema":
            return {"status": 422, "json": {"detail": [{"loc": ["body", "response_format", "type"]}]}}
        return says("{}")

    server.handle = answer
    chat = open_chat(server, json_schema=True, limits=ServiceLimits(parallel=1))
    chat.send([ask("Ada"), ask("Bob")], inbox)
    assert {reply.status for reply in inbox.replies.values()} == {"ok"}
    forms = [seen.json()["response_format"]["type"] for seen in server.seen]
    assert forms == ["json_schema", "json_object", "json_object"]
    assert server.seen[1].json()["response_format"]["schema"]["type"] == "object"


def test_unspecific_bad_request_changes_no_setting_and_is_left_to_next_run(server, inbox):
    server.script(says("fine"), {"status": 400, "json": {"error": {"message": "the moon is full"}}})
    chat = open_chat(server)
    chat.send([ask("Ada")], inbox)
    chat.send([ask("Bob")], inbox)
    assert inbox[ask("Bob")].error.startswith("http_400: ") and "the moon is full" in inbox[ask("Bob")].error
    assert (inbox[ask("Bob")].transient, len(server.seen)) == (True, 2)


@pytest.mark.parametrize("text", ["", "  \n", None])
def test_empty_completion_is_transient_failure_and_paid(server, inbox, text):
    server.script(says(text, finish="length"))
    open_chat(server).send([ask()], inbox)
    assert inbox[ask()].error == "cut_off: 1 samples without text, finish ['length']"
    assert (inbox[ask()].transient, inbox[ask()].tokens_in, len(server.seen)) == (True, 100, 1)


def test_one_empty_sample_among_others_is_kept(server, inbox):
    server.script(says("one", ""))
    open_chat(server, choices=True).send([ask(samples=2)], inbox)
    assert inbox[ask(samples=2)].body["texts"] == ["one", ""]


@pytest.mark.parametrize("text", [None, "Well, Paris."])
def test_refusal_is_final_and_paid_even_with_other_content(server, inbox, text):
    answer = says(text)
    answer["json"]["choices"][0]["message"]["refusal"] = "I will not."
    server.script(answer)
    open_chat(server).send([ask()], inbox)
    reply = inbox[ask()]
    assert reply.error == "refused: finish ['refusal']: I will not."
    assert (reply.status, reply.transient, reply.tokens_in, len(server.seen)) == ("failed", False, 100, 1)


@pytest.mark.parametrize("finish", ["content_filter", "SAFETY", "RECITATION"])
def test_text_truncated_by_content_filter_is_refusal(server, inbox, finish):
    server.script(says("Par", finish=finish))
    call = make_chat_call(
        HERE, "m-1", fill_prompt_template(parse_prompt_file("test/p", PROMPT), name="Ada"), keeps_empty_completions=True
    )
    open_chat(server).send([call], inbox)
    assert inbox[call].error == f"refused: finish ['{finish}']: Par"
    assert not inbox[call].transient


def test_filtered_sample_among_others_is_kept_with_its_finish_reason(server, inbox):
    answer = says("one", "", "three")
    answer["json"]["choices"][1]["finish_reason"] = "content_filter"
    server.script(answer)
    open_chat(server, choices=True).send([ask(samples=3)], inbox)
    assert inbox[ask(samples=3)].body["texts"] == ["one", "", "three"]
    assert inbox[ask(samples=3)].body["finish"] == ["stop", "content_filter", "stop"]


@pytest.mark.parametrize(("blocked", "status"), [({1}, "ok"), ({0, 1, 2}, "failed")])
def test_call_with_separate_samples_is_refused_only_if_all_samples_are(server, inbox, blocked, status):
    filtered = {"status": 400, "json": {"error": {"message": "no", "code": "content_filter"}}}
    server.handle = lambda seen: filtered if seen.json()["seed"] in blocked else says("fine")
    call = ask(samples=3)
    open_chat(server).send([call], inbox)
    assert (inbox[call].status, inbox[call].transient, len(server.seen)) == (status, False, 3)
    if status == "ok":
        assert inbox[call].body["finish"] == ["stop", "content_filter", "stop"]
    else:
        assert inbox[call].error.startswith("refused: HTTP 400: ")


def test_request_with_failed_sample_is_repeated_in_full(server, inbox):
    half = says("one", "two")
    half["json"]["choices"][0]["finish_reason"] = "error"
    server.script(half, says("three", "four"))
    open_chat(server, choices=True).send([ask(samples=2)], inbox)
    assert inbox[ask(samples=2)].body["texts"] == ["three", "four"]


def test_pending_responses_are_kept_when_credit_runs_out(server, inbox):
    is_out = threading.Event()

    def answer(seen):
        if "Who is 3?" not in seen.json()["messages"][-1]["content"]:
            return {**says("fine"), "until": is_out}
        is_out.set()
        return {"status": 402, "json": {"error": "pay"}}

    server.handle = answer
    with pytest.raises(AccountBlocked, match="the account can send no further requests: HTTP 402"):
        open_chat(server).send([ask(str(number)) for number in range(9)], inbox)
    asked = {seen.json()["messages"][-1]["content"] for seen in server.seen}
    assert len(inbox.replies) == len(asked) - 1
    assert {reply.status for reply in inbox.replies.values()} == {"ok"}


def test_unknown_finish_reason_is_noted_once(server, inbox):
    server.script(says("Paris", finish="zap"))
    chat = open_chat(server)
    chat.send([ask("Ada"), ask("Bob")], inbox)
    assert inbox[ask("Ada")].body["finish"] == ["zap"]
    [note] = chat.notes()
    assert "'zap'" in note


@pytest.mark.parametrize(
    "usage",
    [None, [], "many", {"prompt_tokens": "x", "completion_tokens": -1}, {"prompt_tokens": 10**400}, {"prompt_tokens_details": 5}],
    ids=str,
)  # fmt: skip
def test_response_without_usage_costs_nothing(server, inbox, usage):
    server.script({"json": {"choices": [{"message": {"content": "hi"}}], "usage": usage}})
    open_chat(server).send([ask()], inbox)
    assert (inbox[ask()].status, inbox[ask()].tokens_in, inbox[ask()].cost_usd) == ("ok", 0, 0)
    assert inbox[ask()].body["fingerprint"] is None


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"status": 429, "json": {"error": "slow"}, "headers": {"Retry-After": "0.05"}}, "http_429"),
        ({"text": "<html>gateway"}, "html_instead_of_json"),
        ({"cut": True}, "connection_cut"),
        ({"text": '{"choices": [', "type": "application/json"}, "broken_json"),
    ],
)
def test_transient_failure_is_retried_then_fails_and_remains_retryable(server, inbox, answer, code):
    chat = open_chat(server)
    server.script(answer)
    chat.send([ask("Ada")], inbox)
    assert (inbox[ask("Ada")].error.partition(":")[0], inbox[ask("Ada")].transient) == (code, True)
    assert len(server.seen) == 3
    server.script(answer, says("fine"))
    chat.send([ask("Bob")], inbox)
    assert inbox[ask("Bob")].body["texts"] == ["fine"]


def test_slow_response_times_out(server, inbox):
    server.script({**says("late"), "delay_s": 2})
    open_chat(server, limits=ServiceLimits(parallel=4, timeout_s=0.5, attempts=2, backoff_s=0.01)).send([ask()], inbox)
    assert inbox[ask()].error.startswith("timeout") and len(server.seen) == 2


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        ({"status": 401, "json": {"error": {"message": f"Incorrect API key {KEY}"}}}, "HTTP 401.*Incorrect API key"),
        ({"status": 404, "json": {"error": {"message": "no model m-1"}}}, "HTTP 404.*no model m-1"),
        ({"status": 429, "json": {"error": {"code": "insufficient_quota"}}}, "insufficient_quota"),
    ],
)
def test_server_that_answers_no_request_stops_run(server, inbox, answer, match):
    server.script(answer)
    with pytest.raises(ServiceUnreachable, match=match) as caught:
        open_chat(server).send([ask(str(number)) for number in range(50)], inbox)
    assert KEY not in str(caught.value)
    assert len(server.seen) < 10


def test_key_is_read_once_and_only_when_needed(server, inbox):
    reads = []

    def read_key():
        reads.append(1)
        return KEY

    server.script(says("fine"))
    chat = open_chat(server, read_key)
    assert reads == []
    chat.send([ask(str(number)) for number in range(10)], inbox)
    assert reads == [1]


def test_missing_key_stops_run_with_original_settings_error(server, inbox):
    def read_key():
        raise SettingsError("set the environment variable X")

    with pytest.raises(SettingsError, match="set the environment variable X"):
        open_chat(server, read_key).send([ask()], inbox)


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY}…"])
def test_key_invalid_in_header_is_not_shown(server, inbox, key):
    with pytest.raises(ServiceUnreachable, match="the API key contains characters") as caught:
        open_chat(server, lambda: key).send([ask()], inbox)
    assert KEY not in str(caught.value)


def test_refusal_already_learned_from_concurrent_request_is_also_retried(server, inbox):
    """Several requests are sent before the first response, and each is refused for its own parameters."""
    all_sent = threading.Event()

    def answer(seen):
        if "temperature" not in seen.json():
            return says("fine")
        result = {"error": {"message": "no 'temperature'", "param": "temperature"}}
        if "Ada" in seen.json()["messages"][-1]["content"]:
            return {"status": 400, "json": result}
        return {"status": 400, "json": result, "until": all_sent}

    server.handle = answer
    chat = open_chat(server)

    def deliver(call, reply):
        inbox(call, reply)
        all_sent.set()

    chat.send([ask("Ada"), ask("Bob"), ask("Cleo")], deliver)
    assert {reply.status for reply in inbox.replies.values()} == {"ok"}
