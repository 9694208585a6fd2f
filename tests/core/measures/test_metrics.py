"""Test metrics: group means, unscored counts, bounds, intervals and notes."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from factmill.tasks.core.measures.intervals import compute_wilson_interval
from factmill.tasks.core.measures.metrics import MeasuredMetric, MetricScores, measure_mean_metrics

NAN = math.nan


def make(
    values: Sequence[float],
    clusters: Sequence[str] = (),
    groups: Mapping[str, Sequence[str | None]] | None = None,
    **more: Any,
) -> MetricScores:
    """Make scores of items i0, i1, …; by default each item is its own cluster."""
    items = [f"i{position}" for position in range(len(values))]
    return MetricScores("greedy", "score", items, clusters or items, np.array(values, np.float64), groups or {}, **more)


def of_all(scores: MetricScores) -> MeasuredMetric:
    """Return the metric over all items."""
    return measure_mean_metrics([scores])[0]


def test_share_averages_scored_items_and_bounds_cover_unscored_items() -> None:
    # 3 right of 4 scored, 1 unscored: 3/4; at worst 3/5, at best 4/5; coverage 4/5
    found = of_all(make([1, 1, 0, 1, NAN], is_share=True, unit="share"))
    assert (found.setting, found.metric, found.group_by, found.group, found.unit) == (
        "greedy",
        "score",
        "",
        "",
        "share",
    )
    assert (found.value, found.n, found.n_unscored, found.coverage, found.clusters) == (0.75, 4, 1, 0.8, 4)
    assert (found.bound_low, found.bound_high, found.note) == (0.6, 0.8, "")
    assert (found.interval, found.ci_low, found.ci_high) == ("wilson", *compute_wilson_interval(3, 4))


def test_bounds_stay_ordered_low_to_high_if_lower_is_better() -> None:
    # 1 + 2 of two scored, two unscored at 10 or at 0: (3 + 20) / 4 and 3 / 4
    metric = of_all(make([1, 2, NAN, NAN], worst=10.0, best=0.0))
    assert (metric.value, metric.bound_low, metric.bound_high) == (1.5, 0.75, 5.75)


def test_groups_are_sorted_and_items_without_group_are_in_none() -> None:
    scores = make(
        [1, 0, 1, NAN, 0.5],
        groups={"language": ["de", "bn", "de", "fr", None], "domain": ["x", "x", "x", "x", "x"]},
    )
    lines = [(m.group_by, m.group, m.value, m.n, m.n_unscored, m.note) for m in measure_mean_metrics([scores])]
    few = "an interval from {} clusters is too narrow".format
    alone, alike = "one cluster: nothing to draw an interval from", "all clusters have the same mean"
    assert [row[:5] for row in lines] == [
        ("", "", 0.625, 4, 1),  # (1 + 0 + 1 + 0.5) / 4
        ("language", "bn", 0.0, 1, 0),
        ("language", "de", 1.0, 2, 0),
        ("language", "fr", None, 0, 1),
        ("domain", "x", 0.625, 4, 1),
    ]
    notes = [row[5] for row in lines]
    assert notes[:2] == [few(4), alone]
    assert notes[2].startswith(alike)
    assert notes[3:] == ["none of 1 is scored", few(4)]


@pytest.mark.parametrize(
    ("values", "coverage", "bounds", "note"),
    [([], None, (None, None), "nothing to score"), ([NAN, NAN], 0.0, (0.0, 1.0), "none of 2 is scored")],
)
def test_no_scores_yield_no_value(
    values: list[float], coverage: float | None, bounds: tuple[float | None, float | None], note: str
) -> None:
    metric = of_all(make(values, is_share=True))
    assert (metric.value, metric.n, metric.ci_low, metric.ci_high, metric.interval) == (None, 0, None, None, "")
    assert (metric.coverage, (metric.bound_low, metric.bound_high), metric.note) == (coverage, bounds, note)


def test_single_cluster_yields_mean_without_interval() -> None:
    metric = of_all(make([1, 0, 1, 1], ["q"] * 4, is_share=True))
    assert (metric.value, metric.clusters, metric.ci_low, metric.ci_high, metric.interval) == (0.75, 1, None, None, "")
    assert metric.note == "one cluster: nothing to draw an interval from"


def test_share_uses_cluster_bootstrap_only_if_clusters_hold_several_items() -> None:
    # twenty questions in six languages; within one language no items share a cluster
    right = [float(question % 2) for question in range(20) for _ in range(6)]
    questions = [f"q{question}" for question in range(20) for _ in range(6)]
    bound, alone = measure_mean_metrics([make(right, questions, {"language": ["de", *[None] * 5] * 20}, is_share=True)])
    assert (bound.interval, bound.clusters, bound.n) == ("bootstrap", 20, 120)
    assert (alone.interval, alone.ci_low, alone.ci_high) == ("wilson", *compute_wilson_interval(10, 20))
    # 120 items in groups of six equal scores are no surer than twenty items
    assert bound.ci_low is not None
    assert bound.ci_low < compute_wilson_interval(60, 120)[0] - 0.1


def test_unscored_items_leave_their_cluster_and_do_not_affect_values() -> None:
    rows = measure_mean_metrics([make([0.25, NAN, 0.75, NAN], ["a", "a", "b", "c"], {"by": ["x", "x", "y", "z"]})])
    assert rows[0].clusters == 2
    assert (rows[0].value, rows[0].bound_low, rows[0].bound_high) == (0.5, 0.25, 0.75)
    for row in rows:
        assert not any(isinstance(value, float) and math.isnan(value) for value in row.model_dump().values())


def test_metric_rows_ignore_item_order_and_other_scores() -> None:
    draw = np.random.default_rng(3)
    values = np.where(draw.random(400) < 0.1, NAN, draw.normal(0.1, 3, 400))
    clusters, groups = [f"c{n // 5}" for n in range(400)], [f"g{n % 3}" for n in range(400)]
    order = draw.permutation(400)
    first = make(values.tolist(), clusters, {"by": groups})
    shuffled = make(values[order].tolist(), [clusters[n] for n in order], {"by": [groups[n] for n in order]})
    assert (
        measure_mean_metrics([first])
        == measure_mean_metrics([shuffled])
        == measure_mean_metrics([make([1, 0]), first])[1:]
    )
    assert measure_mean_metrics([first], seed=1)[0].ci_low != measure_mean_metrics([first], seed=2)[0].ci_low


def test_values_of_any_magnitude_are_measured() -> None:
    for factor in (1e-300, 1e-9, 1e9, 1e300):
        metric = of_all(make([factor * value for value in range(1, 41)]))
        assert metric.value == pytest.approx(20.5 * factor, abs=1e-6)
        assert metric.ci_low is not None
        assert metric.ci_high is not None
        assert metric.ci_low == pytest.approx(17 * factor, rel=0.05, abs=1e-4)
        assert metric.ci_high == pytest.approx(24 * factor, rel=0.05, abs=1e-4)
    minus = of_all(make([-1e-9, -1e-9]))
    assert [math.copysign(1, value or 0) for value in (minus.value, minus.ci_low, minus.bound_low)] == [1, 1, 1]


def test_contradictory_scores_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"score, greedy: i1 has 0\.5; expected 0 or 1"):
        make([1, 0.5, NAN], is_share=True)
    with pytest.raises(ValueError, match="i0 has inf; expected a finite number, or NaN"):
        make([math.inf])
    with pytest.raises(ValueError, match="2 items, but 1 language"):
        make([1, 0], groups={"language": ["de"]})


def test_intervals_are_same_on_any_machine() -> None:
    places = np.arange(3000)
    scores = make(((places * 7919 % 1009) / 1009).tolist(), [f"c{place % 700}" for place in places])
    assert (of_all(scores).value, of_all(scores).ci_low, of_all(scores).ci_high) == (0.499561, 0.4904, 0.5088)
