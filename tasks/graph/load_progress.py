"""How far a load is, how fast it reads and when it will have read everything."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from tasks.graph.loading.sources.streams import Block, Source

Phase = Literal["checking", "reading", "sorting", "writing", "digesting"]
"""What a load does: `checking` what was read before it was stopped, `reading`, `sorting` rows into tables, `writing`
arrays, `digesting` the files it made."""


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """How far a load is."""

    phase: Phase
    source: str
    """The source that is being read, or was the last."""
    lines: int
    """Lines read so far, of all sources."""
    bytes_read: int
    """Bytes read so far as they lie on disk, of all sources."""
    bytes_total: int | None
    """Bytes of all sources; None when one is a pipe."""
    seconds: float
    """Time since the command began."""
    lines_per_s: float
    """Mean since reading began."""
    text_bytes_per_s: float
    """Bytes of unpacked text, likewise."""
    eta_s: float | None
    """Time until all sources are read, if they go on like this; None when that cannot be told."""


class Meter:
    """Counts what is read and tells it."""

    def __init__(self, notify: Callable[[LoadProgress], None]) -> None:
        self.phase: Phase = "reading"
        self._notify = notify
        self._began_s = time.monotonic()
        self._sources: Sequence[Source] = ()
        self._total: int | None = None
        self._lines_before = self._lines = self._text_bytes = self._bytes_before = 0
        self._reading_began_s = self._reading_s = 0.0

    def watch(self, sources: Sequence[Source], lines_before: int) -> None:
        """Take the sources, of which so many lines were read by an earlier load."""
        sizes = [source.find_size() for source in sources]
        self._sources = sources
        self._total = None if None in sizes else sum(size for size in sizes if size is not None)
        self._lines_before, self._lines, self._text_bytes = lines_before, 0, 0

    def enter(self, phase: Phase) -> None:
        """Begin with a phase."""
        self.phase = phase
        if phase == "reading":
            self._reading_began_s, self._bytes_before = time.monotonic(), self._count_bytes()
        self.report()

    def count(self, block: Block) -> None:
        """Count a block that was read."""
        if self.phase == "checking":
            self.enter("reading")
        self._lines += block.end.lines - block.first_line + 1
        self._text_bytes += len(block.data)
        self.report()

    def report(self) -> None:
        """Tell how far the load is."""
        now_s = time.monotonic()
        if self.phase == "reading":
            self._reading_s = now_s - self._reading_began_s
        read, reading_s = self._count_bytes(), self._reading_s
        new_bytes = read - self._bytes_before
        is_known = self._total is not None and self.phase == "reading" and new_bytes > 0
        self._notify(
            LoadProgress(
                phase=self.phase,
                source=next((each.path for each in reversed(self._sources) if each.size_bytes), ""),
                lines=self._lines_before + self._lines,
                bytes_read=read,
                bytes_total=self._total,
                seconds=now_s - self._began_s,
                lines_per_s=self._lines / reading_s if reading_s else 0.0,
                text_bytes_per_s=self._text_bytes / reading_s if reading_s else 0.0,
                eta_s=max(0, self._total - read) * reading_s / new_bytes if is_known and self._total else None,
            )
        )

    def _count_bytes(self) -> int:
        return sum(source.size_bytes for source in self._sources)
