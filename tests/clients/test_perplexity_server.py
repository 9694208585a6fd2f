"""Test perplexity from a server of the OpenAI protocol: both forms, truncation, and servers without support."""

import math

import pytest
from clients.test_chat import KEY, model

from factmill.tasks.clients.perplexity import TextPerplexityClient
from factmill.tasks.core.calls.translation_and_perplexity import (
    make_log_probability_call,
    make_model_service_identity,
    parse_log_probability,
)
from factmill.tasks.core.service_settings import ServiceLimits
from factmill.tasks.errors import ServiceUnreachable

TEXT = "Ada was born in London."


def open_scorer(server, **changed) -> TextPerplexityClient:
    opened = model(server, **changed)
    return TextPerplexityClient(
        make_model_service_identity(opened.url, opened.name), opened, lambda: KEY, "factmill-tests"
    )


def ask(scorer: TextPerplexityClient, text: str = TEXT):
    return make_log_probability_call(scorer.identity, text)


def compute_perplexities(scorer: TextPerplexityClient, inbox, text: str = TEXT):
    """Return the reply to one text."""
    scorer.send([ask(scorer, text)], inbox)
    return inbox[ask(scorer, text)]


def echoes(logs, text=TEXT, generated=" She", **changed):
    logprobs = {
        "tokens": ["x"] * len(logs),
        "token_logprobs": logs,
        "top_logprobs": [None] * len(logs),
        "text_offset": [*range(len(logs) - 1), len(text)],
    }
    choice = {"index": 0, "text": text + generated, "logprobs": logprobs, "finish_reason": "length"}
    usage = {"prompt_tokens": len(logs) - 1, "completion_tokens": 1}
    return {"json": {"choices": [choice | changed], "usage": usage}}


def test_prompt_is_echoed_and_generated_tokens_are_cut_off(server, inbox):
    server.script(echoes([None, -1.5, -0.25, -9.0]))
    reply = compute_perplexities(open_scorer(server), inbox)
    assert reply.body == {"log_probability": -1.75, "tokens": 2}
    assert parse_log_probability(reply.body).perplexity == float(f"{math.exp(1.75 / 2):.3g}")
    assert (reply.tokens_in, reply.tokens_out) == (3, 1)
    assert reply.cost_usd == pytest.approx(3 * 2e-6 + 10e-6)
    sent = server.seen[0]
    assert (sent.method, sent.path) == ("POST", "/v1/completions")
    assert (sent.headers["authorization"], sent.headers["user-agent"]) == (f"Bearer {KEY}", "factmill-tests")
    assert sent.json() == {
        "model": "m-1",
        "prompt": TEXT,
        "max_tokens": 1,
        "temperature": 0,
        "stream": False,
        "echo": True,
        "logprobs": 1,
    }


def test_identity_contains_model_and_call_contains_only_text(server):
    scorer = open_scorer(server)
    assert scorer.identity == f"{server.url}/v1#m-1"
    assert ask(scorer).parts == {"text": TEXT}
    assert ask(scorer).key != ask(open_scorer(server, name="m-2")).key


@pytest.mark.parametrize(
    ("logs", "generated", "usage", "expected"),
    [
        ([None, -1.0, -2.0, -9.0], " She", None, -3.0),
        ([None, -1.0, -2.0, -9.0], " She", {}, -3.0),
        ([None, -1.0, -2.0, -9.0], " She", {"prompt_tokens": 3}, -3.0),
        ([-4.0, -1.0, -9.0], " She", {"prompt_tokens": 2, "completion_tokens": 1}, -5.0),
        ([None, -1.0, -2.0], "", {"prompt_tokens": 2, "completion_tokens": 0}, -3.0),
    ],
    ids=["no usage", "empty usage", "half a usage", "a first token with a number", "nothing generated"],
)
def test_generated_tokens_are_cut_off_by_usage_or_offsets(server, inbox, logs, generated, usage, expected):
    answer = echoes(logs, generated=generated)
    answer["json"]["usage"] = usage
    server.script(answer)
    assert compute_perplexities(open_scorer(server), inbox).body == {"log_probability": expected, "tokens": 2}


def test_impossible_token_makes_perplexity_infinite(server, inbox):
    server.script(echoes([None, -1.0, -9999.0, -1.0]))
    body = compute_perplexities(open_scorer(server), inbox).body
    assert body == {"log_probability": None, "tokens": 2}
    assert parse_log_probability(body).perplexity == math.inf


def test_single_token_without_start_token_has_no_perplexity(server, inbox):
    server.script(echoes([None, -9.0]))
    reply = compute_perplexities(open_scorer(server), inbox)
    assert (reply.status, reply.transient) == ("failed", False)
    assert reply.error.startswith("unweighable: nothing_to_weigh: ")


