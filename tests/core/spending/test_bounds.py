"""What is said of what a run spends is right in number."""

import pytest

from factmill.tasks.core.spending.costs import RunSpending, format_cost, format_hours, format_spending, format_usd


@pytest.mark.parametrize(
    ("spent", "told"),
    [
        (RunSpending(0.5, 0.0, 1, 0.25), "US$ 0.5000, 1 request, 0.25 hours"),
        (
            RunSpending(0.0, 0.125, 1_000, 2.0),
            "US$ 0.0000, up to US$ 0.1250 more in requests of unknown cost, 1,000 requests, 2.00 hours",
        ),
    ],
)
def test_what_was_spent_is_told(spent: RunSpending, told: str) -> None:
    assert format_spending(spent) == told


def test_hours_are_told_with_as_many_digits_as_tell_them_from_none() -> None:
    assert [format_hours(hours) for hours in (1, 0.0001, 12.345678)] == ["1 hour", "0.0001 hours", "12.35 hours"]


def test_money_is_told_apart_from_none() -> None:
    assert [format_usd(usd) for usd in (0, 1e-6, 1e-4, 12.345678)] == [
        "US$ 0.0000",
        "US$ 1e-06",
        "US$ 0.0001",
        "US$ 12.3457",
    ]


@pytest.mark.parametrize(
    ("usd", "unknown", "unpriced", "told"),
    [
        (0.0, 0, [], "US$ 0.0000"),
        (1.25, 0, [], "US$ 1.2500"),
        (0.0, 1, [], "cost unknown for 1 call"),
        (1.25, 1200, [], "US$ 1.2500, cost unknown for 1,200 calls"),
        (0.0, 0, ["m", "o"], "no price set for m, o"),
        (1.25, 3, ["m"], "US$ 1.2500, cost unknown for 3 calls, no price set for m"),
    ],
)
def test_a_cost_tells_what_it_leaves_out(usd: float, unknown: int, unpriced: list[str], told: str) -> None:
    assert format_cost(usd, unknown, unpriced) == told
