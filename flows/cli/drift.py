"""The command `factmill drift fanoutqa`: its options, and how the report is printed."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import AsJson, Warehouse, print_json
from tasks import progress
from tasks.errors import OutputError
from tasks.options import RunOptions, warehouse_of

drift_app = typer.Typer(help="What published questions would lose or gain at another moment.", no_args_is_help=True)


@drift_app.callback()
def drift() -> None:
    """What published questions would lose or gain at another moment."""


@drift_app.command("fanoutqa", no_args_is_help=True)
def drift_fanoutqa(
    epoch: Annotated[str, typer.Option(help="A day (its beginning, UTC) or an ISO 8601 moment.", metavar="DATE")],
    build_name: Annotated[
        str, typer.Option("--build", help="A build's id or the beginning of one.", metavar="BUILD")
    ] = "latest:fanoutqa",
    to: Annotated[Path | None, typer.Option(help="Write the list as CSV and print the counts.", metavar="FILE")] = None,
    show_all: Annotated[bool, typer.Option("--all", help="Also list what does not change.")] = False,
    world: Annotated[
        str | None, typer.Option(help="World whose Wikipedia is asked. Default: the build's.", metavar="WORLD")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            metavar="SHARE",
            help="Tell the Prefect server of PREFECT_API_URL (event factmill.drift.found) when more than this share of the references changed: 0.05 is five in a hundred.",
        ),
    ] = None,
    warehouse: Warehouse = None,
    as_json: AsJson = False,
) -> None:
    """Pin the articles of a build's questions to another moment and list the sub-answers that they no longer say.

    Also those that they say only then, and articles that can be pinned at one of the moments alone. Calls are recorded
    in the warehouse: the same report made again asks nothing.

    \b
    Examples:
      factmill drift fanoutqa --epoch 2026-01-01
      factmill drift fanoutqa --epoch 2026-01-01 --to drift.csv --all
      PREFECT_API_URL=http://127.0.0.1:4200/api factmill drift fanoutqa --epoch "$(date -u +%F)" --threshold 0.05
    """
    from flows.watching.events import tell_drift
    from tasks.engine.services import Services
    from tasks.fanoutqa.core.drift import count_drift, flatten_drift, share_drift, write_drift
    from tasks.fanoutqa.drift import format_counts, format_drift, measure_drift, read_references
    from tasks.fanoutqa.params import check_epoch
    from tasks.settings import home
    from tasks.storage.builds import find_build
    from tasks.storage.recorder import Recorder

    progress.show()
    moment = check_epoch(epoch)
    if to and not to.parent.is_dir():
        raise OutputError(f"{to}: cannot be written, since its folder is not there")
    path = warehouse_of(RunOptions(warehouse=warehouse))
    build = find_build(path, build_name)
    references = read_references(path, build)
    with (
        closing(Services.open(world or build.origin["world"], None, home())) as services,
        closing(Recorder(path, "record")) as recorder,
    ):
        services.world.require("wikipedia")
        drifts = measure_drift(references, services, recorder, moment)
    counts = count_drift(drifts)
    share = share_drift(counts)
    if threshold is not None and share is not None and share > threshold:
        tell_drift(build.build_id, share, {"epoch": moment, **counts})
    listed = [each for each in drifts if show_all or each.kind != "unchanged"]
    moments = (str(build.lock.get("params", {}).get("epoch", "")), moment)
    if to:
        try:
            to.write_text(write_drift(listed), "utf-8", newline="")
        except OSError as error:
            raise OutputError(f"{to}: cannot be written: {error.strerror}") from error
    if as_json:
        summary = {"build_id": build.build_id, "epoch_before": moments[0], "epoch": moment, "counts": counts}
        told = {"file": str(to)} if to else {"drift": [flatten_drift(each) for each in listed]}
        print_json({**summary, **told})
        return
    if not to:
        for each in listed:
            typer.echo("\n".join(format_drift(each)))
    typer.echo(format_counts(build.build_id, moments, counts))
    if counts["not_looked_up"]:
        typer.echo(f"{counts['not_looked_up']:,} could not be looked up; run this again later", err=True)
