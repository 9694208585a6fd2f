"""What `factmill evaluate` writes and prints of an evaluation."""

import json
import shlex
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import BaseModel

from flows.cli.options import print_json, print_lines
from flows.running import make_build
from tasks.core.evaluation.judge_cards import JudgeCard, JudgeIdentity, choose_card, describe_card
from tasks.core.evaluation.rows import EvaluationMetric, Score
from tasks.core.rows import arrow_schema, rows_from_arrow
from tasks.engine.naming.locks import make_lock
from tasks.engine.spending.bounds import Purse
from tasks.errors import BudgetReached, FactmillError, OldBuild, OutputError
from tasks.evaluation.corrected import CorrectedRate, correct_rates
from tasks.evaluation.measured import find_measured
from tasks.evaluation.offline import describe_question
from tasks.evaluation.record import METRICS, Evaluation, EvaluationParams, identify_judge, list_asked, settle_batches
from tasks.options import BuildReport, RunOptions, warehouse_of
from tasks.progress import say
from tasks.reports.texts import shorten_line
from tasks.storage.builds import BuildRecord, find_build, published_table
from tasks.storage.labels import find_cards
from tasks.storage.warehouse import Connection, open_warehouse

_LOW_COVERAGE = 0.95
"""Share of scored items under which the first line says so."""


Plan = tuple[Evaluation, EvaluationParams]
"""One model on one benchmark."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An evaluation that was not made."""

    benchmark: str
    model: str
    """As the command names it."""
    error: str
    """Name of the error's class."""
    why: str
    next: str
    """Command that makes this evaluation alone."""


@dataclass
class Sweep:
    """Evaluations that a command makes one after another; where there are several, one that fails is kept for the end."""

    run: RunOptions
    folder: Path
    """Where reports are written."""
    force: bool
    as_json: bool
    repeat: Sequence[str]
    """Options of the command that hold for all."""
    is_alone: bool = False
    made: list[str] = field(default_factory=list)
    """Ids of the evaluations."""
    models: list[str] = field(default_factory=list)
    """What their models are called in tables and reports."""
    failures: list[Failure] = field(default_factory=list)
    _cannot: set[tuple[str, str]] = field(default_factory=set)
    _purse: Purse = field(init=False)

    def __post_init__(self) -> None:
        """Have all evaluations spend from one purse."""
        self._purse = Purse(self.run)

    def check(self, plans: Sequence[Plan]) -> None:
        """Find out what cannot be asked; the error is raised here where a model can be asked of no benchmark."""
        self.is_alone = len(plans) == 1
        found: dict[str, list[tuple[Plan, FactmillError | None]]] = {}
        for plan in plans if not self.is_alone else ():
            found.setdefault(plan[1].model, []).append((plan, _find_fault(*plan, self.run)))
        for tried in found.values():
            errors = [error for _, error in tried if error is not None]
            if len(errors) == len(tried):
                raise type(errors[0])("\n".join(dict.fromkeys(map(str, errors))))
        for tried in found.values():
            for plan, error in tried:
                if error is not None:
                    self._fail(*plan, error)

    def evaluate(self, evaluation: Evaluation, params: EvaluationParams) -> None:
        """Make an evaluation with its reports, and print its figures."""
        from flows.commands.reports import report_evaluations

        if (evaluation.of.name, params.model) in self._cannot:
            return
        try:
            made = make_build(evaluation, params, settle_batches(params, self._purse.left), self.force)
            written = report_evaluations(warehouse_of(self.run), [made.build_id], self.folder)
            told = describe_evaluation(evaluation, made, written)
            lines = format_evaluation(evaluation, made, written)
        except BudgetReached as reached:  # the others may spend no more either
            raise reached if self.is_alone else self._purse.tell(reached, self.made) from None
        except Exception as error:
            if self.is_alone:
                raise
            if not isinstance(error, FactmillError):  # a fault of ours in one benchmark: told whole
                traceback.print_exc()
            self._fail(evaluation, params, error)
            return
        self.made.append(made.build_id)
        self.models += [made.facts["model"]] if made.facts["model"] not in self.models else []
        print_json(told) if self.as_json else print_lines(lines)

    def sum_up(self, card: Sequence[Path]) -> None:
        """Print what was made, what failed, why, and what to do next."""
        if self.as_json:
            failed = [asdict(each) for each in self.failures]
            print_json({"evaluated": self.made, "failed": failed, "card": [str(path) for path in card]})
            return
        lines = [f"evaluated: {len(self.made)} of {len(self.made) + len(self.failures)}"]
        for why in dict.fromkeys(each.why for each in self.failures):
            alike = [each for each in self.failures if each.why == why]
            lines.append(
                f"  FAILED {', '.join(f'{each.benchmark} ({shorten_line(each.model)})' for each in alike)}: {why}"
            )
            lines += [f"    again: {each.next}" for each in alike]
        print_lines([*lines, *(f"card: {path}" for path in card if path.suffix == ".html")])

    def _fail(self, evaluation: Evaluation, params: EvaluationParams, error: Exception) -> None:
        name, model = evaluation.of.name, params.model
        command = shlex.join(["factmill", "evaluate", name, "--model", model, *self.repeat])
        why = str(error) or "no reason is given"
        why = why if isinstance(error, FactmillError) else f"{type(error).__name__}: {why}"
        failure = Failure(name, model, type(error).__name__, why, command)
        self.failures.append(failure)
        self._cannot.add((name, model))
        if self.as_json:
            print_json({**asdict(failure), "failed": True})
        say(f"{name}, {model}: failed, the others go on: {why}")


