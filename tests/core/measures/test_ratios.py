"""Test ratios of sums and F1 of two ratios: by hand, by group, with unscored items, and with intervals."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from factmill.tasks.core.measures.intervals import bootstrap_cluster_mean_interval
from factmill.tasks.core.measures.metrics import MeasuredMetric
from factmill.tasks.core.measures.ratio_metrics import RatioOrF1TermsPerItem, RatioTermsPerItem, measure_ratio_metrics

NAN = math.nan


def part(above: Sequence[float], below: Sequence[float]) -> RatioTermsPerItem:
    return RatioTermsPerItem(np.array(above, np.float64), np.array(below, np.float64))


def of_all(*parts: RatioTermsPerItem, clusters: Sequence[str] = ()) -> MeasuredMetric:
    names = clusters or [f"c{at}" for at in range(len(parts[0].numerators))]
    return measure_ratio_metrics([RatioOrF1TermsPerItem("s", "m", names, parts)])[0]


def test_ratio_of_sums_weights_items_by_denominator() -> None:
    # 1 of 1 and 1 of 9: 2/10, not the mean of 1 and 1/9
    metric = of_all(part([1, 1], [1, 9]))
    assert (metric.value, metric.n, metric.coverage, metric.bound_low, metric.bound_high) == (0.2, 2, 1.0, 0.2, 0.2)


def test_item_with_zero_denominator_is_not_counted() -> None:
    metric = of_all(part([1, 0, 1], [2, 0, 2]))
    assert (metric.value, metric.n, metric.clusters, metric.n_unscored) == (0.5, 2, 2, 0)


def test_bounds_assume_average_denominator_for_unscored_items() -> None:
    # 3 of 8 in two items; a third with 4 more: 3/12 and 7/12
    metric = of_all(part([1, 2, NAN], [4, 4, 0]))
    assert (metric.value, metric.n, metric.n_unscored, metric.coverage) == (0.375, 2, 1, 0.666667)
    assert (metric.bound_low, metric.bound_high) == (0.25, 0.583333)


def test_f1_combines_its_two_ratios() -> None:
    # precision 2/4, recall 2/8: 2 * 1/2 * 1/4 / (3/4)
    assert of_all(part([2, 0], [3, 1]), part([1, 1], [4, 4])).value == 0.333333


@pytest.mark.parametrize(
    ("first", "second", "value", "note"),
    [
        (part([0], [0]), part([0], [4]), 0.0, "one cluster"),  # nothing cited, nothing found
        (part([0], [2]), part([0], [4]), 0.0, "one cluster"),
        (part([0], [0]), part([0], [0]), None, "nothing to score"),
        (part([NAN], [0]), part([NAN], [4]), None, "none of 1 is scored"),
    ],
)
def test_f1_without_data_has_note(
    first: RatioTermsPerItem, second: RatioTermsPerItem, value: float | None, note: str
) -> None:
    metric = of_all(first, second)
    assert metric.value == value
    assert metric.note.startswith(note)


def test_groups_are_measured_separately() -> None:
    ratios = RatioOrF1TermsPerItem("s", "m", ["a", "b", "c"], [part([1, 0, 1], [1, 1, 2])], {"form": ["x", "y", "x"]})
    found = [(each.group_by, each.group, each.value, each.n) for each in measure_ratio_metrics([ratios])]
    assert found == [("", "", 0.5, 3), ("form", "x", 0.666667, 2), ("form", "y", 0.0, 1)]


def draw_parts(seed: int, count: int) -> tuple[RatioTermsPerItem, RatioTermsPerItem]:
    draw = np.random.default_rng(seed)
    cited, needed = draw.integers(0, 9, count), draw.integers(3, 8, count)
    right = draw.binomial(np.minimum(cited, needed), 0.4)
    return part(right, cited), part(right, needed)


def make(seed: int, clusters: int = 200) -> tuple[list[str], RatioTermsPerItem, RatioTermsPerItem]:
    return [f"c{at % clusters}" for at in range(clusters * 2)], *draw_parts(seed, clusters * 2)


def find_true_f1() -> float:
    p, r = (each.numerators.sum() / each.denominators.sum() for each in draw_parts(12345, 800_000))
    return float(2 * p * r / (p + r))


def test_ratio_interval_matches_bootstrap_over_clusters() -> None:
    names, precision, _ = make(1, 20)
    metric = of_all(precision, clusters=names)
    order = sorted(set(names))
    sums, sizes = (
        np.array([sum(column[at] for at, name in enumerate(names) if name == each) for each in order])
        for column in (precision.numerators, precision.denominators)
    )
    assert (metric.ci_low, metric.ci_high) == bootstrap_cluster_mean_interval(sums, sizes)


def test_f1_lies_in_its_interval_which_covers_planted_rates() -> None:
    inside, true = 0, find_true_f1()
    for seed in range(40):
        names, precision, recall = make(seed)
        metric = of_all(precision, recall, clusters=names)
        assert metric.value is not None
        assert metric.ci_low is not None
        assert metric.ci_high is not None
        assert metric.ci_low < metric.value < metric.ci_high
        inside += metric.ci_low <= true <= metric.ci_high
    assert 34 <= inside <= 40


def test_metric_rows_ignore_item_order_and_other_metrics() -> None:
    names, precision, recall = make(7)
    order = np.random.default_rng(0).permutation(len(names))
    mixed = [part(each.numerators[order], each.denominators[order]) for each in (precision, recall)]
    plain = RatioOrF1TermsPerItem("s", "m", names, [precision, recall])
    other = RatioOrF1TermsPerItem("s", "m", [names[at] for at in order], mixed)
    assert measure_ratio_metrics([plain]) == measure_ratio_metrics([plain, other])[1:] == measure_ratio_metrics([other])


def test_ratio_columns_of_different_lengths_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"m, s: .* 2 items"):
        RatioOrF1TermsPerItem("s", "m", ["a", "b"], [part([1], [1])])
