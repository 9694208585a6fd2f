"""The card of models: one page over all benchmarks, each with its main metric and one column per model.

Like reports, it contains no times and costs. It lists missing evaluations with the commands that make them.
"""

import dataclasses
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.core.measures.model_comparison import RankRange
from factmill.tasks.core.measures.report_figures import ReportFigure, make_metric_series
from factmill.tasks.evaluation.corrected_rates import JudgeCorrectedRate
from factmill.tasks.evaluation.definition import EXACT_JUDGE, Evaluation
from factmill.tasks.reports.evaluation_report import (
    LOW_COVERAGE_THRESHOLD,
    EvaluationReport,
    LoadedEvaluation,
    PaperComparisonRow,
    list_input_differences,
    list_paper_notes,
    make_report_of_overall_metrics,
)
from factmill.tasks.reports.formatting import format_share, format_snake_case_as_words
from factmill.tasks.reports.model_ranking import order_settings
from factmill.tasks.reports.page_frame import (
    CitationAndCommands,
    KeyFigure,
    format_build_command,
    make_evaluations_reference,
)
from factmill.tasks.storage.builds import BuildRecord, is_scripted
from factmill.tasks.text.sanitize import escape_control_characters

_MAX_LEFT_OUT_NAMED = 4
"""Maximum number of left-out evaluations that are named."""


@dataclass(frozen=True, slots=True)
class MissingEvaluation:
    """A model without an evaluation on a part's benchmark."""

    model: str
    command: str
    """Command that makes the missing evaluation or build."""


@dataclass(frozen=True, slots=True)
class EvaluationReportLink:
    """The separate report of an evaluation."""

    model: str
    evaluation_id: str
    link: str
    """Its file in the card's folder; empty: there is none."""
    command: str
    """Command that writes it into the card's folder."""


@dataclass(frozen=True, slots=True)
class BenchmarkEvaluationOfEachModel:
    """The card's input for one benchmark: one evaluation of each model, all on the same rows."""

    evaluation: Evaluation
    evaluated: Sequence[LoadedEvaluation]
    left_out: Mapping[str, Sequence[BuildRecord]]
    """Id of a used evaluation → the others of its model, the latest first."""
    missing: Sequence[MissingEvaluation]
    pages: Sequence[EvaluationReportLink]


@dataclass(frozen=True, slots=True)
class ModelResultInSetting:
    """The result of one model in one setting."""

    metric: EvaluationMetric
    ranks: RankRange | None
    """First and last possible rank among the models, on the items that all have a score for. None: not compared."""
    corrected: JudgeCorrectedRate | None


@dataclass(frozen=True, slots=True)
class PaperBestModelAndAllOursInGroup:
    """The paper's best model, and our models in the same setting and group."""

    setting: str
    group: str
    """The paper's grouping column and group; empty: all items."""
    model: str
    value: float
    ours: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class SettingResultsByModel:
    """One setting of a benchmark."""

    setting: str
    description: str
    """Description of the setting."""
    cells: Mapping[str, ModelResultInSetting]
    """Model → its result; models without one are absent."""
    shared: int | None
    """Items that all models with scores have a score for; None: nothing is compared."""
    best: PaperBestModelAndAllOursInGroup | None
    """The paper's best model over all items."""


@dataclass(frozen=True, slots=True)
class BenchmarkCardPart:
    """The card's part for one benchmark."""

    benchmark: str
    title: str
    """The benchmark as papers write it: `GRANOLA-EQ`."""
    meaning: str
    not_ranked: str
    """Why models are not ranked by the metric; empty: they are, or there is one model."""
    metric: str
    rows: tuple[SettingResultsByModel, ...]
    """The first one appears in the overview."""
    best_by_group: tuple[PaperBestModelAndAllOursInGroup, ...]
    """The paper's best models by group, if it states the metric only by group."""
    paper_notes: tuple[str, ...]
    facts: Mapping[str, Mapping[str, str]]
    """Model → facts about its evaluation: build, judge, settings, world."""
    shared_facts: Mapping[str, str]
    """The facts that are the same for all models."""
    notes: tuple[str, ...]
    """Caveats about the metrics."""
    left_out: tuple[str, ...]
    """Which evaluation was used if a model has several."""
    missing: tuple[MissingEvaluation, ...]
    pages: tuple[EvaluationReportLink, ...]
    comparison: str
    """Command that compares the models in full; empty for a single model."""


@dataclass(frozen=True, slots=True)
class ModelCard:
    """The content of a card."""

    title: str
    models: tuple[str, ...]
    warnings: tuple[str, ...]
    """The first says whether the card may rank models at all, and what lacks scores."""
    parts: tuple[BenchmarkCardPart, ...]
    figures: tuple[ReportFigure, ...]
    """The main metric of each benchmark by setting: one figure each, since the metrics differ."""
    key_figures: tuple[KeyFigure, ...]
    reference: CitationAndCommands

    @property
    def is_comparison(self) -> bool:
        """True if there are several models."""
        return len(self.models) > 1

    @property
    def has_corrected(self) -> bool:
        """True if any rate is corrected for its judge's errors."""
        return any(cell.corrected for part in self.parts for row in part.rows for cell in row.cells.values())