def test_empty_text_is_not_sent(server, inbox):
    reply = compute_perplexities(open_scorer(server), inbox, "")
    assert reply.error.startswith("unweighable: nothing_to_weigh: ")
    assert server.seen == []


def vllm(seen):
    if "echo" in seen.json():
        return {"status": 400, "json": {"error": {"message": "echo is not supported"}}}
    places = [
        None,
        {"17": {"logprob": -1.0, "rank": 2}},
        {"9": {"logprob": -0.5, "rank": 9}, "4": {"logprob": -0.1}},
    ]
    choice = {"index": 0, "text": " She", "logprobs": None, "prompt_logprobs": places}
    return {"json": {"choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}}


def test_server_refusing_echo_gets_prompt_logprobs_from_then_on(server, inbox):
    server.handle = vllm
    scorer = open_scorer(server, limits=ServiceLimits(parallel=1))
    assert compute_perplexities(scorer, inbox).body == {"log_probability": -1.5, "tokens": 2}
    assert compute_perplexities(scorer, inbox, "Another text.").status == "ok"
    assert ["echo" in seen.json() for seen in server.seen] == [True, False, False]
    assert server.seen[1].json()["prompt_logprobs"] == 0


def chat_only(text="hello", **choice):
    given = {"index": 0, "text": text, "logprobs": None} | choice
    return {"json": {"choices": [given], "usage": {"prompt_tokens": 5, "completion_tokens": 1}}}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (chat_only(), "echo: the prompt is not repeated; prompt_logprobs: no prompt_logprobs in the reply"),
        (chat_only(logprobs={"token_logprobs": [-0.1]}), "echo: the prompt is not repeated"),
        (chat_only(TEXT + "!"), "echo: no token_logprobs in the reply"),
        (chat_only(TEXT + "!", logprobs={"content": []}), "echo: no token_logprobs in the reply"),
        (echoes([-0.1]), "echo: log-probabilities of what was generated only"),
        (echoes([None, -1.0, None, -1.0]), "echo: a token with None for a log-probability"),
        (echoes([None, "low", -1.0]), "echo: a token with 'low' for a log-probability"),
        (
            {"status": 500, "text": "logprobs is not supported for models created with logits_all=False"},
            "echo: HTTP 500: logprobs is not supported",
        ),
        ({"status": 501, "text": "Only no echo is supported"}, "echo: HTTP 501"),
    ],
)
def test_server_without_prompt_logprobs_fails_with_advice(server, inbox, answer, expected):
    server.script(answer)
    reply = compute_perplexities(open_scorer(server), inbox)
    assert (reply.status, reply.transient) == ("failed", False)
    assert reply.error.startswith("no_prompt_logprobs: model m-1 at http")
    assert expected in reply.error
    assert "logits_all = true, or a local model" in reply.error
    assert len(server.seen) == 2


def test_tokens_spent_on_failed_requests_are_counted(server, inbox):
    server.script(chat_only())
    reply = compute_perplexities(open_scorer(server), inbox)
    assert (reply.tokens_in, reply.tokens_out) == (10, 2)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"status": 429, "json": {"error": "slow"}, "headers": {"Retry-After": "0.05"}}, "http_429"),
        ({"json": {"hello": 1}}, "malformed_reply"),
        ({"json": {"choices": []}}, "malformed_reply"),
    ],
)
def test_transient_failure_is_retried_then_fails_and_remains_retryable(server, inbox, answer, code):
    server.script(answer)
    scorer = open_scorer(server)
    reply = compute_perplexities(scorer, inbox)
    assert (reply.error.partition(":")[0], reply.transient) == (code, True)
    server.script(answer, echoes([None, -1.0, -1.0], "other"))
    assert compute_perplexities(scorer, inbox, "other").status == "ok"


def test_text_too_long_for_model_fails_finally(server, inbox):
    server.script({"status": 400, "json": {"error": {"message": "maximum context length is 8 tokens"}}})
    reply = compute_perplexities(open_scorer(server), inbox)
    assert reply.error.startswith("prompt_too_long: ") and not reply.transient


@pytest.mark.parametrize("status", [401, 404])
def test_missing_completions_endpoint_or_refused_key_stops_run(server, inbox, status):
    server.script({"status": status, "text": f"no {KEY}"})
    with pytest.raises(ServiceUnreachable, match=f"HTTP {status}") as caught:
        compute_perplexities(open_scorer(server), inbox)
    assert KEY not in str(caught.value)


def test_each_of_many_texts_gets_its_own_result(server, inbox):
    server.handle = lambda seen: echoes([None, -float(len(seen.json()["prompt"])), -1.0], seen.json()["prompt"])
    scorer = open_scorer(server)
    texts = ["a" * number for number in range(1, 40)]
    scorer.send([ask(scorer, text) for text in texts], inbox)
    assert [inbox[ask(scorer, text)].body["log_probability"] for text in texts] == [-len(text) for text in texts]
