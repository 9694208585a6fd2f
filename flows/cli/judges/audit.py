"""The command `factmill audit`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import AsJson, Warehouse, print_json, print_lines
from tasks.core.measures.audits import PAPER_ROWS
from tasks.core.rows import MOST
from tasks.options import RunOptions, warehouse_of


def audit(
    benchmark: Annotated[str, typer.Argument(metavar="BENCHMARK")],
    build_name: Annotated[
        str | None, typer.Option("--build", help="A build; default: the latest.", metavar="BUILD")
    ] = None,
    rows: Annotated[
        int, typer.Option(min=1, max=MOST, help="Rows of the sample; a larger one contains the smaller.")
    ] = PAPER_ROWS,
    seed: Annotated[int, typer.Option(min=-MOST, max=MOST, help="Draws another sample.")] = 0,
    to: Annotated[Path | None, typer.Option(help="Write the sample as CSV, to be filled in.", metavar="FILE")] = None,
    taken_from: Annotated[
        Path | None,
        typer.Option(
            "--from", help="Take in a CSV that was filled in (`reviewer` in each row looked at).", metavar="FILE"
        ),
    ] = None,
    reviewer: Annotated[str, typer.Option(help="Who gives verdicts in the terminal.", metavar="NAME")] = "",
    warehouse: Warehouse = None,
    as_json: AsJson = False,
) -> None:
    """Check rows by reading, as the paper's authors did: a seeded sample with its evidence, verdicts by kind of fault,
    shares with intervals beside the paper's. In a terminal it asks row by row; a CSV does as well.

    \b
    Examples:
      factmill audit granola --reviewer ada
      factmill audit slaq --to slaq.csv && factmill audit slaq --from slaq.csv
    """
    from flows.benchmarks import find_benchmark
    from flows.commands.judges.audit import draw_rows, format_figures, measure_build, take_verdicts
    from flows.commands.judges.label import read_file
    from tasks.core.measures.audits import read_sheet, write_sheet
    from tasks.errors import OutputError
    from tasks.storage.audits import save_verdicts
    from tasks.storage.builds import find_build
    from tasks.storage.warehouse import open_warehouse

    known, path = find_benchmark(benchmark), warehouse_of(RunOptions(warehouse=warehouse))
    build_id = find_build(path, build_name or f"latest:{benchmark}").build_id
    told = ""
    if taken_from:
        text, _ = read_file(taken_from, f"audit {benchmark}")
        verdicts = read_sheet(known.audit, build_id, text, taken_from.name)
        with open_warehouse(path) as db:
            save_verdicts(db, build_id, verdicts)
        told = f"{taken_from}: {len(verdicts)} verdicts taken in"
    else:
        sample = draw_rows(path, known, build_id, rows, seed)
        if to:
            try:
                to.write_text(write_sheet(known.audit, build_id, sample.shown, sample.verdicts), "utf-8", newline="")
            except OSError as error:
                raise OutputError(f"{to}: cannot be written: {error.strerror}") from error
            told = (
                f"{to}: {len(sample.shown)} rows of {build_id}; fill it in, then factmill audit {benchmark} --from {to}"
            )
        elif sys.stdin.isatty() and not as_json:
            told = f"{take_verdicts(path, known, sample, reviewer)} verdicts given"
    figures = measure_build(path, known, build_id)
    if as_json:
        print_json({"build_id": build_id, "figures": [figure.model_dump() for figure in figures]})
        return
    lines = format_figures(known, figures)
    nothing = f"no row of {build_id} has a verdict yet; ask in a terminal, or: factmill audit {benchmark} --to FILE.csv"
    print_lines([*([told] if told else []), *(lines or ([] if to else [nothing]))])
