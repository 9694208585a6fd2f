"""Test token counts: read in every server's form, priced and formatted; an implausible count is unknown."""

import math
from types import SimpleNamespace

import pytest

from factmill.tasks.core.service_settings import ModelSettings
from factmill.tasks.core.spending.costs import (
    RunSpending,
    TokenUsage,
    compute_cost_range,
    compute_request_cost,
    format_cost,
    format_hours,
    format_spending,
    format_usd,
    is_error_response,
    read_token_usage,
)

OPENAI = {"prompt_tokens": 100, "completion_tokens": 20}
ANTHROPIC = {"input_tokens": 100, "output_tokens": 20}
GEMINI = {"promptTokenCount": 100, "candidatesTokenCount": 20}


def details(**counts: object) -> dict[str, object]:
    return {"prompt_tokens_details": counts}


def reasoning(count: object) -> dict[str, object]:
    return {"completion_tokens_details": {"reasoning_tokens": count}}


@pytest.mark.parametrize(
    ("expected", "usage"),
    [
        (OPENAI, TokenUsage(100, 20)),
        (OPENAI | {"total_tokens": 120}, TokenUsage(100, 20)),
        (OPENAI | {"total_tokens": 110}, TokenUsage(100, 20)),  # a total that is too small changes nothing
        (OPENAI | details(cached_tokens=64) | reasoning(8), TokenUsage(100, 20, cached=64, reasoning=8)),
        (OPENAI | {"total_tokens": 420} | reasoning(300), TokenUsage(100, 320, reasoning=300)),  # xAI
        (OPENAI | {"total_tokens": 420}, TokenUsage(100, 320)),  # a gateway that reports reasoning only in the total
        (OPENAI | reasoning(300), TokenUsage(100, 320, reasoning=300)),  # no part of the completion, since it is larger
        (OPENAI | {"total_tokens": 120} | reasoning(300), TokenUsage(100, 320, reasoning=300)),
        (OPENAI | {"prompt_cache_hit_tokens": 90, "prompt_cache_miss_tokens": 10}, TokenUsage(100, 20, cached=90)),
        (OPENAI | {"cached_tokens": 90}, TokenUsage(100, 20, cached=90)),
        (OPENAI | details(cached_tokens=50, cache_write_tokens=30), TokenUsage(100, 20, cached=50, cache_write=30)),
        # no part of the prompt, since it is larger
        (OPENAI | details(cached_tokens=900), TokenUsage(1000, 20, cached=900)),
        (OPENAI | details(cached_tokens=50) | {"total_tokens": 170}, TokenUsage(150, 20, cached=50)),
        (OPENAI | {"cost": 0.25}, TokenUsage(100, 20, cost_usd=0.25)),
        (OPENAI | {"cost": {"total_cost": 0.25}}, TokenUsage(100, 20)),
        # LiteLLM: the names of both protocols, with cached tokens counted in the prompt
        (OPENAI | {"cache_read_input_tokens": 70, "cache_creation_input_tokens": 10}, TokenUsage(100, 20, 70, 10)),
        (ANTHROPIC, TokenUsage(100, 20)),
        (ANTHROPIC | {"cache_read_input_tokens": 70, "cache_creation_input_tokens": 10}, TokenUsage(180, 20, 70, 10)),
        (
            ANTHROPIC
            | {"total_tokens": 120, "input_tokens_details": {"cached_tokens": 70}}
            | {"output_tokens_details": {"reasoning_tokens": 5}},
            TokenUsage(100, 20, cached=70, reasoning=5),
        ),
        (
            {"inputTokens": 100, "outputTokens": 20, "totalTokens": 190, "cacheReadInputTokens": 70},
            TokenUsage(170, 20, 70),
        ),
        (GEMINI | {"totalTokenCount": 120}, TokenUsage(100, 20)),
        (GEMINI | {"thoughtsTokenCount": 300, "totalTokenCount": 420}, TokenUsage(100, 320, reasoning=300)),
        ({"promptTokenCount": 100, "thoughtsTokenCount": 300}, TokenUsage(100, 300, reasoning=300)),
        (GEMINI | {"toolUsePromptTokenCount": 7, "cachedContentTokenCount": 9}, TokenUsage(107, 20, cached=9)),
        ({"prompt_tokens": "100", "completion_tokens": "20"}, TokenUsage(100, 20)),
        ({"prompt_tokens": 100.0, "completion_tokens": 19.5}, TokenUsage(100, 20)),
        ({"prompt_tokens": 100, "total_tokens": 120}, TokenUsage(100, 20)),
        ({"completion_tokens": 20, "total_tokens": 120}, TokenUsage(100, 20)),
        ({"prompt_tokens": 100, "completion_tokens": 0}, TokenUsage(100, 0)),
        (OPENAI | details(cached_tokens=-5) | reasoning("many"), TokenUsage(100, 20)),
        (OPENAI | {"prompt_tokens_details": None, "completion_tokens_details": [], "cost": -1}, TokenUsage(100, 20)),
        (OPENAI | {"input_tokens": 0, "output_tokens": 0}, TokenUsage(100, 20)),
    ],
)
def test_usage_is_read_from_every_providers_names_and_totals(expected, usage):
    assert read_token_usage(expected) == usage
    assert read_token_usage({"choices": [], "usage": expected}) == usage
    assert read_token_usage({"candidates": [], "usageMetadata": expected}) == usage


