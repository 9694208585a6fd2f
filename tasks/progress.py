"""Progress of a build as it goes: one live bar a stage on a terminal, one line a stage elsewhere, nothing when told so.

The command chooses with `show`; a flow that is run by a scheduler shows nothing and leaves watching to Prefect's UI. What
is told here reaches the run's log there too (flows/watching).
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
    """Choose how progress is shown; None: live on a terminal, lines elsewhere. All of it goes to standard error."""
    global _style  # noqa: PLW0603 - one terminal a process
    _style = style or ("live" if sys.stderr.isatty() else "lines")


def mention(text: str) -> None:
    """Print one line of news, unless progress is off."""
    if _style != "none":
        _console.print(clean(text), highlight=False, markup=False, soft_wrap=True)


def say(text: str) -> None:
    """Print one line of news, unless progress is off, and log it."""
    mention(text)
    log(text, "warning" if text.startswith("note: ") else "info")


def log(text: str, level: Level = "info") -> None:
    """Put one line into the log of the run that is under way; it is not printed."""
    for watcher in _watchers[-1:]:
        watcher.tell(text, level)


class Watcher(Protocol):
    """Where a run is watched, beside the terminal."""

    @property
    def run_id(self) -> UUID: ...

    def tell(self, text: str, level: Level) -> None:
        """Take a line of the log."""

    def watch(self, bar: "StageBar") -> AbstractContextManager[None]:
        """Show a stage while it goes on."""

    def close(self) -> None:
        """See to it that all lines have come."""


def add_watcher(watcher: Watcher) -> None:
    """Tell this one from now on, alone: it watches the run that has just begun, maybe within another."""
    remove_watcher(watcher.run_id)
    _watchers.append(watcher)


def remove_watcher(run_id: UUID) -> None:
    """Tell whoever was told before this run began."""
    for watcher in [each for each in _watchers if each.run_id == run_id]:
        watcher.close()
        _watchers.remove(watcher)


class StageBar:
    """Counts of one stage while its batches finish and replies come in."""

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
        """Count one reply of a service, before its batch is done."""
        self.replies += 1
        if time.monotonic() - self._shown > _REPLY_NEWS_EVERY_S:
            self._show(0)

    def percent(self) -> float:
        """Return how far the stage has come, by its batches, and within the next one by the replies that have come."""
        if self.done >= self.batches:
            return 100.0
        replied = self.batches * self.replies / self.expected if self.expected else 0.0
        return round(100 * max(self.done, min(self.done + _MOST_OF_BATCH, replied)) / self.batches, 1)

    def describe(self) -> str:
        """Return the stage, its batches and its counts in words."""
        batches = f"{self.done:,} of {self.batches:,} batches, " if self.batches > 1 else ""
        under_way = f", {self.replies:,} of {self.expected:,} replies" if self.replies < self.expected else ""
        return f"{self.name}: {batches}{self.note()}{under_way}"

    def note(self) -> str:
        """Return the counts in words."""
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
    """Show one stage."""
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
    """Return how far the stage has come that is under way, in words; empty when there is none."""
    return _bar.describe() if _bar is not None and _bar.done < _bar.batches else ""


def _watching(bar: StageBar) -> AbstractContextManager[None]:
    return _watchers[-1].watch(bar) if _watchers else nullcontext()


def expect_replies(calls: int) -> None:
    """Count calls that are being sent to a service."""
    if _bar is not None:
        _bar.expected += calls


def count_reply() -> None:
    """Count one reply of a service for the stage that is under way."""
    if _bar is not None:
        _bar.count_reply()


_REPLY_NEWS_EVERY_S = 0.2
_MOST_OF_BATCH = 0.9
"""What the replies of a batch are of it: what is made of them takes its time too."""
_bar: StageBar | None = None
_watchers: list[Watcher] = []
"""Those of the runs that are under way in this process, each within the one before; the last is told."""
