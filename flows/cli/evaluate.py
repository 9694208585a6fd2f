"""`factmill evaluate BENCHMARK`: a command for each benchmark that models can be measured on, and `evaluate all`."""

from collections.abc import Sequence
from dataclasses import make_dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.options import AsJson, list_options, print_json, read_options
from flows.evaluate.evaluations import EVALUATIONS
from tasks import progress
from tasks.evaluation.record import BUILT_IN, Evaluation, EvaluationParams, JudgedParams, settle_batches
from tasks.options import RunOptions, warehouse_of
from tasks.settings import home

Force = Annotated[bool, typer.Option("--force", help="Evaluate even when one with the same inputs is there.")]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="NAME",
        show_default=False,
        help=f"{EvaluationParams.model_fields['model'].description} Repeatable.",
    ),
]
Reports = Annotated[
    Path | None,
    typer.Option(
        "--reports", metavar="DIR", help="Where the reports are written. Default: reports in factmill's home."
    ),
]
Questions = Annotated[
    Path | None,
    typer.Option(
        "--questions",
        metavar="FILE",
        help="Write what would be asked, one JSON object a line, for another program to answer, and stop.",
    ),
]


def evaluate(given: Any) -> None:
    """Evaluate models by the options of a command, print the figures, and write a report of each evaluation.

    NothingPublished, after what was printed, when a model could not be asked at all.
    """
    from flows.commands.evaluate import describe_evaluation, format_evaluation, write_questions
    from flows.commands.reports import report_evaluations
    from flows.prefect_server import shared_server
    from flows.running import make_build

    progress.show()
    run = read_options(RunOptions, given)
    with shared_server():
        for evaluation in given.evaluations:
            params = read_options(evaluation.params, given)
            if given.questions:
                typer.echo(write_questions(evaluation, params, run, given.questions))
                continue
            for model in given.models or [params.model]:
                asked = params.model_copy(update={"model": model})
                made = make_build(evaluation, asked, settle_batches(asked, run), given.force)
                written = report_evaluations(warehouse_of(run), [made.build_id], given.reports or home() / "reports")
                if given.as_json:
                    print_json(describe_evaluation(evaluation, made, written))
                else:
                    typer.echo("\n".join(format_evaluation(evaluation, made, written)))


evaluate_app = typer.Typer(
    help="Measure a model on a benchmark. Try: factmill evaluate granola --model oracle",
    no_args_is_help=True,
    result_callback=evaluate,
)


def _add_command(name: str, title: str, examples: Sequence[str], evaluations: Sequence[Evaluation], own: Any) -> None:
    """Add a command whose callback is the record of its options, which `evaluate` then gets."""
    shared = [*list_options(RunOptions, ["pinned_build"]), ("force", Force, False), ("as_json", AsJson, False)]
    shared += [("models", Models, None), ("reports", Reports, None), ("questions", Questions, None)]
    options = make_dataclass(name, [*own, *shared], namespace={"evaluations": evaluations}, kw_only=True)
    settings = {setting: line for each in evaluations for setting, line in each.settings.items()}
    built_in = ["Built-in models:", *(f"  {model:20} {line}" for model, line in BUILT_IN.items())]
    asked = ["Settings:", *(f"  {setting:20} {line}" for setting, line in settings.items())]
    shown = ["Examples:", *(f"  {example}" for example in examples)]
    told = "\n".join([f"{title}.", *(line for each in (built_in, asked, shown) for line in ("", "\b", *each))])
    evaluate_app.command(name, help=told)(options)


for _each in EVALUATIONS.values():
    _add_command(_each.of.name, _each.title, _each.examples, [_each], list_options(_each.params, ["model"]))
_add_command(
    "all",
    "Measure models on every benchmark, with its defaults",
    ["factmill evaluate all --model oracle --model guesser --model silent"],
    list(EVALUATIONS.values()),
    list_options(JudgedParams, ["model", "build", "answers"]),
)
