"""The data of an evaluation report: each model's metrics, and comparisons on the items that all have a score for.

It contains no times and costs: the same answers, scores, metrics and judge card give the same report.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from factmill.tasks.core.digests import digest_json
from factmill.tasks.core.evaluation.judge_cards import JudgeCard, JudgeIdentity, format_card_summary
from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.core.measures.report_figures import ReportFigure
from factmill.tasks.core.prompts import format_prompt_digests
from factmill.tasks.evaluation.corrected_rates import JudgeCorrectedRate, compute_judge_corrected_rate_by_setting
from factmill.tasks.evaluation.definition import BUILT_IN_MODELS, EXACT_JUDGE, Evaluation, PaperResult
from factmill.tasks.reports.formatting import (
    end_sentence,
    format_evidence_epoch,
    format_parameter_value,
    format_share,
    format_snake_case_as_words,
)
from factmill.tasks.reports.item_browser import (
    QuestionWithModelAnswers,
    list_item_entries_and_count_all,
    pack_item_entries_for_search,
    shorten_with_note,
)
from factmill.tasks.reports.model_ranking import ModelRanking, order_settings, rank_models
from factmill.tasks.reports.page_frame import (
    CitationAndCommands,
    KeyFigure,
    SearchablePageRows,
    find_paper,
    format_build_command,
    make_coverage_key_figure,
    make_evaluations_reference,
    make_metric_key_figure,
)
from factmill.tasks.storage.builds import BuildRecord, is_scripted
from factmill.tasks.text.sanitize import escape_control_characters

_MAX_FACT_CHARACTERS = 2_000
"""Maximum characters of a fact."""
LOW_COVERAGE_THRESHOLD = 0.95
"""Share of scored items below which the report begins with a warning."""


@dataclass(frozen=True, slots=True)
class LoadedEvaluation:
    """A published evaluation, loaded from the warehouse."""

    record: BuildRecord
    measured: BuildRecord | None
    """The measured build; None: it is not in this warehouse."""
    metrics: Sequence[EvaluationMetric]
    answers: pa.Table
    """The evaluation's main table."""
    scores: pa.Table
    """Rows of `Score`."""
    card: JudgeCard | None = None
    """The judge's agreement with people, if it was measured."""
    judge: JudgeIdentity | None = None
    """Identity of the judge."""


@dataclass(frozen=True, slots=True)
class ReportedModel:
    """A model under test, and the facts of its evaluation."""

    label: str
    """Unique in its report."""
    model: str
    evaluation_id: str
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class UnscoredCount:
    """Number of answers without a score, for one reason."""

    model: str
    setting: str
    metric: str
    reason: str
    answers: int


