"""Test perplexity from a real server against the values of the underlying library."""

from typing import Any

import numpy as np
import pytest

from factmill.tasks.clients.perplexity import TextPerplexityClient
from factmill.tasks.core.calls.call import Call, CallResponse
from factmill.tasks.core.calls.translation_and_perplexity import (
    make_log_probability_call,
    make_model_service_identity,
    parse_log_probability,
)
from factmill.tasks.core.service_settings import ModelSettings, ServiceLimits

pytestmark = pytest.mark.llm

TEXTS = ["Ada Lovelace was born in London.", "Rome", "O'Brien's “place” is 東京."]


def compute_perplexities(server: Any, texts: list[str]) -> list[CallResponse]:
    limits = ServiceLimits(parallel=1, timeout_s=60, attempts=3, backoff_s=0.05)
    model = ModelSettings(kind="openai", name="tiny", url=server.url, limits=limits)
    scorer = TextPerplexityClient(
        make_model_service_identity(model.url, model.name), model, lambda: server.key, "factmill-tests"
    )
    calls = [make_log_probability_call(scorer.identity, text) for text in texts]
    replies: dict[str, CallResponse] = {}

    def deliver(call: Call, reply: CallResponse) -> None:
        replies[call.key] = reply

    scorer.send(calls, deliver)
    return [replies[call.key] for call in calls]


def test_real_server_log_probabilities_match_model(chat_server: Any) -> None:
    import llama_cpp

    model = llama_cpp.Llama(
        str(chat_server.log.with_name("tiny.gguf")), n_ctx=256, n_threads=1, logits_all=True, verbose=False
    )
    for text, reply in zip(TEXTS, compute_perplexities(chat_server, TEXTS), strict=True):
        tokens = model.tokenize(text.encode(), add_bos=True)
        model.reset()
        model.eval(tokens)
        logits = np.array(model.scores[: len(tokens)], np.float64)
        logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        # the server omits the first token after the start token
        expected = [logs[place - 1, tokens[place]] for place in range(2, len(tokens))]
        weighed = parse_log_probability(reply.body)
        assert weighed.tokens == len(expected)
        assert weighed.log_probability == pytest.approx(sum(expected), rel=1e-4)
        assert (reply.tokens_in, reply.tokens_out) == (len(tokens), 1)


def test_text_without_scorable_tokens_fails(chat_server: Any) -> None:
    errors = [reply.error or "" for reply in compute_perplexities(chat_server, ["", "a"])]
    assert all(error.startswith("unweighable: nothing_to_weigh: ") for error in errors)
