"""`factmill evaluate`: one subcommand for each benchmark that has an evaluation, and `evaluate all`."""

import json
import shlex
import traceback
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, get_args

import pyarrow as pa
import typer
from pydantic import BaseModel

from factmill.flows.build_runner import make_or_reuse_build
from factmill.flows.cli.options import (
    add_dataclass_command,
    check_warehouse_exists,
    make_model_from_options,
    make_option_dataclass_fields,
    print_json,
    print_lines_escaping_control_characters,
    print_result,
    write_text_file,
)
from factmill.flows.commands.build import check_forecast_options, make_and_print_forecast, make_forecast_options
from factmill.flows.evaluate.evaluations import EVALUATIONS
from factmill.flows.prefect_server import sharing_one_prefect_server
from factmill.tasks import progress
from factmill.tasks.assets import using_own_prompts
from factmill.tasks.core.evaluation.judge_cards import (
    JudgeCard,
    JudgeIdentity,
    find_judge_card_preferring_same_prompts,
    format_card_summary,
)
from factmill.tasks.core.evaluation.rows import AnswerScore, EvaluationMetric
from factmill.tasks.core.measures.metrics import format_metric_with_interval
from factmill.tasks.core.measures.model_comparison import ModelComparison
from factmill.tasks.core.prompts import format_prompt_digests
from factmill.tasks.core.rows import arrow_schema, rows_from_arrow
from factmill.tasks.engine.naming.manifests import make_build_manifest, resolve_own_prompt_texts
from factmill.tasks.engine.spending.budgets import MultiBuildBudget
from factmill.tasks.errors import BudgetExhausted, BuildFormatTooOld, FactmillError, UsageError
from factmill.tasks.evaluation.corrected_rates import JudgeCorrectedRate, compute_judge_corrected_rate_by_setting
from factmill.tasks.evaluation.definition import (
    BUILT_IN_MODELS,
    EVALUATION_METRICS_TABLE,
    Evaluation,
    EvaluationInputs,
    EvaluationParams,
    JudgedEvaluationParams,
    check_tested_model,
    enlarge_batches_if_no_model_calls,
    find_judge_identity,
    load_evaluation_questions,
)
from factmill.tasks.evaluation.measured_build import resolve_measured_build
from factmill.tasks.evaluation.scoring_session import make_question_json
from factmill.tasks.options import INTERNAL_OPTIONS, REPLY_FILE_OPTIONS, BuildReport, RunOptions, resolve_warehouse_path
from factmill.tasks.own_prompts import parse_own_prompts
from factmill.tasks.progress import print_and_log
from factmill.tasks.reports.formatting import format_number, replace_cluster_term_in_note, shorten_line
from factmill.tasks.reports.model_ranking import format_comparison_verdict, put_better_value_first
from factmill.tasks.settings import factmill_home, load_world
from factmill.tasks.storage.builds import BuildRecord, load_published_table, resolve_build
from factmill.tasks.storage.human_judgments import load_judge_cards
from factmill.tasks.storage.warehouse import Connection, open_warehouse

EvaluateForceOption = Annotated[
    bool, typer.Option("--force", help="Evaluate again even if an evaluation with the same inputs exists.")
]
EvaluationReportsOption = Annotated[
    Path | None,
    typer.Option(
        "--reports",
        metavar="DIR",
        help="Folder for the reports. Default: the folder `reports` in factmill's home folder (FACTMILL_HOME).",
    ),
]
QuestionsFileOption = Annotated[
    Path | None,
    typer.Option(
        "--questions",
        metavar="FILE",
        help="Write the questions to this file, one JSON object per line, and stop. Another program can answer them; then score its answers with --answers.",
    ),
]