@dataclass(frozen=True, slots=True)
class PaperComparisonRow:
    """The paper's values of one metric in one setting and group, with ours."""

    metric: str
    setting: str
    group_by: str
    group: str
    ours: Mapping[str, float | None]
    """Model → value."""
    paper: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """The content of an evaluation report."""

    title: str
    benchmark: str
    warnings: tuple[str, ...]
    """Warnings at the top of the report; low coverage comes first."""
    subjects: tuple[ReportedModel, ...]
    headline: tuple[EvaluationMetric, ...]
    more: tuple[EvaluationMetric, ...]
    """The other metrics over all items."""
    rankings: tuple[ModelRanking, ...]
    """Rankings of several models; empty for one."""
    paper: tuple[PaperComparisonRow, ...]
    paper_notes: tuple[str, ...]
    """Where the paper states its values, and why ours may not be comparable."""
    reference: CitationAndCommands
    corrected: tuple[JudgeCorrectedRate, ...] = ()
    """Metrics over all items, corrected for the errors of a judge that has a card."""
    grouped: tuple[EvaluationMetric, ...] = ()
    figures: tuple[ReportFigure, ...] = ()
    unscored: tuple[UnscoredCount, ...] = ()
    entries: tuple[QuestionWithModelAnswers, ...] = ()
    entries_in_all: int = 0
    has_items: bool = True
    """False: of a comparison that was made without single items."""
    key_figures: tuple[KeyFigure, ...] = ()
    """The figures at the top: main metric, coverage, another headline metric."""
    all_rows: SearchablePageRows | None = None
    """All items, to search; None: the page shows them all, or none."""
    main_metric: str = ""
    """The metric whose comparisons come first."""
    meaning: str = ""
    """The main metric, and what it measures."""
    not_ranked: str = ""
    """Why models are not ranked by the main metric; empty: they are, or there is one model."""
    value_labels: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    """Grouping column → value → label for readers."""

    @property
    def items_command(self) -> str:
        """Command that writes the comparison with its items."""
        ids = " ".join(each.evaluation_id for each in self.subjects)
        return f"factmill report {ids} --items --to {self.benchmark}.html"

    @property
    def models(self) -> tuple[str, ...]:
        """Labels of the models, in the given order."""
        return tuple(each.label for each in self.subjects)

    @property
    def shared_facts(self) -> dict[str, str]:
        """The facts that are the same for every model."""
        first, *others = (each.facts for each in self.subjects)
        return {name: fact for name, fact in first.items() if all(each.get(name) == fact for each in others)}

    @property
    def notes(self) -> list[str]:
        """The notes of comparisons and metrics, each once."""
        noted = [one.note for each in self.rankings for one in each.differences]
        noted += [each.note for each in (*self.headline, *self.more, *self.grouped)]
        return list(dict.fromkeys(filter(None, noted)))

    @property
    def is_comparison(self) -> bool:
        """True if there are several models."""
        return len(self.subjects) > 1

    def find_corrected(self, metric: EvaluationMetric) -> JudgeCorrectedRate | None:
        """Return a metric's corrected rate, or None."""
        place = (metric.model, metric.setting, metric.metric)
        found = (each for each in self.corrected if (each.model, each.setting, each.metric) == place)
        return None if metric.group_by else next(found, None)


def make_evaluation_report(
    evaluation: Evaluation, evaluated: Sequence[LoadedEvaluation], with_items: bool = True
) -> EvaluationReport:
    """Return the report of evaluations of one benchmark on one build, in their order; `with_items`: with single answers."""
    report = make_report_of_overall_metrics(evaluation, evaluated, with_items)
    labels = report.models
    items = {label: evaluation.list_report_items(each.answers) for label, each in zip(labels, evaluated, strict=True)}
    build = evaluated[0].record.origin["flow"]["build"]
    entries, in_all = list_item_entries_and_count_all(items, evaluation.benchmark.name, build)
    metrics = relabel_metrics_by_model(labels, evaluated)
    order = order_settings(evaluation)
    return dataclasses.replace(
        report,
        grouped=tuple(
            sorted(
                (each for each in metrics if each.group_by),
                key=lambda each: (each.group_by, each.metric, each.group, order.get(each.setting, len(order))),
            )
        ),
        figures=tuple(figure for figure in evaluation.draw_figures(metrics) if figure.has_values),
        unscored=tuple(
            sorted(
                _count_unscored({label: each.scores for label, each in zip(labels, evaluated, strict=True)}),
                key=lambda each: order.get(each.setting, len(order)),
            )
        ),
        entries=tuple(entries) if with_items else (),
        entries_in_all=in_all,
        has_items=with_items,
        key_figures=tuple(_make_key_figures(evaluation, report)),
        all_rows=pack_item_entries_for_search(items) if with_items and len(entries) < in_all else None,
    )


