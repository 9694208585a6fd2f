"""Metrics and figures of an evaluation on BioKaLMA: citations, alignment, [NA] marks, texts (paper §4, Tables 3 to 5).

Micro metrics are over all citations, or pieces, of all answers; macro metrics are means of per-answer values. An answer
has no precision, correctness or alignment where it cites nothing, no [NA] precision where it marks nothing, and no [NA]
metric where its graphs lack nothing: neither mean then includes it. It still has recall: an empty answer or a refusal
cites and finds nothing, so its recall and F1 are 0. Other missing answers are unscored. F1 combines precision and
recall, micro with micro and macro with macro (§4.2). The figures follow Figures 4 and 5.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factmill.tasks.biokalma.core.evaluation.rows import MAX_RATING, MIN_RATING, RATING_CRITERIA
from factmill.tasks.biokalma.core.evaluation.scoring import LEXICAL_ALIGNER
from factmill.tasks.biokalma.core.evaluation.shown_graphs import (
    ABLATED_PREFIX,
    GIVEN_SETTING,
    REMOVED_PREFIX,
    RETRIEVED_SETTING,
)
from factmill.tasks.core.evaluation.rows import REASONS_COUNTED_WRONG, EvaluationMetric
from factmill.tasks.core.evaluation.scoring import (
    add_metric_note,
    column_to_floats,
    make_metric_scores_per_setting,
    make_score_rows,
)
from factmill.tasks.core.measures.metrics import MeasuredMetric, measure_mean_metrics
from factmill.tasks.core.measures.ratio_metrics import RatioOrF1TermsPerItem, RatioTermsPerItem, measure_ratio_metrics
from factmill.tasks.core.measures.report_figures import ReportFigure, format_metric_words, make_metric_series
from factmill.tasks.evaluation.definition import AnswerShownInReport, EvaluationParams, PaperResult

MICRO, MACRO = "micro", "macro"
CORRECTNESS, PRECISION, RECALL, F1 = "correctness", "precision", "recall", "f1"
ALIGNMENT, NA_PRECISION, NA_RECALL, NA_F1 = "alignment", "na_precision", "na_recall", "na_f1"
LOOSE_CORRECTNESS, MALFORMED, RETRIEVAL = "loose_correctness", "malformed", "retrieval_accuracy"
RATIO_COUNTS = {
    CORRECTNESS: (("correct",), "cited"),
    PRECISION: (("needed",), "cited"),
    RECALL: (("found",), "minimum"),
    ALIGNMENT: (("aligned",), "triples"),
    NA_PRECISION: (("marked_right",), "marked"),
    NA_RECALL: (("removed_found",), "removed"),
    LOOSE_CORRECTNESS: (("correct", "near"), "cited"),
    MALFORMED: (("malformed",), "cited"),
}
"""Metric → counts whose sum is the numerator, and the count in the denominator (CitationCounts)."""
F1_PARTS = {F1: (PRECISION, RECALL), NA_F1: (NA_PRECISION, NA_RECALL)}
_SCORER_METRICS = frozenset({CORRECTNESS, PRECISION, RECALL, F1})
"""Metrics that the public script counts differently."""
_NA_METRICS = frozenset({NA_PRECISION, NA_RECALL, NA_F1})
_ALIGNER_METRICS = _NA_METRICS | {ALIGNMENT}
HEADLINE = (
    *(f"{MICRO}_{each}" for each in (CORRECTNESS, PRECISION, RECALL, F1)),
    *(f"{MACRO}_{each}" for each in (PRECISION, RECALL, F1)),
    *(f"{MICRO}_{each}" for each in (ALIGNMENT, NA_PRECISION, NA_RECALL)),
    *RATING_CRITERIA,
    RETRIEVAL,
)
BIOKALMA_GROUPS = ("form", "relation", "pieces", "lacking")
"""Question form; relation that joins the two people; pieces of the minimum set; those of them that the graphs lack."""
SCORABLE_ANSWER_STATUSES = ("", *sorted(REASONS_COUNTED_WRONG))
"""Values of `unscored` that are scored: an empty answer or a refusal cites nothing."""
_SHARE_UNIT, _RATING_UNIT = "share", f"rating {MIN_RATING} to {MAX_RATING}"
LEXICAL_NOTE = "aligned by a lexical rule, no model"
UPSTREAM_NOTE = "counted as the public script does"


def compute_biokalma_scores_and_metrics(
    answers: pa.Table, params: EvaluationParams
) -> tuple[pa.Table, list[MeasuredMetric]]:
    """Return the score rows and the metrics of answers (rows of `ScoredBiokalmaPrediction`)."""
    needed, lacking = (pc.list_value_length(answers[name]).to_numpy() for name in ("minimum", "removed"))
    pieces = np.select([needed < 5, needed < 8], ["1 to 4", "5 to 7"], "8 or more")
    counted = np.where(lacking > 3, "4 or more", lacking.astype(str))
    for name, groups in (("pieces", pieces), ("lacking", counted)):
        answers = answers.append_column(name, pa.array(groups.tolist(), pa.string()))
    scores, metrics = [make_score_rows(answers[:0], RETRIEVAL, np.zeros(0))], list[MeasuredMetric]()
    for setting in sorted(pc.unique(answers["setting"]).to_pylist()):
        of_setting = answers.filter(pc.equal(answers["setting"], setting))
        terms = _make_micro_and_macro_ratio_terms(of_setting)
        metrics += measure_ratio_metrics(list(_make_micro_and_macro_ratios(setting, of_setting, terms)), params.seed)
        for metric in RATIO_COUNTS:
            # shares of the answers that have one
            own = terms[MACRO, metric]
            there = np.isnan(own.numerators) | (own.denominators > 0)
            rows = of_setting.filter(pa.array(there))
            scores.append(make_score_rows(rows, f"{MACRO}_{metric}", own.numerators[there]))
        for found, unit in (
            *_make_rating_score_rows_and_units(of_setting),
            *_make_retrieval_scores_and_score_unit(of_setting),
        ):
            scores.append(found)
            given = make_metric_scores_per_setting(found, of_setting, BIOKALMA_GROUPS, is_share=False, unit=unit)
            worst, best = (0.0, 1.0) if unit == _SHARE_UNIT else (float(MIN_RATING), float(MAX_RATING))
            metrics += measure_mean_metrics([replace(each, worst=worst, best=best) for each in given], params.seed)
    # metric name without micro or macro → its note
    notes: dict[str, str] = {}
    if LEXICAL_ALIGNER in pc.unique(answers["aligner"]).to_pylist():
        notes |= dict.fromkeys(_ALIGNER_METRICS, LEXICAL_NOTE)
    if "upstream" in pc.unique(pc.struct_field(answers["counts"], "scorer")).to_pylist():
        notes |= dict.fromkeys(_SCORER_METRICS, UPSTREAM_NOTE)
    return pa.concat_tables(scores), [
        add_metric_note(each, notes.get(each.metric.partition("_")[2], "")) for each in metrics
    ]


def _make_micro_and_macro_ratio_terms(answers: pa.Table) -> dict[tuple[str, str], RatioTermsPerItem]:
    """Return (micro or macro, metric) → numerators and denominators, one entry per answer of a setting.

    Macro metrics are computed from each answer's own ratio over 1.
    """
    counts = answers["counts"]
    column = {
        name: column_to_floats(pc.struct_field(counts, name))
        for above, below in RATIO_COUNTS.values()
        for name in (*above, below)
    }
    missing = ~np.isin(answers["unscored"].to_numpy(zero_copy_only=False).astype(str), SCORABLE_ANSWER_STATUSES)
    left_out = pc.struct_field(counts, "is_left_out").to_numpy(zero_copy_only=False).astype(bool)
    terms = {}
    for metric, (above, below) in RATIO_COUNTS.items():
        applies = column["removed"] > 0 if metric in _NA_METRICS else ~left_out | (metric not in _SCORER_METRICS)
        top = np.where(missing, np.nan, np.sum([column[name] for name in above], axis=0))
        top, bottom = np.where(applies, top, 0.0), np.where(applies, column[below], 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            own = np.where(np.isnan(top) | (bottom > 0), top / bottom, 0.0)
        terms[MICRO, metric] = RatioTermsPerItem(top, bottom)
        terms[MACRO, metric] = RatioTermsPerItem(own, (bottom > 0).astype(np.float64))
    return terms


def _make_micro_and_macro_ratios(
    setting: str, answers: pa.Table, terms: Mapping[tuple[str, str], RatioTermsPerItem]
) -> Iterator[RatioOrF1TermsPerItem]:
    groups = {name: answers[name].to_pylist() for name in BIOKALMA_GROUPS}
    clusters = answers["cluster"].to_pylist()
    lacks_nothing = not terms[MICRO, NA_RECALL].denominators.any()
    for metric, of in ({metric: (metric,) for metric in RATIO_COUNTS} | F1_PARTS).items():
        for kind in (MICRO, MACRO):
            if not (metric in _NA_METRICS and lacks_nothing):
                parts = [terms[kind, each] for each in of]
                yield RatioOrF1TermsPerItem(setting, f"{kind}_{metric}", clusters, parts, groups)


def _make_rating_score_rows_and_units(answers: pa.Table) -> Iterator[tuple[pa.Table, str]]:
    """Yield the `Score` rows of each rating if a judge rated any; `unrated` gives the reason for a missing one."""
    if not pc.any(pc.not_equal(answers["judge"], "")).as_py():
        return
    for name in RATING_CRITERIA:
        columns = (answers[column].to_pylist() for column in ("unrated", "unscored", "detail"))
        reasons_and_details = [
            next((each.split(": ", 2)[1:] for each in unrated if each.startswith(f"{name}: ")), [unscored, detail])
            for unrated, unscored, detail in zip(*columns, strict=True)
        ]
        reasons, details = zip(*reasons_and_details, strict=True)
        changed = answers
        for column, values in (("unscored", reasons), ("detail", details)):
            changed = changed.set_column(changed.column_names.index(column), column, pa.array(values, pa.string()))
        yield make_score_rows(changed, name, column_to_floats(answers[name])), _RATING_UNIT


def _make_retrieval_scores_and_score_unit(answers: pa.Table) -> Iterator[tuple[pa.Table, str]]:
    """Yield the `Score` rows of retrieval: the share of the two people whose graphs were found (§5.3)."""
    found = answers.filter(pc.equal(answers["setting"], RETRIEVED_SETTING))
    if found.num_rows:
        pairs = zip(found["people"].to_pylist(), found["retrieved"].to_pylist(), strict=True)
        shares = np.array([len(set(people) & set(shown)) / len(people) for people, shown in pairs])
        failed = np.array(pc.equal(found["unscored"], "lookup_failed").to_pylist(), bool)
        yield make_score_rows(found, RETRIEVAL, np.where(failed, np.nan, shares)), _SHARE_UNIT


def list_biokalma_report_items(answers: pa.Table) -> list[AnswerShownInReport]:
    """Return the answers (rows of `ScoredBiokalmaPrediction`) as items of a report's browser; by F1, the worst first."""
    return [
        AnswerShownInReport(
            answer_id=each["id"],
            setting=each["setting"],
            question=each["question"],
            gold="\n".join(f"{piece['qid']} {piece['property']}: {piece['value']}" for piece in each["minimum"]),
            answer=each["answer"],
            verdict=_format_citation_counts(each["counts"])
            if each["unscored"] in SCORABLE_ANSWER_STATUSES
            else f"unscored: {each['unscored']}",
            score=_compute_citation_f1(each["counts"]) if each["unscored"] in SCORABLE_ANSWER_STATUSES else None,
            row_id=each["item"],
            groups={"form": each["form"], "relation": each["relation"]},
        )
        for each in answers.to_pylist()
    ]


