"""What stands in a report, as data: the page, the Markdown and the JSON are made of this and of nothing else.

No time and no cost stands in it: the same answers, scores, metrics and card of the judge give the same report.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tasks.core.evaluation.judge_cards import JudgeCard, JudgeIdentity, describe_card
from tasks.core.evaluation.rows import EvaluationMetric
from tasks.core.measures.figures import Figure
from tasks.evaluation.corrected import CorrectedRate, correct_rates
from tasks.evaluation.record import BUILT_IN, EXACT, Evaluation, PaperFigure
from tasks.reports.comparing import Ranking, rank_models
from tasks.reports.entries import Entry, list_entries, shorten
from tasks.reports.texts import format_share, say, tell
from tasks.storage.builds import BuildRecord, is_scripted
from tasks.text.whole import clean

_LONGEST = 2_000
"""Characters of a fact."""
LOW_COVERAGE = 0.95
"""Share of scored items under which the first line says so."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A published evaluation, as the warehouse has it."""

    record: BuildRecord
    measured: BuildRecord | None
    """The build that was measured on; None: it is not in this warehouse."""
    metrics: Sequence[EvaluationMetric]
    answers: pa.Table
    """Rows of the evaluation's main table."""
    scores: pa.Table
    """Rows of `Score`."""
    card: JudgeCard | None = None
    """How far its judge agrees with people, where that was measured."""
    judge: JudgeIdentity | None = None
    """Who that is."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A model under test, and what is to be known of how it was measured."""

    label: str
    """Unique in its report."""
    model: str
    evaluation_id: str
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Unscored:
    """Answers that lack a score, by reason."""

    model: str
    setting: str
    metric: str
    reason: str
    answers: int


@dataclass(frozen=True, slots=True)
class PaperRow:
    """The paper's figures of one metric, in one setting and group, and ours beside."""

    metric: str
    setting: str
    group_by: str
    group: str
    ours: Mapping[str, float | None]
    """Model → value."""
    paper: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Report:
    """All that a report says."""

    title: str
    benchmark: str
    warnings: tuple[str, ...]
    """What must be known before anything is read; low coverage comes first."""
    subjects: tuple[Subject, ...]
    headline: tuple[EvaluationMetric, ...]
    more: tuple[EvaluationMetric, ...]
    """The other metrics over all items."""
    rankings: tuple[Ranking, ...]
    """Of several models."""
    paper: tuple[PaperRow, ...]
    paper_notes: tuple[str, ...]
    """Where the paper's figures stand, and why ours may not be comparable."""
    corrected: tuple[CorrectedRate, ...] = ()
    """Metrics over all items, corrected for the errors of a judge that has a card."""
    grouped: tuple[EvaluationMetric, ...] = ()
    figures: tuple[Figure, ...] = ()
    unscored: tuple[Unscored, ...] = ()
    entries: tuple[Entry, ...] = ()
    entries_in_all: int = 0

    @property
    def models(self) -> tuple[str, ...]:
        """Labels of the models, in the order they were named in."""
        return tuple(each.label for each in self.subjects)

    @property
    def shared_facts(self) -> dict[str, str]:
        """What holds of every model."""
        first, *others = (each.facts for each in self.subjects)
        return {name: fact for name, fact in first.items() if all(each.get(name) == fact for each in others)}

    @property
    def is_comparison(self) -> bool:
        """True where there are several models."""
        return len(self.subjects) > 1

    def find_corrected(self, metric: EvaluationMetric) -> CorrectedRate | None:
        """Return a metric's corrected rate; None where there is none."""
        place = (metric.model, metric.setting, metric.metric)
        found = (each for each in self.corrected if (each.model, each.setting, each.metric) == place)
        return None if metric.group_by else next(found, None)


def make_report(evaluation: Evaluation, evaluated: Sequence[Evaluated]) -> Report:
    """Return the report of evaluations of one benchmark on one build, in their order."""
    report = outline_report(evaluation, evaluated)
    labels = report.models
    items = {label: evaluation.items(each.answers) for label, each in zip(labels, evaluated, strict=True)}
    entries, in_all = list_entries(items, evaluation.of.name, evaluated[0].record.origin["flow"]["build"])
    metrics = _name_metrics(labels, evaluated)
    return dataclasses.replace(
        report,
        grouped=tuple(each for each in metrics if each.group_by),
        figures=tuple(evaluation.figures(metrics)),
        unscored=tuple(_count_unscored({label: each.scores for label, each in zip(labels, evaluated, strict=True)})),
        entries=tuple(entries),
        entries_in_all=in_all,
    )


