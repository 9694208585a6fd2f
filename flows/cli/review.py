"""The commands `factmill review …`: the queue of flagged rows goes out to a table, decisions come back."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import AsJson, NewWarehouse, Warehouse, print_json
from tasks.options import RunOptions, warehouse_of

review_app = typer.Typer(help="Rows that checks flagged, for people to decide on.", no_args_is_help=True)


@review_app.command("export")
def export_queue(
    build_name: Annotated[
        str, typer.Argument(help="A build's id, the beginning of one, or latest:BENCHMARK.", metavar="BUILD")
    ],
    to: Annotated[Path, typer.Option(help="CSV file to write.", metavar="FILE")],
    warehouse: Warehouse = None,
    as_json: AsJson = False,
) -> None:
    """Write a build's review queue as CSV. Fill in decision (keep, drop, edit), edited, reviewer and note.

    Example: factmill review export latest:slaq --to queue.csv
    """
    from tasks.core.reviewing.review_tables import write_queue
    from tasks.errors import OutputError
    from tasks.storage.builds import find_build
    from tasks.storage.reviews import read_queue_of

    path = warehouse_of(RunOptions(warehouse=warehouse))
    items = read_queue_of(path, find_build(path, build_name))
    try:
        to.write_text(write_queue(items), "utf-8", newline="")
    except OSError as error:
        raise OutputError(f"{to}: cannot be written: {error.strerror}") from error
    undecided = sum(item.decision == "open" for item in items)
    if as_json:
        print_json({"file": str(to), "items": len(items), "open": undecided})
    else:
        typer.echo(f"{to}: {len(items)} items, {undecided} of them open")


@review_app.command("import")
def import_decisions(
    file: Annotated[Path, typer.Argument(help="CSV file that `review export` wrote and a reviewer filled in.")],
    warehouse: NewWarehouse = None,
    as_json: AsJson = False,
) -> None:
    """Take in reviewers' decisions; the next build of the benchmark carries them in its lock.

    Example: factmill review import queue.csv && factmill build slaq --review manual
    """
    from flows.commands.judges.label import read_file
    from tasks.core.reviewing.review_tables import read_queue
    from tasks.storage.reviews import save_decisions

    text, _ = read_file(file, "review export BUILD")
    items = read_queue(text, file.name)
    taken = save_decisions(warehouse_of(RunOptions(warehouse=warehouse)), items)
    if as_json:
        print_json({"file": str(file), "items": len(items), "decisions": taken})
    else:
        typer.echo(f"{file}: {taken} decisions taken in, {len(items) - taken} items are still open")