def _format_citation_counts(counts: Mapping[str, int]) -> str:
    parts = (
        f"{counts['correct']} of {counts['cited']} citations in the graph, {counts['needed']} needed",
        f"{counts['found']} of {counts['minimum']} pieces found",
        f"{counts['marked']} [NA], {counts['marked_right']} right" if counts["marked"] or counts["removed"] else "",
        f"{counts['malformed']} malformed" if counts["malformed"] else "",
    )
    return "; ".join(filter(None, parts))


def _compute_citation_f1(counts: Mapping[str, int]) -> float:
    if not counts["needed"]:
        return 0.0
    precision, recall = counts["needed"] / counts["cited"], counts["found"] / counts["minimum"]
    return 2 * precision * recall / (precision + recall)


_SHARE_AXIS = (0.0, 1.0)
_INTERVALS_NOTE = "Whiskers are 95 % intervals over pairs of people."
_CITATION_METRICS = (CORRECTNESS, PRECISION, RECALL, F1)
_NA_METRIC_ORDER = (NA_PRECISION, NA_RECALL, NA_F1)
_REMOVALS = {GIVEN_SETTING: "0", **{f"{REMOVED_PREFIX}{number}": str(number) for number in (1, 2, 3)}}
_ABLATIONS = {f"{ABLATED_PREFIX}{share}": str(share) for share in (100, 80, 60, 40, 20)}

