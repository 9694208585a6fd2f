"""The command `factmill diff`."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import AsJson, Warehouse, print_json, print_lines
from tasks.core.rows import MOST
from tasks.options import RunOptions, warehouse_of


def diff(
    before: Annotated[
        str,
        typer.Argument(
            help="The earlier build: its id, the beginning of one, or latest:BENCHMARK; or a release's folder.",
            metavar="A",
            show_default=False,
        ),
    ],
    after: Annotated[str, typer.Argument(help="The later build, or release.", metavar="B", show_default=False)],
    to: Annotated[
        list[Path] | None,
        typer.Option(
            help="Write it too: a file that ends in .html, .md, .json or .jsonl (a row a line, values whole). Repeatable.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    cause: Annotated[
        list[str] | None,
        typer.Option(
            help="Only rows with this cause: source, world, epoch, prompt, query, list, model, parameter, decision, code, "
            "reply, 'other rows', 'one of', 'left out', 'not told', unexplained. Repeatable.",
            metavar="KIND",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, max=MOST, help="Rows to print.")] = 20,
    with_answers: Annotated[
        bool, typer.Option("--with-answers", help="Tell answers that exports hold out (a test part's), too.")
    ] = False,
    exit_code: Annotated[
        bool,
        typer.Option(
            "--exit-code", help="End with 1 where a row is added, removed or changed, as a check in CI wants it."
        ),
    ] = False,
    warehouse: Warehouse = None,
    as_json: AsJson = False,
) -> None:
    """Tell what changed from one build to another, row by row, and why: source, world, epoch, prompt, query, list, model,
    parameter, decision, code. Of releases, which hold no recorded calls, as far as their locks tell why.

    Ends with 0, also where rows differ, unless --exit-code is given; with 2 where the two cannot be compared.

    \b
    Examples:
      factmill diff granola-7c571a65e7b7 latest:granola
      factmill diff slaq-33 slaq-9a --cause world --limit 5
      factmill diff old/granola/ granola-eq/
      factmill diff multihal-5a multihal-b1 --to changes.html --to CHANGELOG.md --exit-code
    """
    from flows.commands.diff import check_causes, format_diff, keep_causes, read_diff
    from flows.commands.reports import check_endings, write_file
    from tasks.reports.changes import CHANGES_RENDERERS, list_changes

    files = to or []
    check_endings(files, CHANGES_RENDERERS)
    check_causes(cause or [])
    found = read_diff(warehouse_of(RunOptions(warehouse=warehouse)), before, after, with_answers)
    told = keep_causes(found, cause or [])
    written = [write_file(CHANGES_RENDERERS[file.suffix](told), file, "--to") for file in files]
    if as_json:
        print_json(list_changes(told) | ({"files": [str(file) for file in written]} if written else {}))
    else:
        print_lines([*format_diff(told, limit, len(found.rows)), *map(str, written)])
    if exit_code and found.differs:
        raise typer.Exit(1)
