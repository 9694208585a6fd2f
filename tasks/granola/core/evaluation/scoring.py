"""From answers to what they are worth, over the columns of tables (paper Definition 1, §5.1, §5.4)."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tasks.granola.core.evaluation.answers import says_idk
from tasks.granola.core.evaluation.metrics import (
    CELLS,
    OUTCOMES,
    Flags,
    Floats,
    match_levels,
    score_levels,
    tell_cells,
    tell_outcomes,
    weigh_levels,
)

SCORED = ("", "no_answer", "refused")
"""Of an answer's `unscored`: to say nothing is wrong, to refuse is to say IDK; all else cannot be scored."""
MAIN = ("accuracy", "granola_accuracy", "selective_accuracy", "selective_granola_accuracy", "informativeness")
"""Metrics that are told of groups too, and item by item."""
SIMILARITY = "semantic_similarity"
TAUS, DECAYS = (0.3, 0.4, 0.5, 0.6, 0.8), (0.0, 0.25, 0.5, 1.0)
"""Values of τ and λ beside those of the evaluation, by which it is told how the metrics move."""


@dataclass(frozen=True, slots=True)
class Column:
    """The scores of one metric: an entry an answer."""

    metric: str
    values: Floats
    """NaN: unscored."""
    kept: Flags
    """To which answers the metric applies."""
    unit: str = "share"
    """share (each is 0 or 1), cosine, or none."""
    groups: tuple[str, ...] = ()
    """By what it is grouped: relation, popularity, agreement."""


def find_commonest(relations: Sequence[str], answers: Sequence[Sequence[str]]) -> dict[str, str]:
    """Return relation → the answer, of any level, that most of its questions have; of ties the first by text."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for relation, levels in zip(relations, answers, strict=True):
        counts[relation].update(set(levels))
    return {relation: min(found, key=lambda text: (-found[text], text)) for relation, found in counts.items()}


def score_answers(answers: pa.Table, tau: float) -> pa.Table:
    """Return a table of AnsweredQuestion with level_f1, matched_level and is_idk, as GranolaAnswer has them."""
    texts, golds = answers["answer_read"].to_pylist(), answers["granola_answers"].to_pylist()
    is_scored = to_numpy(pc.is_in(answers["unscored"], pa.array(SCORED)))
    level_f1 = score_levels(texts, [[[each] for each in levels] for levels in golds])
    known = {text: says_idk(text) for text in set(texts)}
    is_idk = to_numpy(pc.equal(answers["unscored"], "refused")) | np.array([known[text] for text in texts], bool)
    # a name that reads like IDK is an answer where it is the right one
    is_idk &= level_f1.max(axis=1, initial=0.0) < 1
    matched = np.where(is_idk, 0, match_levels(level_f1, tau))
    rows = zip(level_f1.tolist(), golds, is_scored, strict=True)
    columns = {
        "level_f1": pa.array([f1[: len(gold)] if kept else [] for f1, gold, kept in rows], pa.list_(pa.float64())),
        "matched_level": pa.array(matched, pa.int64(), mask=~is_scored),
        "is_idk": pa.array(is_idk & is_scored),
    }
    for name, column in columns.items():
        answers = answers.append_column(name, column)
    return answers


def find_cosines(
    pairs: Sequence[tuple[str, str] | None], texts: Sequence[str], vectors: npt.NDArray[np.float32]
) -> Floats:
    """Return the cosine of each pair of texts, to two digits as in the paper's Table 3; NaN for None.

    Two CPUs' sentence vectors differ by less. `vectors`: of length 1, those of `texts`, among which are all of the pairs.
    """
    position = {text: at for at, text in enumerate(texts)}
    kept = [at for at, pair in enumerate(pairs) if pair]
    cosines = np.full(len(pairs), np.nan)
    if kept:
        one, other = (vectors[[position[pair[side]] for pair in pairs if pair]] for side in (0, 1))
        cosines[kept] = np.round(np.einsum("ij,ij->i", one, other, dtype=np.float64), 2) + 0.0
    return cosines


def list_columns(answers: pa.Table, decay: float) -> Iterator[Column]:
    """Yield the scores of answers (rows of GranolaAnswer), a column a metric.

    Selective accuracy is of answers that are not IDK; similarity of those that say something, and the agreement of the two
    accuracies with it (Table 3).
    """
    levels = to_numpy(pc.fill_null(answers["matched_level"], 0))
    is_idk, unscored = to_numpy(answers["is_idk"]), to_numpy(answers["matched_level"].is_null())
    everything = np.ones(len(levels), bool)

    def make(metric: str, values: npt.NDArray[Any], kept: Flags, unit: str = "share", *groups: str) -> Column:
        return Column(metric, np.where(unscored, np.nan, values), kept, unit, groups)

    by = ("relation", "popularity")
    yield make("accuracy", levels == 1, everything, "share", *by)
    yield make("granola_accuracy", levels > 0, everything, "share", *by)
    yield make("selective_accuracy", levels == 1, ~is_idk, "share", *by)
    yield make("selective_granola_accuracy", levels > 0, ~is_idk, "share", *by)
    yield make("informativeness", weigh_levels(levels, decay), everything, "", *by)
    outcomes = tell_outcomes(levels, is_idk)
    for outcome in OUTCOMES:
        yield make(f"share_{outcome}", outcomes == outcome, everything)
    # of those that are wrong
    yield make("share_no_answer", to_numpy(pc.equal(answers["unscored"], "no_answer")), everything)
    similarity = np.array(answers[SIMILARITY].to_pylist(), np.float64)
    if not np.isnan(similarity).all():
        kept, cells = ~np.isnan(similarity) | (unscored & to_numpy(answers["is_compared"])), tell_cells(levels)
        yield make(SIMILARITY, similarity, kept, "cosine", "agreement")
        for cell in CELLS:
            yield make(f"agreement_{cell}", cells == cell, kept)


def list_variations(answers: pa.Table, tau: float, decay: float) -> Iterator[tuple[str, float, Column]]:
    """Yield how the metrics of answers move with τ and λ, the other as it is: (tau or lambda, its value, scores)."""
    unscored = to_numpy(answers["matched_level"].is_null())
    lists = answers["level_f1"].to_pylist()
    level_f1 = np.zeros((len(lists), max(map(len, lists), default=0)))
    for row, found in zip(level_f1, lists, strict=True):
        row[: len(found)] = found
    level_f1[to_numpy(answers["is_idk"])] = 0
    everything = np.ones(len(lists), bool)

    def make(metric: str, values: npt.NDArray[Any], unit: str = "share") -> Column:
        return Column(metric, np.where(unscored, np.nan, values), everything, unit)

    for tried in sorted({*TAUS, tau}):
        levels = match_levels(level_f1, tried)
        yield "tau", tried, make("accuracy", levels == 1)
        yield "tau", tried, make("granola_accuracy", levels > 0)
        yield "tau", tried, make("informativeness", weigh_levels(levels, decay), "")
    levels = match_levels(level_f1, tau)
    for tried in sorted({*DECAYS, decay}):
        yield "lambda", tried, make("informativeness", weigh_levels(levels, tried), "")


def to_numpy(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return a column without nulls as an array."""
    return np.asarray(column.to_numpy(zero_copy_only=False))