def evaluate(given: Any) -> None:
    """Evaluate models by the options of a command, print the metrics, and write a report of each evaluation.

    Raises before any call if a model can be evaluated on no benchmark. Of several evaluations, one that fails does not
    stop the others; the summary lists it and the exit code is 1. A single evaluation raises its error.
    """
    from factmill.flows.commands.report import write_model_card

    progress.set_progress_style()
    run = make_model_from_options(RunOptions, given)
    plain = [(each, make_model_from_options(each.params, given)) for each in given.evaluations]
    count = len(given.evaluations) * len(given.models or [""])
    check_forecast_options(given, f"evaluate {given.evaluations[0].benchmark.name} --model NAME", count)
    if given.forecast:
        ((evaluation, params),) = plain
        model = (given.models or [EvaluationParams().model])[0]
        make_and_print_forecast(given, evaluation, params.model_copy(update={"model": model}), run)
        return
    if not all(params.release for _, params in plain):
        check_warehouse_exists(run.warehouse)
    if given.questions:
        if len(plain) > 1:
            raise UsageError(
                "--questions works with one benchmark at a time; for example: `factmill evaluate granola --questions FILE`"
            )
        typer.echo(write_questions_jsonl_and_format_note(*plain[0], run, given.questions))
        return
    models = list(dict.fromkeys(given.models or [EvaluationParams().model]))
    plans = [(each, params.model_copy(update={"model": model})) for each, params in plain for model in models]
    folder = given.reports or factmill_home() / "reports"
    # the options that apply to every model and benchmark, as words of the command line
    names = [
        each
        for each in (*RunOptions.model_fields, *JudgedEvaluationParams.model_fields)
        if each not in ("model", "setting")
    ]
    shared = [
        (f"--{name.replace('_', '-')}", str(getattr(given, name))) for name in names if getattr(given, name, None)
    ]
    sweep = MultiEvaluationRunner(run, folder, given.force, given.as_json, [word for pair in shared for word in pair])
    sweep.check_plans(plans)
    with sharing_one_prefect_server():
        for evaluation, params in plans:
            sweep.evaluate(evaluation, params)
    if len(plain) == 1:
        sweep.print_comparison(plain[0][0])
    if len(plain) > 1 or sweep.failures:
        whole = sweep.evaluation_ids and len(plain) > 1
        sweep.print_summary(
            write_model_card(resolve_warehouse_path(run), sweep.models, folder, sweep.evaluation_ids) if whole else []
        )
    if sweep.failures:
        raise typer.Exit(1)


evaluate_app = typer.Typer(
    help="Measure a model on a benchmark. Try: factmill evaluate granola --model oracle",
    no_args_is_help=True,
    result_callback=evaluate,
)


def _make_models_option(*, takes_answers: bool) -> Any:
    """Return the option --model; `takes_answers`: the command also has --answers, which the help then mentions."""
    described = EvaluationParams.model_fields["model"].description or ""
    shown = described if takes_answers else described.partition(" With --answers")[0]
    return Annotated[list[str] | None, typer.Option("--model", metavar="NAME", help=f"{shown} Repeatable.")]


def _hide_options_from_help(fields: Iterable[tuple[str, Any, Any]]) -> Iterator[tuple[str, Any, Any]]:
    """Yield options of a command that its help does not list; giving one still raises the error that says why."""
    for name, kind, default in fields:
        value_type, option = get_args(kind)
        hidden = copy(option)
        hidden.hidden = True
        yield name, Annotated[value_type, hidden], default


