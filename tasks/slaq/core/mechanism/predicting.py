"""Whether similarities tell aligned facts from misaligned ones: a logistic regression, cross-validated (paper §5.3)."""

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
    """ROC-AUC of each fold."""
    is_right: tuple[bool, ...]
    """Of each fact, in the order given: its kind was told by the regression fitted to the other folds."""
    coefficients: tuple[float, ...]
    """Of each feature, in units of its spread, fitted to all facts; above 0: the more alike, the likelier aligned."""


def predict(features: Floats, labels: Sequence[int], folds: int, seed: int, learn: Any) -> Predicted | None:
    """Return what features (shape: facts × features) tell of labels, 1 aligned; None where a kind has fewer facts than folds.

    Features are scaled by what the regression is fitted to, and folds have their share of each kind. `learn`: scikit-learn,
    with its parts imported, since the core imports no library of an extra.
    """
    wanted = np.asarray(labels, np.int64)
    if min(np.sum(wanted == 0), np.sum(wanted == 1)) < folds:
        return None
    right = np.zeros(len(wanted), bool)
    aucs = []
    splits = learn.model_selection.StratifiedKFold(folds, shuffle=True, random_state=seed)
    for known, asked in splits.split(features, wanted):
        model = _make_model(learn).fit(features[known], wanted[known])
        likely = model.predict_proba(features[asked])[:, 1]
        aucs.append(round(float(learn.metrics.roc_auc_score(wanted[asked], likely)), _DIGITS))
        right[asked] = (likely >= 0.5) == wanted[asked]
    whole = _make_model(learn).fit(features, wanted)
    coefficients = tuple(round(float(each), _DIGITS) + 0.0 for each in whole[-1].coef_[0])
    return Predicted(tuple(aucs), tuple(map(bool, right)), coefficients)


def _make_model(learn: Any) -> Any:
    return learn.pipeline.make_pipeline(
        learn.preprocessing.StandardScaler(), learn.linear_model.LogisticRegression(max_iter=1000)
    )


def shuffle_kinds(values: Floats, is_aligned: npt.NDArray[np.bool_], seed: int, draws: int = 10_000) -> float | None:
    """Return p of a two-sided permutation test: were both kinds alike, each fact could as well be of the other.

    None where a kind is empty. The way found counts as one of the draws, so p is at least 1/10,001.
    """
    aligned = int(is_aligned.sum())
    if not 0 < aligned < len(values):
        return None
    centred = values - values.mean()
    found = abs(float(centred[is_aligned].sum()))
    generator = np.random.default_rng(seed)
    order = np.argsort(generator.random((draws, len(values))), axis=1)[:, :aligned]
    reached = 1 + int(np.sum(np.abs(centred[order].sum(axis=1)) >= found - 1e-12))
    return float(f"{reached / (draws + 1):.4g}")