def outline_report(evaluation: Evaluation, evaluated: Sequence[Evaluated]) -> Report:
    """Return what a report says of all items together: neither groups nor figures, nor single items."""
    labels = _label(evaluated)
    named = dict(zip(labels, evaluated, strict=True))
    metrics = _name_metrics(labels, evaluated)
    order = {name: at for at, name in enumerate(evaluation.headline)}
    overall = sorted(
        (metric for metric in metrics if not metric.group_by),
        key=lambda each: (order.get(each.metric, len(order)), each.metric, each.setting, labels.index(each.model)),
    )
    tables = {label: each.scores for label, each in named.items()}
    seed = evaluated[0].record.lock["params"]["params"].get("seed", 0)
    paper_notes = {f"{each.where}: {each.note}" if each.note else each.where: None for each in evaluation.paper}
    return Report(
        title=f"{', '.join(labels)}: measured on {evaluation.of.name}",
        benchmark=evaluation.of.name,
        warnings=tuple(dict.fromkeys([*_warn_of_coverage(overall), *_warn(named), *_warn_of_differences(named)])),
        subjects=tuple(_describe(evaluation, label, each) for label, each in named.items()),
        headline=tuple(each for each in overall if each.metric in order),
        more=tuple(each for each in overall if each.metric not in order),
        corrected=tuple(
            rate
            for label, each in named.items()
            for rate in correct_rates(
                evaluation, label, each.record.build_id, each.answers, each.scores, each.card, each.judge, seed
            )
        ),
        rankings=tuple(rank_models(evaluation, tables, metrics, seed)) if len(named) > 1 else (),
        paper=tuple(_set_beside(evaluation.paper, metrics, labels)),
        paper_notes=tuple(paper_notes),
    )


def _name_metrics(labels: Sequence[str], evaluated: Sequence[Evaluated]) -> list[EvaluationMetric]:
    """Return all metrics, each under its model's label."""
    return [
        metric.model_copy(update={"model": label})
        for label, each in zip(labels, evaluated, strict=True)
        for metric in each.metrics
    ]


def _label(evaluated: Sequence[Evaluated]) -> list[str]:
    """Return what each model is called in the report: its name, with the evaluation where two are called alike."""
    names = [clean(each.record.report["facts"]["model"]) for each in evaluated]
    often = Counter(names)
    return [
        f"{name} ({each.record.build_id.rpartition('-')[2]})" if often[name] > 1 else name
        for name, each in zip(names, evaluated, strict=True)
    ]


def _describe(evaluation: Evaluation, label: str, each: Evaluated) -> Subject:
    record, lock = each.record, each.record.lock
    facts = record.report["facts"]
    inputs = dict(lock["params"])
    params = {
        name: tell(value) for name, value in inputs.pop("params").items() if name not in ("model", "judge", "setting")
    }
    settings = inputs.pop("settings")
    digest = inputs.pop("source_digest")
    files = [name for _, name, _, _ in record.origin["files"].get("answers", ())]
    measured = each.measured
    told = {
        "Model": label + (f" – built in: {BUILT_IN[facts['model']]}" if _is_built_in(each) else ""),
        "Answers": f"from a file made by another program: {tell(files)}" if files else "",
        "Judge": _describe_judge(each),
        "Measured on": f"{facts['measured']}"
        + (f", written by {measured.lock['author'] or 'no model'}" if measured and "author" in measured.lock else ""),
        "Content of that build": f"SHA-256 {tell(digest)}",
        "World": f"{lock['world']['name']}, as of {lock['world']['epoch']}",
        "Settings": "; ".join(f"{name} – {evaluation.settings.get(name, name)}" for name in settings),
        "Parameters": "; ".join(f"{say(name)} {value}" for name, value in params.items()),
        **{say(name).capitalize(): tell(value) for name, value in inputs.items() if value is not None},
        "Answers asked for": f"{each.answers.num_rows:,}, of which {facts['unscored']:,} lack a score",
        "Tokens": _describe_tokens(each.answers),
        "Evaluation": f"{record.build_id}, factmill {lock['version']}, code {lock['code']}",
    }
    return Subject(
        label, facts["model"], record.build_id, {name: shorten(text, _LONGEST) for name, text in told.items() if text}
    )


def _is_built_in(each: Evaluated) -> bool:
    return each.record.report["facts"]["model"] in BUILT_IN and not each.record.origin["files"].get("answers")


def _describe_judge(each: Evaluated) -> str:
    judge = each.record.report["facts"]["judge"]
    if not judge:
        return "none: a program scores the answers"
    told = _tell_card(each)
    if judge == EXACT:
        return (
            "exact – a program that compares words, numbers and dates: a lexical lower bound, since it knows no other way "
            f"to say the same; {told}"
        )
    return f"{judge} – {told}"


def _tell_card(each: Evaluated) -> str:
    judge = each.record.report["facts"]["judge"]
    return describe_card(each.card, each.judge or JudgeIdentity(benchmark="", judge=judge, prompt_digest=""))


