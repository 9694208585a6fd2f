"""The command `factmill report`."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import AsJson, Warehouse, print_json
from tasks.options import RunOptions, warehouse_of


def report(
    evaluations: Annotated[
        list[str],
        typer.Argument(
            help="Evaluations: an id, the beginning of one, or latest:NAME_evaluation; several are compared.",
            metavar="EVAL…",
            show_default=False,
        ),
    ],
    to: Annotated[
        list[Path],
        typer.Option(
            help="What to write: a file that ends in .html, .md or .json. Repeatable.", metavar="FILE", show_default=False
        ),
    ],
    warehouse: Warehouse = None,
    as_json: AsJson = False,
) -> None:
    """Write what was measured as one page to read, Markdown or JSON; several models of one benchmark are compared on the
    items that all have a score for.

    \b
    Examples:
      factmill report latest:multihal_evaluation --to multihal.html
      factmill report multihal_evaluation-228 multihal_evaluation-7c2 --to both.html --to both.json
    """
    from flows.commands.reports import check_endings, read_report, write_report

    check_endings(to)
    made = read_report(warehouse_of(RunOptions(warehouse=warehouse)), evaluations)
    written = [str(write_report(made, path, "--to")) for path in to]
    if as_json:
        print_json({"evaluations": [each.evaluation_id for each in made.subjects], "files": written})
    else:
        typer.echo("\n".join([*written, *(f"note: {warning}" for warning in made.warnings)]))
