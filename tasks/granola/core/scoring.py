"""From answers to what they are worth, and to scores, over the columns of tables (paper Definition 1, §5.1, §5.4)."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tasks.core.measures.metrics import Scores
from tasks.granola.core.answers import says_idk
from tasks.granola.core.metrics import (
    CELLS,
    OUTCOMES,
    Flags,
    Floats,
    bin_popularity,
    match_levels,
    score_levels,
    tell_cells,
    tell_outcomes,
    weigh_levels,
)

Texts = npt.NDArray[np.object_]

SCORED = ("", "no_answer", "refused")
"""Of an answer's `unscored`: to say nothing is wrong, to refuse is to say IDK; all else cannot be scored."""
MAIN = ("accuracy", "granola_accuracy", "selective_accuracy", "selective_granola_accuracy", "informativeness")
"""Metrics that are told of groups too, and item by item."""
SIMILARITY = "semantic_similarity"


def guess_answers(relations: Sequence[str], answers: Sequence[Sequence[str]]) -> list[str]:
    """Return for each question the commonest answer, of any level, to the other questions of its relation; ties by text.

    Empty where there is none.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for relation, levels in zip(relations, answers, strict=True):
        counts[relation].update(set(levels))
    ranked = {relation: sorted(found, key=lambda each: (-found[each], each)) for relation, found in counts.items()}
    guesses = []
    for relation, levels in zip(relations, answers, strict=True):
        others = {text: counts[relation][text] - 1 for text in levels}
        # of those that are not its own, the first is the commonest
        if foremost := next((text for text in ranked[relation] if text not in levels), ""):
            others[foremost] = counts[relation][foremost]
        left = [(-n, text) for text, n in others.items() if n]
        guesses.append(min(left)[1] if left else "")
    return guesses


def score_answers(answers: pa.Table, tau: float) -> pa.Table:
    """Return a table of AnsweredQuestion with level_f1, matched_level and is_idk, as GranolaAnswer has them."""
    texts, golds = answers["answer_read"].to_pylist(), answers["granola_answers"].to_pylist()
    is_scored = _to_numpy(pc.is_in(answers["unscored"], pa.array(SCORED)))
    level_f1 = score_levels(texts, [[[each] for each in levels] for levels in golds])
    known = {text: says_idk(text) for text in set(texts)}
    is_idk = _to_numpy(pc.equal(answers["unscored"], "refused")) | np.array([known[text] for text in texts], bool)
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


def list_scores(answers: pa.Table, decay: float, bins: int) -> Iterator[Scores]:
    """Yield the scores of each setting of a table of GranolaAnswer; settings in the order in which they stand there.

    Those of selective accuracy are of answers that are not IDK; semantic similarity is of those that say something, by
    the agreement of the two accuracies (Table 3).
    """
    popularity = dict(zip(answers["item"].to_pylist(), answers["question_entity_popularity"].to_pylist(), strict=True))
    bin_of = bin_popularity(list(popularity), list(popularity.values()), bins)
    for setting in answers["setting"].unique().to_pylist():
        yield from _score_setting(setting, answers.filter(pc.equal(answers["setting"], setting)), decay, bin_of)


def _score_setting(setting: str, answers: pa.Table, decay: float, bin_of: Mapping[str, str]) -> Iterator[Scores]:
    items = np.array(answers["item"].to_pylist(), object)
    clusters = np.array(answers["cluster"].to_pylist(), object)
    levels, is_idk = _to_numpy(answers["matched_level"].fill_null(0)), _to_numpy(answers["is_idk"])
    unscored = _to_numpy(answers["matched_level"].is_null())
    everything = np.ones(len(items), bool)

    def make(
        metric: str, values: Floats | Flags, kept: Flags, groups: Mapping[str, Texts], unit: str = "share"
    ) -> Scores:
        return Scores(
            setting=setting,
            metric=metric,
            items=items[kept].tolist(),
            clusters=clusters[kept].tolist(),
            values=np.where(unscored, np.nan, values)[kept],
            groups={name: column[kept].tolist() for name, column in groups.items()},
            worst=-1.0 if unit == "cosine" else 0.0,
            unit=unit,
            is_share=unit == "share",
        )

    groups = {
        "relation": np.array(answers["relation"].to_pylist(), object),
        "popularity": np.array([bin_of[item] for item in items], object),
    }
    yield make("accuracy", levels == 1, everything, groups)
    yield make("granola_accuracy", levels > 0, everything, groups)
    yield make("selective_accuracy", levels == 1, ~is_idk, groups)
    yield make("selective_granola_accuracy", levels > 0, ~is_idk, groups)
    yield make("informativeness", weigh_levels(levels, decay), everything, groups, "")
    outcomes = tell_outcomes(levels, is_idk)
    for outcome in OUTCOMES:
        yield make(f"share_{outcome}", outcomes == outcome, everything, {})
    similarity = np.array(answers[SIMILARITY].to_pylist(), np.float64)
    if (compared := ~np.isnan(similarity)).any():
        cells = tell_cells(levels).astype(object)
        cells[unscored] = None
        yield make(SIMILARITY, similarity, compared | unscored, {"agreement": cells}, "cosine")
        for cell in CELLS:
            yield make(f"agreement_{cell}", cells == cell, compared | unscored, {})


def _to_numpy(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    return column.combine_chunks().to_numpy(zero_copy_only=False)