def _make_key_figures(evaluation: Evaluation, report: EvaluationReport) -> Iterator[KeyFigure]:
    """Yield the figures at the top: the main metric in its first setting, of several models the best; how many answers have
    a score; the next headline metric."""
    order = order_settings(evaluation)
    found = sorted(
        (each for each in report.headline if each.value is not None),
        key=lambda each: (each.metric != evaluation.main_metric, order.get(each.setting, len(order))),
    )
    if not found:
        return
    first = found[0]
    alike = [each for each in found if (each.metric, each.setting) == (first.metric, first.setting)]
    sign = 1 if first.metric in evaluation.lower_is_better else -1
    best = min(alike, key=lambda each: sign * (each.value or 0.0))
    model = f"the best of {len(alike)}: {best.model}" if report.is_comparison else ""
    yield make_metric_key_figure(best, model)
    yield make_coverage_key_figure(best, best.model if report.is_comparison else "")
    others = (each for each in found if each.model == best.model and each not in alike)
    if (other := next(others, None)) is not None:
        yield make_metric_key_figure(other, best.model if report.is_comparison else "")


def _make_report_reference(
    evaluation: Evaluation, labels: Sequence[str], records: Sequence[BuildRecord], with_items: bool
) -> CitationAndCommands:
    name = evaluation.benchmark.name
    title = f"{', '.join(labels)}: measured on {_get_benchmark_title_before_colon(evaluation)} by factmill"
    made = [format_build_command(["evaluate", name], evaluation.params, record) for record in records]
    ids = " ".join(record.build_id for record in records)
    items = " --items" if with_items and len(records) > 1 else ""
    return make_evaluations_reference(
        name,
        title,
        find_paper(evaluation.benchmark),
        records,
        [*dict.fromkeys(made), f"factmill report {ids}{items} --to {name}.html"],
    )


def _get_benchmark_title_before_colon(evaluation: Evaluation) -> str:
    return evaluation.benchmark.title.partition(":")[0]


def make_report_of_overall_metrics(
    evaluation: Evaluation, evaluated: Sequence[LoadedEvaluation], with_items: bool = False
) -> EvaluationReport:
    """Return a report with the metrics over all items only, without groups, figures and single items."""
    labels = make_model_labels(evaluated)
    named = dict(zip(labels, evaluated, strict=True))
    metrics = relabel_metrics_by_model(labels, evaluated)
    order = {name: at for at, name in enumerate(evaluation.headline_metrics)}
    settings = order_settings(evaluation)
    main = format_snake_case_as_words(evaluation.main_metric)
    overall = sorted(
        (metric for metric in metrics if not metric.group_by),
        key=lambda each: (
            *(order.get(each.metric, len(order)), each.metric),
            *(settings.get(each.setting, len(settings)), each.setting, labels.index(each.model)),
        ),
    )
    tables = {label: each.scores for label, each in named.items()}
    seed = evaluated[0].record.lock["params"]["params"].get("seed", 0)
    return EvaluationReport(
        title=f"{', '.join(labels)}: measured on {_get_benchmark_title_before_colon(evaluation)}",
        benchmark=evaluation.benchmark.name,
        warnings=tuple(
            dict.fromkeys(
                [
                    *_warn_of_low_score_coverage_by_model(overall),
                    *_list_model_build_and_judge_warnings(named),
                    *_list_evaluation_notes_with_models(named),
                    *_warn_of_input_differences(named),
                ]
            )
        ),
        subjects=tuple(_make_reported_model(evaluation, label, each) for label, each in named.items()),
        headline=tuple(each for each in overall if each.metric in order),
        more=tuple(each for each in overall if each.metric not in order),
        corrected=tuple(
            rate
            for label, each in named.items()
            for rate in compute_judge_corrected_rate_by_setting(
                evaluation, label, each.record.build_id, each.answers, each.scores, each.card, each.judge, seed
            )
        ),
        rankings=tuple(rank_models(evaluation, tables, metrics, seed)) if len(named) > 1 else (),
        paper=tuple(_pair_with_paper_values_by_group(evaluation.paper_results, metrics, labels)),
        paper_notes=list_paper_notes(evaluation.paper_results),
        reference=_make_report_reference(evaluation, labels, [each.record for each in evaluated], with_items),
        main_metric=evaluation.main_metric,
        meaning=f"{main[0].upper()}{main[1:]}: {evaluation.main_metric_meaning}",
        not_ranked=""
        if len(named) == 1
        or any(evaluation.main_metric in each.scores["metric"].unique().to_pylist() for each in evaluated)
        else f"Models are not ranked by {main}: it has no score for each item, and a paired test needs one.",
        value_labels=evaluation.benchmark.value_labels(),
    )


