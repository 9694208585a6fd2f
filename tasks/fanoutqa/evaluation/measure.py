"""Metrics of an evaluation on FanOutQA (string accuracy, ROUGE, a learned metric, grades), and its figures.

Paper §4.1, §4.5; Table 1, Figure 2. String accuracy is that of the chosen scorer; that of the other one is also shown
if it differs.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factmill.tasks.core.evaluation.rows import REASONS_COUNTED_WRONG, EvaluationMetric
from factmill.tasks.core.evaluation.scoring import (
    PROGRAM_JUDGE_NOTE,
    ScoreArray,
    add_metric_note,
    column_to_floats,
    make_metric_scores_per_setting,
    make_score_rows,
)
from factmill.tasks.core.measures.metrics import MeasuredMetric, measure_mean_metrics
from factmill.tasks.core.measures.report_figures import (
    PAPER_MODEL_SUFFIX,
    ReportFigure,
    format_metric_words,
    make_group_figure,
    make_metric_series,
)
from factmill.tasks.core.rows import arrow_schema
from factmill.tasks.evaluation.definition import EXACT_JUDGE, AnswerShownInReport, LocalScoringModels, PaperResult
from factmill.tasks.fanoutqa.core.evaluation.grades import GRADES, RIGHT_GRADES
from factmill.tasks.fanoutqa.core.evaluation.rows import FanOutScoredPrediction
from factmill.tasks.fanoutqa.core.evaluation.scoring import (
    BLEURT_LIKE,
    ROUGE_KINDS,
    SIMILARITY_LABELS,
    StringScorer,
    add_string_and_rouge_scores,
    align_pair_scores,
    make_nonblank_gold_and_answer_pairs,
)
from factmill.tasks.fanoutqa.core.evaluation.strings.gold_answers import format_gold_answer
from factmill.tasks.fanoutqa.evaluation.lemmatizers import load_lemmatizer, resolve_lemmatizer_name
from factmill.tasks.fanoutqa.evaluation.questions import FanOutEvaluationInputs

LOOSE, STRICT, UPSTREAM_LOOSE, UPSTREAM_STRICT = "loose", "strict", "upstream_loose", "upstream_strict"
JUDGED = "judged"
METRIC_UNITS = {
    LOOSE: "share of strings",
    UPSTREAM_LOOSE: "share of strings",
    BLEURT_LIKE: "score",
    **dict.fromkeys(ROUGE_KINDS, "F1"),
}
"""Units of the metrics that are not right or wrong."""
GROUP_COLUMNS = ("split", "category", "articles", "kind")
ARTICLE_COUNT_GROUPS = ((5, "5 or fewer"), (6, "6"), (9, "7 to 9"))
"""(Most articles that a question needs, name of its group); LARGEST_ARTICLE_GROUP for more articles."""
LARGEST_ARTICLE_GROUP = "10 or more"


def measure_fanoutqa(
    answers: pa.Table, seed: int, scorer: StringScorer = "fixed"
) -> tuple[pa.Table, list[MeasuredMetric]]:
    """Return the score rows and the metrics of answers (rows of `FanOutScoredPrediction`)."""
    groups = make_answer_grouping_columns(answers)
    scores = {name: _make_metric_score_rows(answers, name) for name in _list_shown_metrics(answers, scorer)}
    found = [
        each
        for name, rows in scores.items()
        for each in make_metric_scores_per_setting(
            rows, groups, GROUP_COLUMNS, is_share=name not in METRIC_UNITS, unit=METRIC_UNITS.get(name, "share")
        )
    ]
    notes = _make_metric_notes(answers)
    metrics = [add_metric_note(metric, notes.get(metric.metric, "")) for metric in measure_mean_metrics(found, seed)]
    return pa.concat_tables(scores.values()), metrics


def _list_shown_metrics(answers: pa.Table, scorer: StringScorer) -> list[str]:
    """Return the names of the available metrics, in the order of the report."""
    fixed, upstream = (LOOSE, STRICT), (UPSTREAM_LOOSE, UPSTREAM_STRICT)
    chosen, other = (fixed, upstream) if scorer == "fixed" else (upstream, fixed)
    differs = any(
        not np.array_equal(column_to_floats(answers[ours]), column_to_floats(answers[theirs]), equal_nan=True)
        for ours, theirs in zip(chosen, other, strict=True)
    )
    shown = [*chosen, *(other if differs else ()), *ROUGE_KINDS]
    shown += [JUDGED] if pc.any(pc.not_equal(answers["judge"], "")).as_py() else []
    return shown + ([BLEURT_LIKE] if answers[BLEURT_LIKE].null_count < answers.num_rows else [])


def _make_metric_score_rows(answers: pa.Table, name: str) -> pa.Table:
    if name != JUDGED:
        return make_score_rows(answers, name, column_to_floats(answers[name]))
    own = pc.equal(answers["unscored"], "")
    scored = answers
    for column in ("unscored", "detail"):
        why = pc.if_else(own, answers[f"judge_{column}"], answers[column])
        scored = scored.set_column(scored.schema.get_field_index(column), column, why)
    return make_score_rows(scored, name, compute_correctness_from_grades(answers))


def compute_correctness_from_grades(answers: pa.Table) -> ScoreArray:
    """Return 1.0 for grades B, C and E, 0.0 for others and for empty answers, NaN without a grade (Appendix F.3)."""
    right = pc.is_in(answers["grade"], pa.array(sorted(RIGHT_GRADES)))
    nothing = pc.is_in(answers["unscored"], pa.array(sorted(REASONS_COUNTED_WRONG)))
    is_graded = pc.or_(pc.not_equal(answers["grade"], ""), nothing)
    return column_to_floats(pc.if_else(is_graded, pc.cast(right, pa.float64()), None))


def make_answer_grouping_columns(answers: pa.Table) -> pa.Table:
    """Return the group columns of answers: split, first category, number of articles, kind of the gold answer."""
    counts = map(len, answers["articles"].to_pylist())
    return pa.table(
        {
            "split": answers["split"],
            "category": pa.array([next(iter(each), None) for each in answers["categories"].to_pylist()], pa.string()),
            "articles": [
                next((name for most, name in ARTICLE_COUNT_GROUPS if count <= most), LARGEST_ARTICLE_GROUP)
                for count in counts
            ],
            "kind": answers["kind"],
        }
    )


def _make_metric_notes(answers: pa.Table) -> dict[str, str]:
    """Return metric → note: the lemmatizer, and whether a program judged."""
    lemmas = f"lemmas: {', '.join(sorted(set(answers['lemmatizer'].to_pylist())))}"
    is_bound = set(answers["judge"].to_pylist()) == {EXACT_JUDGE}
    return {
        **dict.fromkeys((LOOSE, STRICT), lemmas),
        **dict.fromkeys((UPSTREAM_LOOSE, UPSTREAM_STRICT), f"as the public scorer counts; {lemmas}"),
        **({JUDGED: PROGRAM_JUDGE_NOTE} if is_bound else {}),
    }


def list_fanoutqa_report_items(answers: pa.Table) -> list[AnswerShownInReport]:
    """Return the answers (rows of `FanOutScoredPrediction`) as items of a report's browser."""
    groups = make_answer_grouping_columns(answers).to_pylist()
    return [
        AnswerShownInReport(
            answer_id=each["id"],
            setting=each["setting"],
            question=each["question"],
            gold=format_gold_answer(json.loads(each["gold"])),
            answer=each["answer"],
            verdict=format_score_summary(each["loose"], each["grade"], each["unscored"] or each["judge_unscored"]),
            score=each["loose"],
            row_id=each["item"],
            groups={name: group or "" for name, group in row_groups.items()},
        )
        for each, row_groups in zip(answers.to_pylist(), groups, strict=True)
    ]


