"""Similarity of the components that carry two tokens or answers (paper §5.1, equations 7 to 9), and whether it
separates aligned from misaligned facts (§5.3).

The optimal transport joins tokens of equal weight at least cost, cost being 1 − similarity (earth mover's distance, by
POT). The Hungarian assignment checks it: for answers of equally many tokens both give the same.

A cross-validated logistic regression predicts a fact's kind. The facts of a topic share one long answer, so they are
not independent. Folds and permutations therefore keep a topic's facts together; with a separate topic for each fact
they are the paper's.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from factmill.tasks.slaq.core.mechanism.rows import (
    SIMILARITY_MEASURES,
    ComponentSimilarityMeasures,
    TokenComponentImportances,
)

Floats = npt.NDArray[np.float64]
_SIMILARITY_DIGITS = 6


def compute_containment_and_iou(first: Collection[int], second: Collection[int]) -> tuple[float, float]:
    """Return the intersection's share of the smaller set, and of the union; NaN if a set is empty."""
    one, other = set(first), set(second)
    if not one or not other:
        return math.nan, math.nan
    return len(one & other) / min(len(one), len(other)), len(one & other) / len(one | other)


def compute_pearson_correlation(first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> float:
    """Return Pearson's correlation; NaN if a side does not vary."""
    x, y = (np.asarray(each, np.float64) - np.mean(each) for each in (first, second))
    spread = math.sqrt(float(x @ x)) * math.sqrt(float(y @ y))
    is_flat = np.ptp(np.asarray(first)) == 0 or np.ptp(np.asarray(second)) == 0
    return math.nan if is_flat or spread == 0 else max(-1.0, min(1.0, float(x @ y) / spread))


def rank_values(values: Sequence[float] | Floats) -> Floats:
    """Return the rank of each value, from 1; equal values get their mean rank."""
    _, place, often = np.unique(np.asarray(values, np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(often)
    ranks: Floats = (last - (often - 1) / 2)[place]
    return ranks


def compute_six_similarities_of_two_tokens(
    first: TokenComponentImportances, second: TokenComponentImportances, heads: int
) -> list[float]:
    """Return the six similarity measures of two tokens, NaN if undefined; `heads`: attention heads a layer."""
    matrices = [np.array(each.importances).reshape(-1, heads + 1) for each in (first, second)]
    found = [*compute_containment_and_iou(first.chosen, second.chosen)]
    for x, y in ([each[:, :heads].ravel() for each in matrices], [each[:, heads] for each in matrices]):
        # Spearman's correlation is Pearson's of the ranks
        found += [compute_pearson_correlation(x, y), compute_pearson_correlation(rank_values(x), rank_values(y))]
    return found


def compute_mean_transported_similarity(similarities: Floats, emd: Callable[..., Any]) -> float:
    """Return the mean similarity of tokens (shape: short × long) under the transport that maximises it.

    `emd`: POT's function, passed in since the core imports no library of an extra.
    """
    rows, columns = similarities.shape
    plan = emd(np.full(rows, 1 / rows), np.full(columns, 1 / columns), 1.0 - similarities)
    return float(np.sum(np.asarray(plan) * similarities))


def compute_assignment_similarity(similarities: Floats, solve: Callable[..., Any]) -> float:
    """Return tokens' mean similarity under the best one-to-one assignment; `solve`: scipy's linear_sum_assignment."""
    rows, columns = solve(similarities, maximize=True)
    return float(np.mean(similarities[rows, columns]))


def compute_six_answer_similarities(
    short: Sequence[TokenComponentImportances],
    long: Sequence[TokenComponentImportances],
    heads: int,
    join: Callable[[Floats], float],
) -> ComponentSimilarityMeasures:
    """Return the six measures of two answers, each joined by itself; None if any pair of tokens lacks one."""
    pairs = np.array(
        [
            [compute_six_similarities_of_two_tokens(short_token, theirs, heads) for theirs in long]
            for short_token in short
        ]
    )
    joined = {}
    for at, name in enumerate(SIMILARITY_MEASURES):
        matrix = pairs[:, :, at]
        joined[name] = None if np.isnan(matrix).any() else round(join(matrix), _SIMILARITY_DIGITS) + 0.0
    return ComponentSimilarityMeasures(**joined)


def format_component_name(place: int, heads: int) -> str:
    """Format a component's name: L3.H5 for an attention head, L3.MLP for a layer's MLP, both from 0."""
    layer, at = divmod(place, heads + 1)
    return f"L{layer}.MLP" if at == heads else f"L{layer}.H{at}"


@dataclass(frozen=True, slots=True)
class FactKindPredictionCrossValidation:
    """Predictions of a cross-validated regression for held-out facts."""

    aucs: tuple[float, ...]
    """ROC-AUC of each fold that has both kinds."""
    is_right: tuple[bool, ...]
    """For each fact, in the order given: the regression fitted to the other folds predicts its kind."""
    coefficients: tuple[float, ...]
    """For each feature, in units of its spread, fitted to all facts; above 0: the more alike, the likelier aligned."""


def cross_validate_fact_kinds(
    features: Floats, labels: Sequence[int], topics: Sequence[str], folds: int, seed: int, sklearn: Any
) -> FactKindPredictionCrossValidation | None:
    """Predict labels (1 aligned) from features (shape: facts × features) by cross-validation; None if a kind has fewer
    topics than folds.

    Features are scaled by the training folds. Folds are stratified by kind and keep a topic's facts together. `sklearn`:
    scikit-learn with its submodules imported, passed in since the core imports no library of an extra.
    """
    wanted = np.asarray(labels, np.int64)
    if min(len({topic for topic, each in zip(topics, labels, strict=True) if each == kind}) for kind in (0, 1)) < folds:
        return None
    make_model = lambda: sklearn.pipeline.make_pipeline(  # noqa: E731
        sklearn.preprocessing.StandardScaler(), sklearn.linear_model.LogisticRegression(max_iter=1000)
    )
    right = np.zeros(len(wanted), bool)
    aucs = []
    splits = sklearn.model_selection.StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    for known, asked in splits.split(features, wanted, topics):
        if len(set(wanted[known])) < 2:
            return None
        model = make_model().fit(features[known], wanted[known])
        likely = model.predict_proba(features[asked])[:, 1]
        if len(set(wanted[asked])) == 2:
            aucs.append(round(float(sklearn.metrics.roc_auc_score(wanted[asked], likely)), _SIMILARITY_DIGITS))
        right[asked] = (likely >= 0.5) == wanted[asked]
    if not aucs:
        return None
    fitted = make_model().fit(features, wanted)
    coefficients = tuple(round(float(each), _SIMILARITY_DIGITS) + 0.0 for each in fitted[-1].coef_[0])
    return FactKindPredictionCrossValidation(tuple(aucs), tuple(map(bool, right)), coefficients)


def compute_permutation_p(
    values: Floats, is_aligned: npt.NDArray[np.bool_], topics: Sequence[str], seed: int, draws: int = 10_000
) -> float | None:
    """Return p of a two-sided permutation test that exchanges the kinds of topics with equally many facts: under the
    null hypothesis both kinds are alike.

    None if a kind is empty. The observed arrangement counts as one of the draws, so p is at least 1/10,001; p is 1 if
    all topics have different numbers of facts, since none can be exchanged.
    """
    if not 0 < int(is_aligned.sum()) < len(values):
        return None
    _, topic, sizes = np.unique(np.asarray(topics), return_inverse=True, return_counts=True)
    order = np.argsort(topic, kind="stable")
    blocks = np.split(order, np.cumsum(sizes)[:-1])
    generator = np.random.default_rng(seed)
    found, reached = 0.0, np.zeros(draws)
    for size in np.unique(sizes):
        alike = np.array([block for block in blocks if len(block) == size])
        # row: values of a topic, column: kinds that it is assigned
        sums = values[alike] @ is_aligned[alike].T
        sums = sums - sums.mean()
        found += float(np.trace(sums))
        given = np.argsort(generator.random((draws, len(alike))), axis=1)
        reached += sums[np.arange(len(alike)), given].sum(axis=1)
    extreme = 1 + int(np.sum(np.abs(reached) >= abs(found) - 1e-12))
    return float(f"{extreme / (draws + 1):.4g}")
