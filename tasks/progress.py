"""Progress of a build as it goes: one live bar a stage on a terminal, one line a stage elsewhere, nothing when told so.

The command chooses with `show`; a flow that is run by a scheduler shows nothing and leaves watching to Prefect's UI.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tasks.core.receipts import Receipt
from tasks.text.whole import clean

Style = Literal["live", "lines", "none"]

_style: Style = "none"
_console = Console(stderr=True)


def show(style: Style | None = None) -> None:
    """Choose how progress is shown; None: live on a terminal, lines elsewhere. All of it goes to standard error."""
    global _style  # noqa: PLW0603 - one terminal a process
    _style = style or ("live" if sys.stderr.isatty() else "lines")


def say(text: str) -> None:
    """Print one line of news, unless progress is off."""
    if _style != "none":
        _console.print(clean(text), highlight=False, markup=False, soft_wrap=True)


class StageBar:
    """Counts of one stage while its batches finish and replies come in."""

    def __init__(self, name: str, batches: int, progress: Progress | None) -> None:
        self.rows = self.rejects = self.merged = self.sent = self.replayed = self.replies = 0
        self._progress = progress
        self._task = progress.add_task(name, total=batches, note="") if progress else None
        self._shown = 0.0

    def advance(self, receipt: Receipt) -> None:
        """Count one finished batch."""
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

    def note(self) -> str:
        """Return the counts in words."""
        calls = f", calls {self.sent} sent {self.replayed} replayed" if self.sent or self.replayed else ""
        merged = f", {self.merged} merged" if self.merged else ""
        return f"{self.rows} rows, {self.rejects} rejected{merged}{calls}"

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
        yield _bar
        say(f"{name}: {_bar.note()}")
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
        yield _bar


def count_reply() -> None:
    """Count one reply of a service for the stage that is under way."""
    if _bar is not None:
        _bar.count_reply()


_REPLY_NEWS_EVERY_S = 0.2
_bar: StageBar | None = None
