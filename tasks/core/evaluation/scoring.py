"""Turn columns of answers into score rows, and score rows into the `MetricScores` that `measure` averages."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from factmill.tasks.core.evaluation.rows import AnswerScore
from factmill.tasks.core.measures.metrics import MeasuredMetric, MetricScores
from factmill.tasks.core.rows import arrow_schema

ScoreArray = npt.NDArray[np.float64]
PROGRAM_JUDGE_NOTE = "judged by a program: a lower bound"
"""Note of a metric with verdicts of the program `exact`."""
_COPIED_COLUMNS = ("question_id", "item", "cluster", "setting")


def column_to_floats(column: pa.ChunkedArray) -> ScoreArray:
    """Convert a column of numbers or booleans to a float array; null becomes NaN."""
    return np.asarray(pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False), np.float64)


def add_metric_note(metric: MeasuredMetric, note: str) -> MeasuredMetric:
    """Return a metric with a further note; an empty note changes nothing."""
    return metric.model_copy(update={"note": "; ".join(filter(None, (metric.note, note)))})


def make_score_rows(answers: pa.Table, metric: str, values: ScoreArray, setting: str | None = None) -> pa.Table:
    """Return the rows of `AnswerScore` for a metric of these answers (columns of `Answer`); NaN means unscored.

    `setting`: setting of the scores, if they compare two settings. The reason of an unscored row is that of its answer, or
    `no_gold` if the answer could be scored.
    """
    missing = pa.array(np.isnan(values))
    own = pc.equal(answers["unscored"], "")
    reasons = pc.if_else(missing, pc.if_else(own, "no_gold", answers["unscored"]), "")
    columns = {name: answers[name] for name in _COPIED_COLUMNS}
    if setting is not None:
        columns["setting"] = pa.repeat(setting, answers.num_rows)
    table = pa.table(
        {
            "id": pc.binary_join_element_wise(metric, answers["id"], ":"),
            **columns,
            "metric": pa.repeat(metric, answers.num_rows),
            "value": pa.array(values, from_pandas=True),
            "unscored": reasons,
            "detail": pc.if_else(missing, answers["detail"], ""),
        }
    )
    return table.select(arrow_schema(AnswerScore).names).cast(arrow_schema(AnswerScore))


def make_metric_scores_per_setting(
    scores: pa.Table, groups: pa.Table, columns: Sequence[str], is_share: bool, unit: str
) -> list[MetricScores]:
    """Return the scores of one metric (rows of `AnswerScore`) as one `MetricScores` per setting, sorted by setting.

    `groups`: table parallel to the scores' rows; its columns named in `columns` become groupings.
    """
    found = []
    for setting in sorted(pc.unique(scores["setting"]).to_pylist()):
        chosen = pc.equal(scores["setting"], setting)
        setting_scores, setting_groups = scores.filter(chosen), groups.filter(chosen)
        found.append(
            MetricScores(
                setting=setting,
                metric=setting_scores["metric"][0].as_py(),
                items=setting_scores["item"].to_pylist(),
                clusters=setting_scores["cluster"].to_pylist(),
                values=column_to_floats(setting_scores["value"]),
                groups={name: setting_groups[name].to_pylist() for name in columns},
                unit=unit,
                is_share=is_share,
            )
        )
    return found
