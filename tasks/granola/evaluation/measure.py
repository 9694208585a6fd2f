"""Results of an evaluation on GRANOLA-EQ: scores, metrics by group, single answers, paper figures (paper §5)."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from factmill.tasks.core.evaluation.scoring import make_score_rows
from factmill.tasks.core.measures.counts_and_bins import bin_by_quantile
from factmill.tasks.core.measures.metrics import MeasuredMetric, MetricScores, measure_mean_metrics
from factmill.tasks.evaluation.definition import AnswerShownInReport, PaperResult
from factmill.tasks.granola.core.evaluation.scoring import (
    SIMILARITY_METRIC,
    SingleMetricScoresByAnswer,
    classify_standard_vs_granola_accuracy,
    list_metric_columns,
    list_metrics_for_varied_parameters,
    to_numpy,
)

_Texts = npt.NDArray[np.object_]


def make_granola_answer_scores_and_metrics(
    answers: pa.Table, tau: float, decay: float, popularity_bins: int, seed: int
) -> tuple[pa.Table, list[MeasuredMetric]]:
    """Return the score rows and the metrics of answers (rows of `ScoredGranolaPrediction`).

    The metrics include variations of τ and λ over all answers, with `tau` or `lambda` as their group.
    """
    columns = list(list_metric_columns(answers, decay))
    score_tables = [
        make_score_rows(answers.filter(pa.array(column.applies)), column.metric, column.values[column.applies])
        for column in columns
        if column.groups
    ]
    names = {name: np.array(answers[name].to_pylist(), object) for name in ("item", "cluster", "setting", "relation")}
    # a question has the same bin in all settings
    popularity = dict(zip(names["item"], answers["question_entity_popularity"].to_pylist(), strict=True))
    bins = bin_by_quantile(popularity, popularity_bins)
    names["popularity"] = np.array([bins[item] for item in names["item"]], object)
    cells = classify_standard_vs_granola_accuracy(to_numpy(answers["matched_level"].fill_null(0))).astype(object)
    cells[to_numpy(answers["matched_level"].is_null())] = None
    names["agreement"] = cells
    varied = list(list_metrics_for_varied_parameters(answers, tau, decay))
    metrics: list[MeasuredMetric] = []
    for setting in dict.fromkeys(names["setting"]):
        chosen = np.asarray(names["setting"] == setting, bool)
        metrics += measure_mean_metrics(
            [_make_metric_scores(setting, column, chosen, names) for column in columns], seed
        )
        moved = measure_mean_metrics(
            [_make_metric_scores(setting, column, chosen, names) for *_, column in varied], seed
        )
        metrics += [
            metric.model_copy(update={"group_by": name, "group": f"{value:g}"})
            for metric, (name, value, _) in zip(moved, varied, strict=True)
        ]
    return pa.concat_tables(score_tables), metrics


def _make_metric_scores(
    setting: str, column: SingleMetricScoresByAnswer, chosen: npt.NDArray[np.bool_], names: Mapping[str, _Texts]
) -> MetricScores:
    kept = chosen & column.applies
    return MetricScores(
        setting=setting,
        metric=column.metric,
        items=names["item"][kept].tolist(),
        clusters=names["cluster"][kept].tolist(),
        values=column.values[kept],
        groups={name: names[name][kept].tolist() for name in column.groups},
        worst=-1.0 if column.unit == "cosine" else 0.0,
        unit=column.unit,
        is_share=column.unit == "share",
    )


def format_verdict(matched_level: int | None, is_idk: bool, unscored: str) -> str:
    """Format an answer's verdict in a few words."""
    if matched_level is None:
        return f"unscored: {unscored}"
    idk = "refused (counts as IDK)" if unscored == "refused" else "IDK"
    return idk if is_idk else f"level {matched_level}" if matched_level else "wrong"


def list_granola_report_items(answers: pa.Table) -> list[AnswerShownInReport]:
    """Return answers (rows of `ScoredGranolaPrediction`) as items of a report's browser; a finer match scores higher."""
    items = []
    for row in answers.to_pylist():
        level = row["matched_level"]
        items.append(
            AnswerShownInReport(
                answer_id=row["id"],
                setting=row["setting"],
                question=row["question"],
                gold=" → ".join(row["granola_answers"]),
                answer=row["answer"],
                verdict=format_verdict(level, row["is_idk"], row["unscored"]),
                score=level and round(1 / level, 2),
                row_id=row["item"],
                groups={"relation": row["relation"]},
            )
        )
    return items


_OTHER_ROWS_NOTE = (
    "the paper uses its own rows, and does not state from which token F1 (τ) an answer matches, nor the temperature (T) and "
    "number (N) of samples"
)
_BLEURT_NOTE = "the paper's similarity is BLEURT, ours a cosine"
GRANOLA_PAPER_FIGURES = (
    *(
        PaperResult(metric, setting, model, value, where, _OTHER_ROWS_NOTE)
        for metric, setting, model, value, where in (
            ("accuracy", "greedy", "PaLM 2-L", 0.495, "Table 3"),
            ("granola_accuracy", "greedy", "PaLM 2-L", 0.551, "Table 3"),
            ("agreement_both", "greedy", "PaLM 2-L", 0.495, "Table 3"),
            ("agreement_granola_only", "greedy", "PaLM 2-L", 0.056, "Table 3"),
            ("agreement_neither", "greedy", "PaLM 2-L", 0.449, "Table 3"),
            ("share_wrong", "greedy", "PaLM 2-M", 0.42, "Figure 8, §5.3"),
            ("share_wrong", "idk", "PaLM 2-M", 0.31, "Figure 8, §5.3"),
            ("share_idk", "idk", "PaLM 2-M", 0.17, "Figure 8, §5.3"),
            ("share_idk", "drag", "PaLM 2-M", 0.06, "Figure 8, §5.3"),
        )
    ),
    *(
        PaperResult(SIMILARITY_METRIC, "greedy", "PaLM 2-L", value, "Table 3", _BLEURT_NOTE, "agreement", cell)
        for cell, value in (("both", 0.83), ("granola_only", 0.28), ("neither", 0.26))
    ),
)
"""The numbers that the paper states; its Table 3 has its two headings swapped."""
