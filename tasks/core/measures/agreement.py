"""Agreement of two raters on classes (kappa), and Spearman's rank correlation of two scores of the same items.

A table of agreement has human labels in rows and the judge's verdicts in columns. Items drawn by strata carry weights, so
that a table represents the whole population. Intervals of kappa are percentile bootstraps over clusters, as in
intervals.py; weights are multiples of 2^-20, so sums of draws are exact in any order.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from factmill.tasks.core.measures.intervals import (
    BOOTSTRAP_DRAWS,
    Float64Values,
    Int64Values,
    compute_percentile_interval,
    compute_wilson_interval,
    format_interval_warning,
    iterate_cluster_draw_counts,
)
from factmill.tasks.core.measures.metrics import index_names_in_sorted_order, round_to_six_decimals
from factmill.tasks.core.rows import StrictModel

ClassDistance = Literal["plain", "quadratic"]
"""Distance between classes: 1 for all pairs, or the squared difference of their positions (ratings)."""
_WEIGHT_BITS = 20
_FEW_LABELS = 30
_WIDE_INTERVAL = 0.2
"""Width of an accuracy's interval above which there are too few items."""


class JudgeAgreement(StrictModel):
    """Accuracy and chance-corrected agreement of a judge with human labels."""

    n: int
    """Items with a human label and a verdict of the judge."""
    clusters: int
    """Number of questions of these items."""
    accuracy: float | None
    """Share of items on which both agree; null without items."""
    accuracy_low: float | None
    """Lower end of the 95 % interval (Wilson's; for weighted items with their effective sample size)."""
    accuracy_high: float | None
    kappa: float | None
    """Cohen's kappa; null if either used one label only, as `note` explains."""
    kappa_low: float | None
    """Lower end of the 95 % interval, by a bootstrap over questions."""
    kappa_high: float | None
    weighted_kappa: float | None
    """For ratings: kappa with quadratic weights; null if classes have no order."""
    weighted_kappa_low: float | None
    weighted_kappa_high: float | None
    note: str
    """Why there is no figure, or why an interval is unreliable."""


class ClassPrecisionAndRecall(StrictModel):
    """Precision, recall and F1 of a judge on one class; null if their denominator is 0."""

    label: str
    people: int
    """Items that people put into the class."""
    judge: int
    precision: float | None
    """Share of the judge's items that people put there too."""
    recall: float | None
    """Share of people's items that the judge put there too."""
    f1: float | None


class RaterAgreement(StrictModel):
    """Agreement between labellers."""

    labellers: int
    items: int
    """Items with labels of two or more."""
    agreed: int
    """Of these, items on which all agree."""
    kappa: float | None
    kind: Literal["cohen", "fleiss", ""]
    """Cohen's for two labellers, Fleiss' for more; empty if no item has two labels."""
    note: str


def make_confusion_table(
    people: Sequence[str], judge: Sequence[str], classes: Sequence[str], weights: Float64Values | None = None
) -> Float64Values:
    """Return the table of agreement (shape: classes × classes; rows: people, columns: judge)."""
    size, cells = len(classes), _compute_confusion_cell_indices(people, judge, classes)
    return np.bincount(cells, weights, size * size).reshape(size, size).astype(np.float64)


def compute_cohen_kappa(tables: Float64Values, distance: ClassDistance = "plain") -> Float64Values:
    """Return Cohen's kappa of tables of agreement (shape: … × classes × classes); NaN where chance agreement is 1."""
    size = tables.shape[-1]
    places = np.arange(size, dtype=np.float64)
    apart = (places[:, None] - places) ** 2 if distance == "quadratic" else 1.0 - np.eye(size)
    found = (tables * apart).sum((-2, -1)) * tables.sum((-2, -1))
    chance = np.einsum("...i,ij,...j->...", tables.sum(-1), apart, tables.sum(-2))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(1.0 - found / chance)


