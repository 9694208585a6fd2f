"""From columns of answers to the rows of scores, and to what `measure` averages: whole columns at once."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tasks.core.evaluation.rows import Score
from tasks.core.measures.metrics import Scores
from tasks.core.rows import arrow_schema

Floats = npt.NDArray[np.float64]
_KEPT = ("question_id", "item", "cluster", "setting")


def score_rows(answers: pa.Table, metric: str, values: Floats, setting: str | None = None) -> pa.Table:
    """Return the rows of `Score` for a metric of these answers (columns of `Answer`); NaN is unscored.

    `setting`: what the scores are filed under, where they compare two settings. The reason of an unscored one is the
    answer's own; `no_gold` where the answer says something all the same.
    """
    missing = pa.array(np.isnan(values))
    own = pc.equal(answers["unscored"], "")
    reasons = pc.if_else(missing, pc.if_else(own, "no_gold", answers["unscored"]), "")
    columns = {name: answers[name] for name in _KEPT}
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
    return table.select(arrow_schema(Score).names).cast(arrow_schema(Score))


def gather_scores(
    scores: pa.Table, groups: pa.Table, columns: Sequence[str], is_share: bool, unit: str
) -> list[Scores]:
    """Return the scores of one metric (rows of `Score`), a `Scores` a setting, by setting.

    `groups`: columns beside the scores' rows, in their order, of which those named `columns` are grouped by.
    """
    found = []
    for setting in sorted(pc.unique(scores["setting"]).to_pylist()):
        chosen = pc.equal(scores["setting"], setting)
        mine, beside = scores.filter(chosen), groups.filter(chosen)
        found.append(
            Scores(
                setting=setting,
                metric=mine["metric"][0].as_py(),
                items=mine["item"].to_pylist(),
                clusters=mine["cluster"].to_pylist(),
                values=mine["value"].to_numpy(zero_copy_only=False).astype(np.float64),
                groups={name: beside[name].to_pylist() for name in columns},
                unit=unit,
                is_share=is_share,
            )
        )
    return found
