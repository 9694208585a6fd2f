"""Test agreement and rank correlation against statsmodels, scikit-learn and scipy, by hand, and in undefined cases."""

import math
import re

import numpy as np
import pytest

from factmill.tasks.core.measures.agreement import (
    compute_cohen_kappa,
    compute_fleiss_kappa,
    compute_spearman,
    compute_stratum_weights,
    format_few_labels_warning,
    make_confusion_table,
    measure_class_precision_and_recall,
    measure_judge_agreement,
    measure_rater_agreement,
)

CLASSES = ["1", "2", "3", "4", "5"]


def draw_labels(seed: int, n: int = 200, right: float = 0.6) -> tuple[list[str], list[str], list[str]]:
    """Return people's labels, a judge's labels that agree at this rate, and clusters of five."""
    generator = np.random.default_rng(seed)
    people = generator.choice(CLASSES, n, p=[0.1, 0.2, 0.4, 0.2, 0.1])
    judge = np.where(generator.random(n) < right, people, generator.choice(CLASSES, n))
    return people.tolist(), judge.tolist(), [f"q{number // 5}" for number in range(n)]


@pytest.mark.parametrize("seed", range(5))
def test_agreement_figures_match_sklearn_and_statsmodels(seed: int) -> None:
    from sklearn.metrics import cohen_kappa_score, confusion_matrix, precision_recall_fscore_support
    from statsmodels.stats.inter_rater import cohens_kappa

    people, judge, clusters = draw_labels(seed)
    table = make_confusion_table(people, judge, CLASSES)
    assert table.tolist() == confusion_matrix(people, judge, labels=CLASSES).tolist()
    found = measure_judge_agreement(people, judge, clusters, CLASSES, is_ordinal=True)
    assert found.kappa == pytest.approx(cohen_kappa_score(people, judge), abs=1e-6)
    assert found.kappa == pytest.approx(cohens_kappa(table).kappa, abs=1e-6)
    assert found.weighted_kappa == pytest.approx(cohen_kappa_score(people, judge, weights="quadratic"), abs=1e-6)
    shares = precision_recall_fscore_support(people, judge, labels=CLASSES, zero_division=np.nan)
    result = measure_class_precision_and_recall(people, judge, CLASSES)
    assert [(each.precision, each.recall, each.f1) for each in result] == [
        pytest.approx(each, abs=1e-6) for each in zip(*shares[:3], strict=True)
    ]
    weights = np.random.default_rng(seed).integers(1, 9, len(people)).astype(float)
    weighted = measure_judge_agreement(people, judge, clusters, CLASSES, weights.tolist())
    assert weighted.kappa == pytest.approx(cohen_kappa_score(people, judge, sample_weight=weights), abs=1e-6)


def test_agreement_matches_hand_computed_table() -> None:
    from statsmodels.stats.inter_rater import cohens_kappa

    # 20 both yes, 5 and 10 apart, 15 both no: 0.7 observed, 0.5 by chance
    people, judge = ["y"] * 25 + ["n"] * 25, ["y"] * 20 + ["n"] * 5 + ["y"] * 10 + ["n"] * 15
    found = measure_judge_agreement(people, judge, list(map(str, range(50))), ["y", "n"])
    assert (found.accuracy, found.accuracy_low, found.accuracy_high, found.kappa) == (0.7, 0.5625, 0.809, 0.4)
    assert found.kappa_low is not None and found.kappa_high is not None
    assert found.kappa_low < 0.4 < found.kappa_high
    error = cohens_kappa(np.array([[20, 5], [10, 15]])).std_kappa
    assert found.kappa_high - found.kappa_low == pytest.approx(2 * 1.96 * error, rel=0.1)
    yes, no = measure_class_precision_and_recall(people, judge, ["y", "n"])
    assert (yes.people, yes.judge, yes.precision, yes.recall) == (25, 30, 0.666667, 0.8)
    assert (no.precision, no.recall, no.f1) == (0.75, 0.6, 0.666667)


def test_kappa_separates_perfect_inverted_and_random_judges() -> None:
    people, _, clusters = draw_labels(0)
    assert measure_judge_agreement(people, people, clusters, CLASSES).kappa == 1
    binary = ["1" if each > "2" else "0" for each in people]
    turned = ["0" if label == "1" else "1" for label in binary]
    wrong = measure_judge_agreement(binary, turned, clusters, ["0", "1"])
    assert (wrong.accuracy, wrong.accuracy_low) == (0, 0)
    assert wrong.kappa is not None and wrong.kappa < -0.6
    random_ = [str(each) for each in np.random.default_rng(9).integers(0, 2, len(binary))]
    found = measure_judge_agreement(binary, random_, clusters, ["0", "1"])
    assert found.kappa_low is not None and found.kappa_high is not None
    assert found.kappa_low < 0 < found.kappa_high


