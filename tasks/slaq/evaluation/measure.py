"""Metrics of an evaluation on SLAQ (accuracy short and long, alignment, momentum), and its figures (paper §3.1, §4;
Figures 2 and 3).

Verdicts become two matrices, topics × five facts (core/evaluation/verdicts.py). Intervals resample whole topics, since
a topic's facts are asked about together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from factmill.tasks.core.evaluation.rows import AnswerScore, EvaluationMetric
from factmill.tasks.core.evaluation.scoring import PROGRAM_JUDGE_NOTE, add_metric_note
from factmill.tasks.core.measures.metrics import MeasuredMetric, MetricScores, measure_mean_metrics
from factmill.tasks.core.measures.report_figures import (
    ReportFigure,
    format_metric_words,
    make_group_figure,
    make_metric_series,
)
from factmill.tasks.core.rows import arrow_schema
from factmill.tasks.evaluation.definition import EXACT_JUDGE, AnswerShownInReport, PaperResult
from factmill.tasks.slaq.core.evaluation.answers import LONG_SETTING, SHORT_SETTING
from factmill.tasks.slaq.core.evaluation.verdicts import (
    VerdictMatrix,
    compute_alignment,
    compute_signed_alignment,
    count_consecutive_verdicts_before_each,
)
from factmill.tasks.slaq.core.pair_replies import PAIRS_PER_TOPIC

ACCURACY, ALIGNMENT, SIGNED_ALIGNMENT, ACCURACY_GAP = "accuracy", "alignment", "signed_alignment", "accuracy_gap"
BOTH_SETTINGS = "short, long"
"""Setting of the metrics that compare both answers."""
POSITION, AFTER_RIGHT, AFTER_WRONG = "position", "right_before", "wrong_before"
"""Group names: a fact's place in the long question; consecutive right, or wrong, answers just before it (Figure 3)."""
SLAQ_GROUP_COLUMNS = ("category", "half", "answer_kind", "fact_type")


SettingVerdicts = tuple[VerdictMatrix, np.ndarray]
"""Verdicts of one setting (topics × facts), and of the same shape why one is missing: reason and detail on two lines,
None where nothing was asked."""


def measure_slaq(answers: pa.Table, seed: int) -> tuple[pa.Table, list[MeasuredMetric]]:
    """Compute the score rows and the metrics of answers (rows of `ScoredSlaqPrediction`)."""
    rows = answers.to_pylist()
    topics = sorted({row["item"] for row in rows})
    at = {topic: index for index, topic in enumerate(topics)}
    groups = _list_groups_of_facts_by_column(rows, topics)
    given: dict[str, SettingVerdicts] = {}
    for setting in (SHORT_SETTING, LONG_SETTING):
        if setting_rows := [row for row in rows if row["setting"] == setting]:
            shape = len(topics), PAIRS_PER_TOPIC
            values, reasons = given[setting] = np.full(shape, np.nan), np.empty(shape, object)
            for row in setting_rows:
                first = max(row["position"] - 1, 0)
                place = at[row["item"]], slice(first, first + len(row["golds"]))
                reasons[place] = f"{row['unscored']}\n{row['detail']}"
                if row["verdicts"]:
                    values[place] = row["verdicts"]
    found = [(setting, ACCURACY, verdicts) for setting, verdicts in given.items()]
    if len(given) > 1:
        (short, why_short), (long, why_long) = given[SHORT_SETTING], given[LONG_SETTING]
        reasons = np.where(np.isnan(short), why_short, why_long)
        reasons[~(_make_asked_fact_mask(why_short) & _make_asked_fact_mask(why_long))] = None
        both = {
            ALIGNMENT: compute_alignment(short, long),
            SIGNED_ALIGNMENT: compute_signed_alignment(short, long),
            ACCURACY_GAP: long - short,
        }
        found += [(BOTH_SETTINGS, metric, (values, reasons)) for metric, values in both.items()]
    scored = [_make_score_rows_and_metric_scores(*each, topics, groups) for each in found]
    metrics = measure_mean_metrics([scores for _, scores in scored], seed)
    is_bound = {row["judge"] for row in rows} == {EXACT_JUDGE}
    return pa.concat_tables([table for table, _ in scored]), [
        add_metric_note(each, PROGRAM_JUDGE_NOTE) if is_bound and each.metric == ACCURACY else each for each in metrics
    ]