def compute_fleiss_kappa(counts: Float64Values) -> float | None:
    """Return Fleiss' kappa of counts (items × classes; two or more labels per item); None if all are of one class."""
    sizes = counts.sum(axis=1)
    agreed = ((counts**2).sum(axis=1) - sizes) / (sizes * (sizes - 1))
    shares = counts.sum(axis=0) / counts.sum()
    chance = float((shares**2).sum())
    return None if chance >= 1 else round_to_six_decimals((float(agreed.mean()) - chance) / (1 - chance))


def measure_judge_agreement(
    people: Sequence[str],
    judge: Sequence[str],
    clusters: Sequence[str],
    classes: Sequence[str],
    weights: Sequence[float] | None = None,
    is_ordinal: bool = False,
    seed: int = 0,
) -> JudgeAgreement:
    """Return the agreement of parallel columns, one entry per item; labels are of `classes`, in order.

    `weights`: number of items that each represents (`compute_stratum_weights`). Clusters are drawn whole, regardless of strata, with
    fixed weights: intervals are, if anything, too wide.
    """
    size = len(classes)
    given = np.ones(len(people)) if weights is None else np.asarray(weights, np.float64)
    scaled = np.rint(np.ldexp(given, _WEIGHT_BITS))
    table = make_confusion_table(people, judge, classes, scaled)
    of_cluster, names = index_names_in_sorted_order(clusters)
    cells = of_cluster * size * size + _compute_confusion_cell_indices(people, judge, classes)
    tables = np.bincount(cells, scaled, len(names) * size * size).reshape(len(names), size * size).astype(np.float64)
    share = float(np.trace(table) / table.sum()) if len(people) else None
    # the effective sample size (Kish)
    worth = float(scaled.sum() ** 2 / (scaled**2).sum()) if share is not None else 0.0
    low, high = compute_wilson_interval(share * worth, worth) if share is not None else (None, None)
    missing = _explain_no_kappa(table)
    plain: tuple[float | None, ...] = (None, None, None)
    weighted = plain
    if not missing:
        plain = _compute_kappa_and_interval(tables, size, "plain", seed)
    if not missing and is_ordinal:
        weighted = _compute_kappa_and_interval(tables, size, "quadratic", seed)
    few = format_interval_warning(len(names)) if len(people) else ""
    return JudgeAgreement(
        n=len(people),
        clusters=len(names),
        accuracy=None if share is None else round_to_six_decimals(share),
        accuracy_low=low,
        accuracy_high=high,
        kappa=plain[0],
        kappa_low=plain[1],
        kappa_high=plain[2],
        weighted_kappa=weighted[0],
        weighted_kappa_low=weighted[1],
        weighted_kappa_high=weighted[2],
        note=missing or few,
    )


def measure_class_precision_and_recall(
    people: Sequence[str], judge: Sequence[str], classes: Sequence[str], weights: Sequence[float] | None = None
) -> list[ClassPrecisionAndRecall]:
    """Return precision, recall and F1 of each class, weighted if there are weights, and its numbers of items."""
    table = make_confusion_table(people, judge, classes, None if weights is None else np.asarray(weights, np.float64))
    found = []
    for at, label in enumerate(classes):
        both, row, column = float(table[at, at]), float(table[at].sum()), float(table[:, at].sum())
        precision, recall, f1 = (
            round_to_six_decimals(part / of) if of else None
            for part, of in ((both, column), (both, row), (2 * both, row + column))
        )
        counts = {"people": list(people).count(label), "judge": list(judge).count(label)}
        found.append(ClassPrecisionAndRecall(label=label, **counts, precision=precision, recall=recall, f1=f1))
    return found


def compute_stratum_weights(strata: Sequence[str], sizes: Mapping[str, int]) -> list[float]:
    """Return the weight of each item: its stratum's size divided by the stratum's drawn items."""
    drawn = Counter(strata)
    return [sizes[stratum] / drawn[stratum] for stratum in strata]