_CARD_FACTS = (
    "Answers",
    "Judge",
    "Own prompts",
    "Measured on",
    "World",
    "Articles",
    "Local graph",
    "Settings",
    "Parameters",
    "Answers asked for",
    "Evaluation",
)
"""The facts of a report that a card repeats."""


def make_model_card(models: Sequence[str], taken: Sequence[BenchmarkEvaluationOfEachModel]) -> ModelCard:
    """Return the card of models over benchmarks, both in the given order."""
    named = tuple(map(escape_control_characters, models))
    outlines = [_make_report_headed_by_main_metric(each) if each.evaluated else None for each in taken]
    often = Counter(warning for report in outlines if report for warning in report.warnings)
    common = [warning for warning, times in often.items() if times > 1]
    parts = tuple(_make_card_part(each, report, common) for each, report in zip(taken, outlines, strict=True))
    first = " ".join([*_warn_of_scripted_builds(taken), *_warn_of_low_score_coverage_on_card(outlines)])
    return ModelCard(
        title=f"{', '.join(named)}: measured on {sum(1 for part in parts if part.rows)} of {len(parts)} benchmarks",
        models=named,
        warnings=tuple(filter(None, [first, *common])),
        parts=parts,
        figures=tuple(_make_main_metric_figure_per_benchmark(named, parts)),
        key_figures=tuple(_make_card_coverage_key_figures(parts)),
        reference=_make_card_reference(named, taken),
    )


def _make_card_coverage_key_figures(parts: Sequence[BenchmarkCardPart]) -> Iterator[KeyFigure]:
    """Yield the figures at the top: benchmarks, items with a score, judges."""
    metrics = [cell.metric for part in parts for row in part.rows for cell in row.cells.values()]
    missing = sum(len(part.missing) for part in parts)
    yield KeyFigure(
        "benchmarks measured",
        f"{sum(1 for part in parts if part.rows)} of {len(parts)}",
        f"{missing} evaluations missing" if missing else "no evaluation missing",
    )
    scored, asked = sum(each.n for each in metrics), sum(each.n + each.n_unscored for each in metrics)
    share = format_share(scored / asked if asked else None)
    yield KeyFigure("items with a score", f"{scored:,} of {asked:,}", f"{share}, by the main metrics, in every setting")
    judged = {facts.get("Judge", "") for part in parts for facts in part.facts.values()}
    programs = sum(1 for judge in judged if judge.startswith(("none", EXACT_JUDGE)))
    models = len(judged) - programs
    yield KeyFigure(
        "judges",
        f"{models} model{'' if models == 1 else 's'}" if models else "programs alone",
        f"{programs} program{'' if programs == 1 else 's'}" if models else "no model judges an answer",
    )


def _make_card_reference(models: Sequence[str], taken: Sequence[BenchmarkEvaluationOfEachModel]) -> CitationAndCommands:
    each_made = [(one.evaluation, evaluated.record) for one in taken for evaluated in one.evaluated]
    made = [
        format_build_command(["evaluate", evaluation.benchmark.name], evaluation.params, record)
        for evaluation, record in each_made
    ]
    named = " ".join(f"--model {shlex.quote(model)}" for model in models)
    return make_evaluations_reference(
        "model_card",
        f"{', '.join(models)}: measured by factmill",
        None,
        [record for _, record in each_made],
        [*dict.fromkeys(made), f"factmill report all {named} --to card.html"],
    )


def _make_report_headed_by_main_metric(taken: BenchmarkEvaluationOfEachModel) -> EvaluationReport:
    evaluation = dataclasses.replace(taken.evaluation, headline_metrics=(taken.evaluation.main_metric,))
    return make_report_of_overall_metrics(evaluation, taken.evaluated)


def _make_card_part(
    taken: BenchmarkEvaluationOfEachModel, report: EvaluationReport | None, common: Sequence[str]
) -> BenchmarkCardPart:
    evaluation = taken.evaluation
    best = [] if report is None else [*_list_paper_bests_by_setting_and_group(evaluation, report.paper)]
    ids = [each.record.build_id for each in taken.evaluated]
    return BenchmarkCardPart(
        benchmark=evaluation.benchmark.name,
        title=evaluation.benchmark.title.partition(":")[0],
        meaning=evaluation.main_metric_meaning,
        not_ranked=report.not_ranked if report else "",
        metric=evaluation.main_metric,
        rows=() if report is None else tuple(_list_setting_results(evaluation, report, best)),
        best_by_group=() if any(not each.group for each in best) else tuple(best),
        paper_notes=list_paper_notes(
            [each for each in evaluation.paper_results if each.metric == evaluation.main_metric]
        )
        if best
        else (),
        facts={}
        if report is None
        else {
            each.label: {name: each.facts[name] for name in _CARD_FACTS if name in each.facts}
            for each in report.subjects
        },
        shared_facts={} if report is None else {k: v for k, v in report.shared_facts.items() if k in _CARD_FACTS},
        notes=() if report is None else tuple(each for each in report.warnings if each not in common),
        left_out=tuple(_format_left_out_evaluations_by_model(taken)),
        missing=tuple(taken.missing),
        pages=tuple(taken.pages),
        comparison=f"factmill report {' '.join(ids)} --to {evaluation.benchmark.name}.html" if len(ids) > 1 else "",
    )