MetricsByRun = Mapping[tuple[str, str, str], EvaluationMetric]
"""Model, setting and metric → the metric over all answers."""


def draw_biokalma_metric_figures(metrics: Sequence[EvaluationMetric]) -> list[ReportFigure]:
    """Return figures of citation and text quality per setting, and of citations and marks by what the graphs lack."""
    found = {(each.model, each.setting, each.metric): each for each in metrics if not each.group_by}
    named = {GIVEN_SETTING: "the two people's graphs given", RETRIEVED_SETTING: "graphs looked up"}
    drawn = []
    cited = [f"{MICRO}_{each}" for each in (*_CITATION_METRICS, ALIGNMENT)]
    for setting, setting_label in named.items():
        for name, bars, note, ends in (
            ("citations", cited, f"Micro figures, as in Table 3 of the paper. {_INTERVALS_NOTE}", _SHARE_AXIS),
            ("texts", RATING_CRITERIA, f"Table 4 of the paper. {_INTERVALS_NOTE}", (MIN_RATING, MAX_RATING)),
        ):
            title = f"{name.capitalize()}, {setting_label}"
            drawn.append(_draw_bars(found, f"{name}_{setting}", title, setting, bars, note, ends))
    removed, right = "pieces of the minimum set that the graphs lack", "right graphs (%)"
    drawn += [
        _draw_lines_over_settings(found, *each)
        for each in (
            ("removed", "Citations as knowledge is removed", _REMOVALS, _CITATION_METRICS, removed, "Table 5"),
            ("marks", "Marks of missing knowledge, [NA]", _REMOVALS, _NA_METRIC_ORDER, removed, "Figure 4"),
            ("ablated", "Citations as graphs get wrong", _ABLATIONS, _CITATION_METRICS, right, "Figure 5"),
        )
    ]
    return [figure for figure in drawn if figure.series]