@pytest.mark.parametrize(
    ("people", "judge", "accuracy", "note"),
    [
        (["1", "1"], ["1", "1"], 1, "people and the judge "),
        (["1", "1"], ["1", "0"], 0.5, "people "),
        (["1", "0"], ["1", "1"], 0.5, "the judge "),
        ([], [], None, "nothing to compare"),
    ],
)
def test_single_label_yields_note_instead_of_kappa(
    people: list[str], judge: list[str], accuracy: float | None, note: str
) -> None:
    found = measure_judge_agreement(people, judge, ["a", "b"][: len(people)], ["0", "1"])
    assert (found.accuracy, found.kappa, found.kappa_low) == (accuracy, None, None)
    assert note in found.note
    assert [each.f1 for each in measure_class_precision_and_recall([], [], ["0", "1"])] == [None, None]


def test_single_question_yields_kappa_without_interval() -> None:
    found = measure_judge_agreement(["1", "0", "1"], ["1", "0", "0"], ["q"] * 3, ["0", "1"])
    assert (found.kappa, found.kappa_low, found.clusters) == (0.4, None, 1)
    assert found.note.startswith("one cluster")


def test_intervals_ignore_order_and_resample_clusters_together() -> None:
    people, judge, clusters = draw_labels(3)
    order = np.random.default_rng(1).permutation(len(people)).tolist()
    mixed = [[column[at] for at in order] for column in (people, judge, clusters)]
    found = measure_judge_agreement(people, judge, clusters, CLASSES)
    assert measure_judge_agreement(*mixed, CLASSES) == found
    # identical items of one question count as one item
    once = measure_judge_agreement(people, judge, list(map(str, range(200))), CLASSES)
    many = [[each for each in column for _ in range(5)] for column in (people, judge, list(map(str, range(200))))]
    alike = measure_judge_agreement(*many, CLASSES)
    assert (alike.kappa, alike.kappa_low, alike.kappa_high) == (once.kappa, once.kappa_low, once.kappa_high)


def test_strata_are_reweighted_to_their_population() -> None:
    """Of 1,000 answers the judge accepts 900 (855 are right) and rejects 100 (60 are right): 91.5 % in all."""
    generator, hits = np.random.default_rng(0), 0
    population = [("1", "1")] * 855 + [("0", "1")] * 45 + [("0", "0")] * 60 + [("1", "0")] * 40
    sizes, estimates = {"1": 900, "0": 100}, []
    for _ in range(200):
        drawn = []
        for verdict in sizes:
            of = [each for each in population if each[1] == verdict]
            drawn += [of[at] for at in generator.choice(len(of), 50, replace=False)]
        people, judge = (list(side) for side in zip(*drawn, strict=True))
        weights = compute_stratum_weights(judge, sizes)
        assert sum(weights) == pytest.approx(1000)
        clusters = list(map(str, range(100)))
        found = measure_judge_agreement(people, judge, clusters, ["0", "1"], weights)
        assert found.accuracy is not None and found.accuracy_low is not None and found.accuracy_high is not None
        estimates.append(found.accuracy)
        hits += found.accuracy_low <= 0.915 <= found.accuracy_high
    assert np.mean(estimates) == pytest.approx(0.915, abs=0.005)
    assert hits >= 186  # 93 %


def test_rater_agreement_between_people_matches_libraries() -> None:
    from sklearn.metrics import cohen_kappa_score
    from statsmodels.stats.inter_rater import fleiss_kappa

    items = {f"i{n}": {"ada": first, "bo": second} for n, (first, second) in enumerate(["11", "11", "00", "10", "00"])}
    items["alone"] = {"ada": "1"}
    two = measure_rater_agreement(items, ["0", "1"])
    expected = cohen_kappa_score(list("11010"), list("11000"))
    assert (two.labellers, two.items, two.agreed, two.kind) == (2, 5, 4, "cohen")
    assert two.kappa == pytest.approx(expected, abs=1e-6)
    three = measure_rater_agreement(
        {item: {**given, "cy": "1"} for item, given in items.items() if len(given) > 1}, ["0", "1"]
    )
    counts = np.array([[given.count(each) for each in "01"] for given in ("111", "111", "001", "101", "001")])
    assert three.kind == "fleiss"
    assert three.kappa == pytest.approx(fleiss_kappa(counts), abs=1e-6)
    assert compute_fleiss_kappa(counts.astype(float)) == three.kappa
    assert measure_rater_agreement({"a": {"ada": "1", "bo": "1"}}, ["0", "1"]).kappa is None
    assert measure_rater_agreement({"a": {"ada": "1"}, "b": {"bo": "1"}}, ["0", "1"]).note != ""