def measure_rater_agreement(labels: Mapping[str, Mapping[str, str]], classes: Sequence[str]) -> RaterAgreement:
    """Return the agreement between labellers; `labels`: item → labeller → label."""
    labellers = sorted({labeller for given in labels.values() for labeller in given})
    shared = [labels[item] for item in sorted(labels) if len(labels[item]) > 1]
    agreed = sum(len(set(given.values())) == 1 for given in shared)
    kappa, kind, note = None, "", ""
    if not shared:
        note = "no item has labels by two people" if len(labellers) > 1 else ""
    elif len(labellers) == 2:
        kind = "cohen"
        table = make_confusion_table(
            [given[labellers[0]] for given in shared], [given[labellers[1]] for given in shared], classes
        )
        note = _explain_no_kappa(table, labellers[0], labellers[1])
        kappa = None if note else round_to_six_decimals(float(compute_cohen_kappa(table)))
    else:
        kind = "fleiss"
        counts = np.array([[list(given.values()).count(each) for each in classes] for given in shared], np.float64)
        kappa = compute_fleiss_kappa(counts)
        note = "all labels are the same: there is no kappa" if kappa is None else ""
    counts_and_kappa = {"labellers": len(labellers), "items": len(shared), "agreed": agreed, "kappa": kappa}
    return RaterAgreement.model_validate({**counts_and_kappa, "kind": kind, "note": note})


def format_few_labels_warning(agreement: JudgeAgreement) -> str:
    """Format a warning if there are too few items to assess a judge; empty if there are enough."""
    low, high = agreement.accuracy_low, agreement.accuracy_high
    if low is None or high is None or (agreement.n >= _FEW_LABELS and high - low <= _WIDE_INTERVAL):
        return ""
    return (
        f"{agreement.n} labels are too few: the accuracy may be anywhere from {low:.0%} to {high:.0%}; label more items"
    )


def _compute_confusion_cell_indices(people: Sequence[str], judge: Sequence[str], classes: Sequence[str]) -> np.ndarray:
    places = {label: at for at, label in enumerate(classes)}
    cells = [places[one] * len(classes) + places[other] for one, other in zip(people, judge, strict=True)]
    return np.array(cells, np.int64)


def _compute_kappa_and_interval(
    tables: Float64Values, size: int, distance: ClassDistance, seed: int
) -> tuple[float, float | None, float | None]:
    """Return kappa and its interval, None for one cluster (`tables`: clusters × cells)."""
    kappa = round_to_six_decimals(float(compute_cohen_kappa(tables.sum(axis=0).reshape(size, size), distance)))
    if len(tables) == 1:
        return kappa, None, None
    # drawing distinct tables by frequency equals drawing clusters
    kinds, often = np.unique(tables, axis=0, return_counts=True)
    drawn = np.random.default_rng(seed).multinomial(len(tables), often / len(tables), BOOTSTRAP_DRAWS)
    kappas = compute_cohen_kappa((drawn.astype(np.float64) @ kinds).reshape(-1, size, size), distance)
    low, high = compute_percentile_interval(kappas[~np.isnan(kappas)])
    return kappa, low, high


def _explain_no_kappa(table: Float64Values, rows: str = "people", columns: str = "the judge") -> str:
    """Return why a table has no kappa, or one that would always be 0; empty if it has a meaningful one."""
    if not table.sum():
        return "nothing to compare"
    single = [who for who, axis in ((rows, 1), (columns, 0)) if np.count_nonzero(table.sum(axis=axis)) == 1]
    return f"{' and '.join(single)} used a single label: there is no kappa" if single else ""


_MIN_RANK_DRAWS = 1_000
_MAX_RANKED_ITEMS = 20_000_000
"""Maximum number of items ranked for an interval: above 2,000 items it has fewer draws, down to 1,000."""
_MAX_RANKED_AT_ONCE = 200_000
"""Maximum number of items ranked at once."""


class RankCorrelation(StrictModel):
    """Rank correlation of two scores of the same items."""

    rho: float | None
    """Spearman's rho, with mean ranks for ties; to six digits."""
    n: int
    """Items with both scores."""
    n_unscored: int
    """Items that lack one."""
    clusters: int
    ci_low: float | None
    """Lower end of the 95 % interval, by a bootstrap over clusters; to four digits."""
    ci_high: float | None
    note: str
    """Why there is no rho or no interval, or why the interval is unreliable."""


