"""Test forecasts of a whole build from some of its rows: each kind of call scales in its own way."""

from collections.abc import Callable

import numpy as np
import pytest

from factmill.tasks.core.spending.forecasting import (
    ObservedCallOfRow,
    ObservedStage,
    calibrate_row_weights_to_total_size,
    estimate_bundled_requests,
    estimate_distinct_things,
    make_build_forecast,
    select_pilot_rows,
)

ROWS = {f"r{at:02}": 1.0 for at in range(20)}


def use(
    stage: str, row: str, key: str, *, model: str = "m", usd: float = 0.01, requests: float = 1.0
) -> ObservedCallOfRow:
    return ObservedCallOfRow(stage, row, key, "http://model", "chat", model, requests, 100.0, 10.0, usd, 2.0)


def forecast(uses, scale: float = 4.0, seconds: float = 10.0, parallel: int = 8, rows=ROWS):
    return make_build_forecast(
        [ObservedStage("ask", len(rows), scale, seconds)], uses, rows, {"http://model": parallel}, {}
    )


def test_calls_per_row_scale_with_rows():
    found = forecast([use("ask", row, f"{row} {at}") for row in ROWS for at in (1, 2)])
    assert found.total["calls"] == found.total["model_requests"] == 160
    assert found.total["usd"] == pytest.approx(1.6)
    assert found.total["tokens_in"] == 16_000
    assert (found.low["usd"], found.high["usd"]) == (pytest.approx(1.6), pytest.approx(1.6))


def test_calls_shared_by_all_rows_do_not_grow():
    found = forecast([use("ask", row, "the corpus") for row in ROWS])
    assert found.total["calls"] == 1
    assert found.stages[0].asked[0].growth == 0


def test_calls_shared_by_rows_of_one_question_scale_with_questions():
    rows = {f"{setting}/q{at}": 1.0 for at in range(10) for setting in ("drawn", "put together")}
    shared = [use("ask", row, f"answers to {row[-2:]}") for row in rows]
    stages = [ObservedStage("ask", len(rows), 4.0, 10.0)]
    assert make_build_forecast(stages, shared, rows, {}, {}).total["calls"] < 20
    assert make_build_forecast(stages, shared, rows, {}, {}, lambda row: row[-2:]).total["calls"] == 40


def test_calls_shared_by_more_rows_grow_more_slowly():
    shared = [use("ask", row, f"{int(row[1:]) % 8}") for row in ROWS]
    found = forecast(shared)
    assert 8 <= found.total["calls"] < 32
    assert 0 <= found.stages[0].asked[0].growth < 0.6


@pytest.mark.parametrize(
    ("wanted_by", "rows", "scale", "met"),
    [
        ([5] * 8, 20, 4.0, 8),  # several rows requested each distinct call: all of them are known
        ([1] * 10 + [2] * 10, 20, 1.0, 20),
        ([1] * 10 + [2] * 10, 20, 1e6, 24.75),  # as many more as 19/20 of 10² / (2 · 10)
    ],
)
def test_distinct_resource_estimate_grows_if_most_are_used_by_single_rows(wanted_by, rows, scale, met):
    assert estimate_distinct_things(wanted_by, rows, scale) == pytest.approx(met)


@pytest.mark.parametrize(
    ("calls", "batches", "most", "requests"),
    [
        (40, 1.0, 50, 2),  # the two existing requests have room for all
        (400, 1.0, 50, 8),
        (40, 3.0, 50, 6),  # each batch sends its own request
        (40, 1.0, 1, float("inf")),
    ],
)
def test_calls_fill_bundled_requests_before_more_requests_are_forecast(calls, batches, most, requests):
    seen = [use("ask", row, row, requests=0.2) for row in [*ROWS][:10]]
    assert estimate_bundled_requests(seen, calls, batches, most) == pytest.approx(requests)


def test_bundled_requests_grow_more_slowly_than_calls():
    uses = [use("ask", row, row, requests=0.1, model="") for row in ROWS]
    found = make_build_forecast([ObservedStage("ask", 20, 10.0, 1.0)], uses, ROWS, {}, {"http://model": 50})
    assert (found.total["calls"], found.total["requests"]) == (200, 4)
    assert found.low["requests"] == pytest.approx(4)


def test_calls_made_by_earlier_stage_are_not_forecast_again():
    stages = [ObservedStage("read", 80, 1.0, 1.0), ObservedStage("ask", 20, 4.0, 1.0)]
    uses = [use("read", row, row) for row in ROWS] + [use("ask", row, row) for row in ROWS]
    found = make_build_forecast(stages, uses, ROWS, {}, {})
    assert found.total["calls"] == 20
    assert found.stages[1].asked == ()
    assert (found.low["calls"], found.high["calls"]) == (20, 20)


def test_interval_widens_with_row_variation_and_covers_only_sampled_part():
    uneven = [use("ask", row, f"{row} {at}") for row in ROWS for at in range(10 if row < "r05" else 1)]
    found = forecast(uneven)
    assert found.low["usd"] < 0.8 * found.total["usd"] < 1.2 * found.total["usd"] < found.high["usd"]
    nearly_all = forecast(uneven, scale=1.05)
    width = nearly_all.high["usd"] - nearly_all.low["usd"]
    assert width < 0.2 * (found.high["usd"] - found.low["usd"]) / 4 * 1.5