def format_score_summary(loose: float | None, grade: str, unscored: str) -> str:
    """Return an answer's scores in a few words."""
    parts: Sequence[str] = (
        "" if loose is None else "says all" if loose == 1 else f"says {loose:.0%}",
        f"graded {grade}" if grade else "",
        f"unscored: {unscored}" if unscored and loose is None else unscored,
    )
    return ", ".join(filter(None, parts))


def score_judged_predictions(answers: pa.Table, inputs: FanOutEvaluationInputs, tools: LocalScoringModels) -> pa.Table:
    """Score judged answers (rows of `FanOutJudgedPrediction`); return them as rows of `FanOutScoredPrediction`."""
    scored = add_string_and_rouge_scores(
        answers, load_lemmatizer(inputs.lemmatizer or resolve_lemmatizer_name(inputs.params.lemmas))
    )
    found = np.full(answers.num_rows, np.nan)
    if inputs.params.bleurt is not None:
        golds = [json.loads(gold) for gold in answers["gold"].to_pylist()]
        pairs = make_nonblank_gold_and_answer_pairs(answers["answer_read"].to_pylist(), golds)
        scores = tools.cross_encoder(inputs.params.bleurt).score([pair for pair in pairs if pair], SIMILARITY_LABELS)
        found = align_pair_scores(pairs, scores[:, 0])
    scored = scored.append_column(BLEURT_LIKE, pa.array(found, from_pandas=True))
    schema = arrow_schema(FanOutScoredPrediction)
    return scored.select(schema.names).cast(schema)