def _list_groups_of_facts_by_column(
    rows: Sequence[Mapping[str, Any]], topics: Sequence[str]
) -> dict[str, list[str | None]]:
    """Return group name → value of each fact, topic by topic; None for a fact that was not asked."""
    facts = {}
    for row in rows:
        for number, kind in enumerate(row["fact_types"], row["position"] or 1):
            is_entity = "other" if kind == "none" else "entity"
            facts[row["item"], number] = (str(number), row["category"], row["half"], is_entity, kind)
    names = (POSITION, *SLAQ_GROUP_COLUMNS)
    unasked = (None,) * len(names)
    places = [(topic, number) for topic in topics for number in range(1, PAIRS_PER_TOPIC + 1)]
    return dict(zip(names, map(list, zip(*(facts.get(each, unasked) for each in places), strict=True)), strict=True))


def _make_asked_fact_mask(reasons_of_asked_facts: np.ndarray) -> np.ndarray:
    return np.array([reason is not None for reason in reasons_of_asked_facts.ravel()], bool).reshape(
        reasons_of_asked_facts.shape
    )


def _make_score_rows_and_metric_scores(
    setting: str, metric: str, verdicts: SettingVerdicts, topics: Sequence[str], groups: Mapping[str, list[str | None]]
) -> tuple[pa.Table, MetricScores]:
    """Return rows of `AnswerScore`, one for each fact asked, and the same values as `MetricScores` to measure."""
    values, reasons = verdicts
    if setting == LONG_SETTING:
        for name, verdict in ((AFTER_RIGHT, 1), (AFTER_WRONG, 0)):
            runs = count_consecutive_verdicts_before_each(values, verdict).ravel()
            groups = {**groups, name: [None if np.isnan(run) else str(int(run)) for run in runs]}
    asked = np.flatnonzero(_make_asked_fact_mask(reasons)).tolist()
    items = [topics[at // PAIRS_PER_TOPIC] for at in asked]
    ids = [f"{item}/{at % PAIRS_PER_TOPIC + 1}" for item, at in zip(items, asked, strict=True)]
    found = values.ravel()[asked]
    missing = zip(reasons.ravel()[asked], np.isnan(found), strict=True)
    whys = [why.split("\n", 1) if is_missing else ("", "") for why, is_missing in missing]
    columns = {
        "id": [f"{metric}:{setting}/{each}" for each in ids],
        "question_id": ids,
        "item": items,
        "cluster": items,
        "setting": [setting] * len(ids),
        "metric": [metric] * len(ids),
        "value": pa.array(found, from_pandas=True),
        "unscored": [reason for reason, _ in whys],
        "detail": [detail for _, detail in whys],
    }
    table = pa.table(columns).select(arrow_schema(AnswerScore).names).cast(arrow_schema(AnswerScore))
    return table, MetricScores(
        setting=setting,
        metric=metric,
        items=ids,
        clusters=items,
        values=found,
        groups={name: [column[at] for at in asked] for name, column in groups.items()},
        worst=-1.0 if metric in (SIGNED_ALIGNMENT, ACCURACY_GAP) else 0.0,
        unit="share" if metric in (ACCURACY, ALIGNMENT) else "",
        is_share=metric in (ACCURACY, ALIGNMENT),
    )


def list_slaq_report_items(answers: pa.Table) -> list[AnswerShownInReport]:
    """Return the answers (rows of `ScoredSlaqPrediction`) as items of the report's browser."""
    return [
        AnswerShownInReport(
            answer_id=each["id"],
            setting=each["setting"],
            question=each["question"],
            gold=each["gold"],
            answer=each["answer"],
            verdict=format_right_wrong_verdicts(each["verdicts"], each["unscored"]),
            score=sum(each["verdicts"]) / len(each["verdicts"]) if each["verdicts"] else None,
            row_id=each["item"],
            groups={"category": each["category"], "half": each["half"], "fact_type": ", ".join(each["fact_types"])},
        )
        for each in answers.to_pylist()
    ]


def format_right_wrong_verdicts(verdicts: Sequence[int], unscored: str) -> str:
    """Format verdicts in a few words; for a long answer how many are right and which."""
    if not verdicts:
        return f"unscored: {unscored}"
    why = f" ({unscored})" if unscored else ""
    if len(verdicts) == 1:
        return ("right" if verdicts[0] else "wrong") + why
    return f"{sum(verdicts)} of {len(verdicts)} right: {' '.join(map(str, verdicts))}{why}"


_BAR_FIGURES = (
    ("accuracy", "Accuracy of short and long answers", (SHORT_SETTING, LONG_SETTING), ACCURACY, "2a"),
    ("alignment", "Alignment: both answers right, or both wrong", (BOTH_SETTINGS,), ALIGNMENT, "2b"),
    ("signed_alignment", "Signed alignment: +1 both right, −1 both wrong", (BOTH_SETTINGS,), SIGNED_ALIGNMENT, "2c"),
)
_MIN_ANSWERS_OF_POINT = 10
"""Answers that a point of momentum needs: fewer have an interval that fills the figure."""
_MOMENTUM_NOTE = (
    "The first answer is left out, since it has no previous one; so are points of fewer than "
    f"{_MIN_ANSWERS_OF_POINT} answers."
)
_LINE_FIGURES = (
    (
        "position",
        "Accuracy by position of the fact in the long question",
        POSITION,
        "position in the long question",
        "Figure 3a of the paper. The short answers to the same questions show how hard the questions themselves are.",
    ),
    (
        "momentum_right",
        "Accuracy after right answers",
        AFTER_RIGHT,
        "right answers in a row before it",
        f"Figure 3b of the paper. 0: the previous answer was wrong. {_MOMENTUM_NOTE}",
    ),
    (
        "momentum_wrong",
        "Accuracy after wrong answers",
        AFTER_WRONG,
        "wrong answers in a row before it",
        f"Figure 3c of the paper. 0: the previous answer was right. {_MOMENTUM_NOTE}",
    ),
)
_TOPIC_INTERVALS_NOTE = "Whiskers are 95 % intervals over topics."


def draw_slaq_evaluation_figures(metrics: Sequence[EvaluationMetric]) -> list[ReportFigure]:
    """Draw accuracy and both alignments by model (Figure 2), and accuracy by position and momentum (Figure 3)."""
    drawn = []
    for name, title, settings, metric, panel in _BAR_FIGURES:
        found = {(each.setting, each.model): each for each in metrics if each.metric == metric and not each.group_by}
        models = tuple(dict.fromkeys(model for _, model in found))
        series = tuple(
            make_metric_series(setting, ((model, found.get((setting, model))) for model in models))
            for setting in settings
            if any((setting, model) in found for model in models)
        )
        y_range = (-1.0, 1.0) if metric == SIGNED_ALIGNMENT else (0.0, 1.0)
        note = f"Figure {panel} of the paper. {_TOPIC_INTERVALS_NOTE}"
        drawn.append(ReportFigure(name, title, "bars", "", format_metric_words(metric), series, note, y_range))
    for name, title, group_by, x_label, note in _LINE_FIGURES:
        is_place = group_by == POSITION
        drawn.append(
            make_group_figure(
                metrics if is_place else [each for each in metrics if each.n >= _MIN_ANSWERS_OF_POINT],
                ACCURACY,
                group_by,
                "lines",
                tuple(map(str, range(1, PAIRS_PER_TOPIC + 1) if is_place else range(PAIRS_PER_TOPIC))),
                name=name,
                title=title,
                x_label=x_label,
                note=f"{note} Bands are 95 % intervals over topics.",
                y_range=(0.0, 1.0),
            )
        )
    bound = f" {PROGRAM_JUDGE_NOTE.capitalize()}." if any(each.judge == EXACT_JUDGE for each in metrics) else ""
    return [
        replace(figure, note=f"{figure.note}{bound}") if figure.y_label == ACCURACY else figure
        for figure in drawn
        if figure.series
    ]


SLAQ_PAPER_RESULTS = tuple(
    PaperResult(
        metric=ACCURACY,
        setting=LONG_SETTING,
        model="16 models, 1B to 12B",
        value=value,
        where=where,
        note="the paper uses other topics, models and another judge (Gemini 2.5 Flash)",
        group_by=group_by,
        group=group,
    )
    for where, group_by, group, value in (
        ("Figure 3a", POSITION, "1", 0.513),
        ("Figure 3a", POSITION, "5", 0.301),
        ("Figure 3b", AFTER_RIGHT, "0", 0.30),
        ("Figure 3b", AFTER_RIGHT, "4", 0.57),
        ("Figure 3c", AFTER_WRONG, "0", 0.45),
        ("Figure 3c", AFTER_WRONG, "3", 0.24),
    )
)
"""The paper's numbers for all models together (§4.2)."""