def _describe_tokens(answers: pa.Table) -> str:
    read, written = (pc.sum(answers[name]).as_py() or 0 for name in ("tokens_in", "tokens_out"))
    return f"{read:,} in, {written:,} out" if read or written else ""


def _warn_of_coverage(overall: Iterable[EvaluationMetric]) -> Iterator[str]:
    worst: dict[str, EvaluationMetric] = {}
    for metric in overall:
        if metric.coverage is not None and metric.coverage < LOW_COVERAGE:
            before = worst.get(metric.model)
            worst[metric.model] = metric if before is None or metric.coverage < (before.coverage or 0.0) else before
    for model, metric in worst.items():
        yield (
            f"Only {format_share(metric.coverage)} of what {model} was asked has a score ({say(metric.metric)}, "
            f"{metric.setting}): what lacks one is seldom missing at random, so mind the bounds."
        )


def _warn(named: Mapping[str, Evaluated]) -> Iterator[str]:
    for label, each in named.items():
        facts = each.record.report["facts"]
        if _is_built_in(each):
            yield f"{label} is no model but built in: {BUILT_IN[facts['model']]}."
    for label, each in named.items():
        facts, measured = each.record.report["facts"], each.measured
        if measured is None:
            yield f"The measured build {facts['measured']} is not in this warehouse any more."
        elif is_scripted(measured.lock):
            yield (
                f"The rows of {measured.build_id} were written by scripted replies, which stand in for a language model: "
                "these figures show how measuring works and rank no models."
            )
        for notes in (measured.caution if measured else "", each.record.caution):
            if notes:
                yield f"{clean(notes)[0].upper()}{clean(notes)[1:]}."
        for name, value in facts.items():
            if name.startswith("answers "):
                yield f"{label}, {name.removeprefix('answers ')} in the file of answers: {tell(value)}"
        for note in (*facts.get("notes", ()), *each.record.report["notes"]):
            yield f"{label}: {clean(note)}"
        if facts["judge"] and (facts["judge"] != EXACT or each.card):
            told = clean(_tell_card(each))
            yield f"{told[0].upper()}{told[1:]}."


def _warn_of_differences(named: Mapping[str, Evaluated]) -> Iterator[str]:
    """Yield in what evaluations differ beside the model, since that may be what a difference shows."""
    seen: dict[str, dict[str, str]] = {}
    for label, each in named.items():
        for name, value in _list_inputs(each.record).items():
            seen.setdefault(name, {})[label] = value
    for name, values in seen.items():
        if len(set(values.values())) > 1:
            how = "" if name == "prompts" else f" ({'; '.join(f'{model}: {value}' for model, value in values.items())})"
            yield f"The evaluations differ in {say(name)} too, not in the model alone{how}."


def list_differences(taken: BuildRecord, other: BuildRecord) -> list[str]:
    """Return in what another evaluation differs from the one that was taken, beside the model."""
    ours, theirs = _list_inputs(taken), _list_inputs(other)
    return [
        f"other {name}" if name in ("prompts", "code") else f"{say(name)}: {theirs.get(name, '–')}"
        for name in ours | theirs
        if name != "source_digest" and ours.get(name) != theirs.get(name)
    ]


def _list_inputs(record: BuildRecord) -> dict[str, str]:
    """Return what an evaluation was made with beside the model, as words."""
    lock = record.lock
    params = dict(lock["params"])
    told = {"judge": record.report["facts"]["judge"], "code": lock["code"], **params.pop("params"), **params}
    return {
        name: tell(value)
        for name, value in {**told, "prompts": lock["prompts"]}.items()
        if name not in ("model", "setting")
    }


def _set_beside(
    paper: Sequence[PaperFigure], metrics: Sequence[EvaluationMetric], labels: Sequence[str]
) -> Iterator[PaperRow]:
    """Yield a row of the paper's figures for each metric, setting and group of which we have one too."""
    ours = {(each.metric, each.setting, each.group_by, each.group, each.model): each.value for each in metrics}
    places = dict.fromkeys((each.metric, each.setting, each.group_by, each.group) for each in paper)
    for place in places:
        mine = {label: ours[*place, label] for label in labels if (*place, label) in ours}
        if mine:
            theirs = {
                each.model: each.value
                for each in paper
                if (each.metric, each.setting, each.group_by, each.group) == place
            }
            yield PaperRow(*place, ours=mine, paper=theirs)


def _count_unscored(tables: Mapping[str, pa.Table]) -> Iterator[Unscored]:
    for label, table in tables.items():
        missing: list[dict[str, Any]] = (
            table.filter(pc.is_null(table["value"]))
            .group_by(["setting", "metric", "unscored"])
            .aggregate([([], "count_all")])
            .to_pylist()
        )
        for row in sorted(missing, key=lambda each: (each["setting"], each["metric"], each["unscored"])):
            yield Unscored(label, row["setting"], row["metric"], row["unscored"] or "no reason given", row["count_all"])
