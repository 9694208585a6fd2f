"""A pause in the Prefect UI in which people decide on what a build flagged (`--review ask`)."""

from prefect.artifacts import create_table_artifact
from prefect.flow_runs import pause_flow_run
from prefect.input import RunInput
from pydantic import Field

from flows.watching.artifacts import tell_row
from tasks.core.reviewing.review_tables import read_queue, write_queue
from tasks.options import BuildReport, RunOptions, warehouse_of
from tasks.progress import say
from tasks.storage.builds import find_build
from tasks.storage.reviews import load_decisions, read_queue_of, save_decisions

PATIENCE_S = 7 * 24 * 3600
"""So long a run waits before it fails; what was published before stays."""
_LOOK_EVERY_S = 2
_HOW = (
    "{rows} rows that a check flagged wait for a decision; the artifact {key} of this run lists them. Submit goes on with "
    "what is decided; what stays open is left out of the benchmark.\n\n"
    "In a spreadsheet: `factmill review export {build} --to FILE.csv`, fill it in, `factmill review import FILE.csv`, then "
    "submit this form as it is.\n\nOr here, in the text below."
)
_COLUMNS = (
    "A line a row. Fill in `decision`: keep, drop or edit; with edit, `edited`: NAME: new text, a line each, as in "
    "`proposed`; `reviewer`: your name; `note`, if you like. Leave the other columns as they are."
)
_READ = ("flag", "detail", "context", "proposed", "row_id", "id")
"""Columns of the artifact, in the order in which they are read."""


class Decisions(RunInput):
    """What people decided."""

    queue: str
    """The review queue as CSV, filled in."""


def ask_for_decisions(report: BuildReport, run: RunOptions) -> int:
    """Pause this flow run until somebody has decided on the open items of a build; return how many decisions came.

    They come in the form, or meanwhile by `factmill review import`, and are kept in the warehouse. SourceError when the
    form's text cannot be read.
    """
    warehouse = warehouse_of(run)
    queue = read_queue_of(warehouse, find_build(warehouse, report.build_id))
    waiting = [item for item in queue if item.decision == "open"]
    if not waiting:
        return 0
    key = f"{report.benchmark}-review"
    create_table_artifact(
        table=[tell_row(item.model_dump(mode="json", include=set(_READ)), _READ) for item in waiting],
        key=key,
        description=f"{len(waiting)} flagged rows wait for a decision: press Resume on the paused run; its form says how.",
    )
    say(
        f"note: {len(waiting)} flagged rows wait for a decision, {PATIENCE_S // 86_400} days at most: press Resume on the paused "
        f"run {report.benchmark} in the Prefect UI, whose form says how; the run's artifact {key} lists them"
    )
    form = Decisions.with_initial_data(
        description=_HOW.format(rows=len(waiting), key=key, build=report.build_id),
        queue=Field(default=write_queue(waiting), title="Decisions, as CSV", description=_COLUMNS),
    )
    answer = pause_flow_run(wait_for_input=form, timeout=PATIENCE_S, poll_interval=_LOOK_EVERY_S)
    save_decisions(warehouse, read_queue(answer.queue, "the input in Prefect"))
    decided = {item.id for item in load_decisions(warehouse, report.benchmark)}
    count = sum(item.id in decided for item in waiting)
    say(f"{count} of {len(waiting)} rows are decided on{'; they are built in now' if count else ', and are left out'}")
    return count