def _add_evaluate_command(
    name: str, title: str, examples: Sequence[str], evaluations: Sequence[Evaluation], own: Any
) -> None:
    fields = [
        *own,
        *make_option_dataclass_fields(RunOptions, [*INTERNAL_OPTIONS, *REPLY_FILE_OPTIONS, "since"]),
        ("force", EvaluateForceOption, False),
    ]
    with_one_benchmark = [
        ("questions", QuestionsFileOption, None),
        *make_forecast_options(
            "evaluation",
            "number of questions that the evaluation will ask",
            "the newest evaluation of the benchmark",
            "as many as the earlier evaluation asked",
        ),
    ]
    is_single = len(evaluations) == 1
    fields += [
        ("models", _make_models_option(takes_answers=is_single), None),
        ("reports", EvaluationReportsOption, None),
        *(with_one_benchmark if is_single else _hide_options_from_help(with_one_benchmark)),
    ]
    blocks = {"Built-in models": [f"{model:20} {line}" for model, line in BUILT_IN_MODELS.items()]}
    for each in evaluations:
        heading = "Settings" if is_single else f"Settings of {each.benchmark.name}"
        blocks[heading] = [f"{setting:20} {line}" for setting, line in each.settings.items()]
    blocks["Examples"] = list(examples)
    add_dataclass_command(evaluate_app, name, title, blocks, fields, evaluations=evaluations)


for _each in EVALUATIONS.values():
    _add_evaluate_command(
        _each.benchmark.name,
        _each.title,
        _each.examples,
        [_each],
        make_option_dataclass_fields(_each.params, ["model"]),
    )

_add_evaluate_command(
    "all",
    "Measure models on every benchmark with its defaults, and write a model card. If an evaluation fails, the others continue and the exit code is 1",
    [
        "factmill evaluate all --model oracle --model guesser --model silent",
        "factmill evaluate all --world my-world.toml --model mine --limit 100",
    ],
    list(EVALUATIONS.values()),
    make_option_dataclass_fields(JudgedEvaluationParams, ["model", "setting", *EvaluationInputs.resolved]),
)
_LOW_COVERAGE = 0.95
"""Share of scored items below which a note follows the first line."""
PlannedEvaluation = tuple[Evaluation, EvaluationParams]
"""The evaluation of one model on one benchmark, with its parameters."""


