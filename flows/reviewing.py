"""A pause in the Prefect UI in which people decide on what a build flagged (`--review ask`)."""

from prefect.flow_runs import pause_flow_run
from prefect.input import RunInput

from tasks.core.review_tables import read_queue, write_queue
from tasks.options import BuildReport, RunOptions, warehouse_of
from tasks.progress import say
from tasks.storage.builds import find_build
from tasks.storage.reviews import read_queue_of, save_decisions

PATIENCE_S = 7 * 24 * 3600
"""So long a run waits before it fails; what was published before stays."""
_LOOK_EVERY_S = 2
_HOW = (
    "Rows that a check flagged, as CSV. Fill in decision (keep, drop or edit), edited (NAME: new text, a line each), "
    "reviewer and note, here or in a spreadsheet, and resume. What stays open is left out of the benchmark."
)


class Decisions(RunInput):
    """What people decided."""

    queue: str
    """The review queue as CSV, filled in."""


def ask_for_decisions(report: BuildReport, run: RunOptions) -> int:
    """Pause this flow run until somebody has decided on the open items of a build; return how many decisions came.

    They are kept in the warehouse, as `factmill review import` keeps them. SourceError when the input cannot be read.
    """
    warehouse = warehouse_of(run)
    queue = read_queue_of(warehouse, find_build(warehouse, report.build_id))
    waiting = [item for item in queue if item.decision == "open"]
    if not waiting:
        return 0
    say(f"{len(waiting)} flagged rows wait for a decision: resume the paused run {report.benchmark} in the Prefect UI")
    form = Decisions.with_initial_data(description=_HOW, queue=write_queue(waiting))
    answer = pause_flow_run(wait_for_input=form, timeout=PATIENCE_S, poll_interval=_LOOK_EVERY_S)
    return save_decisions(warehouse, read_queue(answer.queue, "the input in Prefect"))
