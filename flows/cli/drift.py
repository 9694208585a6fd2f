"""The command `factmill drift fanoutqa`: its options, and how the report is printed."""

from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.options import AsJson, Warehouse, check_given_age, print_json, print_lines
from tasks import progress
from tasks.errors import OutputError
from tasks.options import RunOptions, warehouse_of

drift_app = typer.Typer(help="What published questions would lose or gain at another moment.", no_args_is_help=True)


@drift_app.callback()
def drift() -> None:
    """What published questions would lose or gain at another moment."""


@drift_app.command("fanoutqa")
def drift_fanoutqa(
    epoch: Annotated[
        str | None,
        typer.Option(
            help="A day (its beginning, UTC) or an ISO 8601 moment. Default: the world's epoch, else today.",
            metavar="DATE",
        ),
    ] = None,
    build_name: Annotated[
        str, typer.Option("--build", help="A build's id or the beginning of one.", metavar="BUILD")
    ] = "latest:fanoutqa",
    to: Annotated[Path | None, typer.Option(help="Write the list as CSV and print the counts.", metavar="FILE")] = None,
    show_all: Annotated[bool, typer.Option("--all", help="Also list what does not change.")] = False,
    max_age: Annotated[
        str | None,
        typer.Option(
            help="Ask again what was looked up longer ago: 12h, 30d, 4w. Default: as the world's file says, else never.",
            metavar="AGE",
            callback=check_given_age,
        ),
    ] = None,
    fail_over: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Exit 1 when more than this share of the sub-answers is lost: 0.05.", metavar="SHARE"
        ),
    ] = None,
    world: Annotated[
        str | None, typer.Option(help="World whose Wikipedia is asked. Default: the build's.", metavar="WORLD")
    ] = None,
    warehouse: Warehouse = None,
    as_json: AsJson = False,
) -> None:
    """Pin the articles of a build's questions to another moment and list the sub-answers that they no longer say.

    Also those that they say only then, and articles that can be pinned at one of the moments alone. Calls are recorded
    in the warehouse: the same report made again asks nothing, but for what --max-age finds too old.

    Lost are sub-answers that are no longer found, of which other parts are missing, or whose article can no longer be
    pinned; their share is of those looked up. With --fail-over the exit code is 1 when it is above, and when too much
    could not be looked up to tell: for cron and the like, whose mail or alarm then says so. Where PREFECT_API_URL names
    a Prefect server, that is told too (event factmill.drift.found): data/automations/drift.yaml acts on it.

    \b
    Examples:
      factmill drift fanoutqa --epoch 2026-01-01
      factmill drift fanoutqa --epoch 2026-01-01 --to drift.csv --all
      factmill drift fanoutqa --max-age 12h --fail-over 0.05 --json
    """
    from flows.watching.events import tell_drift
    from tasks.engine.naming.identities import find_max_ages, find_oldest_moments
    from tasks.engine.services import Services
    from tasks.fanoutqa.checking.drift import format_counts, format_drift, measure_drift, read_references
    from tasks.fanoutqa.core.drift import count_drift, flatten_drift, judge_drift, share_lost, write_drift
    from tasks.fanoutqa.params import check_epoch
    from tasks.settings import home, load_world
    from tasks.storage.builds import find_build
    from tasks.storage.recording.recorder import Recorder

    given = check_epoch(epoch) if epoch else None
    progress.show()
    if to and not to.parent.is_dir():
        raise OutputError(f"{to}: cannot be written, since its folder is not there")
    path = warehouse_of(RunOptions(warehouse=warehouse))
    build = find_build(path, build_name)
    references = read_references(path, build)
    asked = load_world(name := world or build.origin["world"])
    now = datetime.now(UTC)
    moment = given or check_epoch((asked.epoch or now.date()).isoformat())
    oldest = find_oldest_moments(find_max_ages(asked, max_age), now)
    with (
        closing(Services.open(name, None, home())) as services,
        closing(Recorder(path, "record", oldest=oldest)) as recorder,
    ):
        services.world.require("wikipedia")
        drifts = measure_drift(references, services, recorder, moment)
    counts = count_drift(drifts)
    listed = [each for each in drifts if show_all or each.kind != "unchanged"]
    moments = (str(build.lock.get("params", {}).get("epoch", "")), moment)
    if to:
        try:
            to.write_text(write_drift(listed), "utf-8", newline="")
        except OSError as error:
            raise OutputError(f"{to}: cannot be written: {error.strerror}") from error
    verdict = None if fail_over is None else judge_drift(counts, fail_over)
    if as_json:
        summary: dict[str, Any] = {
            "build_id": build.build_id,
            "epoch_before": moments[0],
            "epoch": moment,
            "counts": counts,
        }
        summary |= {"share_lost": share_lost(counts), "fail_over": fail_over, "verdict": verdict}
        told = {"file": str(to)} if to else {"drift": [flatten_drift(each) for each in listed]}
        print_json({**summary, **told})
    else:
        lines = [] if to else [line for each in listed for line in format_drift(each)]
        print_lines([*lines, format_counts(build.build_id, moments, counts)])
        if counts["not_looked_up"]:
            typer.echo(f"{counts['not_looked_up']:,} could not be looked up; run this again later", err=True)
    if verdict == "over":
        tell_drift(build.build_id, {"epoch": moment, "share_lost": share_lost(counts), **counts})
    _tell_verdict(verdict, counts, fail_over)


def _tell_verdict(verdict: str | None, counts: Mapping[str, int], most: float | None) -> None:
    """Exit 1, and say why, when more is lost than may be, or when that cannot be told."""
    from tasks.fanoutqa.core.drift import share_lost

    if verdict == "over":
        typer.echo(f"drift: {share_lost(counts):.2%} of the sub-answers are lost, more than {most:.2%}", err=True)
    elif verdict == "untold":
        typer.echo(
            f"drift: {counts['not_looked_up']:,} of {counts['references']:,} sub-answers could not be looked up, so whether "
            f"more than {most:.2%} are lost cannot be told; run this again later",
            err=True,
        )
    if verdict in ("over", "untold"):
        raise typer.Exit(1)
