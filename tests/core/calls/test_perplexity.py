"""Perplexity: the hand-worked figure, and the values at its edges."""

import json
import math

import pytest

from factmill.tasks.core.calls.local_models import (
    NOTHING,
    Unweighable,
    Weighed,
    add_up,
    call_perplexity,
    name_scorer,
    read_weighed,
    write_reply,
)
from factmill.tasks.core.fingerprints import canonical_json


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
    weighed = add_up([math.log(probability) for probability in probabilities])
    assert isinstance(weighed, Weighed)
    assert weighed.tokens == len(probabilities)
    assert weighed.perplexity == pytest.approx(perplexity)


@pytest.mark.parametrize(
    ("perplexity", "counted"),
    [(12.3449, 12.3), (12.3451, 12.3), (12.35001, 12.4), (0.99999, 1.0), (123456.7, 123000.0)],
)
def test_three_digits_of_a_perplexity_count(perplexity: float, counted: float) -> None:
    """Beyond them CPUs disagree; the recorded logarithm keeps all it has."""
    weighed = add_up([-math.log(perplexity)] * 2)
    assert isinstance(weighed, Weighed)
    assert weighed.perplexity == counted
    assert weighed.log_probability == pytest.approx(-2 * math.log(perplexity), rel=1e-12)


def test_length_does_not_count() -> None:
    assert Weighed(-20.0, 10).perplexity == Weighed(-2.0, 1).perplexity


@pytest.mark.parametrize(
    ("weighed", "perplexity"),
    [
        (Weighed(-math.inf, 3), math.inf),
        (Weighed(-1e9, 1), math.inf),
        (Weighed(-709.0, 1), 8.22e307),
        (Weighed(0.0, 5), 1.0),
        (Weighed(-0.0, 5), 1.0),
        (Weighed(-1e-300, 1), 1.0),
    ],
)
def test_the_ends_of_the_scale(weighed: Weighed, perplexity: float) -> None:
    assert weighed.perplexity == perplexity


@pytest.mark.parametrize(
    ("logs", "reason"),
    [([], "nothing_to_weigh"), ([-1.0, math.nan], "no_number"), ([math.inf], "no_number")],
)
def test_what_has_no_perplexity_says_why(logs: list[float], reason: str) -> None:
    outcome = add_up(logs)
    assert isinstance(outcome, Unweighable)
    assert outcome.reason == reason


def test_the_order_of_tokens_does_not_matter_to_the_last_bit() -> None:
    logs = [-1e-9, -12345.678, -3.3, -1e-3] * 7
    assert add_up(logs) == add_up(logs[::-1]) == add_up(sorted(logs))


@pytest.mark.parametrize("weighed", [Weighed(-12.25, 7), Weighed(-math.inf, 2), Weighed(0.0, 1)])
def test_a_reply_carries_any_value_through_json(weighed: Weighed) -> None:
    reply = write_reply(weighed)
    assert reply.status == "ok"
    assert read_weighed(json.loads(canonical_json(reply.body))) == weighed


def test_an_impossible_text_is_null_in_json() -> None:
    assert write_reply(Weighed(-math.inf, 2)).body == {"log_probability": None, "tokens": 2}


def test_a_text_without_perplexity_is_a_failed_reply_that_is_not_asked_again() -> None:
    reply = write_reply(NOTHING)
    assert (reply.body, reply.status, reply.transient) == (None, "failed", False)
    assert reply.error is not None and reply.error.startswith("unweighable: nothing_to_weigh: ")


def test_a_call_is_known_by_text_and_service() -> None:
    call = call_perplexity("here", "a text")
    assert (call.operation, call.parts) == ("perplexity", {"text": "a text"})
    others = {call_perplexity("there", "a text").key, call_perplexity("here", "a text ").key}
    assert len({call.key, *others}) == 3
    assert name_scorer("http://x/v1", "m") != name_scorer("http://x/v1", "n")
