"""Limits and totals of a run's spending, the token usage that a model's server reports, and its cost.

Servers differ in the names and sums of counts. `read_token_usage` knows these forms:

| server | whole prompt | reply | cached, written to the cache | reasoning |
|---|---|---|---|---|
| OpenAI chat, OpenRouter, vLLM, Mistral | `prompt_tokens` | `completion_tokens` | part of the prompt | part of the reply |
| xAI, some gateways | `prompt_tokens` | `completion_tokens` and reasoning | part of the prompt | in `total_tokens` only |
| DeepSeek, Moonshot | `prompt_tokens` | `completion_tokens` | `prompt_cache_hit_tokens`, `cached_tokens` | part of the reply |
| OpenAI responses | `input_tokens` | `output_tokens` | part of the prompt | part of the reply |
| Anthropic, Bedrock | all three input counts | `output_tokens` | counts of their own | part of the reply |
| Gemini | `promptTokenCount` and tool prompts | `candidatesTokenCount` and thoughts | part of the prompt | a count of its own |

A count larger than the whole that should include it is a separate count, for any server. Output tokens are at least the
total minus the prompt.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """Limits of a run's spending; None: unlimited."""

    cost_usd: float | None = None
    requests: int | None = None
    hours: float | None = None


@dataclass(frozen=True, slots=True)
class RunSpending:
    """Spending of a run, over the network."""

    paid_usd: float = 0.0
    """Cost by the usage reported in responses."""
    unanswered_usd: float = 0.0
    """Maximum cost of requests whose responses never came or reported no usage."""
    requests: int = 0
    """Requests sent, including retries."""
    hours: float = 0.0

    @property
    def cost_usd(self) -> float:
        """Maximum total cost."""
        return self.paid_usd + self.unanswered_usd

    def subtract(self, before: "RunSpending") -> "RunSpending":
        """Return the spending after `before`."""
        return RunSpending(
            self.paid_usd - before.paid_usd,
            self.unanswered_usd - before.unanswered_usd,
            self.requests - before.requests,
            self.hours - before.hours,
        )


def format_spending(spent: RunSpending) -> str:
    """Format spending as text."""
    lost = (
        f", up to {format_usd(spent.unanswered_usd)} more in requests of unknown cost" if spent.unanswered_usd else ""
    )
    return f"{format_usd(spent.paid_usd)}{lost}, {format_count_with_noun(spent.requests, 'request')}, {spent.hours:.2f} hours"


def format_cost(cost_usd: float, unknown_cost_calls: int, unpriced_models: Sequence[str]) -> str:
    """Format a cost as text, with the calls that reported no usage and the models without a price."""
    unknown = [f"cost unknown for {format_count_with_noun(unknown_cost_calls, 'call')}"] if unknown_cost_calls else []
    unknown += [f"no price set for {', '.join(unpriced_models)}"] if unpriced_models else []
    return ", ".join([f"US$ {cost_usd:.4f}", *unknown] if cost_usd or not unknown else unknown)


def format_count_with_noun(number: int, noun: str) -> str:
    """Format a number with its noun; `noun`: in the singular."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_usd(usd: float) -> str:
    """Format an amount in US$, with enough digits to differ from zero."""
    return f"US$ {usd:.4f}" if usd >= 1e-4 or not usd else f"US$ {usd:.2g}"


def format_hours(hours: float) -> str:
    """Format a number of hours, with four significant digits."""
    return f"{hours:.4g} hour{'' if hours == 1 else 's'}"


def format_budget_limits(bounds: BudgetLimits) -> str:
    """Format limits of spending as text."""
    limits = [format_usd(bounds.cost_usd)] if bounds.cost_usd is not None else []
    limits += [format_count_with_noun(bounds.requests, "request")] if bounds.requests is not None else []
    limits += [format_hours(bounds.hours)] if bounds.hours is not None else []
    return ", ".join(limits) or "anything"


def compute_remaining_budget(bounds: BudgetLimits, spent: RunSpending) -> BudgetLimits:
    """Return the limits that remain after spending."""
    return BudgetLimits(
        None if bounds.cost_usd is None else max(0.0, bounds.cost_usd - spent.cost_usd),
        None if bounds.requests is None else max(0, bounds.requests - spent.requests),
        None if bounds.hours is None else max(0.0, bounds.hours - spent.hours),
    )


_MAX_TOKEN_COUNT = 2**53
_MAX_CHARGED_USD = 1e6
_PROMPT_TOKEN_KEYS = ("prompt_tokens", "input_tokens", "promptTokenCount", "inputTokens")
_COMPLETION_TOKEN_KEYS = ("completion_tokens", "output_tokens", "candidatesTokenCount", "outputTokens")
_TOTAL_TOKEN_KEYS = ("total_tokens", "totalTokenCount", "totalTokens")
_CACHED_TOKEN_KEYS = (
    *("prompt_tokens_details.cached_tokens", "input_tokens_details.cached_tokens", "prompt_cache_hit_tokens"),
    *("cached_tokens", "cache_read_input_tokens", "cachedContentTokenCount", "cacheReadInputTokens"),
)
_CACHE_WRITE_TOKEN_KEYS = (
    *("prompt_tokens_details.cache_write_tokens", "prompt_tokens_details.cache_creation_tokens"),
    *("cache_creation_input_tokens", "cacheWriteInputTokens"),
)
_REASONING_TOKEN_KEYS = (
    *("completion_tokens_details.reasoning_tokens", "output_tokens_details.reasoning_tokens", "reasoning_tokens"),
    *("thoughtsTokenCount",),
)


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Token usage of a request."""

    tokens_in: int
    """The whole prompt, including tokens read from and written to the server's cache."""
    tokens_out: int
    """The whole completion, including reasoning."""
    cached: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cost_usd: float = 0.0
    """Cost that the server reports (OpenRouter's `cost`); 0.0 if it reports none."""