def list_paper_notes(results: Sequence[PaperResult]) -> tuple[str, ...]:
    """Return each note on the paper's results once, after all places that it is about."""
    places: dict[str, dict[str, None]] = {}
    for each in results:
        places.setdefault(each.note, {})[each.where] = None
    return tuple(": ".join(filter(None, [", ".join(wheres), note])) for note, wheres in places.items())


def relabel_metrics_by_model(labels: Sequence[str], evaluated: Sequence[LoadedEvaluation]) -> list[EvaluationMetric]:
    """Return all metrics, each under its model's label."""
    return [
        metric.model_copy(update={"model": label})
        for label, each in zip(labels, evaluated, strict=True)
        for metric in each.metrics
    ]


def make_model_labels(evaluated: Sequence[LoadedEvaluation]) -> list[str]:
    """Return a unique label for each model: its name, with the evaluation's digest if two share the name."""
    names = [escape_control_characters(each.record.report["facts"]["model"]) for each in evaluated]
    often = Counter(names)
    return [
        f"{name} ({each.record.build_id.rpartition('-')[2]})" if often[name] > 1 else name
        for name, each in zip(names, evaluated, strict=True)
    ]


def _make_reported_model(evaluation: Evaluation, label: str, published: LoadedEvaluation) -> ReportedModel:
    record, lock = published.record, published.record.lock
    facts = record.report["facts"]
    inputs = dict(lock["params"])
    params = {
        name: format_parameter_value(value)
        for name, value in inputs.pop("params").items()
        if name not in ("model", "judge", "setting") and value not in (None, "", [])
    }
    settings = inputs.pop("settings")
    digest = inputs.pop("source_digest")
    files = [name for _, name, _, _ in record.origin["files"].get("answers", ())]
    measured = published.measured
    reported = {
        "Model": label + (f" – built in: {BUILT_IN_MODELS[facts['model']]}" if is_built_in_model(published) else ""),
        "Answers": f"from a file made by another program: {format_parameter_value(files)}" if files else "",
        "Judge": _describe_judge_with_card(published),
        "Own prompts": format_prompt_digests(record.own_prompt_digests),
        "Measured on": f"{facts['measured']}"
        + (f", written by {measured.lock['author']}" if measured and measured.lock.get("author") else "")
        + (
            f", with own prompts {format_prompt_digests(measured.own_prompt_digests)}"
            if measured and measured.own_prompts
            else ""
        ),
        "Content of that build": f"SHA-256 {format_parameter_value(digest)}",
        "World": f"{lock['world']['name']}"
        + (" (packaged with factmill; no network)" if lock["world"]["name"] == "embedded" else "")
        + f", as of {lock['world']['epoch']}",
        "Articles": format_evidence_epoch(measured.lock).removeprefix("articles ") if measured else "",
        "Local graph": _format_graphs_of_build_and_evaluation(published),
        "Settings": "; ".join(_format_setting(name, evaluation.settings.get(name, "")) for name in settings),
        "Parameters": "; ".join(f"{format_snake_case_as_words(name)} {value}" for name, value in params.items()),
        **{
            format_snake_case_as_words(name.removesuffix("_qid")).capitalize(): format_parameter_value(value)
            for name, value in inputs.items()
            if value is not None
        },
        "Answers asked for": f"{published.answers.num_rows:,}, "
        + (f"of which {facts['unscored']:,} lack a score" if facts["unscored"] else "all scored"),
        "Tokens": _format_token_counts(published.answers),
        "Evaluation": f"{record.build_id}, made by {record.code_version.replace(', code ', ' (digest of its code ')})",
    }
    return ReportedModel(
        label,
        facts["model"],
        record.build_id,
        {name: shorten_with_note(text, _MAX_FACT_CHARACTERS) for name, text in reported.items() if text},
    )


