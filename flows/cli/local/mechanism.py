"""The command `factmill mechanism`: which components of a local model carry a fact, in its short and in its long answer."""

import inspect
from dataclasses import make_dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.options import AsJson, check_warehouse, list_options, print_json, print_lines, read_options
from tasks import progress
from tasks.options import RunOptions
from tasks.settings import home
from tasks.slaq.mechanism.record import MechanismParams

_PARAMS = MechanismParams.model_fields
MECHANISM_HELP = """Find out which components of a local model carry a fact in its short and in its long answer (SLAQ, paper §5): every
attention head and MLP is ablated for the tokens of both answers, and what is found is compared between facts that are
right in both and facts that are right in one. Answers and verdicts come from evaluations on SLAQ.

Needs torch, transformers, scikit-learn and POT: pip install 'factmill[mechanism]'. A run that is stopped goes on where it
was: the same command.

\b
Examples:
  factmill mechanism latest:slaq_evaluation --model ./Qwen3-1.7B
  factmill mechanism slaq_evaluation-1a2 slaq_evaluation-3b4 --model ./Qwen3-1.7B --model ./Qwen3-4B
  factmill mechanism latest:slaq_evaluation --model ./gpt2 --centre --write-pairs pairs.csv
  factmill mechanism latest:slaq_evaluation --model ./gpt2 --centre --pairs pairs.csv
  factmill mechanism latest:slaq_evaluation --model ./Qwen3-1.7B --world my-world.toml --tokens gold
"""
Evaluations = Annotated[
    list[str] | None, typer.Argument(metavar="EVALUATION…", help=_PARAMS["evaluation"].description, show_default=False)
]
Force = Annotated[bool, typer.Option("--force", help="Compare again even when it is there; nothing is ablated twice.")]
Reports = Annotated[
    Path | None,
    typer.Option("--reports", metavar="DIR", help="Where the report is written. Default: reports in factmill's home."),
]
WritePairs = Annotated[
    Path | None,
    typer.Option(
        "--write-pairs",
        metavar="FILE",
        help="Write the pairs of answers as they are found, for people to mend and to give back with --pairs, and stop.",
    ),
]


def _look_into(given: Any) -> None:
    """Look into models by the options of the command, print what was found, and write a report."""
    from flows.commands.local.mechanism import analyse, find_pairs

    progress.show()
    run, params = read_options(RunOptions, given), read_options(MechanismParams, given)
    check_warehouse(run.warehouse)
    if given.write_pairs:
        pairs, without = find_pairs(params, run, given.write_pairs)
        told = {"pairs": str(given.write_pairs), "facts": pairs, "without_pair": without}
        line = f"{given.write_pairs}: {pairs} facts, {without} of them without a pair; mend short_text and long_text, then --pairs"
        print_json(told) if given.as_json else typer.echo(line)
        return
    told, lines = analyse(params, run, given.force, given.reports or home() / "reports")
    print_json(told) if given.as_json else print_lines(lines)


_own = [each for each in list_options(MechanismParams) if each[0] != "evaluation"]
_run = [each for each in list_options(RunOptions) if each[0] in ("world", "warehouse", "mode", "max_cost")]
_Options = make_dataclass(
    "mechanism",
    [
        ("evaluation", Evaluations, None),
        *_own,
        *_run,
        ("force", Force, False),
        ("reports", Reports, None),
        ("write_pairs", WritePairs, None),
        ("as_json", AsJson, False),
    ],
)


def mechanism(**given: Any) -> None:
    """Look into models; its options are those of the parameters."""
    _look_into(_Options(**given))


mechanism.__signature__ = inspect.signature(_Options)  # type: ignore[attr-defined] # Typer makes the options of it
mechanism.__annotations__ = dict(_Options.__annotations__)