@pytest.mark.parametrize(
    ("sizes", "scale", "weights"),
    [
        ([1.0, 1.0, 1.0], 4.0, [4, 4, 4]),
        ([0.5, 1.5], 4.0, [4, 4]),
        ([0.5, 1.0], 4.0, [1, 7]),  # 1 · 0.5 + 7 · 1.0 is less than 8, but a row counts at least as itself
        ([0.0, 1.0, 1.25], 4.0, [1.429, 4.857, 5.714]),
        ([0.5, 3.0, 0.0], 1.0, [1, 1, 1]),
        ([], 4.0, []),
    ],
)
def test_row_weights_match_average_row_size_of_full_build(sizes, scale, weights):
    assert calibrate_row_weights_to_total_size(sizes, scale).tolist() == pytest.approx(weights, abs=1e-3)


def test_calls_proportional_to_row_size_are_forecast_without_uncertainty():
    sizes = {row: 0.5 + at % 3 / 2 for at, row in enumerate(ROWS)}  # 0.975 on average; the mean of all is 1
    found = forecast(
        [use("ask", row, f"{row} {at}") for row, size in sizes.items() for at in range(int(4 * size) - 1)], rows=sizes
    )
    assert found.total["calls"] == pytest.approx(4 * 20 * (4 * 1.0 - 1))
    assert (found.low["calls"], found.high["calls"]) == (pytest.approx(240), pytest.approx(240))


def test_rows_without_calls_count_as_sampled_rows():
    few = [use("ask", row, row) for row in [*ROWS][:2]]
    assert forecast(few).total["calls"] == 8
    assert forecast(few).high["calls"] > 12


def test_hours_are_those_of_slowest_service_plus_other_stage_work():
    found = forecast([use("ask", row, row) for row in ROWS], seconds=10.0, parallel=8)
    # 20 completions of 2 s, 8 at once: 5 s of the 10 are waiting
    assert found.total["hours"] * 3600 == pytest.approx(80 * 2 / 8 + 4 * 5)


def test_rate_limited_service_takes_as_long_as_its_rate_requires():
    uses = [use("ask", row, row) for row in ROWS]
    stages = [ObservedStage("ask", len(ROWS), 4.0, 10.0)]
    paced = make_build_forecast(stages, uses, ROWS, {"http://model": 8}, {}, gaps_s={"http://model": 0.3})
    assert paced.total["hours"] * 3600 == pytest.approx(80 * 0.3 + 4 * (10 - 20 * 0.3))


def test_pilot_rows_represent_each_part_and_size():
    ids = [f"{at:03}" for at in range(100)]
    parts = [("a",) if at < 80 else ("b",) for at in range(100)]
    sizes = [at * 37 % 100 for at in range(100)]
    drawn = select_pilot_rows(parts, [""] * 100, sizes, ids, 20)
    assert len(set(drawn)) == 20 == len(drawn)
    assert sum(at < 80 for at in drawn) == 16
    assert sum(sizes[at] for at in drawn) / 20 == pytest.approx(49.5, rel=0.1)
    assert select_pilot_rows(parts[:5], [""] * 5, sizes[:5], ids[:5], 20) == [0, 1, 2, 3, 4]


def test_halves_balanced_later_are_sampled_together():
    ids = [f"{at:03}" for at in range(60)]
    parts = [(f"category {at % 15}",) for at in range(60)]
    halves = ["most" if at < 30 else "least" for at in range(60)]
    drawn = select_pilot_rows(parts, halves, [len(ids)] * 60, ids, 14)
    assert len(drawn) == 14
    counts = {(parts[at], halves[at]) for at in drawn}
    assert all((part, "most") in counts and (part, "least") in counts for part, _ in counts)
    assert sum(halves[at] == "most" for at in drawn) == 7


def log_normal(sigma: float) -> Callable[[np.random.Generator, int], np.ndarray]:
    return lambda random, rows: np.exp(random.normal(0, sigma, rows))


def normal(random: np.random.Generator, rows: int) -> np.ndarray:
    return np.maximum(0.01, random.normal(1, 0.25, rows))


@pytest.mark.parametrize(
    ("draw", "pilot", "rows", "most_wide"),
    [
        *(
            (log_normal(sigma), pilot, rows, 2.5)
            for sigma in (0.5, 1.0, 1.5)
            for pilot, rows in ((20, 200), (60, 2000))
        ),
        (lambda random, rows: 1 + log_normal(1.5)(random, rows), 30, 600, 2.0),
        (lambda random, rows: log_normal(1.0)(random, rows) * (random.random(rows) < 0.7), 30, 600, 2.0),
        (normal, 20, 200, 0.25),  # 1.3 times the normal distribution's value
        (normal, 60, 2000, 0.14),
    ],
)
def test_forecast_interval_covers_full_cost_in_90_percent_of_skewed_pilots(draw, pilot, rows, most_wide):
    random, held, widths = np.random.default_rng(11), 0, []
    for _ in range(200):
        usd = draw(random, rows)
        uses = [use("ask", f"r{at}", f"r{at}", usd=float(usd[at])) for at in range(pilot)]
        found = forecast(uses, scale=rows / pilot, rows=dict.fromkeys((each.row for each in uses), 1.0))
        held += found.low["usd"] <= usd.sum() <= found.high["usd"]
        widths.append((found.high["usd"] - found.low["usd"]) / usd.sum())
    assert held / 200 >= 0.85
    assert np.median(widths) < most_wide
