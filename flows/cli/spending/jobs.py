"""The commands `factmill jobs …`: batch jobs at servers of models."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import AsJson, check_warehouse, print_json, print_lines
from tasks.errors import UsageError
from tasks.options import RunOptions, warehouse_of
from tasks.settings import home
from tasks.storage.recording.folders import work_folder

jobs_app = typer.Typer(
    help="""Batch jobs at servers of models, handed in by builds and evaluations whose world says mode = "batch".

\b
Examples:
  factmill jobs
  factmill jobs --no-ask --json
  factmill jobs cancel batch_68a1
""",
    invoke_without_command=True,
)
Warehouse = Annotated[
    Path | None,
    typer.Option(help="Jobs of this DuckDB file alone. Default: of all in factmill's home.", metavar="FILE"),
]
Job = Annotated[str, typer.Argument(metavar="JOB", help="A job's id, or the beginning of one.")]


@jobs_app.callback()
def list_jobs(
    context: typer.Context,
    ask: Annotated[
        bool,
        typer.Option("--ask/--no-ask", help="Have servers say how far their jobs are; it costs nothing."),
    ] = True,
    warehouse: Warehouse = None,
    as_json: AsJson = False,
) -> None:
    """List the jobs whose answers are not all taken yet, the oldest first: of all warehouses in factmill's home, or of one."""
    if context.invoked_subcommand is not None:
        return
    from flows.commands.spending.jobs import format_jobs
    from flows.commands.spending.jobs import list_jobs as find

    warehouses = _choose(warehouse)
    found = find(warehouses, ask=ask)
    if as_json:
        print_json({"jobs": found})
        return
    print_lines(format_jobs(found))
    if not found:
        told = ", ".join(map(str, warehouses))
        typer.echo(f'no batch jobs of {told}; a model is asked by such where its world says mode = "batch"', err=True)


@jobs_app.command("cancel")
def cancel(
    job: Annotated[str | None, typer.Argument(metavar="JOB", help="A job's id, or the beginning of one.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Cancel all jobs that go on.")] = False,
    warehouse: Warehouse = None,
    as_json: AsJson = False,
) -> None:
    """Have a server break off a job. What it has done until then is paid for, and is taken by the same build.

    \b
    Examples:
      factmill jobs cancel batch_68a1
      factmill jobs cancel --all
    """
    from flows.commands.spending.jobs import cancel_jobs

    if (job is None) != every:
        raise UsageError("expected one job (factmill jobs lists them) or --all")
    cancelled = cancel_jobs(_choose(warehouse), job)
    if as_json:
        print_json({"cancelled": cancelled})
        return
    for each in cancelled:
        print_lines(
            [
                f"{each['job']}: {each['state']}, with {each['done']:,} of {each['requests']:,} done; the same build takes these "
                "and stops; started again it asks for the rest"
            ]
        )
    if not cancelled:
        typer.echo("no job goes on, so there is nothing to cancel", err=True)


@jobs_app.command("forget")
def forget_job(job: Job, warehouse: Warehouse = None, as_json: AsJson = False) -> None:
    """Leave a job out of account that its server may not have lost: the same build asks anew what is left of it, and pays again.

    Example: factmill jobs forget batch_68a1
    """
    from flows.commands.spending.jobs import forget

    told = forget(_choose(warehouse), job)
    if as_json:
        print_json(told)
        return
    print_lines(
        [f"{told['job']}: forgotten; {told['requests']:,} of its requests are asked anew when a build needs them"]
    )


def _choose(warehouse: Path | None) -> list[Path]:
    """Return the warehouses whose jobs are meant; UsageError where there is none of that name."""
    from flows.commands.spending.jobs import list_warehouses

    if warehouse is None:
        return list_warehouses(home())
    path = warehouse_of(RunOptions(warehouse=warehouse))
    if not work_folder(path).is_dir():  # jobs outlive their warehouse
        check_warehouse(warehouse)
    return [path]
