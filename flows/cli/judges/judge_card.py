"""The command `factmill judge-card`."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import AsJson, NewWarehouse, check_warehouse, naming_options, print_json, print_lines
from tasks.core.calls.call import Mode
from tasks.options import RunOptions

_RUN = RunOptions.model_fields


def judge_card(
    judge: Annotated[
        str,
        typer.Option(
            help="The judge: a model of the world's file, [models.NAME]; the name of one that judged; or exact, the program.",
            metavar="NAME",
            show_default=False,
        ),
    ],
    labels: Annotated[
        list[Path] | None,
        typer.Option(
            help="A CSV that `label export` wrote and somebody filled in, or one with question, gold, answer and label "
            "(and benchmark) of your own, about which the judge is asked. Repeatable. Default: all labels imported.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    evaluation: Annotated[
        list[str] | None,
        typer.Option(
            help="Only verdicts of this evaluation (repeatable). Default: of all in the warehouse, the newest first.",
            metavar="EVAL",
            show_default=False,
        ),
    ] = None,
    benchmark: Annotated[
        str,
        typer.Option(help="Whose labels these are, where the file does not say.", metavar="NAME", show_default=False),
    ] = "",
    world: Annotated[str, typer.Option(help=_RUN["world"].description, metavar="WORLD")] = "embedded",
    mode: Annotated[Mode, typer.Option(help=_RUN["mode"].description)] = "record",
    warehouse: NewWarehouse = None,
    as_json: AsJson = False,
) -> None:
    """Say how far a judge agrees with people: accuracy, Cohen's kappa, confusion, each label and setting. Where the labels
    are of a draw, rare verdicts are weighted back to what they are. The card is kept; reports of evaluations by this judge
    name it, and show the rate without its errors.

    \b
    Examples:
      factmill judge-card --judge exact --labels labels.csv
      factmill judge-card --judge judge --world my-world.toml --labels mine.csv --benchmark slaq
    """
    from flows.commands.judges.judge_card import make_cards
    from tasks.core.evaluation.judge_cards import format_card

    if not labels:
        check_warehouse(warehouse)
    with naming_options(RunOptions):
        run = RunOptions(world=world, mode=mode, warehouse=warehouse)
    cards, notes = make_cards(labels or [], judge, evaluation or [], benchmark, run)
    if as_json:
        print_json({"cards": [{"id": card.id, **card.model_dump()} for card in cards], "notes": list(notes)})
        return
    print_lines([*(line for card in cards for line in format_card(card)), *(f"  {note}" for note in notes)])
