"""Test model comparisons: pairing, intervals, tests, the smallest detectable difference, adjustment and ranks."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from factmill.tasks.core.measures.metrics import MetricScores, measure_mean_metrics
from factmill.tasks.core.measures.model_comparison import (
    ModelComparison,
    adjust_p_values_benjamini_hochberg,
    compare_all_models,
    compare_models,
    compute_mcnemar_p,
    compute_model_rank_ranges,
    compute_sign_flip_p,
    compute_smallest_detectable_difference,
    keep_shared_items,
)

NAN = math.nan


def make(values: Sequence[float], items: Sequence[str] = (), clusters: Sequence[str] = (), **more: Any) -> MetricScores:
    """Make scores of items i0, i1, …; by default each item is its own cluster."""
    items = items or [f"i{position}" for position in range(len(values))]
    names = {"setting": "greedy", "metric": "score"} | {
        key: more.pop(key) for key in ("setting", "metric") & more.keys()
    }
    return MetricScores(**names, items=items, clusters=clusters or items, values=np.array(values, np.float64), **more)


def test_models_are_compared_on_items_both_have_scores_for() -> None:
    # shared: b, c, d; 1 + 0 + 1 against 0 + 0 + 1. Only the first has a; only the second has e; f is unscored in one
    one = make([1, 1, 0, 1, NAN], ["a", "b", "c", "d", "f"], is_share=True)
    two = make([1, 0, 0, 1, 1], ["f", "c", "b", "d", "e"], is_share=True)
    found = compare_models("one", one, "two", two)
    assert (found.n, found.only_first, found.only_second, found.clusters) == (3, 1, 2, 3)
    assert (found.value_first, found.value_second, found.difference) == (0.666667, 0.333333, 0.333333)
    assert (found.test, found.p) == ("mcnemar", 1.0)  # one discordant item: 2 × 1/2
    assert (found.better, found.note) == (
        "",
        "an interval from 3 clusters is too narrow",
    )
    # differences 1, 0, 0: variance 1/3; (1.96 + 0.84) × sqrt(1/3 / 3)
    assert found.smallest_difference == pytest.approx(2.801585 / 3, abs=1e-6)


def test_shared_items_are_kept_in_id_order() -> None:
    one, two = keep_shared_items(
        [make([1, NAN, 3], ["c", "b", "a"], groups={"by": ["x", "y", "z"]}), make([4, 5], ["a", "c"])]
    )
    assert (one.items, one.values.tolist(), one.groups) == (["a", "c"], [3, 1], {"by": ["z", "x"]})
    assert (two.items, two.values.tolist()) == (["a", "c"], [4, 5])
    assert measure_mean_metrics([one])[0].value == 2.0


def test_models_without_shared_items_have_no_figures() -> None:
    for other in (make([1, 0], ["x", "y"]), make([NAN, NAN], ["i0", "i1"])):
        found = compare_models("one", make([1, 0]), "two", other)
        assert (found.n, found.only_first, found.note) == (0, 2, "no item has a score of both")
        figures = (found.value_first, found.difference, found.ci_low, found.p, found.smallest_difference)
        assert (figures, found.better, found.test) == ((None,) * 5, "", "")


def test_single_cluster_yields_difference_without_interval() -> None:
    found = compare_models("one", make([1, 1], clusters=["q", "q"]), "two", make([0, 1], clusters=["q", "q"]))
    assert (found.difference, found.ci_low, found.better, found.smallest_difference) == (0.5, None, "", None)
    assert (found.p, found.note) == (1.0, "one cluster: nothing to draw an interval from")


def test_identical_models_tie_without_smallest_detectable_difference() -> None:
    found = compare_models("one", make([1, 0] * 20, is_share=True), "two", make([1, 0] * 20, is_share=True))
    assert (found.difference, found.ci_low, found.ci_high, found.better, found.p) == (0.0, 0.0, 0.0, "", 1.0)
    assert found.smallest_difference is None
    assert "cannot show the spread" in found.note


def test_lower_model_is_better_if_lower_metric_is_better() -> None:
    draw = np.random.default_rng(0)
    low, high = draw.normal(10, 1, 200), draw.normal(12, 1, 200)
    assert compare_models("low", make(low.tolist()), "high", make(high.tolist())).better == "high"
    errors = [make(each.tolist(), worst=50.0, best=0.0) for each in (low, high)]
    assert compare_models("low", errors[0], "high", errors[1]).better == "low"
    assert compare_models("high", errors[1], "low", errors[0]).better == "low"


def test_paired_comparison_finds_difference_separate_intervals_miss() -> None:
    import scipy.stats

    draw = np.random.default_rng(5)
    hard = draw.random(300)
    one, two = make((hard + 0.03).tolist()), make((hard + draw.normal(0, 0.05, 300)).tolist())
    found = compare_models("one", one, "two", two)
    first, second = measure_mean_metrics([one])[0], measure_mean_metrics([two])[0]
    assert first.ci_low is not None
    assert second.ci_high is not None
    assert first.ci_low < second.ci_high
    assert found.better == "one"
    theirs = scipy.stats.bootstrap(
        (one.values - two.values,), np.mean, method="percentile", n_resamples=10_000, rng=draw
    ).confidence_interval
    assert (found.ci_low, found.ci_high) == pytest.approx((theirs.low, theirs.high), abs=0.0005)


def test_comparing_scores_of_different_metrics_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"one .*two: .*recall.*precision"):
        compare_models("one", make([1], metric="recall"), "two", make([1], metric="precision"))
    with pytest.raises(ValueError, match="score, greedy: a has two scores; "):
        compare_models("one", make([1, 0], ["a", "a"]), "two", make([1], ["a"]))


def test_settings_of_one_model_can_be_compared() -> None:
    assert compare_models("qa", make([1, 0], setting="qa"), "kg", make([1, 1], setting="kg")).setting == ""


@pytest.mark.parametrize(("one", "two"), [(0, 0), (1, 0), (0, 8), (5, 5), (9, 2), (30, 52), (400, 480), (3000, 2000)])
def test_mcnemar_p_matches_statsmodels(one: int, two: int) -> None:
    from statsmodels.stats.contingency_tables import mcnemar as mcnemar_of_statsmodels

    theirs = mcnemar_of_statsmodels([[10, one], [two, 10]], exact=True).pvalue
    assert compute_mcnemar_p(one, two) == pytest.approx(theirs if one + two else 1.0, rel=5.1e-4)


def test_mcnemar_p_matches_hand_computed_values() -> None:
    assert compute_mcnemar_p(0, 8) == 0.007812  # 2 / 2^8
    assert compute_mcnemar_p(9, 2) == 0.06543  # 2 × (1 + 11 + 55) / 2^11
    assert compute_mcnemar_p(100_000, 0) == 0.0
    assert compute_mcnemar_p(50_000, 50_000) == 1.0


def test_sign_flip_p_of_binary_scores_matches_mcnemar() -> None:
    assert compute_sign_flip_p(np.array([1.0] * 9 + [-1.0] * 2 + [0.0] * 30)) == compute_mcnemar_p(9, 2)
    assert compute_sign_flip_p(np.array([1.0] * 40 + [-1.0] * 24)) == pytest.approx(compute_mcnemar_p(40, 24), abs=0.01)


def test_sign_flips_are_enumerated_if_few_clusters_differ() -> None:
    # of the 8 sign flips of 1, 2, 4 only ±(1 + 2 + 4) are as extreme: 2/8; of 4, -1, 2 (sum 5): ±7, ±5
    assert compute_sign_flip_p(np.array([1.0, 2.0, 4.0])) == 0.25
    assert compute_sign_flip_p(np.array([4.0, -1.0, 2.0])) == 0.5
    assert compute_sign_flip_p(np.array([0.0, 0.0])) == 1.0
    assert compute_sign_flip_p(np.array([])) == 1.0


def test_sign_flip_p_matches_scipy() -> None:
    import scipy.stats

    draw = np.random.default_rng(9)
    for shift in (0.0, 0.15, 0.3):
        gains = draw.normal(shift, 1, 90)
        theirs = scipy.stats.permutation_test(
            (gains,), np.sum, permutation_type="samples", n_resamples=20_000, vectorized=True, rng=draw, axis=0
        ).pvalue
        sums = np.rint(gains * 2**30)
        assert compute_sign_flip_p(sums) == pytest.approx(theirs, abs=0.015)
        assert (
            compute_sign_flip_p(sums) == compute_sign_flip_p(sums[draw.permutation(90)]) == compute_sign_flip_p(-sums)
        )


def test_sign_flip_test_has_five_percent_false_positives() -> None:
    draw = np.random.default_rng(3)
    found = sum(compute_sign_flip_p(np.rint(draw.standard_t(3, 12) * 2**20)) <= 0.05 for _ in range(1000))
    assert 35 <= found <= 65


def test_smallest_detectable_difference_matches_statsmodels_power() -> None:
    from statsmodels.stats.power import NormalIndPower

    gains = np.random.default_rng(6).normal(0.1, 0.4, 150)
    sums = np.rint(gains * 2**30)
    effect = NormalIndPower().solve_power(nobs1=150, alpha=0.05, power=0.8, ratio=0)
    found = compute_smallest_detectable_difference(sums, np.ones(150), 30)
    assert found == pytest.approx(effect * np.std(gains, ddof=1), rel=1e-4)
    # six equal gains in a cluster add no power
    assert compute_smallest_detectable_difference(sums * 6, np.full(150, 6.0), 30) == pytest.approx(found, rel=1e-4)


def test_smallest_detectable_difference_is_found_in_four_of_five_samples() -> None:
    draw = np.random.default_rng(8)
    smallest = compute_smallest_detectable_difference(np.rint(draw.normal(0, 1, 5000) * 2**20), np.ones(5000), 20)
    assert smallest is not None
    shown = smallest * math.sqrt(50)  # for 100 instead of 5,000 items
    found = sum(compute_sign_flip_p(np.rint(draw.normal(shown, 1, 100) * 2**20)) <= 0.05 for _ in range(150))
    assert 105 <= found <= 134


def test_adjusted_p_values_match_statsmodels() -> None:
    from statsmodels.stats.multitest import multipletests

    p_values = [0.01, 0.5, 0.04, 0.03, 0.04, 1.0, 0.0]
    assert adjust_p_values_benjamini_hochberg(p_values) == pytest.approx(
        multipletests(p_values, method="fdr_bh")[1], rel=1e-4
    )
    # 0.01 × 2/1 and 0.02 × 2/2: the smaller applies to both; untested comparisons do not count
    assert adjust_p_values_benjamini_hochberg([0.01, None, 0.02]) == [0.02, None, 0.02]
    assert adjust_p_values_benjamini_hochberg([]) == []


def test_all_models_are_compared_in_each_shared_setting() -> None:
    # of 100 items a has 90 right, b 60, c another 60
    right = {"a": range(9), "b": range(6), "c": range(4, 10)}
    models = {
        name: [
            make([float(n % 10 in tens) for n in range(100)], setting=setting, is_share=True)
            for setting in ("x" if name == "c" else "xy")
        ]
        for name, tens in right.items()
    }
    found = compare_all_models(models)
    assert [(one.first, one.second, one.setting) for one in found] == [
        ("a", "b", "x"),
        ("a", "b", "y"),
        ("a", "c", "x"),
        ("b", "c", "x"),
    ]
    assert [one.p_adjusted for one in found] == adjust_p_values_benjamini_hochberg([one.p for one in found])
    assert compute_model_rank_ranges([one for one in found if one.setting == "x"]) == {
        "a": (1, 1),
        "b": (2, 3),
        "c": (2, 3),
    }


VALUES = {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.6}


def difference(first: str, second: str, better: str, ci_low: float | None = 0.0) -> ModelComparison:
    """Make a comparison of which only the values and the outcome matter."""
    found = compare_models(first, make([1, 0]), second, make([1, 0]))
    values = {"value_first": VALUES[first], "value_second": VALUES[second]}
    return found.model_copy(update={**values, "better": better, "ci_low": ci_low})


def test_models_without_shown_difference_share_rank() -> None:
    # b ties with both, a is better than c; d shares no items with the others
    comparisons = [
        difference("a", "b", ""),
        difference("b", "c", ""),
        difference("c", "a", "a", -0.2),
        difference("a", "d", "", None),
    ]
    assert compute_model_rank_ranges(comparisons) == {"a": (1, 2), "b": (1, 3), "c": (2, 3)}
    lower = [one.model_copy(update={"better": "c" if one.better else ""}) for one in comparisons]
    assert compute_model_rank_ranges(lower, lower_is_better=True) == {"c": (1, 2), "b": (1, 3), "a": (2, 3)}


def test_tied_models_far_apart_share_rank() -> None:
    # b, which has a wide interval, ties with a only, though c and d lie between
    shown = [("a", "c"), ("a", "d"), ("c", "d")]
    comparisons = [difference(*pair, pair[0] if pair in shown else "") for pair in itertools.combinations("abcd", 2)]
    ranks = compute_model_rank_ranges(comparisons)
    for one in comparisons:
        (low, high), (other_low, other_high) = ranks[one.first], ranks[one.second]
        assert one.better or max(low, other_low) <= min(high, other_high)
    assert ranks == {"a": (1, 2), "b": (1, 4), "c": (2, 3), "d": (2, 4)}
