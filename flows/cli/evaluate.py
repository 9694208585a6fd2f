"""`factmill evaluate BENCHMARK`: a command for each benchmark that models can be measured on, and `evaluate all`."""

from collections.abc import Sequence
from dataclasses import make_dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.options import CONTEXT, AsJson, check_warehouse, list_options, read_options
from flows.evaluate.evaluations import EVALUATIONS
from tasks import progress
from tasks.errors import UsageError
from tasks.evaluation.record import BUILT_IN, Evaluation, EvaluationParams, JudgedParams
from tasks.options import BY_FILES, HIDDEN, RunOptions, warehouse_of
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

    What cannot be asked of any benchmark is raised before anything is asked. Of several evaluations one that fails leaves
    the others be and is told at the end, with exit code 1; one alone raises its error.
    """
    from flows.commands.card import write_card
    from flows.commands.evaluate import Sweep, write_questions
    from flows.prefect_server import shared_server

    progress.show()
    run = read_options(RunOptions, given)
    plain = [(each, read_options(each.params, given)) for each in given.evaluations]
    if not all(params.release for _, params in plain):
        check_warehouse(run.warehouse)
    if given.questions:
        if len(plain) > 1:
            raise UsageError(
                "--questions FILE is of one benchmark; name it: factmill evaluate granola --questions FILE"
            )
        typer.echo(write_questions(*plain[0], run, given.questions))
        return
    models = list(dict.fromkeys(given.models or [EvaluationParams().model]))
    plans = [(each, params.model_copy(update={"model": model})) for each, params in plain for model in models]
    folder = given.reports or home() / "reports"
    sweep = Sweep(run, folder, given.force, given.as_json, _repeat(given))
    sweep.check(plans)
    with shared_server():
        for evaluation, params in plans:
            sweep.evaluate(evaluation, params)
    if len(plain) > 1 or sweep.failures:
        whole = sweep.made and len(plain) > 1
        sweep.sum_up(write_card(warehouse_of(run), sweep.models, folder, sweep.made) if whole else [])
    if sweep.failures:
        raise typer.Exit(1)


def _repeat(given: Any) -> list[str]:
    """Return the options that hold for every model and benchmark of a command, as they are written."""
    names = [*RunOptions.model_fields, *JudgedParams.model_fields]
    told = [(name, getattr(given, name, None)) for name in names if name != "model"]
    return [word for name, value in told if value for word in (f"--{name.replace('_', '-')}", str(value))]


evaluate_app = typer.Typer(
    help="Measure a model on a benchmark. Try: factmill evaluate granola --model oracle",
    no_args_is_help=True,
    result_callback=evaluate,
)


def _add_command(name: str, title: str, examples: Sequence[str], evaluations: Sequence[Evaluation], own: Any) -> None:
    """Add a command whose callback is the record of its options, which `evaluate` then gets."""
    shared = [
        *list_options(RunOptions, [*HIDDEN, *BY_FILES, "since"]),
        ("force", Force, False),
        ("as_json", AsJson, False),
    ]
    shared += [("models", Models, None), ("reports", Reports, None), ("questions", Questions, None)]
    options = make_dataclass(name, [CONTEXT, *own, *shared], namespace={"evaluations": evaluations}, kw_only=True)
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
    "Measure models on every benchmark, with its defaults, and write their card; goes on when one fails, and says so at the end",
    [
        "factmill evaluate all --model oracle --model guesser --model silent",
        "factmill evaluate all --world my-world.toml --model mine --limit 100",
    ],
    list(EVALUATIONS.values()),
    list_options(JudgedParams, ["model", "build", "release", "answers"]),
)
