"""The ranking of models by an evaluation's headline metrics, on the items that all of them have a score for."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.core.measures.metrics import MetricScores
from factmill.tasks.core.measures.model_comparison import (
    ModelComparison,
    RankRange,
    compare_all_models,
    compute_model_rank_ranges,
    keep_shared_items,
)
from factmill.tasks.evaluation.definition import Evaluation
from factmill.tasks.reports.formatting import format_p_value

SettingMetric = tuple[str, str]
"""Setting and metric."""


@dataclass(frozen=True, slots=True)
class RankedModel:
    """One model in a ranking."""

    model: str
    ranks: RankRange | None
    """First and last possible rank; None: it has no score here, or cannot be compared."""
    value: float | None
    """Mean over the shared items."""
    scored: int
    """Number of items that the model has a score for, shared or not."""


@dataclass(frozen=True, slots=True)
class ModelRanking:
    """The ranking of models by one metric in one setting, the best first."""

    setting: str
    metric: str
    n: int
    """Number of items that all models with scores have a score for."""
    placed: tuple[RankedModel, ...]
    comparisons: tuple[ModelComparison, ...]
    lower_is_better: bool

    @property
    def differences(self) -> list[ModelComparison]:
        """The comparisons in the order of the ranking, the model that is placed higher first."""
        order = {each.model: place for place, each in enumerate(self.placed)}
        turned = [put_better_value_first(one, self.lower_is_better) for one in self.comparisons]
        return sorted(turned, key=lambda one: (order[one.first], order[one.second]))


def put_better_value_first(one: ModelComparison, lower_is_better: bool) -> ModelComparison:
    """Return a comparison as the difference of the model with the better value and the other; of equal values, by name."""
    sign = 1 if lower_is_better else -1
    if (sign * (one.value_first or 0.0), one.first) < (sign * (one.value_second or 0.0), one.second):
        return one
    signed = {"difference": one.difference, "ci_low": one.ci_high, "ci_high": one.ci_low}
    return one.model_copy(
        update={
            "first": one.second,
            "second": one.first,
            "only_first": one.only_second,
            "only_second": one.only_first,
            "value_first": one.value_second,
            "value_second": one.value_first,
            **{name: None if value is None else 0.0 - value for name, value in signed.items()},
        }
    )


def format_comparison_verdict(one: ModelComparison) -> str:
    """Return what a comparison shows, in a few words."""
    if one.better:
        return f"{one.better} is better"
    if one.ci_low is not None and one.ci_high is not None and one.ci_low * one.ci_high > 0:
        return f"too few items to tell (p {format_p_value(one.p_adjusted)})"
    return "a tie"


def order_settings(evaluation: Evaluation) -> dict[str, int]:
    """Return setting → its place on pages: those of the paper first, in the order of the definition."""
    return {name: at for at, name in enumerate(dict.fromkeys([*evaluation.default_settings, *evaluation.settings]))}


def rank_models(
    evaluation: Evaluation, tables: Mapping[str, pa.Table], metrics: Sequence[EvaluationMetric], seed: int
) -> list[ModelRanking]:
    """Return a ranking for each headline metric and setting in which at least two models have scores.

    `tables`: model → its rows of `Score`. P-values are adjusted over all comparisons of the report.
    """
    units = {(each.setting, each.metric): each.unit for each in metrics}
    models = {
        model: dict(_iterate_headline_scores_of_model(evaluation, table, units)) for model, table in tables.items()
    }
    order = order_settings(evaluation)
    places = sorted(
        {place for scores in models.values() for place in scores},
        key=lambda at: (evaluation.headline_metrics.index(at[1]), order.get(at[0], len(order)), at[0]),
    )
    shared: dict[str, list[MetricScores]] = {model: [] for model in models}
    for place in places:
        present = {model: scores[place] for model, scores in models.items() if _count_scored_items(scores.get(place))}
        is_share = all(each.is_share for each in present.values())
        kept = (
            keep_shared_items([dataclasses.replace(each, is_share=is_share) for each in present.values()])
            if present
            else []
        )
        for model, scores in zip(present, kept, strict=True):
            shared[model].append(scores)
    compared = compare_all_models({model: scores for model, scores in shared.items() if scores}, seed)
    rankings = []
    for setting, metric in places:
        found = [one for one in compared if (one.setting, one.metric) == (setting, metric)]
        if found:
            counts = {model: _count_scored_items(scores.get((setting, metric))) for model, scores in models.items()}
            rankings.append(_make_ranking(setting, metric, counts, found, metric in evaluation.lower_is_better))
    return rankings


def _make_ranking(
    setting: str, metric: str, counts: Mapping[str, int], found: Sequence[ModelComparison], lower_is_better: bool
) -> ModelRanking:
    values = {one.first: one.value_first for one in found} | {one.second: one.value_second for one in found}
    ranks = compute_model_rank_ranges(found, lower_is_better)
    placed = [RankedModel(model, ranks.get(model), values.get(model), scored) for model, scored in counts.items()]
    sign = 1 if lower_is_better else -1
    placed.sort(key=lambda each: (each.ranks is None, sign * (each.value or 0.0), each.model))
    return ModelRanking(setting, metric, found[0].n, tuple(placed), tuple(found), lower_is_better)


def _iterate_headline_scores_of_model(
    evaluation: Evaluation, table: pa.Table, units: Mapping[SettingMetric, str]
) -> Iterator[tuple[SettingMetric, MetricScores]]:
    """Yield ((setting, metric), scores) for each headline metric and setting, as input of comparisons."""
    pairs = table.group_by(["setting", "metric"]).aggregate([]).to_pylist()
    for setting, metric in sorted((pair["setting"], pair["metric"]) for pair in pairs):
        if metric not in evaluation.headline_metrics:
            continue
        rows = table.filter(pc.and_(pc.equal(table["setting"], setting), pc.equal(table["metric"], metric)))
        values = rows["value"].to_numpy(zero_copy_only=False).astype(np.float64)
        is_lower = metric in evaluation.lower_is_better
        yield (
            (setting, metric),
            MetricScores(
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


def _count_scored_items(scores: MetricScores | None) -> int:
    return 0 if scores is None else int(np.sum(~np.isnan(scores.values)))
