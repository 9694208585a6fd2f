"""Show the progress of a build: one live bar per stage on a terminal, one line per stage elsewhere, or nothing.

The command chooses with `set_progress_style`; a flow run by a scheduler shows nothing and leaves progress to Prefect's UI. Messages
printed here also reach the run's log in Prefect (flows/watching).
"""

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal, Protocol
from uuid import UUID

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from factmill.tasks.core.batch_receipts import BatchReceipt, choose_rejected_or_not_drawn_label
from factmill.tasks.text.sanitize import escape_control_characters

ProgressStyle = Literal["live", "lines", "none"]
LogLevel = Literal["info", "warning", "error"]

_progress_style: ProgressStyle = "none"
_console = Console(stderr=True)


def set_progress_style(style: ProgressStyle | None = None) -> None:
    """Set how progress is shown, on standard error; None: live on a terminal, lines elsewhere."""
    global _progress_style  # noqa: PLW0603 - one terminal a process
    _progress_style = style or ("live" if sys.stderr.isatty() else "lines")


def print_progress_line(text: str) -> None:
    """Print one line, unless progress is off."""
    if _progress_style != "none":
        _console.print(escape_control_characters(text), highlight=False, markup=False, soft_wrap=True)


def print_and_log(text: str) -> None:
    """Print one line, unless progress is off, and log it."""
    print_progress_line(text)
    log_to_current_run(text, "warning" if text.startswith("note: ") else "info")


def log_to_current_run(text: str, level: LogLevel = "info") -> None:
    """Add one line to the log of the current run, without printing it."""
    for watcher in _run_observers[-1:]:
        watcher.tell(text, level)


class RunLogAndProgressReceiver(Protocol):
    """Receiver of a run's log lines and progress, in addition to the terminal."""

    @property
    def run_id(self) -> UUID: ...

    def tell(self, text: str, level: LogLevel) -> None:
        """Write a line of the log."""

    def watch(self, bar: "StageProgress") -> AbstractContextManager[None]:
        """Show a stage while it runs."""

    def close(self) -> None:
        """Send all lines that are still buffered."""


def push_run_observer(observer: RunLogAndProgressReceiver) -> None:
    """Send log lines and progress only to this watcher, that of the newest run, which may be nested in another."""
    remove_run_observer(observer.run_id)
    _run_observers.append(observer)


def remove_run_observer(run_id: UUID) -> None:
    """Close the watcher of a run; the one before it receives messages again."""
    for watcher in [each for each in _run_observers if each.run_id == run_id]:
        watcher.close()
        _run_observers.remove(watcher)


class StageProgress:
    """Running counts of one stage: finished batches, rows, rejects, and responses of services."""

    def __init__(self, name: str, batches: int, progress: Progress | None) -> None:
        self.name, self.batches = name, batches
        self.done = self.rows = self.rejects = self.merged = self.sent = self.replayed = 0
        self.replies = self.expected = 0
        self._progress = progress
        self._task = progress.add_task(name, total=batches, note="") if progress else None
        self._shown = 0.0

    def count_batch(self, receipt: BatchReceipt) -> None:
        """Count one finished batch."""
        self.done += 1
        self.rows += receipt.rows
        self.rejects += receipt.rejects
        self.merged += receipt.merged
        self.sent += receipt.calls_sent
        self.replayed += receipt.calls_replayed
        self._refresh(1)

    def count_reply(self) -> None:
        """Count one response of a service, before its batch is done."""
        self.replies += 1
        if time.monotonic() - self._shown > _REPLY_REFRESH_S:
            self._refresh(0)

    def percent_done(self) -> float:
        """Return the progress of the stage in per cent: by finished batches, and within the next one by responses."""
        if self.done >= self.batches:
            return 100.0
        replied = self.batches * self.replies / self.expected if self.expected else 0.0
        return round(100 * max(self.done, min(self.done + _MAX_BATCH_SHARE_OF_REPLIES, replied)) / self.batches, 1)

    def format_status(self) -> str:
        """Format the stage, its batches and its counts as text."""
        batches = f"{self.done:,} of {self.batches:,} batches, " if self.batches > 1 else ""
        under_way = f", {self.replies:,} of {self.expected:,} replies" if self.replies < self.expected else ""
        return f"{self.name}: {batches}{self.format_counts()}{under_way}"

    def format_counts(self) -> str:
        """Format the counts as text."""
        calls = f", calls {self.sent} sent {self.replayed} replayed" if self.sent or self.replayed else ""
        merged = f", {self.merged} merged" if self.merged else ""
        return f"{self.rows} rows, {self.rejects} {choose_rejected_or_not_drawn_label(self.name)}{merged}{calls}"

    def _refresh(self, batches: int) -> None:
        self._shown = time.monotonic()
        under_way = self.replies - self.sent
        note = f"{self.format_counts()}, {under_way} replies so far" if under_way > 0 else self.format_counts()
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, advance=batches, note=note)


@contextmanager
def show_stage_progress(name: str, batches: int) -> Iterator[StageProgress]:
    """Show the progress of one stage while the context lasts."""
    global _current_stage  # noqa: PLW0603 - stages of one process run one after the other
    columns = (
        TextColumn("{task.description:<30}"),
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
    )
    live = Progress(*columns, console=_console) if _progress_style == "live" else None
    with live or nullcontext():
        _current_stage = StageProgress(name, batches, live)
        with _run_observers[-1].watch(_current_stage) if _run_observers else nullcontext():
            yield _current_stage
    if _progress_style == "lines":
        _console.print(f"{name}: {_current_stage.format_counts()}", highlight=False)


def format_current_stage() -> str:
    """Format the progress of the current stage as text; empty when no stage runs."""
    stage = _current_stage
    return stage.format_status() if stage is not None and stage.done < stage.batches else ""


def add_expected_replies(calls: int) -> None:
    """Add calls that are being sent to a service to the responses expected by the current stage."""
    if _current_stage is not None:
        _current_stage.expected += calls


def count_stage_reply() -> None:
    """Count one response of a service for the current stage."""
    if _current_stage is not None:
        _current_stage.count_reply()


_REPLY_REFRESH_S = 0.2
_MAX_BATCH_SHARE_OF_REPLIES = 0.9
"""Maximum share of a batch that its responses count for: processing them takes time too."""
_current_stage: StageProgress | None = None
_run_observers: list[RunLogAndProgressReceiver] = []
"""Watchers of the active runs in this process, each nested in the one before; the last one receives messages."""
