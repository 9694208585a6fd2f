"""How alike two tokens and two answers are carried (paper §5.1, equations 7 to 9), and whether that tells aligned facts from misaligned ones (§5.3).

The transport is that of least cost between tokens of equal weight, cost being 1 − similarity (earth mover's distance, by
POT); the Hungarian assignment is its check: where both answers have as many tokens the two give the same.

What is told of facts is a logistic regression, cross-validated. Facts of a topic stand in one long answer, so they are no
independent draws. Folds and permutations therefore keep the facts of a topic together; with a topic of its own for each fact
they are the paper's.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from factmill.tasks.slaq.core.mechanism.rows import FEATURES, Similarities, TokenEffect

Floats = npt.NDArray[np.float64]
_DIGITS = 6


def overlap(first: Collection[int], second: Collection[int]) -> tuple[float, float]:
    """Return how many are in both sets, of the smaller set and of those in either; NaN where one is empty."""
    one, other = set(first), set(second)
    if not one or not other:
        return math.nan, math.nan
    return len(one & other) / min(len(one), len(other)), len(one & other) / len(one | other)


def pearson(first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> float:
    """Return Pearson's correlation; NaN where a side does not vary."""
    x, y = (np.asarray(each, np.float64) - np.mean(each) for each in (first, second))
    spread = math.sqrt(float(x @ x)) * math.sqrt(float(y @ y))
    is_flat = np.ptp(np.asarray(first)) == 0 or np.ptp(np.asarray(second)) == 0
    return math.nan if is_flat or spread == 0 else max(-1.0, min(1.0, float(x @ y) / spread))


def rank(values: Sequence[float] | Floats) -> Floats:
    """Return the rank of each value, from 1; equals have the mean of theirs."""
    _, place, often = np.unique(np.asarray(values, np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(often)
    ranks: Floats = (last - (often - 1) / 2)[place]
    return ranks


def compare_tokens(first: TokenEffect, second: TokenEffect, heads: int) -> list[float]:
    """Return the six measures of two tokens, NaN where one has none; `heads`: of a layer."""
    matrices = [np.array(each.importances).reshape(-1, heads + 1) for each in (first, second)]
    found = [*overlap(first.chosen, second.chosen)]
    for x, y in ([each[:, :heads].ravel() for each in matrices], [each[:, heads] for each in matrices]):
        # Spearman's correlation is Pearson's of the ranks
        found += [pearson(x, y), pearson(rank(x), rank(y))]
    return found


def transport(similarities: Floats, emd: Callable[..., Any]) -> float:
    """Return the mean similarity of tokens (shape: short × long) under the transport that makes it greatest.

    `emd`: POT's, since the core imports no library of an extra.
    """
    rows, columns = similarities.shape
    plan = emd(np.full(rows, 1 / rows), np.full(columns, 1 / columns), 1.0 - similarities)
    return float(np.sum(np.asarray(plan) * similarities))


def assign(similarities: Floats, solve: Callable[..., Any]) -> float:
    """Return the mean similarity of tokens under the best assignment one to one; `solve`: scipy's linear_sum_assignment."""
    rows, columns = solve(similarities, maximize=True)
    return float(np.mean(similarities[rows, columns]))


def compare_answers(
    short: Sequence[TokenEffect], long: Sequence[TokenEffect], heads: int, join: Callable[[Floats], float]
) -> Similarities:
    """Return the six measures of two answers, each by its own joining of tokens; None where a pair of tokens has none."""
    pairs = np.array([[compare_tokens(mine, theirs, heads) for theirs in long] for mine in short])
    joined = {}
    for at, name in enumerate(FEATURES):
        matrix = pairs[:, :, at]
        joined[name] = None if np.isnan(matrix).any() else round(join(matrix), _DIGITS) + 0.0
    return Similarities(**joined)


def name_component(place: int, heads: int) -> str:
    """Return what a component is called: L3.H5 for an attention head, L3.MLP for a layer's MLP, both from 0."""
    layer, at = divmod(place, heads + 1)
    return f"L{layer}.MLP" if at == heads else f"L{layer}.H{at}"


@dataclass(frozen=True, slots=True)
class Predicted:
    """What a regression tells of facts that it was not fitted to."""

    aucs: tuple[float, ...]
    """ROC-AUC of each fold that holds both kinds."""
    is_right: tuple[bool, ...]
    """Of each fact, in the order given: its kind was told by the regression fitted to the other folds."""
    coefficients: tuple[float, ...]
    """Of each feature, in units of its spread, fitted to all facts; above 0: the more alike, the likelier aligned."""


def predict(
    features: Floats, labels: Sequence[int], topics: Sequence[str], folds: int, seed: int, learn: Any
) -> Predicted | None:
    """Return what features (shape: facts × features) predict of labels, 1 aligned; None where a kind is in fewer topics than folds.

    Features are scaled by what the regression is fitted to, and folds have about their share of each kind, a topic's facts
    being in one fold. `learn`: scikit-learn, with its parts imported, since the core imports no library of an extra.
    """
    wanted = np.asarray(labels, np.int64)
    if min(len({topic for topic, each in zip(topics, labels, strict=True) if each == kind}) for kind in (0, 1)) < folds:
        return None
    make_model = lambda: learn.pipeline.make_pipeline(  # noqa: E731
        learn.preprocessing.StandardScaler(), learn.linear_model.LogisticRegression(max_iter=1000)
    )
    right = np.zeros(len(wanted), bool)
    aucs = []
    splits = learn.model_selection.StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    for known, asked in splits.split(features, wanted, topics):
        if len(set(wanted[known])) < 2:
            return None
        model = make_model().fit(features[known], wanted[known])
        likely = model.predict_proba(features[asked])[:, 1]
        if len(set(wanted[asked])) == 2:
            aucs.append(round(float(learn.metrics.roc_auc_score(wanted[asked], likely)), _DIGITS))
        right[asked] = (likely >= 0.5) == wanted[asked]
    if not aucs:
        return None
    whole = make_model().fit(features, wanted)
    coefficients = tuple(round(float(each), _DIGITS) + 0.0 for each in whole[-1].coef_[0])
    return Predicted(tuple(aucs), tuple(map(bool, right)), coefficients)


def shuffle_kinds(
    values: Floats, is_aligned: npt.NDArray[np.bool_], topics: Sequence[str], seed: int, draws: int = 10_000
) -> float | None:
    """Return p of a two-sided permutation test: were both kinds alike, the kinds of a topic's facts could as well be those of
    another topic with as many facts.

    None where a kind is empty. The way found counts as one of the draws, so p is at least 1/10,001; it is 1 where all topics
    have different numbers of facts, since nothing can then be exchanged.
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
        # row: values of a topic, column: kinds that it is given
        sums = values[alike] @ is_aligned[alike].T
        sums = sums - sums.mean()
        found += float(np.trace(sums))
        given = np.argsort(generator.random((draws, len(alike))), axis=1)
        reached += sums[np.arange(len(alike)), given].sum(axis=1)
    extreme = 1 + int(np.sum(np.abs(reached) >= abs(found) - 1e-12))
    return float(f"{extreme / (draws + 1):.4g}")
