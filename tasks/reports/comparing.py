"""Several models side by side, on the items that all of them have a score for."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.core.evaluation.rows import EvaluationMetric
from tasks.core.measures.comparing import Comparison, Ranks, compare_all, keep_shared, rank
from tasks.core.measures.metrics import Scores
from tasks.evaluation.record import Evaluation

Place = tuple[str, str]
"""Setting and metric."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One model in a ranking."""

    model: str
    ranks: Ranks | None
    """First and last rank that it may have; None: it has no score here, or nothing to be compared by."""
    value: float | None
    """Mean of the items that all have."""
    scored: int
    """Items that the model has a score for, shared or not."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The models by one metric in one setting, the best first."""

    setting: str
    metric: str
    n: int
    """Items that all models with scores have a score for."""
    placed: tuple[Placed, ...]
    comparisons: tuple[Comparison, ...]


def rank_models(
    evaluation: Evaluation, tables: Mapping[str, pa.Table], metrics: Sequence[EvaluationMetric], seed: int
) -> list[Ranking]:
    """Return a ranking of each headline metric in each setting that at least two models have scores of.

    `tables`: model → its rows of `Score`. P-values are adjusted over all comparisons of the report.
    """
    units = {(each.setting, each.metric): each.unit for each in metrics}
    models = {model: dict(_read_scores(evaluation, table, units)) for model, table in tables.items()}
    places = sorted({place for mine in models.values() for place in mine}, key=lambda at: _order(evaluation, at))
    shared: dict[str, list[Scores]] = {model: [] for model in models}
    for place in places:
        mine = {model: scores[place] for model, scores in models.items() if _count(scores.get(place))}
        is_share = all(each.is_share for each in mine.values())
        kept = keep_shared([dataclasses.replace(each, is_share=is_share) for each in mine.values()]) if mine else []
        for model, scores in zip(mine, kept, strict=True):
            shared[model].append(scores)
    compared = compare_all({model: scores for model, scores in shared.items() if scores}, seed)
    rankings = []
    for setting, metric in places:
        found = [one for one in compared if (one.setting, one.metric) == (setting, metric)]
        if found:
            counts = {model: _count(scores.get((setting, metric))) for model, scores in models.items()}
            rankings.append(_place_all(setting, metric, counts, found, metric in evaluation.lower_is_better))
    return rankings


def _place_all(
    setting: str, metric: str, counts: Mapping[str, int], found: Sequence[Comparison], lower_is_better: bool
) -> Ranking:
    values = {one.first: one.value_first for one in found} | {one.second: one.value_second for one in found}
    ranks = rank(found, lower_is_better)
    placed = [Placed(model, ranks.get(model), values.get(model), scored) for model, scored in counts.items()]
    sign = 1 if lower_is_better else -1
    placed.sort(key=lambda each: (each.ranks is None, sign * (each.value or 0.0), each.model))
    return Ranking(setting, metric, found[0].n, tuple(placed), tuple(found))


def _read_scores(evaluation: Evaluation, table: pa.Table, units: Mapping[Place, str]) -> Iterator[tuple[Place, Scores]]:
    """Yield the scores of each headline metric in each setting, as comparisons take them."""
    pairs = table.group_by(["setting", "metric"]).aggregate([]).to_pylist()
    for setting, metric in sorted((pair["setting"], pair["metric"]) for pair in pairs):
        if metric not in evaluation.headline:
            continue
        rows = table.filter(pc.and_(pc.equal(table["setting"], setting), pc.equal(table["metric"], metric)))
        values = rows["value"].to_numpy(zero_copy_only=False).astype(np.float64)
        is_lower = metric in evaluation.lower_is_better
        yield (
            (setting, metric),
            Scores(
                setting=setting,
                metric=metric,
                items=rows["question_id"].to_pylist(),
                clusters=rows["cluster"].to_pylist(),
                values=values,
                worst=float(is_lower),
                best=float(not is_lower),
                unit=units.get((setting, metric), ""),
                is_share=bool(np.all(np.isnan(values) | (values == 0) | (values == 1))),
            ),
        )


def _order(evaluation: Evaluation, place: Place) -> tuple[int, str]:
    return evaluation.headline.index(place[1]), place[0]


def _count(scores: Scores | None) -> int:
    return 0 if scores is None else int(np.sum(~np.isnan(scores.values)))
