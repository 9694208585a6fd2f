"""Progress of a build as it goes: one live bar a stage on a terminal, one line a stage elsewhere, nothing when told so.

The command chooses with `show`; a flow that is run by a scheduler shows nothing and leaves watching to Prefect's UI.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tasks.core.receipts import Receipt

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
        _console.print(text, highlight=False)


class StageBar:
    """Counts of one stage while its batches finish."""

    def __init__(self, name: str, batches: int, progress: Progress | None) -> None:
        self.rows = self.rejects = self.merged = self.sent = self.replayed = 0
        self._progress = progress
        self._task = progress.add_task(name, total=batches, note="") if progress else None

    def advance(self, receipt: Receipt) -> None:
        """Count one finished batch."""
        self.rows += receipt.rows
        self.rejects += receipt.rejects
        self.merged += receipt.merged
        self.sent += receipt.calls_sent
        self.replayed += receipt.calls_replayed
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, advance=1, note=self.note())

    def note(self) -> str:
        """Return the counts in words."""
        calls = f", calls {self.sent} sent {self.replayed} replayed" if self.sent or self.replayed else ""
        merged = f", {self.merged} merged" if self.merged else ""
        return f"{self.rows} rows, {self.rejects} rejected{merged}{calls}"


@contextmanager
def stage(name: str, batches: int) -> Iterator[StageBar]:
    """Show one stage."""
    if _style != "live":
        bar = StageBar(name, batches, None)
        yield bar
        say(f"{name}: {bar.note()}")
        return
    columns = (
        TextColumn("{task.description:<32}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=_console) as progress:
        yield StageBar(name, batches, progress)