def _format_setting(name: str, description: str) -> str:
    """Return a setting as words, with its name for --setting if that differs, and how it asks."""
    words = format_snake_case_as_words(name)
    return f"{words}{'' if words == name else f' (`{name}`)'}{f' – {description}' if description else ''}"


def _format_graphs_of_build_and_evaluation(published: LoadedEvaluation) -> str:
    """Return the names of the local graphs that the measured build and the evaluation use; empty if they use none."""
    asked = {"the measured build": published.measured, "this evaluation": published.record}
    graphs = {who: record.origin.get("graph") for who, record in asked.items() if record}
    named = {who: str(graph) for who, graph in graphs.items() if graph}
    if len(named) == len(asked) and len(set(named.values())) == 1:
        return next(iter(named.values()))
    return "; ".join(f"{graph} ({who})" for who, graph in named.items())


def is_built_in_model(published: LoadedEvaluation) -> bool:
    """True if a built-in baseline answered, not a model."""
    return published.record.report["facts"]["model"] in BUILT_IN_MODELS and not published.record.origin["files"].get(
        "answers"
    )


def _describe_judge_with_card(published: LoadedEvaluation) -> str:
    judge = published.record.report["facts"]["judge"]
    if not judge:
        return "none: a program scores the answers"
    card = _format_judge_card_summary(published).removeprefix(f"judge {judge}: ")
    if judge == EXACT_JUDGE:
        return (
            "exact – a program that compares words, numbers and dates: a lexical lower bound, since it recognises no "
            f"paraphrase; {card}"
        )
    return f"{judge} – {card}"


def _format_judge_card_summary(published: LoadedEvaluation) -> str:
    judge = published.record.report["facts"]["judge"]
    return format_card_summary(
        published.card, published.judge or JudgeIdentity(benchmark="", judge=judge, prompt_digest="")
    )


def _format_token_counts(answers: pa.Table) -> str:
    read, written = (pc.sum(answers[name]).as_py() or 0 for name in ("tokens_in", "tokens_out"))
    return f"{read:,} in, {written:,} out" if read or written else ""


def _warn_of_low_score_coverage_by_model(overall: Iterable[EvaluationMetric]) -> Iterator[str]:
    worst: dict[str, EvaluationMetric] = {}
    for metric in overall:
        if metric.coverage is not None and metric.coverage < LOW_COVERAGE_THRESHOLD:
            before = worst.get(metric.model)
            worst[metric.model] = metric if before is None or metric.coverage < (before.coverage or 0.0) else before
    for model, metric in worst.items():
        yield (
            f"Only {format_share(metric.coverage)} of the answers of {model} have a score ({format_snake_case_as_words(metric.metric)}, "
            f"{format_snake_case_as_words(metric.setting)}). Scores are seldom missing at random, so consider the bounds too."
        )


SCRIPTED_ROWS_WARNING = "Scripted replies, not a language model, wrote the rows of"
"""Start of a warning that the id of a build follows."""


def _list_model_build_and_judge_warnings(evaluations_by_label: Mapping[str, LoadedEvaluation]) -> Iterator[str]:
    for label, each in evaluations_by_label.items():
        facts = each.record.report["facts"]
        if is_built_in_model(each):
            yield f"{label} is not a model but a built-in baseline: it {BUILT_IN_MODELS[facts['model']]}."
    for label, each in evaluations_by_label.items():
        facts, measured = each.record.report["facts"], each.measured
        if measured is None:
            yield f"The measured build {facts['measured']} is no longer in this warehouse."
        elif is_scripted(measured.lock):
            yield (
                f"{SCRIPTED_ROWS_WARNING} {measured.build_id}: these figures demonstrate the measurement and do not rank "
                "models."
            )
        for notes in (measured.caution if measured else "", each.record.caution):
            if notes:
                yield f"{escape_control_characters(notes)[0].upper()}{escape_control_characters(notes)[1:]}."
        for name, value in facts.items():
            if name.startswith("answers "):
                yield f"{label}, {name.removeprefix('answers ')} in the file of answers: {end_sentence(format_parameter_value(value))}"
        if facts["judge"] and (facts["judge"] != EXACT_JUDGE or each.card):
            card = escape_control_characters(_format_judge_card_summary(each))
            yield f"{card[0].upper()}{card[1:]}."


