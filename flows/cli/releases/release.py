"""The command `factmill release`."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import AsJson, Warehouse, print_json
from tasks.options import RunOptions, warehouse_of


def release(
    build_name: Annotated[
        str,
        typer.Argument(
            help="A build's id, the beginning of one, or latest:BENCHMARK.", metavar="BUILD", show_default=False
        ),
    ],
    to: Annotated[Path, typer.Option(help="Folder that becomes the release.", metavar="DIR", show_default=False)],
    without: Annotated[
        list[str] | None,
        typer.Option(
            help="Leave out the rows of this source, or under this licence. Repeatable.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    allowed: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-licence",
            help="Release rows under this licence, which you may hand on though others may not. Repeatable.",
            metavar="LICENCE",
            show_default=False,
        ),
    ] = None,
    with_answers: Annotated[
        bool, typer.Option("--with-answers", help="Release the hidden answers of a test part too.")
    ] = False,
    since: Annotated[
        str,
        typer.Option(help="The build of the release before: CHANGELOG.md tells what changed.", metavar="BUILD"),
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace the release that lies there.")] = False,
    warehouse: Warehouse = None,
    as_json: AsJson = False,
) -> None:
    """Write a build as a dataset to publish: tables that `datasets`, DuckDB, pandas and polars load, card, licences,
    citation, digests, tasks for lm-evaluation-harness.

    Sources whose licences forbid it are refused, with what to do; hidden answers of a test part are left out. The same
    build gives the same bytes. The folder is there when all of it is written, and not before.

    \b
    Examples:
      factmill release latest:granola --to granola-eq/
      factmill release latest:multihal --to multihal/ --without felm --without halubench
      factmill release latest:fanoutqa --to fanoutqa/ --with-answers
      factmill release latest:slaq --to slaq/ --force --since slaq-33
      python -c 'import datasets; print(datasets.load_dataset("granola-eq", "granola_eq"))'
    """
    from flows.releases.making import make_release
    from tasks import progress
    from tasks.release.contents import Choices

    progress.show()
    choices = Choices(tuple(without or ()), tuple(allowed or ()), with_answers)
    made = make_release(warehouse_of(RunOptions(warehouse=warehouse)), build_name, to, choices, force, since)
    told = made.release
    if as_json:
        print_json(
            {
                "build_id": told.build.build_id,
                "folder": str(made.folder),
                "notice": told.notice,
                "rows": told.rows,
                "licences": [licence.id for licence in told.licences],
                "configs": {
                    config.name: {split.name: split.rows.num_rows for split in config.splits} for config in told.configs
                },
                "left_out": [{"what": each.what, "why": each.why, "rows": each.rows} for each in told.left_out],
                "files": made.files,
            }
        )
        return
    typer.echo(f"{made.folder}: {told.rows} rows of {told.build.build_id}, {len(made.files)} files")
    for config in told.configs:
        typer.echo(f"  {config.name:16} {', '.join(f'{s.name} {s.rows.num_rows}' for s in config.splits)}")
    typer.echo(
        f"  licences         {', '.join(licence.id for licence in told.licences)} (LICENSES.csv, ATTRIBUTION.csv)"
    )
    for each in told.left_out:
        typer.echo(f"left out: {each.what} ({each.rows} rows): {each.why}", err=True)
    if told.notice:
        typer.echo(f"note: {told.notice}", err=True)