@dataclass(frozen=True, slots=True)
class _SortedScores:
    """One of two scores, sorted."""

    order: npt.NDArray[np.intp]
    """Items by score."""
    ends: npt.NDArray[np.intp]
    """End of each distinct score in that order."""
    places: npt.NDArray[np.intp]
    """Each item's position among the distinct scores."""

    @classmethod
    def from_scores(cls, scores: Float64Values) -> "_SortedScores":
        """Sort scores."""
        places = np.unique(scores, return_inverse=True)[1]
        order = np.argsort(places, kind="stable")
        return cls(order, np.flatnonzero(np.diff(places[order], append=-1)), places)


def compute_spearman(x: Float64Values, y: Float64Values, clusters: Sequence[str], seed: int = 0) -> RankCorrelation:
    """Return Spearman's rho of two scores, one entry per item (NaN: unscored), with its interval.

    Draws in which one score is constant have no rho and are left out of the interval. ValueError if the columns differ in
    length.
    """
    if not len(x) == len(y) == len(clusters):
        raise ValueError(f"{len(x)} and {len(y)} scores of items in {len(clusters)} clusters")
    paired = np.flatnonzero(~np.isnan(x) & ~np.isnan(y))
    numbers, names = index_names_in_sorted_order([clusters[place] for place in paired.tolist()])
    sides = [_SortedScores.from_scores(side[paired]) for side in (x, y)]
    interval, rho, note = None, None, format_interval_warning(len(names))
    if len(paired) < 3:
        note = f"{len(paired)} items with both scores: expected 3 or more"
    elif min(len(side.ends) for side in sides) == 1:
        note = f"all {len(paired)} items have the same {'first' if len(sides[0].ends) == 1 else 'second'} score"
    else:
        rho = round_to_six_decimals(float(_compute_rho_of_draws(sides, np.ones((1, len(paired)), np.int64))[0]))
        interval = _compute_rho_interval(sides, numbers, len(names), seed) if len(names) > 1 else None
    return RankCorrelation(
        rho=rho,
        n=len(paired),
        n_unscored=len(x) - len(paired),
        clusters=len(names),
        ci_low=interval[0] if interval else None,
        ci_high=interval[1] if interval else None,
        note=note,
    )


def _compute_rho_interval(
    sides: list[_SortedScores], numbers: Int64Values, clusters: int, seed: int
) -> tuple[float, float]:
    """Return the interval of rho over draws of clusters."""
    draws = max(_MIN_RANK_DRAWS, min(BOOTSTRAP_DRAWS, _MAX_RANKED_ITEMS // len(numbers)))
    at_once = max(1, _MAX_RANKED_AT_ONCE // len(numbers))
    found = [
        _compute_rho_of_draws(sides, counts[:, numbers])
        for counts in iterate_cluster_draw_counts(clusters, draws, at_once, seed)
    ]
    rhos = np.concatenate(found)
    return compute_percentile_interval(rhos[~np.isnan(rhos)])


def _compute_rho_of_draws(sides: list[_SortedScores], weights: Int64Values) -> Float64Values:
    """Return rho of each draw; `weights`: multiplicity of each item (shape: draws × items); NaN: a score is constant.

    Ranks are doubled and centred, so that all sums are whole numbers, exact up to a million items.
    """
    n = weights.sum(axis=1, keepdims=True)
    ranks = []
    for side in sides:
        upto = np.cumsum(weights[:, side.order], axis=1)[:, side.ends]
        ranks.append((upto + np.pad(upto, ((0, 0), (1, 0)))[:, :-1] - n)[:, side.places])
    first, second = ranks
    both, one, other = (
        np.einsum("ij,ij,ij->i", weights, a, b) for a, b in ((first, second), (first, first), (second, second))
    )
    with np.errstate(invalid="ignore"):
        return both / np.sqrt(one.astype(np.float64)) / np.sqrt(other.astype(np.float64))