@dataclass
class MultiEvaluationRunner:
    """Runs a command's evaluations one after another; of several, one that fails is reported at the end."""

    run: RunOptions
    folder: Path
    """Folder of the reports."""
    force: bool
    as_json: bool
    shared_options: Sequence[str]
    """Command-line words of the options that apply to all evaluations."""
    is_alone: bool = False
    evaluation_ids: list[str] = field(default_factory=list)
    """Ids of the evaluations made so far."""
    models: list[str] = field(default_factory=list)
    """Names of their models in tables and reports."""
    failures: list[dict[str, str]] = field(default_factory=list)
    """Evaluations that failed: benchmark, model as on the command line, class of the error, why, and the command that runs
    this one alone (next)."""
    _failed_pairs: set[tuple[str, str]] = field(default_factory=set)
    _shared_budget: MultiBuildBudget = field(init=False)

    def __post_init__(self) -> None:
        """Create the budget that all evaluations share."""
        self._shared_budget = MultiBuildBudget(self.run)

    def check_plans(self, plans: Sequence[PlannedEvaluation]) -> None:
        """Resolve every evaluation's inputs and record failures; raise if a model can be evaluated on no benchmark."""
        self.is_alone = len(plans) == 1
        if (
            len({evaluation.name for evaluation, _ in plans}) > 1
        ):  # an unknown model is one error, not one per benchmark
            world = load_world(self.run.world, self.run.graph)
            for model in dict.fromkeys(params.model for _, params in plans):
                check_tested_model(world, model, "--model")
        failed: dict[str, list[tuple[PlannedEvaluation, FactmillError]]] = defaultdict(list)
        for evaluation, params in plans if not self.is_alone else ():
            try:
                make_build_manifest(evaluation, evaluation.resolve_inputs(params, self.run), self.run)
            except FactmillError as error:
                failed[params.model].append(((evaluation, params), error))
        for model, faults in failed.items():
            if len(faults) == sum(params.model == model for _, params in plans):
                raise type(faults[0][1])("\n".join(dict.fromkeys(str(error) for _, error in faults)))
        for faults in failed.values():
            for plan, fault in faults:
                self._record_failure(*plan, fault)

    def evaluate(self, evaluation: Evaluation, params: EvaluationParams) -> None:
        """Run one evaluation, write its reports, and print its metrics."""
        from factmill.flows.commands.report import write_evaluation_report

        if (evaluation.benchmark.name, params.model) in self._failed_pairs:
            return
        try:
            made = make_or_reuse_build(
                evaluation,
                params,
                enlarge_batches_if_no_model_calls(params, self._shared_budget.remaining_options),
                self.force,
            )
            written = write_evaluation_report(resolve_warehouse_path(self.run), made.build_id, self.folder)
            result = make_evaluation_json(evaluation, made, written)
            lines = format_evaluation(evaluation, made, result)
        except BudgetExhausted as reached:  # the budget is shared: the others may not spend either
            raise (
                reached if self.is_alone else self._shared_budget.make_exceeded_error(reached, self.evaluation_ids)
            ) from None
        except Exception as error:
            if self.is_alone:
                raise
            if not isinstance(error, FactmillError):  # an internal error: print its traceback
                traceback.print_exc()
            self._record_failure(evaluation, params, error)
            return
        self.evaluation_ids.append(made.build_id)
        self.models += [made.facts["model"]] if made.facts["model"] not in self.models else []
        print_result(self.as_json, result, lines)

    def print_summary(self, card: Sequence[Path]) -> None:
        """Print what was made, what failed and why, and the commands to repeat."""
        if self.as_json:
            files = [str(path) for path in card]
            print_json({"evaluated": self.evaluation_ids, "failed": self.failures, "card": files})
            return
        lines = [f"evaluated: {len(self.evaluation_ids)} of {len(self.evaluation_ids) + len(self.failures)}"]
        for why in dict.fromkeys(each["why"] for each in self.failures):
            alike = [each for each in self.failures if each["why"] == why]
            names = ", ".join(f"{each['benchmark']} ({shorten_line(each['model'])})" for each in alike)
            lines += [f"  FAILED {names}: {why}", *(f"    to repeat it: {each['next']}" for each in alike)]
        print_lines_escaping_control_characters([*lines, *(f"card: {path}" for path in card if path.suffix == ".html")])

    def print_comparison(self, evaluation: Evaluation) -> None:
        """Print the paired differences of the models, if several were measured on one benchmark."""
        from factmill.flows.api.reading import compare_published_evaluations

        ids = list(dict.fromkeys(self.evaluation_ids))
        if len(ids) < 2:
            return
        comparisons = compare_published_evaluations(resolve_warehouse_path(self.run), ids)
        result = {"compared": ids, "comparisons": [each.model_dump() for each in comparisons]}
        print_result(self.as_json, result, format_comparisons(comparisons, evaluation.lower_is_better))

    def _record_failure(self, evaluation: Evaluation, params: EvaluationParams, error: Exception) -> None:
        name, model = evaluation.benchmark.name, params.model
        command = shlex.join(["factmill", "evaluate", name, "--model", model, *self.shared_options])
        why = str(error) or "the error has no message"
        why = why if isinstance(error, FactmillError) else f"{type(error).__name__}: {why}"
        failure = {"benchmark": name, "model": model, "error": type(error).__name__, "why": why, "next": command}
        self.failures.append(failure)
        self._failed_pairs.add((name, model))
        if self.as_json:
            print_json({**failure, "failed": True})
        print_and_log(f"{name}, {model}: failed: {why}; the other evaluations continue")


def load_evaluation_table(db: Connection, evaluation_id: str, name: str, row_model: type[BaseModel]) -> pa.Table:
    """Return a table of an evaluation; BuildFormatTooOld if an earlier factmill wrote it without a required column or value."""
    table = load_published_table(db, evaluation_id, name)
    lacking = [
        each.name
        for each in arrow_schema(row_model)
        if each.name not in table.column_names or (not each.nullable and table[each.name].null_count)
    ]
    if lacking:
        raise BuildFormatTooOld(
            f"{evaluation_id} is from an earlier factmill version: {name} lacks {', '.join(lacking)}; run the evaluation "
            "again, which uses the recorded answers"
        )
    return table


