"""Test perplexity: a value worked by hand, and edge cases."""

import json
import math

import pytest

from factmill.tasks.core.calls.translation_and_perplexity import (
    NO_TOKENS_TO_SCORE,
    NoPerplexity,
    TextLogProbability,
    make_log_probability_call,
    make_log_probability_response,
    make_model_service_identity,
    parse_log_probability,
    sum_log_probabilities,
)
from factmill.tasks.core.digests import canonical_json


@pytest.mark.parametrize(
    ("probabilities", "perplexity"),
    [
        ([0.5, 0.5, 0.5], 2.0),
        ([0.5, 0.125], 4.0),
        ([1.0], 1.0),
        ([1.0, 1.0, 1.0], 1.0),
        ([0.01], 100.0),
    ],
)
def test_perplexity_is_the_geometric_mean_of_inverse_probabilities(
    probabilities: list[float], perplexity: float
) -> None:
    weighed = sum_log_probabilities([math.log(probability) for probability in probabilities])
    assert isinstance(weighed, TextLogProbability)
    assert weighed.tokens == len(probabilities)
    assert weighed.perplexity == pytest.approx(perplexity)


@pytest.mark.parametrize(
    ("perplexity", "counted"),
    [(12.3449, 12.3), (12.3451, 12.3), (12.35001, 12.4), (0.99999, 1.0), (123456.7, 123000.0)],
)
def test_perplexity_is_rounded_to_three_digits(perplexity: float, counted: float) -> None:
    """CPUs disagree beyond three digits; the recorded logarithm keeps all of them."""
    weighed = sum_log_probabilities([-math.log(perplexity)] * 2)
    assert isinstance(weighed, TextLogProbability)
    assert weighed.perplexity == counted
    assert weighed.log_probability == pytest.approx(-2 * math.log(perplexity), rel=1e-12)


def test_perplexity_does_not_depend_on_text_length() -> None:
    assert TextLogProbability(-20.0, 10).perplexity == TextLogProbability(-2.0, 1).perplexity


@pytest.mark.parametrize(
    ("weighed", "perplexity"),
    [
        (TextLogProbability(-math.inf, 3), math.inf),
        (TextLogProbability(-1e9, 1), math.inf),
        (TextLogProbability(-709.0, 1), 8.22e307),
        (TextLogProbability(0.0, 5), 1.0),
        (TextLogProbability(-0.0, 5), 1.0),
        (TextLogProbability(-1e-300, 1), 1.0),
    ],
)
def test_perplexity_covers_both_ends_of_scale(weighed: TextLogProbability, perplexity: float) -> None:
    assert weighed.perplexity == perplexity


@pytest.mark.parametrize(
    ("logs", "reason"),
    [([], "nothing_to_weigh"), ([-1.0, math.nan], "no_number"), ([math.inf], "no_number")],
)
def test_text_without_perplexity_has_reason(logs: list[float], reason: str) -> None:
    outcome = sum_log_probabilities(logs)
    assert isinstance(outcome, NoPerplexity)
    assert outcome.reason == reason


def test_token_order_does_not_change_perplexity_in_last_bit() -> None:
    logs = [-1e-9, -12345.678, -3.3, -1e-3] * 7
    assert sum_log_probabilities(logs) == sum_log_probabilities(logs[::-1]) == sum_log_probabilities(sorted(logs))


@pytest.mark.parametrize(
    "weighed", [TextLogProbability(-12.25, 7), TextLogProbability(-math.inf, 2), TextLogProbability(0.0, 1)]
)
def test_perplexity_response_round_trips_any_value_through_json(weighed: TextLogProbability) -> None:
    reply = make_log_probability_response(weighed)
    assert reply.status == "ok"
    assert parse_log_probability(json.loads(canonical_json(reply.body))) == weighed


def test_impossible_text_has_null_log_probability_in_json() -> None:
    assert make_log_probability_response(TextLogProbability(-math.inf, 2)).body == {
        "log_probability": None,
        "tokens": 2,
    }


def test_text_without_perplexity_is_permanent_failure() -> None:
    reply = make_log_probability_response(NO_TOKENS_TO_SCORE)
    assert (reply.body, reply.status, reply.transient) == (None, "failed", False)
    assert reply.error is not None and reply.error.startswith("unweighable: nothing_to_weigh: ")


def test_call_key_depends_on_text_and_service() -> None:
    call = make_log_probability_call("here", "a text")
    assert (call.operation, call.parts) == ("perplexity", {"text": "a text"})
    others = {make_log_probability_call("there", "a text").key, make_log_probability_call("here", "a text ").key}
    assert len({call.key, *others}) == 3
    assert make_model_service_identity("http://x/v1", "m") != make_model_service_identity("http://x/v1", "n")