@pytest.mark.parametrize(
    "bad", [None, -1, "", "12.5", "-3", "n/a", "²", True, [], {}, math.nan, math.inf, 2**53, "9" * 19]
)
def test_invalid_token_count_makes_usage_unknown(bad):
    assert read_token_usage(OPENAI | {"completion_tokens": bad}) is None
    assert read_token_usage(OPENAI | {"prompt_tokens": bad}) is None
    assert read_token_usage({"input_tokens": bad, "output_tokens": 3}) is None


@pytest.mark.parametrize(
    "expected",
    [
        None,
        "usage",
        [],
        {},
        {"usage": None},
        {"usage": []},
        {"usage": {"read": 100, "written": 20}},
        {"usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}},
        {"prompt_tokens": 0, "completion_tokens": 20},
        {"prompt_tokens": 100},
    ],
)
def test_missing_usage_is_unknown(expected):
    assert read_token_usage(expected) is None


def prices(**changed: float) -> ModelSettings:
    return ModelSettings.model_validate(
        {"kind": "openai", "name": "m", "usd_per_million_in": 2.0, "usd_per_million_out": 8.0, **changed}
    )


@pytest.mark.parametrize(
    ("usage", "changed", "usd"),
    [
        (TokenUsage(1_000_000, 500_000), {}, 6.0),
        (TokenUsage(1_000_000, 500_000, cached=500_000, cache_write=250_000, reasoning=250_000), {}, 6.0),
        (TokenUsage(1_000_000, 0, cached=500_000), {"usd_per_million_cached": 0.5}, 1.25),
        (TokenUsage(1_000_000, 0, cached=500_000), {"usd_per_million_cached": 0.0}, 1.0),
        (TokenUsage(1_000_000, 0, cache_write=500_000), {"usd_per_million_cache_write": 2.5}, 2.25),
        (TokenUsage(1_000_000, 500_000, reasoning=250_000), {"usd_per_million_reasoning": 4.0}, 5.0),
        (TokenUsage(1_000_000, 0), {"usd_per_request": 0.25}, 2.25),
        (TokenUsage(1_000_000, 0, cost_usd=3.0), {}, 3.0),
        (TokenUsage(1_000_000, 0, cost_usd=1.0), {}, 2.0),
    ],
)
def test_each_token_kind_has_its_price_and_each_request_its_fee(usage, changed, usd):
    assert compute_request_cost(usage, prices(**changed)) == pytest.approx(usd)


def test_cost_range_bounds_every_split_of_tokens():
    dear = prices(
        usd_per_million_cached=0.5, usd_per_million_cache_write=2.5, usd_per_million_reasoning=9.0, usd_per_request=0.1
    )
    least, most = compute_cost_range(1_000_000, 500_000, dear)
    assert (least, most) == (pytest.approx(0.5 + 4.0 + 0.1), pytest.approx(2.5 + 4.5 + 0.1))
    splits = [(0, 0, 0), (1_000_000, 0, 0), (0, 1_000_000, 500_000), (300_000, 700_000, 100_000)]
    for cached, written, reasoned in splits:
        usd = compute_request_cost(TokenUsage(1_000_000, 500_000, cached, written, reasoned), dear)
        assert least - 1e-9 <= usd <= most + 1e-9


def test_any_object_with_prices_is_accepted():
    free = SimpleNamespace(**{name: 0.0 for name in ModelSettings.model_fields if name.startswith("usd_")})
    assert compute_request_cost(TokenUsage(10, 10), free) == 0.0


@pytest.mark.parametrize(
    ("body", "is_one"),
    [
        ({"error": {"message": "overloaded", "code": 529}}, True),
        ({"error": "overloaded"}, True),
        ({"error": {"code": 502}, "choices": []}, True),
        ({"choices": [{"error": {"code": 502}, "message": {"content": ""}}]}, True),
        ({"choices": [{"error": {"code": 502}}, {"error": {"code": 502}, "message": None}]}, True),
        ({"choices": [{"error": {"code": 502}, "message": {"content": "half a"}}]}, False),
        ({"choices": [{"error": {"code": 502}}, {"message": {"content": "whole"}}]}, False),
        ({"choices": [{"finish_reason": "error", "message": {"content": ""}}]}, False),
        ({"choices": [{"message": {"content": "whole"}}], "error": None}, False),
        ({"choices": [{"message": {"content": "whole"}}], "error": {"code": 1}}, False),
        ({"error": None}, False),
        ({"choices": "none"}, False),
        ({}, False),
        ("error", False),
        (None, False),
    ],
)
def test_error_body_is_recognised_as_error_response(body, is_one):
    assert is_error_response(body) is is_one


@pytest.mark.parametrize(
    ("spent", "text"),
    [
        (RunSpending(0.5, 0.0, 1, 0.25), "US$ 0.5000, 1 request, 0.25 hours"),
        (
            RunSpending(0.0, 0.125, 1_000, 2.0),
            "US$ 0.0000, up to US$ 0.1250 more in requests of unknown cost, 1,000 requests, 2.00 hours",
        ),
    ],
)
def test_spending_is_formatted(spent: RunSpending, text: str) -> None:
    assert format_spending(spent) == text


def test_hours_have_enough_digits_to_differ_from_zero() -> None:
    assert [format_hours(hours) for hours in (1, 0.0001, 12.345678)] == ["1 hour", "0.0001 hours", "12.35 hours"]


def test_tiny_cost_is_not_formatted_as_zero() -> None:
    assert [format_usd(usd) for usd in (0, 1e-6, 1e-4, 12.345678)] == [
        "US$ 0.0000",
        "US$ 1e-06",
        "US$ 0.0001",
        "US$ 12.3457",
    ]


@pytest.mark.parametrize(
    ("usd", "unknown", "unpriced", "text"),
    [
        (0.0, 0, [], "US$ 0.0000"),
        (1.25, 0, [], "US$ 1.2500"),
        (0.0, 1, [], "cost unknown for 1 call"),
        (1.25, 1200, [], "US$ 1.2500, cost unknown for 1,200 calls"),
        (0.0, 0, ["m", "o"], "no price set for m, o"),
        (1.25, 3, ["m"], "US$ 1.2500, cost unknown for 3 calls, no price set for m"),
    ],
)
def test_cost_reports_unknown_and_unpriced_requests(usd: float, unknown: int, unpriced: list[str], text: str) -> None:
    assert format_cost(usd, unknown, unpriced) == text