def _find_fault(evaluation: Evaluation, params: EvaluationParams, run: RunOptions) -> FactmillError | None:
    """Return why an evaluation cannot be begun; None where it can."""
    try:
        make_lock(evaluation, evaluation.lock_inputs(params, run), run)
    except FactmillError as error:
        return error
    return None


def read_table(db: Connection, evaluation_id: str, name: str, model: type[BaseModel]) -> pa.Table:
    """Return a table of an evaluation; OldBuild where it lacks what an earlier factmill did not write."""
    table = published_table(db, evaluation_id, name)
    lacking = [
        each.name
        for each in arrow_schema(model)
        if each.name not in table.column_names or (not each.nullable and table[each.name].null_count)
    ]
    if lacking:
        raise OldBuild(
            f"{evaluation_id} was made by an earlier factmill, which wrote no {', '.join(lacking)} into {name}; evaluate "
            "again: what the model has answered is not asked again"
        )
    return table


def read_metrics(warehouse: Path, evaluation_id: str) -> list[EvaluationMetric]:
    """Return the metrics of an evaluation, by id."""
    with open_warehouse(warehouse) as db:
        return rows_from_arrow(EvaluationMetric, read_table(db, evaluation_id, METRICS, EvaluationMetric))


def read_card(
    warehouse: Path, evaluation: Evaluation, record: BuildRecord
) -> tuple[JudgeIdentity | None, JudgeCard | None]:
    """Return the judge of an evaluation and its card, where there is one."""
    judge = identify_judge(evaluation, record.lock)
    if judge is None:
        return None, None
    with open_warehouse(warehouse) as db:
        return judge, choose_card(find_cards(db, judge.benchmark, judge.judge), judge)


def describe_evaluation(evaluation: Evaluation, report: BuildReport, written: Sequence[Path]) -> dict[str, Any]:
    """Return an evaluation as the one object that --json ends with."""
    facts, warehouse = report.facts, Path(report.warehouse)
    record = find_build(warehouse, report.build_id)
    judge, card = read_card(warehouse, evaluation, record)
    corrected = [] if card is None else _correct(warehouse, evaluation, record, judge, card)
    return {
        "evaluation_id": report.build_id,
        "benchmark": evaluation.of.name,
        "model": facts["model"],
        "judge": facts["judge"],
        "judge_card": describe_card(card, judge) if judge else "",
        "build_id": facts["measured"],
        "items": facts["items"],
        "unscored": facts["unscored"],
        "unsettled": report.unsettled,
        "calls_sent": report.calls_sent,
        "calls_replayed": report.calls_replayed,
        "cost_usd": report.cost_usd,
        "unknown_cost_calls": report.unknown_cost_calls,
        "unpriced_models": report.unpriced_models,
        "seconds": report.seconds,
        "up_to_date": report.up_to_date,
        "answers": {name.removeprefix("answers "): told for name, told in facts.items() if name.startswith("answers ")},
        "notes": list(dict.fromkeys([*facts.get("notes", ()), *report.notes])),
        "reports": [str(path) for path in written],
        "metrics": [metric.model_dump() for metric in read_metrics(warehouse, report.build_id)],
        "corrected": [asdict(rate) for rate in corrected],
    }


def _correct(
    warehouse: Path, evaluation: Evaluation, record: BuildRecord, judge: JudgeIdentity | None, card: JudgeCard
) -> list[CorrectedRate]:
    """Return the rates of an evaluation without its judge's errors."""
    with open_warehouse(warehouse) as db:
        answers, scores = (
            read_table(db, record.build_id, name, model)
            for name, model in ((evaluation.main_table, evaluation.row), (f"{evaluation.of.name}_scores", Score))
        )
    params, model = record.lock["params"]["params"], record.report["facts"]["model"]
    return list(correct_rates(evaluation, model, record.build_id, answers, scores, card, judge, params["seed"]))