SETTING_ORDER = ("closed_book", "open_book", "evidence_provided")
_SHARE_RANGE = (0.0, 1.0)
_FANOUTQA_WHISKERS_NOTE = "Whiskers are 95 % intervals over questions."
_FIGURE_TITLES = {
    LOOSE: "Loose accuracy: share of the gold answer's strings that are found",
    UPSTREAM_LOOSE: "Loose accuracy by the public scorer",
    JUDGED: "Answers that the judge grades B, C or E",
}
_FIGURE_NOTES = {
    UPSTREAM_LOOSE: "The public scorer counts all strings that a list of lists lacks against its own entries, so a score may be "
    "below 0.",
    JUDGED: f"{'; '.join(f'{grade}: {GRADES[grade]}' for grade in sorted(RIGHT_GRADES))}.",
}


def draw_fanoutqa_figures(metrics: Sequence[EvaluationMetric]) -> list[ReportFigure]:
    """Return figures by setting, with our and the paper's models side by side (Figure 2), and by number of articles."""
    groups = (*(name for _, name in ARTICLE_COUNT_GROUPS), LARGEST_ARTICLE_GROUP)
    layout = {
        "name": "articles",
        "title": "Loose accuracy by number of needed articles",
        "note": "Bands are 95 % intervals over questions.",
        "y_range": _SHARE_RANGE,
    }
    drawn = [_draw_metric_by_setting(metrics, metric) for metric in _FIGURE_TITLES]
    drawn.append(make_group_figure(metrics, LOOSE, "articles", "lines", groups, **layout))
    return [figure for figure in drawn if figure.series]


def _draw_metric_by_setting(metrics: Sequence[EvaluationMetric], metric: str) -> ReportFigure:
    ours = {(each.setting, each.model): each for each in metrics if each.metric == metric and not each.group_by}
    theirs = {
        (each.setting, f"{each.model}{PAPER_MODEL_SUFFIX}"): each.value
        for each in FANOUTQA_PAPER_FIGURES
        if each.metric == metric
    }
    settings = [setting for setting in SETTING_ORDER if any(setting == place[0] for place in ours)]
    shown = tuple(dict.fromkeys(model for setting, model in [*ours, *theirs] if setting in settings))
    series = []
    for setting in settings:
        drawn = make_metric_series(
            format_metric_words(setting), ((model, ours.get((setting, model))) for model in shown)
        )
        placed = zip(shown, drawn.y, strict=True)
        values = (value if (setting, model) in ours else theirs.get((setting, model)) for model, value in placed)
        series.append(replace(drawn, y=tuple(values)))
    is_bound = metric == JUDGED and any(each.judge == EXACT_JUDGE for each in ours.values())
    note = f"Figure 2 of the paper. {_FANOUTQA_WHISKERS_NOTE} The paper's models (pale) answered other questions."
    alike = {each.model: None for each in metrics if each.model not in {model for _, model in ours}}
    notes = [
        note,
        _FIGURE_NOTES.get(metric, ""),
        f"Without {', '.join(alike)}: both scorers give the same scores." if alike and metric != JUDGED else "",
        f"Ours: {PROGRAM_JUDGE_NOTE}." if is_bound else "",
    ]
    return ReportFigure(
        metric,
        _FIGURE_TITLES[metric],
        "bars",
        "",
        format_metric_words(metric),
        tuple(series),
        " ".join(filter(None, notes)),
        _SHARE_RANGE,
    )