def _list_setting_results(
    evaluation: Evaluation, report: EvaluationReport, best: Sequence[PaperBestModelAndAllOursInGroup]
) -> Iterator[SettingResultsByModel]:
    """Yield a row for each measured setting, those of the paper first, in its order."""
    rankings = {each.setting: each for each in report.rankings}
    order = order_settings(evaluation)
    settings = sorted({each.setting for each in report.headline}, key=lambda name: (order.get(name, len(order)), name))
    for setting in settings:
        ranking = rankings.get(setting)
        ranks = {each.model: each.ranks for each in ranking.placed} if ranking else {}
        yield SettingResultsByModel(
            setting=setting,
            description=evaluation.settings.get(setting, ""),
            cells={
                each.model: ModelResultInSetting(each, ranks.get(each.model), report.find_corrected(each))
                for each in report.headline
                if each.setting == setting
            },
            shared=ranking.n if ranking else None,
            best=next((each for each in best if each.setting == setting and not each.group), None),
        )


def _list_paper_bests_by_setting_and_group(
    evaluation: Evaluation, paper: Sequence[PaperComparisonRow]
) -> Iterator[PaperBestModelAndAllOursInGroup]:
    """Yield the paper's best model for each setting and group in which we have the main metric too."""
    sign = -1 if evaluation.main_metric in evaluation.lower_is_better else 1
    for row in paper:
        if row.metric == evaluation.main_metric:
            model = max(row.paper, key=lambda name: sign * row.paper[name])
            group = (
                f"{format_snake_case_as_words(row.group_by)} {format_snake_case_as_words(row.group)}"
                if row.group_by
                else ""
            )
            yield PaperBestModelAndAllOursInGroup(row.setting, group, model, row.paper[model], row.ours)


def _warn_of_scripted_builds(taken: Sequence[BenchmarkEvaluationOfEachModel]) -> Iterator[str]:
    measured = (each.measured for one in taken for each in one.evaluated)
    builds = dict.fromkeys(build.build_id for build in measured if build is not None and is_scripted(build.lock))
    if builds:
        yield (
            f"This card does not rank models: scripted replies, not a language model, wrote the rows of {', '.join(builds)}, so "
            "its figures only demonstrate the measurement."
        )


def _warn_of_low_score_coverage_on_card(reports: Sequence[EvaluationReport | None]) -> Iterator[str]:
    low: dict[tuple[str, str], float] = {}
    for report in filter(None, reports):
        for metric in (*report.headline, *report.more):
            if metric.coverage is not None and metric.coverage < LOW_COVERAGE_THRESHOLD:
                place = (metric.model, report.benchmark)
                low[place] = min(metric.coverage, low.get(place, 1.0))
    if low:
        shares = "; ".join(f"{model} on {name} {format_share(share)}" for (model, name), share in sorted(low.items()))
        yield (
            f"Only a part of the answers have a score ({shares}, by the metric with the fewest scores). Scores are seldom missing "
            "at random, so consider the bounds too."
        )


def _format_left_out_evaluations_by_model(taken: BenchmarkEvaluationOfEachModel) -> Iterator[str]:
    for each in taken.evaluated:
        others = taken.left_out.get(each.record.build_id, ())
        if others:
            named = [
                f"{other.build_id} ({'; '.join(list_input_differences(each.record, other)) or 'the same inputs'})"
                for other in others[:_MAX_LEFT_OUT_NAMED]
            ]
            more = [f"{len(others) - _MAX_LEFT_OUT_NAMED} more"] if len(others) > _MAX_LEFT_OUT_NAMED else []
            model = escape_control_characters(each.record.report["facts"]["model"])
            yield f"{model}: of {len(others) + 1} evaluations, this card uses {each.record.build_id}. Left out: {', '.join([*named, *more])}."


def _make_main_metric_figure_per_benchmark(
    models: Sequence[str], parts: Sequence[BenchmarkCardPart]
) -> Iterator[ReportFigure]:
    """Yield a bar figure of each benchmark's main metric by setting, on its own axis; none without any value."""
    for part in parts:
        series = tuple(
            make_metric_series(
                model,
                (
                    (format_snake_case_as_words(row.setting), cell.metric if (cell := row.cells.get(model)) else None)
                    for row in part.rows
                ),
            )
            for model in models
        )
        figure = ReportFigure(
            f"card_{part.benchmark}",
            f"{part.title}: {format_snake_case_as_words(part.metric)}",
            "bars",
            "",
            format_snake_case_as_words(part.metric),
            series,
            "Whiskers are 95 % intervals.",
            (0.0, 1.0),
        )
        if figure.has_values:
            yield figure
