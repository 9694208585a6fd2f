"""Rates of an evaluation, corrected for its judge's errors by a judge card, which may be newer than the evaluation."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factmill.tasks.core.evaluation.judge_cards import JudgeCard, JudgeIdentity
from factmill.tasks.core.measures.intervals import format_interval_warning
from factmill.tasks.core.measures.judge_correction import JudgeErrorRates, correct_judged_share
from factmill.tasks.evaluation.definition import Evaluation


@dataclass(frozen=True, slots=True)
class JudgeCorrectedRate:
    """A metric over all items of a setting, corrected for the judge's errors."""

    model: str
    setting: str
    metric: str
    value: float | None
    """Null if the labels do not show how the judge errs."""
    ci_low: float | None
    """Lower end of the 95 % interval, by a bootstrap over the answers and the labels."""
    ci_high: float | None
    sensitivity: float | None
    specificity: float | None
    labels: int
    """Number of labelled items behind sensitivity and specificity."""
    note: str
    """Why there is no value, or which labels it uses."""


def compute_judge_corrected_rate_by_setting(
    evaluation: Evaluation,
    model: str,
    build_id: str,
    answers: pa.Table,
    scores: pa.Table,
    card: JudgeCard | None,
    judge: JudgeIdentity | None,
    seed: int,
) -> Iterator[JudgeCorrectedRate]:
    """Yield the corrected rate of each setting; none if the judge with these prompts has no card or gives no such rate.

    `answers`, `scores`: rows of the evaluation's main table and of `Score`; `build_id`: of the evaluation.
    """
    scheme = evaluation.label_scheme
    if card is None or card.identity != judge or scheme is None or not scheme.metric:
        return
    sums: dict[str, dict[str, list[float]]] = {}
    rows = scores.filter(pc.and_(pc.equal(scores["metric"], scheme.metric), pc.is_valid(scores["value"])))
    for row in rows.select(["setting", "cluster", "value"]).to_pylist():
        totals = sums.setdefault(row["setting"], {}).setdefault(row["cluster"], [0.0] * 4)
        totals[0] += 1
        totals[1] += row["value"]
    for row in answers.to_pylist():
        for verdict in [part.verdict for part in scheme.list_judged_parts(row) if part.verdict]:
            totals = sums[row["setting"]][row["cluster"]]
            totals[2] += 1
            totals[3] += verdict in scheme.right_labels
    for setting, of_question in sorted(sums.items()):
        own = card.rates.get(setting)
        is_known = own is not None and own.sensitivity is not None and own.specificity is not None
        rates = own if is_known else card.rates.get("")
        if rates is None:
            found, notes = None, ["an earlier version of factmill made this judge card; make it again"]
        else:
            is_own = rates is own and card.drawn_of == (build_id,)
            found = correct_judged_share(list(of_question), np.array([*of_question.values()]), rates, is_own, seed)
            few = format_interval_warning(min(len(of_question), len(rates.questions)))
            notes = [
                few if found else _explain_missing_rate(rates),
                "" if rates is own else "corrected with the labels of all settings",
            ]
        yield JudgeCorrectedRate(
            model=model,
            setting=setting,
            metric=scheme.metric,
            value=found[0] if found else None,
            ci_low=found[1][0] if found else None,
            ci_high=found[1][1] if found else None,
            sensitivity=rates.sensitivity if rates else None,
            specificity=rates.specificity if rates else None,
            labels=rates.n if rates else 0,
            note="; ".join(filter(None, notes)),
        )


def _explain_missing_rate(rates: JudgeErrorRates) -> str:
    missing = "wrong" if rates.specificity is None else "right" if rates.sensitivity is None else ""
    if missing:
        return f"people labelled none of the {rates.n} answers {missing}: label more answers"
    return f"on {rates.n} labelled answers, the judge separates right from wrong no better than chance"