_PAPER_MODELS = (
    "LLaMA 2", "GPT-4", "GPT-3.5-turbo", "Mistral-7B", "Mixtral-8x7B", "GPT-4-turbo", "Claude 2.1", "people",
)  # fmt: skip
_PAPER_METRICS = (LOOSE, STRICT, *ROUGE_KINDS, BLEURT_LIKE, JUDGED)
_PAPER_TABLE_1: dict[str, tuple[tuple[float, ...], ...]] = {
    "closed_book": (
        (0.440, 0.058, 0.285, 0.149, 0.238, 0.441, 0.120),
        (0.355, 0.066, 0.313, 0.177, 0.267, 0.419, 0.149),
        (0.398, 0.058, 0.401, 0.227, 0.342, 0.455, 0.145),
        (0.427, 0.055, 0.260, 0.123, 0.212, 0.449, 0.102),
        (0.470, 0.081, 0.302, 0.158, 0.254, 0.466, 0.186),
        (0.460, 0.101, 0.482, 0.290, 0.409, 0.493, 0.199),
        (0.341, 0.041, 0.412, 0.208, 0.344, 0.426, 0.110),
        (),
    ),
    "open_book": (
        (0.390, 0.064, 0.157, 0.075, 0.131, 0.443, 0.108),
        (0.315, 0.057, 0.208, 0.106, 0.183, 0.427, 0.164),
        (0.155, 0.032, 0.114, 0.051, 0.099, 0.338, 0.076),
        (),
        (0.396, 0.055, 0.173, 0.078, 0.147, 0.449, 0.148),
        (0.470, 0.109, 0.356, 0.207, 0.314, 0.487, 0.262),
        (0.471, 0.086, 0.295, 0.157, 0.253, 0.485, 0.218),
        (0.685, 0.289, 0.344, 0.210, 0.307, 0.413, 0.452),
    ),
    "evidence_provided": (
        (0.514, 0.077, 0.376, 0.206, 0.304, 0.472, 0.162),
        (0.546, 0.144, 0.500, 0.301, 0.413, 0.530, 0.304),
        (0.517, 0.102, 0.455, 0.252, 0.358, 0.497, 0.243),
        (0.540, 0.088, 0.330, 0.172, 0.264, 0.475, 0.202),
        (0.576, 0.135, 0.409, 0.231, 0.343, 0.509, 0.283),
        (0.628, 0.192, 0.614, 0.395, 0.523, 0.581, 0.413),
        (0.653, 0.215, 0.423, 0.262, 0.354, 0.508, 0.470),
        (),
    ),
}
"""Setting → values of each model of _PAPER_MODELS, in the order of _PAPER_METRICS; empty: not measured."""
HUMAN_UPPER_BOUND = 0.847
"""Share of people's answers marked right by hand (§4.5)."""
_PAPER_NOTE = (
    "the paper uses the test part of its own data; its scorer is the public one, its BLEURT model BLEURT-20, its judge "
    "gpt-4-0613"
)


def _list_fanoutqa_paper_results() -> Iterator[PaperResult]:
    values = [
        (name, setting, model, value, "Table 1")
        for setting, models in _PAPER_TABLE_1.items()
        for model, row in zip(_PAPER_MODELS, models, strict=True)
        for metric, value in zip(_PAPER_METRICS, row, strict=False)
        # the paper's string accuracy is that of the public scorer
        for name in ((metric, f"upstream_{metric}") if metric in (LOOSE, STRICT) else (metric,))
    ]
    people = "people, marked by hand"
    values += [(name, "open_book", people, HUMAN_UPPER_BOUND, "§4.5") for name in (LOOSE, UPSTREAM_LOOSE, JUDGED)]
    for metric, setting, model, value, where in values:
        yield PaperResult(metric, setting, model, value, where, _PAPER_NOTE)


FANOUTQA_PAPER_FIGURES = tuple(_list_fanoutqa_paper_results())
"""Values of every model of Table 1 and of people, both scored and marked by hand."""
