"""What `factmill serve` prints: a line for each run that starts and ends, and notes of what else happens.

Runs are printed on standard output, notes on standard error; as JSON both are objects on standard output, one a line, with
the keys `at` (UTC), `event` (note, started or ended) and `text`, and for runs `deployment`, `run`, `run_id` and `slot` (null
where the run was not scheduled), at the end `state`, `seconds` and `message` too.
"""

import json
import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import typer
from prefect.client.schemas.objects import FlowRun

from flows.watching.runs import CATCH_UP
from tasks.text.whole import clean

_OF_SCHEDULER = "auto-scheduled"
"""Prefect's tag of the runs of a schedule."""


class ServeLog:
    """The lines of one serving process."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    def note(self, text: str) -> None:
        """Print what happens to serve itself."""
        if self._as_json:
            self._print("note", text)
        else:
            _write(text, err=True)

    def report_start(self, deployment: str, run: FlowRun) -> None:
        """Print that the process of a run starts."""
        slot = _find_slot(run)
        due = f" (slot {slot:%Y-%m-%d %H:%M:%S})" if slot else ""
        self._print("started", f"{deployment} {run.name} started{due}", **_describe(deployment, run, slot))

    def report_end(self, deployment: str, run: FlowRun) -> None:
        """Print how a run ended, and what it came to; `unknown` where the server does not have its end yet."""
        state = run.state if run.state is not None and run.state.is_final() else None
        name = state.name if state and state.name else "unknown"
        message = " ".join(((state and state.message) or "").split())
        seconds = round(run.total_run_time.total_seconds(), 1)
        words = re.sub("(?<=[a-z])(?=[A-Z])", " ", name).lower()
        text = f"{deployment} {run.name} {words} after {seconds:.0f} s" + (message and f": {message}")
        end = {"state": name, "seconds": seconds, "message": message}
        self._print("ended", text, **_describe(deployment, run, _find_slot(run)), **end)

    def _print(self, event: str, text: str, **more: Any) -> None:
        at = datetime.now(UTC)
        if self._as_json:
            shown = {"at": at.isoformat(timespec="seconds"), "event": event, "text": text, **more}
            _write(json.dumps(shown, ensure_ascii=False))
        else:
            _write(clean(f"{at:%Y-%m-%d %H:%M:%SZ} {text}"))


def _write(line: str, err: bool = False) -> None:
    with suppress(OSError):  # whatever reads the output has ended, or its disk is full: runs go on
        typer.echo(line, err=err)


def _find_slot(run: FlowRun) -> datetime | None:
    """Return the time of the schedule that a run is for; None for one that somebody started."""
    return run.expected_start_time if {_OF_SCHEDULER, CATCH_UP} & {*run.tags} else None


def _describe(deployment: str, run: FlowRun, slot: datetime | None) -> dict[str, Any]:
    due = slot.isoformat(timespec="seconds") if slot else None
    return {"deployment": deployment, "run": run.name, "run_id": str(run.id), "slot": due}