def load_evaluation_metrics(db: Connection, evaluation_id: str) -> list[EvaluationMetric]:
    """Return the metrics of an evaluation, by id."""
    return rows_from_arrow(
        EvaluationMetric, load_evaluation_table(db, evaluation_id, EVALUATION_METRICS_TABLE, EvaluationMetric)
    )


def load_judge_with_card(
    warehouse: Path, evaluation: Evaluation, record: BuildRecord
) -> tuple[JudgeIdentity | None, JudgeCard | None]:
    """Return the judge of an evaluation and the judge's card; None for each that does not exist."""
    judge = find_judge_identity(evaluation, record.lock)
    if judge is None:
        return None, None
    with open_warehouse(warehouse) as db:
        return judge, find_judge_card_preferring_same_prompts(load_judge_cards(db, judge.benchmark, judge.judge), judge)


def make_evaluation_json(evaluation: Evaluation, report: BuildReport, written: Sequence[Path]) -> dict[str, Any]:
    """Return an evaluation as the object that --json prints."""
    facts, warehouse = report.facts, Path(report.warehouse)
    record = resolve_build(warehouse, report.build_id)
    judge, card = load_judge_with_card(warehouse, evaluation, record)
    corrected: list[JudgeCorrectedRate] = []
    with open_warehouse(warehouse) as db:
        metrics = load_evaluation_metrics(db, report.build_id)
        if card is not None:  # rates corrected for the judge's errors
            answers = load_evaluation_table(db, record.build_id, evaluation.main_table, evaluation.main_row_model)
            scores = load_evaluation_table(db, record.build_id, f"{evaluation.benchmark.name}_scores", AnswerScore)
            seed = record.lock["params"]["params"]["seed"]
            rates = compute_judge_corrected_rate_by_setting(
                evaluation, facts["model"], record.build_id, answers, scores, card, judge, seed
            )
            corrected = list(rates)
    return {
        "evaluation_id": report.build_id,
        "benchmark": evaluation.benchmark.name,
        "model": facts["model"],
        "judge": facts["judge"],
        "judge_card": format_card_summary(card, judge) if judge else "",
        "own_prompts": report.own_prompts,
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
        "answers": {name.removeprefix("answers "): text for name, text in facts.items() if name.startswith("answers ")},
        "notes": list(dict.fromkeys([*facts.get("notes", ()), *report.notes])),
        "reports": [str(path) for path in written],
        "metrics": [metric.model_dump() for metric in metrics],
        "corrected": [asdict(rate) for rate in corrected],
    }


def format_evaluation(evaluation: Evaluation, report: BuildReport, result: Mapping[str, Any]) -> list[str]:
    """Return an evaluation as lines of text: model and build, headline metrics, notes. `result`: the object of --json."""
    metrics = [EvaluationMetric.model_validate(each) for each in result["metrics"]]
    overall = [metric for metric in metrics if not metric.group_by]
    low = min((metric.coverage for metric in overall if metric.coverage is not None), default=1.0)
    judged = f", judged by {shorten_line(result['judge'])}" if result["judge"] else ""
    lines = [f"{result['evaluation_id']}: {shorten_line(result['model'])} on {result['build_id']}{judged}"]
    lines += [f"  {result['judge_card']}"] if result["judge_card"] else []
    lines += [f"  own prompts: {format_prompt_digests(report.own_prompts)}"] if report.own_prompts else []
    if low < _LOW_COVERAGE:
        lines.append(f"  NOTE: only {low:.1%} of the items have a score; see the bounds")
    order = {name: at for at, name in enumerate(evaluation.headline_metrics)}
    shown = sorted(
        (each for each in overall if each.metric in order), key=lambda each: (each.setting, order[each.metric])
    )
    corrected = {}
    for each in result["corrected"]:
        note = f" ({each['note']})" if each["note"] else ""
        rate = f"; not corrected for the judge's errors{note}"
        if each["value"] is not None:
            interval = f"{each['value']:.3f} [{each['ci_low']:.3f}, {each['ci_high']:.3f}]"
            rate = f"; corrected for the judge's errors {interval}{note}"
        corrected[each["setting"], each["metric"]] = rate
    lines += [
        f"  {metric.setting:22} {metric.metric:26} {format_metric_with_interval(metric)}{corrected.get((metric.setting, metric.metric), '')}"
        for metric in shown
    ]
    lines += [f"  {kind} in the answers file: {what}" for kind, what in result["answers"].items()]
    lines.append(
        f"  calls: {report.calls_sent} sent, {report.calls_replayed} replayed; "
        f"{report.format_cost()}; {report.seconds:.1f} s"
        + ("; already evaluated from the same inputs" if report.up_to_date else "")
    )
    lines += [f"  note: {note}" for note in result["notes"]]
    if report.unsettled:
        lines.append(
            f"  note: {report.unsettled} answers were lost to temporary failures of services; run the same command again to retry them"
        )
    lines += [f"  report: {path}" for path in result["reports"] if path.endswith(".html")]
    return lines