def format_evaluation(evaluation: Evaluation, report: BuildReport, written: Sequence[Path]) -> list[str]:
    """Return an evaluation as lines to read: what was measured, the headline metrics, what is to be known of them."""
    told = describe_evaluation(evaluation, report, written)
    metrics = [EvaluationMetric.model_validate(each) for each in told["metrics"]]
    overall = [metric for metric in metrics if not metric.group_by]
    low = min((metric.coverage for metric in overall if metric.coverage is not None), default=1.0)
    judged = f", judged by {shorten_line(told['judge'])}" if told["judge"] else ""
    lines = [f"{told['evaluation_id']}: {shorten_line(told['model'])} on {told['build_id']}{judged}"]
    lines += [f"  {told['judge_card']}"] if told["judge_card"] else []
    if low < _LOW_COVERAGE:
        lines.append(f"  NOTE: only {low:.1%} of what was asked has a score; mind the bounds")
    order = {name: at for at, name in enumerate(evaluation.headline)}
    shown = sorted(
        (each for each in overall if each.metric in order), key=lambda each: (each.setting, order[each.metric])
    )
    corrected = {
        (each["setting"], each["metric"]): describe_corrected(CorrectedRate(**each)) for each in told["corrected"]
    }
    lines += [
        f"  {metric.setting:22} {metric.metric:26} {describe_value(metric)}{corrected.get((metric.setting, metric.metric), '')}"
        for metric in shown
    ]
    lines += [f"  {kind} in the file of answers: {what}" for kind, what in told["answers"].items()]
    lines.append(
        f"  calls: {report.calls_sent} sent, {report.calls_replayed} replayed; "
        f"{report.format_cost()}; {report.seconds:.1f} s"
        + ("; evaluated before from the same inputs" if report.up_to_date else "")
    )
    lines += [f"  note: {note}" for note in told["notes"]]
    if report.unsettled:
        lines.append(
            f"  note: {report.unsettled} answers were lost to passing failures; the same command tries them again"
        )
    lines += [f"  report: {path}" for path in written if path.suffix == ".html"]
    return lines


def describe_value(metric: EvaluationMetric) -> str:
    """Return a metric with its interval, its n and what lacks a score, as one piece of a line."""
    if metric.value is None:
        return f"no value: {metric.note}"
    interval = f" [{metric.ci_low:.3f}, {metric.ci_high:.3f}]" if metric.ci_low is not None else ""
    bounds = f", {metric.n_unscored} unscored" if metric.n_unscored else ""
    if bounds and metric.bound_low is not None:
        bounds += f": {metric.bound_low:.3f} to {metric.bound_high:.3f}"
    note = f"; {metric.note}" if metric.note else ""
    return f"{metric.value:.3f}{interval} (n = {metric.n}{bounds}{note})"


def describe_corrected(rate: CorrectedRate) -> str:
    """Return a rate without its judge's errors as the end of a line."""
    note = f" ({rate.note})" if rate.note else ""
    if rate.value is None:
        return f"; not corrected{note}"
    return f"; without the judge's errors {rate.value:.3f} [{rate.ci_low:.3f}, {rate.ci_high:.3f}]{note}"


def write_questions(evaluation: Evaluation, params: EvaluationParams, run: RunOptions, to: Path) -> str:
    """Write every question with its messages as JSON Lines, and return what was written as a line to read."""
    inputs: Any = evaluation.lock_inputs(params.model_copy(update={"model": "silent"}), run).inputs
    measured = find_measured(evaluation.of, params, run)
    build = measured.record.build_id
    for note in measured.notes:
        say(f"note: {note}")
    settings = getattr(params, "setting", ()) or evaluation.usual
    asked = list_asked(evaluation, measured.store, inputs.model_copy(update={"settings": tuple(settings)}))
    lines = [
        describe_question(row, evaluation.fill(row, inputs.params).messages(), build)
        for row in rows_from_arrow(evaluation.asked, asked)
    ]
    try:
        to.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines), "utf-8", newline="")
    except OSError as error:
        raise OutputError(f"{to}: cannot be written: {error.strerror}") from error
    name = evaluation.of.name
    return (
        f"{to}: {len(lines)} questions of {build}; answer them as "
        f'{{"id": …, "setting": …, "build": …, "answer": …}} a line, then factmill evaluate {name} --answers FILE'
    )
