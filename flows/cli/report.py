"""The command `factmill report`."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import AsJson, Warehouse, print_json, print_lines
from tasks.errors import UsageError
from tasks.options import RunOptions, warehouse_of


def report(
    names: Annotated[
        list[str],
        typer.Argument(
            help="A build: its id, the beginning of one, or latest:BENCHMARK. Or evaluations (latest:NAME_evaluation); several "
            "are compared. Or all: the card of a model over all benchmarks.",
            metavar="BUILD | EVAL…",
            show_default=False,
        ),
    ],
    to: Annotated[
        list[Path],
        typer.Option(
            help="What to write: a file that ends in .html, .md or .json. Repeatable.",
            metavar="FILE",
            show_default=False,
        ),
    ],
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            help="With all: a model on the card, as it was evaluated. Repeatable; default: all that were.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    warehouse: Warehouse = None,
    as_json: AsJson = False,
) -> None:
    """Write what was built or measured as one page to read, Markdown or JSON.

    Of a build: the funnel with rejected rows, cost and time, what its rows are like, and the rows, each with where it comes
    from. Of evaluations: the metrics; several models of one benchmark are compared on the items that all have a score for.
    With all: one page over the benchmarks, of the latest evaluation of each, that links the single reports lying in the same
    folder.

    \b
    Examples:
      factmill report latest:granola --to granola.html
      factmill report latest:multihal_evaluation --to multihal.html
      factmill report multihal_evaluation-228 multihal_evaluation-7c2 --to both.html --to both.json
      factmill report all --model mine --model oracle --to card.html
    """
    from flows.commands.card import read_card
    from flows.commands.reports import check_endings, read_told, write_file
    from tasks.reports.builds.contents import BuildPage
    from tasks.reports.builds.pages import BUILD_RENDERERS
    from tasks.reports.pages import CARD_RENDERERS, RENDERERS

    check_endings(to)
    path = warehouse_of(RunOptions(warehouse=warehouse))
    kind = "evaluations"
    if names == ["all"]:
        cards = [(file, read_card(path, models or [], file.parent)) for file in to]
        written = [write_file(CARD_RENDERERS[file.suffix](card), file, "--to") for file, card in cards]
        warnings = cards[0][1].warnings
        told: list[str] = [page.evaluation_id for part in cards[0][1].parts for page in part.pages]
    elif models or "all" in names:
        raise UsageError("all stands alone, and --model goes with it: factmill report all --model NAME --to FILE")
    else:
        made = read_told(path, names)
        warnings = made.warnings
        if isinstance(made, BuildPage):
            kind, told = "builds", [made.build_id]
            written = [write_file(BUILD_RENDERERS[file.suffix](made), file, "--to") for file in to]
        else:
            told = [each.evaluation_id for each in made.subjects]
            written = [write_file(RENDERERS[file.suffix](made), file, "--to") for file in to]
    if as_json:
        print_json({kind: told, "files": [str(file) for file in written]})
    else:
        print_lines([*map(str, written), *(f"note: {warning}" for warning in warnings)])