def format_comparisons(comparisons: Sequence[ModelComparison], lower_is_better: Sequence[str]) -> list[str]:
    """Return paired differences of models as lines of text: the difference, its interval, and the better model or a tie.

    As on pages, the model with the better value comes first.
    """
    lines = []
    turned = [put_better_value_first(each, each.metric in lower_is_better) for each in comparisons]
    for pair in dict.fromkeys((each.first, each.second) for each in turned):
        first, second = map(shorten_line, pair)
        lines.append(f"{first} less {second}, on the items that both have a score for:")
        for each in turned:
            if (each.first, each.second) != pair:
                continue
            difference = each.note or "no figure"
            if each.difference is not None:
                difference = format_number(each.difference, signed=True)
            if each.ci_low is not None:
                ends = (format_number(end, signed=True) for end in (each.ci_low, each.ci_high))
                difference += f" [{', '.join(ends)}]"
            verdict = f"{shorten_line(each.better)} is better" if each.better else format_comparison_verdict(each)
            smallest = each.smallest_difference
            power = (
                f"; such a sample shows a difference of {smallest:.3f} or more" if smallest and not each.better else ""
            )
            note = f"; {replace_cluster_term_in_note(each.note)}" if each.note and each.difference is not None else ""
            lines.append(f"  {each.setting:22} {each.metric:26} {difference} (n = {each.n}): {verdict}{power}{note}")
    return lines or ["not compared: no setting in which two of the models have scores"]


def write_questions_jsonl_and_format_note(
    evaluation: Evaluation, params: EvaluationParams, run: RunOptions, to: Path
) -> str:
    """Write every question with its messages as JSON Lines; return a line that describes the file."""
    inputs: Any = evaluation.resolve_inputs(params.model_copy(update={"model": "silent"}), run).inputs
    measured = resolve_measured_build(evaluation.benchmark, params, run)
    build = measured.record.build_id
    for note in measured.notes:
        print_and_log(f"note: {note}")
    settings = params.setting or evaluation.default_settings
    asked = load_evaluation_questions(
        evaluation, measured.store, inputs.model_copy(update={"settings": tuple(settings)})
    )
    with using_own_prompts(parse_own_prompts(resolve_own_prompt_texts(evaluation.assets, run))):
        lines = [
            make_question_json(row, evaluation.make_prompt(row, inputs.params).build_messages(), build)
            for row in rows_from_arrow(evaluation.question_model, asked)
        ]
    write_text_file("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines), to)
    name = evaluation.benchmark.name
    return (
        f"{to}: {len(lines)} questions of {build}; write one answer per line as "
        f'{{"id": …, "setting": …, "build": …, "answer": …}}, then run factmill evaluate {name} --answers FILE'
    )
