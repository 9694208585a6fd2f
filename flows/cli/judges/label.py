"""The commands `factmill label …`: judged answers go out to people, their labels come back."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import AsJson, Warehouse, print_json, print_lines
from tasks.core.rows import MOST
from tasks.options import RunOptions, warehouse_of

label_app = typer.Typer(help="Answers for people to label, by which judges are checked.", no_args_is_help=True)


@label_app.command("export")
def export_answers(
    evaluation: Annotated[
        str,
        typer.Argument(help="An evaluation: its id, the beginning of one, or latest:NAME_evaluation.", metavar="EVAL"),
    ],
    to: Annotated[
        Path, typer.Option(help="CSV file to write; one that is there is never overwritten.", metavar="FILE")
    ],
    n: Annotated[int, typer.Option("--n", min=1, max=MOST, help="Answers to draw.")] = 100,
    seed: Annotated[int, typer.Option(min=-MOST, max=MOST, help="Draws and shuffles otherwise.")] = 0,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Stratify by this column of the answers too (repeatable), beside setting and verdict.",
            metavar="COLUMN",
            show_default=False,
        ),
    ] = None,
    warehouse: Warehouse = None,
    as_json: AsJson = False,
) -> None:
    """Draw judged answers for people to label, as many of each setting and verdict as there are or as fit. The file says
    neither whose answers they are nor what the judge said. Fill in the column label (and note, if you like).

    \b
    Examples:
      factmill label export latest:slaq_evaluation --to labels.csv
      factmill label export slaq_evaluation-3f2 --to more.csv --n 300 --seed 1 --by category
    """
    from flows.commands.judges.label import export_labels, format_export

    told = export_labels(warehouse_of(RunOptions(warehouse=warehouse)), evaluation, to, n, seed, by or [])
    print_json(told) if as_json else print_lines(format_export(told))


@label_app.command("import")
def import_answers(
    file: Annotated[
        Path, typer.Argument(help="CSV file that `label export` wrote and somebody filled in.", metavar="FILE")
    ],
    labeller: Annotated[
        str,
        typer.Option(
            help="Who labelled, where the file has no column labeller. Default: the file's name.",
            metavar="NAME",
            show_default=False,
        ),
    ] = "",
    warehouse: Warehouse = None,
    as_json: AsJson = False,
) -> None:
    """Take labels in, and tell rows without a label, with one that is none, and with several; of several people, how far
    they agree. What can be used is; exit code 1 where something could not.

    \b
    Examples:
      factmill label import labels.csv --labeller ada
      factmill label import labels.csv && factmill judge-card --judge exact
    """
    from flows.commands.judges.label import format_import, import_labels

    taken = import_labels(warehouse_of(RunOptions(warehouse=warehouse)), file, labeller)
    troubles = taken.file.count_troubles()
    if as_json:
        told = {"file": str(file), "labels": taken.labels, "changed": taken.changed, "unlabelled": taken.unlabelled}
        rows = [{"kind": trouble.kind, "told": trouble.told} for trouble in taken.file.troubles]
        among = {name: each.model_dump() for name, each in taken.among.items()}
        print_json({**told, "labellers": taken.labellers, "troubles": rows, "among_people": among})
    else:
        print_lines(format_import(file, taken))
    if troubles.keys() - {"missing", "doubled"}:
        raise typer.Exit(1)