def test_few_labels_produce_warning() -> None:
    def format_warning(n: int) -> str:
        return format_few_labels_warning(
            measure_judge_agreement(["1", "0"] * n, ["1", "0"] * n, list(map(str, range(2 * n))), ["0", "1"])
        )

    assert re.fullmatch(r"10 labels .* 72% to 100%; .*", format_warning(5))
    assert format_warning(50) == ""
    assert compute_cohen_kappa(np.zeros((2, 2))).item() != compute_cohen_kappa(np.zeros((2, 2))).item()


NAN = math.nan


def test_rho_matches_hand_computed_value() -> None:
    # ranks 1 2 3 4 and 2 1 4 3: 1 - 6 × (1 + 1 + 1 + 1) / (4 × 15)
    found = compute_spearman(np.array([0.1, 0.2, 0.3, 0.4]), np.array([2.0, 1.0, 4.0, 3.0]), ["a", "b", "c", "d"])
    assert (found.rho, found.n, found.n_unscored, found.clusters) == (0.6, 4, 0, 4)
    assert found.note == "an interval from 4 clusters is too narrow"


def test_rho_with_ties_matches_scipy() -> None:
    import scipy.stats

    draw = np.random.default_rng(1)
    for kinds in (2, 3, 10, 1000):
        x = draw.integers(0, kinds, 200)
        y = x + draw.integers(0, kinds, 200)
        found = compute_spearman(x.astype(float), y / 7, [str(n) for n in range(200)])
        assert found.rho == pytest.approx(scipy.stats.spearmanr(x, y).statistic, abs=1e-6)


@pytest.mark.parametrize("clusters", [200, 40])
def test_rho_interval_matches_scipy_over_resampled_clusters(clusters: int) -> None:
    import scipy.stats

    draw = np.random.default_rng(2)
    of = np.arange(200) % clusters
    x = draw.normal(0, 1, clusters)[of] + draw.normal(0, 0.2, 200)
    y = np.round(x + draw.normal(0, 1, 200), 1)
    members = [np.flatnonzero(of == cluster) for cluster in range(clusters)]
    rhos = []
    for _ in range(2000):
        places = np.concatenate([members[cluster] for cluster in draw.integers(0, clusters, clusters)])
        rhos.append(scipy.stats.spearmanr(x[places], y[places]).statistic)
    found = compute_spearman(x, y, [f"c{cluster:03}" for cluster in of])
    assert found.clusters == clusters
    assert (found.ci_low, found.ci_high) == pytest.approx(np.quantile(rhos, [0.025, 0.975]).tolist(), abs=0.02)


@pytest.mark.parametrize(
    ("x", "y", "note"),
    [
        ([], [], "0 items with both scores: expected 3 or more"),
        ([1.0, NAN, 2.0, 3.0], [1.0, 2.0, 2.0, NAN], "2 items with both scores: expected 3 or more"),
        ([1.0, 1.0, 1.0, NAN], [1.0, 2.0, 3.0, 4.0], "all 3 items have the same first score"),
        ([1.0, 2.0, 3.0], [0.0, 0.0, 0.0], "all 3 items have the same second score"),
    ],
)
def test_too_few_items_or_constant_scores_yield_no_rho(x: list[float], y: list[float], note: str) -> None:
    found = compute_spearman(np.array(x), np.array(y), [str(place) for place in range(len(x))])
    assert (found.rho, found.ci_low, found.ci_high, found.note) == (None, None, None, note)
    assert found.n + found.n_unscored == len(x)


def test_single_cluster_yields_rho_without_interval() -> None:
    found = compute_spearman(np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0]), ["a", "a", "a"])
    assert (found.rho, found.ci_low, found.note) == (-1.0, None, "one cluster: nothing to draw an interval from")


def test_resamples_without_rho_are_left_out_of_interval() -> None:
    # every fourth draw of the two clusters has only one of them, in which x is constant
    found = compute_spearman(np.array([1.0, 1.0, 2.0, 2.0]), np.array([1.0, 2.0, 3.0, 4.0]), ["a", "a", "b", "b"])
    assert found.ci_low is not None
    assert found.ci_high is not None
    assert 0.8 < found.ci_low <= found.ci_high <= 1.0


def test_rho_ignores_item_order_and_score_unit() -> None:
    draw = np.random.default_rng(4)
    x, y, of = draw.random(90), draw.random(90), [f"c{n % 30}" for n in range(90)]
    order = draw.permutation(90)
    assert compute_spearman(x, y, of) == compute_spearman(x[order], y[order] * 1e6, [of[place] for place in order])
    assert compute_spearman(x, y, of, seed=1) != compute_spearman(x, y, of, seed=2)


def test_columns_of_different_lengths_are_rejected() -> None:
    with pytest.raises(ValueError, match="3 and 2 scores of items in 3 clusters"):
        compute_spearman(np.zeros(3), np.zeros(2), ["a", "b", "c"])
