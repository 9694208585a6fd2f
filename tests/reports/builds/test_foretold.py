"""A forecast beside what a build came to, as its page tells it."""

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.reports.builds.build_page import format_trimmed_number
from factmill.tasks.reports.builds.page_loading import _compare_forecast, _format_budget_and_spending


def test_calls_and_tokens_are_whole_and_money_has_four_digits() -> None:
    told = {
        "total": {"calls": 745.2, "tokens_in": 204_483.833, "usd": 1.23456},
        "low": {"calls": 700.4, "tokens_in": 202_094.789, "usd": 1.1},
        "high": {"calls": 790.6, "tokens_in": 206_680.902, "usd": 1.4},
        "actual": {"calls": 745, "tokens_in": 0, "usd": 1.0},
    }
    rows = [(each.what, each.forecast, each.low, each.high, each.actual, each.off) for each in _compare_forecast(told)]
    assert rows == [
        ("different calls", 745, 700, 791, 745, "+0.0 %"),
        ("tokens in", 204_484, 202_095, 206_681, 0, "–"),
        ("US$", 1.2346, 1.1, 1.4, 1.0, "+23.5 %"),
    ]


def test_money_is_shown_with_the_digits_that_it_was_rounded_to() -> None:
    assert [format_trimmed_number(value, 4) for value in (0.0001, 1.2346, 745)] == ["0.0001", "1.2346", "745"]
    for name in ("build.html", "build.md"):
        page = (ASSETS_ROOT / "data" / "templates" / name).read_text("utf-8")
        assert page.count("each.low | plain(4)") == page.count("each.actual | plain(4)") == 1


def test_bounds_are_told_in_full_and_right_in_number() -> None:
    spent = {"paid_usd": 0.001, "unanswered_usd": 0.0, "requests": 1, "hours": 0.5}
    told = _format_budget_and_spending({**spent, "bounds": {"cost_usd": 0.005, "requests": 1, "hours": 1.0}})
    assert told == ("at most US$ 0.0050, 1 request, 1 hour; its last run spent US$ 0.0010, 1 request, 0.50 hours")
