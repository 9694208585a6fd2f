"""Show the progress of a build: one live bar per stage on a terminal, one line per stage elsewhere, or nothing.

The command chooses with `show`; a flow run by a scheduler shows nothing and leaves progress to Prefect's UI. Messages
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

from factmill.tasks.core.receipts import Receipt, name_left
from factmill.tasks.text.whole import clean

Style = Literal["live", "lines", "none"]
Level = Literal["info", "warning", "error"]

_style: Style = "none"
_console = Console(stderr=True)


def show(style: Style | None = None) -> None:
    """Set how progress is shown, on standard error; None: live on a terminal, lines elsewhere."""
    global _style  # noqa: PLW0603 - one terminal a process
    _style = style or ("live" if sys.stderr.isatty() else "lines")


def mention(text: str) -> None:
    """Print one line, unless progress is off."""
    if _style != "none":
        _console.print(clean(text), highlight=False, markup=False, soft_wrap=True)


def say(text: str) -> None:
    """Print one line, unless progress is off, and log it."""
    mention(text)
    log(text, "warning" if text.startswith("note: ") else "info")


def log(text: str, level: Level = "info") -> None:
    """Add one line to the log of the current run, without printing it."""
    for watcher in _watchers[-1:]:
        watcher.tell(text, level)


class Watcher(Protocol):
    """Receiver of a run's log lines and progress, in addition to the terminal."""

    @property
    def run_id(self) -> UUID: ...

    def tell(self, text: str, level: Level) -> None:
        """Write a line of the log."""

    def watch(self, bar: "StageBar") -> AbstractContextManager[None]:
        """Show a stage while it runs."""

    def close(self) -> None:
        """Send all lines that are still buffered."""


def add_watcher(watcher: Watcher) -> None:
    """Send log lines and progress only to this watcher, that of the newest run, which may be nested in another."""
    remove_watcher(watcher.run_id)
    _watchers.append(watcher)


def remove_watcher(run_id: UUID) -> None:
    """Close the watcher of a run; the one before it receives messages again."""
    for watcher in [each for each in _watchers if each.run_id == run_id]:
        watcher.close()
        _watchers.remove(watcher)


class StageBar:
    """Running counts of one stage: finished batches, rows, rejects, and responses of services."""

    def __init__(self, name: str, batches: int, progress: Progress | None) -> None:
        self.name, self.batches = name, batches
        self.done = self.rows = self.rejects = self.merged = self.sent = self.replayed = self.replies = (
            self.expected
        ) = 0
        self._progress = progress
        self._task = progress.add_task(name, total=batches, note="") if progress else None
        self._shown = 0.0

    def advance(self, receipt: Receipt) -> None:
        """Count one finished batch."""
        self.done += 1
        self.rows += receipt.rows
        self.rejects += receipt.rejects
        self.merged += receipt.merged
        self.sent += receipt.calls_sent
        self.replayed += receipt.calls_replayed
        self._show(1)

    def count_reply(self) -> None:
        """Count one response of a service, before its batch is done."""
        self.replies += 1
        if time.monotonic() - self._shown > _REPLY_NEWS_EVERY_S:
            self._show(0)

    def percent(self) -> float:
        """Return the progress of the stage in per cent: by finished batches, and within the next one by responses."""
        if self.done >= self.batches:
            return 100.0
        replied = self.batches * self.replies / self.expected if self.expected else 0.0
        return round(100 * max(self.done, min(self.done + _MOST_OF_BATCH, replied)) / self.batches, 1)

    def describe(self) -> str:
        """Format the stage, its batches and its counts as text."""
        batches = f"{self.done:,} of {self.batches:,} batches, " if self.batches > 1 else ""
        under_way = f", {self.replies:,} of {self.expected:,} replies" if self.replies < self.expected else ""
        return f"{self.name}: {batches}{self.note()}{under_way}"

    def note(self) -> str:
        """Format the counts as text."""
        calls = f", calls {self.sent} sent {self.replayed} replayed" if self.sent or self.replayed else ""
        merged = f", {self.merged} merged" if self.merged else ""
        return f"{self.rows} rows, {self.rejects} {name_left(self.name)}{merged}{calls}"

    def _show(self, batches: int) -> None:
        self._shown = time.monotonic()
        under_way = self.replies - self.sent
        note = f"{self.note()}, {under_way} replies so far" if under_way > 0 else self.note()
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, advance=batches, note=note)


@contextmanager
def stage(name: str, batches: int) -> Iterator[StageBar]:
    """Show the progress of one stage while the context lasts."""
    global _bar  # noqa: PLW0603 - stages of one process run one after the other
    if _style != "live":
        _bar = StageBar(name, batches, None)
        with _watching(_bar):
            yield _bar
        if _style == "lines":
            _console.print(f"{name}: {_bar.note()}", highlight=False)
        return
    columns = (
        TextColumn("{task.description:<30}"),
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=_console) as progress:
        _bar = StageBar(name, batches, progress)
        with _watching(_bar):
            yield _bar


def stage_under_way() -> str:
    """Format the progress of the current stage as text; empty when no stage runs."""
    return _bar.describe() if _bar is not None and _bar.done < _bar.batches else ""


def _watching(bar: StageBar) -> AbstractContextManager[None]:
    return _watchers[-1].watch(bar) if _watchers else nullcontext()


def expect_replies(calls: int) -> None:
    """Add calls that are being sent to a service to the responses expected by the current stage."""
    if _bar is not None:
        _bar.expected += calls


def count_reply() -> None:
    """Count one response of a service for the current stage."""
    if _bar is not None:
        _bar.count_reply()


_REPLY_NEWS_EVERY_S = 0.2
_MOST_OF_BATCH = 0.9
"""Maximum share of a batch that its responses count for: processing them takes time too."""
_bar: StageBar | None = None
_watchers: list[Watcher] = []
"""Watchers of the active runs in this process, each nested in the one before; the last one receives messages."""