def _draw_bars(
    found: MetricsByRun,
    name: str,
    title: str,
    setting: str,
    metrics: Sequence[str],
    note: str,
    ends: tuple[float, float],
) -> ReportFigure:
    there = [each for each in metrics if any((setting, each) == place[1:] for place in found)]
    series = [
        make_metric_series(model, ((_format_metric_label(each), found.get((model, setting, each))) for each in there))
        for model in dict.fromkeys(model for model, where, each in found if where == setting and each in there)
    ]
    y_label = "rating" if ends == (MIN_RATING, MAX_RATING) else "share"
    return ReportFigure(name, title, "bars", "", y_label, tuple(series), note, ends)


def _draw_lines_over_settings(
    found: MetricsByRun,
    name: str,
    title: str,
    settings: Mapping[str, str],
    metrics: Sequence[str],
    x_label: str,
    where: str,
) -> ReportFigure:
    """Return one line per model and metric over the settings; none where a model was measured in only one of them."""
    series = []
    for model in dict.fromkeys(model for model, _, _ in found):
        for metric in metrics:
            points = {
                x: found[place]
                for setting, x in settings.items()
                if (place := (model, setting, f"{MICRO}_{metric}")) in found
            }
            if len(points) > 1:
                series.append(make_metric_series(f"{model}, {_format_metric_label(metric)}", points.items()))
    note = f"{where} of the paper, micro. Bands are 95 % intervals over pairs of people."
    return ReportFigure(name, title, "lines", x_label, "share", tuple(series), note, _SHARE_AXIS)


def _format_metric_label(metric: str) -> str:
    return format_metric_words(metric.removeprefix(f"{MICRO}_"))