class ModelPrices(Protocol):
    """The price settings of a model (settings.py)."""

    usd_per_million_in: float
    usd_per_million_out: float
    usd_per_million_cached: float | None
    usd_per_million_cache_write: float | None
    usd_per_million_reasoning: float | None
    usd_per_request: float


def read_token_usage(body: Any) -> TokenUsage | None:
    """Read the usage from a response's body, or from its usage object; None if unknown.

    It is unknown unless both prompt and completion have a count: a number from 0, or its digits as text. A count of 0 for the
    prompt is ignored.
    """
    for name in ("usage", "usageMetadata"):
        if isinstance(body, Mapping) and isinstance(body.get(name), Mapping):
            body = body[name]
    counts: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
    is_gemini = "promptTokenCount" in counts
    is_anthropic = not is_gemini and counts.get("prompt_tokens") is None and "input_tokens_details" not in counts
    total = _read_largest_count(counts, _TOTAL_TOKEN_KEYS)
    tokens_out = _read_largest_count(counts, _COMPLETION_TOKEN_KEYS)
    reasoning = _read_largest_count(counts, _REASONING_TOKEN_KEYS) or 0
    if tokens_out is None and is_gemini:
        tokens_out = 0  # a completion cut off during thinking has no candidates
    tokens_in = _read_largest_count(counts, _PROMPT_TOKEN_KEYS)
    if not tokens_in and total is not None and tokens_out is not None:
        tokens_in = max(0, total - tokens_out)
    if tokens_out is None and total is not None and tokens_in:
        tokens_out = max(0, total - tokens_in)
    if not tokens_in or tokens_out is None:
        return None

    cached = _read_largest_count(counts, _CACHED_TOKEN_KEYS) or 0
    cache_write = _read_largest_count(counts, _CACHE_WRITE_TOKEN_KEYS) or 0
    if is_anthropic or cached + cache_write > tokens_in:
        tokens_in += cached + cache_write
    tokens_in += _read_largest_count(counts, ("toolUsePromptTokenCount",)) or 0
    if is_gemini or reasoning > tokens_out:
        tokens_out += reasoning
    beyond = 0 if total is None else total - tokens_in - tokens_out
    if beyond > 0 and beyond == cached + cache_write != reasoning:
        tokens_in += beyond
    elif beyond > 0:
        tokens_out += beyond
    charged = _read_non_negative(counts.get("cost")) or 0.0
    cost_usd = float(charged) if charged < _MAX_CHARGED_USD else 0.0
    return TokenUsage(tokens_in, tokens_out, cached, cache_write, reasoning, cost_usd)


def compute_request_cost(usage: TokenUsage, prices: ModelPrices) -> float:
    """Return the cost of a request in US$: by its tokens and the fee, or the server's reported cost, whichever is higher.

    The maximum keeps a limit safe if either is wrong: a gateway that uses our own key with another provider charges nothing
    itself, and one that chooses among providers may choose a more expensive one.
    """
    plain_in = usage.tokens_in - usage.cached - usage.cache_write
    usd = plain_in * prices.usd_per_million_in + (usage.tokens_out - usage.reasoning) * prices.usd_per_million_out
    usd += usage.cached * _choose_price(prices.usd_per_million_cached, prices.usd_per_million_in)
    usd += usage.cache_write * _choose_price(prices.usd_per_million_cache_write, prices.usd_per_million_in)
    usd += usage.reasoning * _choose_price(prices.usd_per_million_reasoning, prices.usd_per_million_out)
    return max(usd / 1e6 + prices.usd_per_request, usage.cost_usd)


def compute_cost_range(tokens_in: float, tokens_out: float, prices: ModelPrices) -> tuple[float, float]:
    """Return the minimum and maximum cost in US$ of a request with these tokens, for any share of cached and reasoning tokens."""
    of_in, of_out = prices.usd_per_million_in, prices.usd_per_million_out
    each_in = [of_in] + [
        _choose_price(one, of_in) for one in (prices.usd_per_million_cached, prices.usd_per_million_cache_write)
    ]
    each_out = [of_out, _choose_price(prices.usd_per_million_reasoning, of_out)]
    least, most = (
        (tokens_in * end(each_in) + tokens_out * end(each_out)) / 1e6 + prices.usd_per_request for end in (min, max)
    )
    return least, most


def is_error_response(body: Any) -> bool:
    """True when a response's body is a JSON error, or all its choices are errors without text."""
    if not isinstance(body, Mapping):
        return False
    choices = body.get("choices") or body.get("candidates")
    if not choices:
        return bool(body.get("error")) and not body.get("content") and not body.get("output")
    if not isinstance(choices, list):
        return False
    for choice in choices:
        if not isinstance(choice, Mapping) or not choice.get("error"):
            return False
        message = choice.get("message")
        if choice.get("text") or (isinstance(message, Mapping) and message.get("content")):
            return False
    return True


def _read_largest_count(counts: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    """Return the largest count under some names, with dots for nested objects; None if there is none."""
    found = []
    for name in names:
        value: Any = counts
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if (number := _read_non_negative(value)) is not None and number < _MAX_TOKEN_COUNT:
            found.append(math.ceil(number))
    return max(found, default=None)


def _read_non_negative(value: Any) -> float | None:
    """Return a number from 0, also from its digits as text; None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        return int(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and 0 <= value < math.inf else None


def _choose_price(price: float | None, otherwise: float) -> float:
    return otherwise if price is None else price