def _list_evaluation_notes_with_models(evaluations_by_label: Mapping[str, LoadedEvaluation]) -> Iterator[str]:
    """Yield each note of the evaluations once, with the models that it is about."""
    noted: dict[str, list[str]] = {}
    for label, each in evaluations_by_label.items():
        for note in dict.fromkeys((*each.record.report["facts"].get("notes", ()), *each.record.report["notes"])):
            noted.setdefault(escape_control_characters(note), []).append(label)
    for note, labels in noted.items():
        yield end_sentence(f"{', '.join(labels)}: {note}")


def _warn_of_input_differences(evaluations_by_label: Mapping[str, LoadedEvaluation]) -> Iterator[str]:
    """Yield a warning for each input besides the model in which evaluations differ."""
    seen: dict[str, dict[str, str]] = {}
    for label, each in evaluations_by_label.items():
        for name, value in _format_evaluation_inputs(each.record).items():
            seen.setdefault(name, {})[label] = value
    for name, values in seen.items():
        if len(set(values.values())) > 1:
            how = "" if name == "prompts" else f" ({'; '.join(f'{model}: {value}' for model, value in values.items())})"
            yield f"The evaluations differ in {format_snake_case_as_words(name)} too, not only in the model{how}."


def list_input_differences(taken: BuildRecord, other: BuildRecord) -> list[str]:
    """Return the inputs other than the model in which another evaluation differs from the used one."""
    ours, theirs = _format_evaluation_inputs(taken), _format_evaluation_inputs(other)
    return [
        f"other {name}"
        if name in ("prompts", "code")
        else f"{format_snake_case_as_words(name)}: {theirs.get(name, '–')}"
        for name in ours | theirs
        if name != "source_digest" and ours.get(name) != theirs.get(name)
    ]


def _format_evaluation_inputs(record: BuildRecord) -> dict[str, str]:
    """Return name → formatted value of an evaluation's inputs, without the model and setting."""
    lock = record.lock
    params = dict(lock["params"])
    named = {
        "judge": record.report["facts"]["judge"],
        "code": digest_json(lock["code"])[:12],
        **params.pop("params"),
        **params,
    }
    return {
        name: format_parameter_value(value)
        for name, value in {**named, "prompts": lock["prompts"]}.items()
        if name not in ("model", "setting")
    }


def _pair_with_paper_values_by_group(
    paper: Sequence[PaperResult], metrics: Sequence[EvaluationMetric], labels: Sequence[str]
) -> Iterator[PaperComparisonRow]:
    """Yield the paper's and our values for each metric, setting and group that both have."""
    ours = {(each.metric, each.setting, each.group_by, each.group, each.model): each.value for each in metrics}
    places = dict.fromkeys((each.metric, each.setting, each.group_by, each.group) for each in paper)
    for place in places:
        our_values = {label: ours[*place, label] for label in labels if (*place, label) in ours}
        if our_values:
            theirs = {
                each.model: each.value
                for each in paper
                if (each.metric, each.setting, each.group_by, each.group) == place
            }
            yield PaperComparisonRow(*place, ours=our_values, paper=theirs)


def _count_unscored(tables: Mapping[str, pa.Table]) -> Iterator[UnscoredCount]:
    for label, table in tables.items():
        missing: list[dict[str, Any]] = (
            table.filter(pc.is_null(table["value"]))
            .group_by(["setting", "metric", "unscored"])
            .aggregate([([], "count_all")])
            .to_pylist()
        )
        for row in sorted(missing, key=lambda each: (each["setting"], each["metric"], each["unscored"])):
            yield UnscoredCount(
                label, row["setting"], row["metric"], row["unscored"] or "no reason given", row["count_all"]
            )