_TABLE_3 = {
    "GPT-4 (0.5)": (92.0, 97.6, 36.0, 43.6, 39.4, 40.7, 43.9, 42.3),
    "ChatGPT (0.1)": (85.9, 96.1, 29.0, 50.8, 36.9, 32.7, 51.2, 39.9),
    "ChatGPT (0.5)": (84.5, 94.8, 29.9, 49.0, 37.2, 34.1, 49.4, 40.4),
    "ChatGPT (0.9)": (84.1, 94.2, 28.7, 49.0, 36.2, 32.5, 49.4, 39.2),
    "Alpaca-7B": (46.9, 78.9, 14.9, 19.4, 16.8, 19.8, 19.9, 19.8),
    "LLaMA-7B": (47.8, 70.2, 7.7, 41.1, 13.0, 11.0, 41.4, 17.4),
    "LLaMA-13B": (62.1, 71.7, 10.5, 43.7, 16.9, 13.8, 43.5, 20.9),
    "Vicuna-13B": (66.9, 59.0, 14.9, 16.8, 15.8, 15.1, 17.0, 16.0),
}
"""Alignment, then correctness, precision, recall and F1 (micro), then precision, recall and F1 (macro); %."""
_TABLE_4 = {
    "GPT-4 (0.5)": (4.48, 4.89, 4.64, 4.72),
    "ChatGPT (0.1)": (4.57, 4.94, 4.69, 4.83),
    "ChatGPT (0.5)": (4.57, 4.94, 4.71, 4.81),
    "ChatGPT (0.9)": (4.52, 4.91, 4.67, 4.79),
    "Alpaca-7B": (4.10, 4.46, 4.23, 3.76),
    "LLaMA-7B": (3.06, 3.79, 3.62, 2.96),
    "LLaMA-13B": (3.60, 4.23, 3.94, 3.56),
    "Vicuna-13B": (3.67, 4.50, 3.96, 3.64),
}
_TABLE_5 = {
    GIVEN_SETTING: (95.5, 30.1, 57.1, 39.4),
    f"{REMOVED_PREFIX}1": (94.1, 26.1, 42.5, 32.3),
    f"{REMOVED_PREFIX}2": (94.0, 21.0, 31.4, 25.2),
    f"{REMOVED_PREFIX}3": (93.9, 16.3, 20.4, 18.1),
}
_TABLE_7 = {"GPT-4 (0.5)": (90.9, 97.6, 30.8, 42.1, 35.6), "ChatGPT (0.5)": (82.7, 94.5, 25.2, 47.4, 32.9)}
_TABLE_7_TEXTS = {"GPT-4 (0.5)": (4.38, 4.77, 4.48, 4.48), "ChatGPT (0.5)": (4.64, 4.89, 4.45, 4.70)}
"""Ratings for general questions; those for specific ones are in Tables 3 and 4."""
_PAPER_NOTE = (
    "the paper uses other pairs of people, other models, a Wikidata of 2023, and a simpler rule to read citations; it aligns "
    "with an 11B entailment model, and text-davinci-003 rates 100 answers per model (an unreadable rating counts as 3)"
)
_MICROS = tuple(f"{MICRO}_{each}" for each in (ALIGNMENT, *_CITATION_METRICS))
_MACROS = tuple(f"{MACRO}_{each}" for each in (PRECISION, RECALL, F1))


_PAPER_TABLES: tuple[tuple[str, str, str, Mapping[str, Sequence[float]], Sequence[str]], ...] = (
    ("Table 3", RETRIEVED_SETTING, "specific", _TABLE_3, (*_MICROS, *_MACROS)),
    ("Table 4", RETRIEVED_SETTING, "specific", _TABLE_4, RATING_CRITERIA),
    *(("Table 5", setting, "specific", {"ChatGPT": values}, _MICROS[1:]) for setting, values in _TABLE_5.items()),
    ("Table 7", RETRIEVED_SETTING, "general", _TABLE_7, _MICROS),
    ("Table 7", RETRIEVED_SETTING, "general", _TABLE_7_TEXTS, RATING_CRITERIA),
    *(
        ("§5.3", f"{ABLATED_PREFIX}{share}", "specific", {"ChatGPT (0.5)": (recall,)}, _MICROS[3:4])
        for share, recall in ((100, 57.1), (80, 42.5))
    ),
)
"""Place, setting, question form, model → values, metrics of the values."""
BIOKALMA_PAPER_FIGURES = tuple(
    PaperResult(
        metric,
        setting,
        model,
        value if metric in RATING_CRITERIA else round(value / 100, 3),
        where,
        _PAPER_NOTE,
        "form",
        form,
    )
    for where, setting, form, table, metrics in _PAPER_TABLES
    for model, values in table.items()
    for metric, value in zip(metrics, values, strict=True)
)
"""Tables 3 to 5 and 7, and the numbers of Figure 5 that §5.3 gives; the paper gives none for Figure 4."""
