"""Whether similarities tell aligned facts from misaligned ones: a logistic regression, cross-validated (paper §5.3).

Facts of a topic stand in one long answer, so they are no independent draws. Folds and permutations therefore keep the facts
of a topic together; with a topic of its own for each fact they are the paper's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
_DIGITS = 6


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
    """Return what features (shape: facts × features) tell of labels, 1 aligned; None where a kind is in fewer topics than folds.

    Features are scaled by what the regression is fitted to, and folds have about their share of each kind, a topic's facts
    being in one fold. `learn`: scikit-learn, with its parts imported, since the core imports no library of an extra.
    """
    wanted = np.asarray(labels, np.int64)
    if min(len({topic for topic, each in zip(topics, labels, strict=True) if each == kind}) for kind in (0, 1)) < folds:
        return None
    right = np.zeros(len(wanted), bool)
    aucs = []
    splits = learn.model_selection.StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    for known, asked in splits.split(features, wanted, topics):
        if len(set(wanted[known])) < 2:
            return None
        model = _make_model(learn).fit(features[known], wanted[known])
        likely = model.predict_proba(features[asked])[:, 1]
        if len(set(wanted[asked])) == 2:
            aucs.append(round(float(learn.metrics.roc_auc_score(wanted[asked], likely)), _DIGITS))
        right[asked] = (likely >= 0.5) == wanted[asked]
    if not aucs:
        return None
    whole = _make_model(learn).fit(features, wanted)
    coefficients = tuple(round(float(each), _DIGITS) + 0.0 for each in whole[-1].coef_[0])
    return Predicted(tuple(aucs), tuple(map(bool, right)), coefficients)


def _make_model(learn: Any) -> Any:
    return learn.pipeline.make_pipeline(
        learn.preprocessing.StandardScaler(), learn.linear_model.LogisticRegression(max_iter=1000)
    )


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
