"""Run an event loop whose clock stops while anything can run, and jumps to the next timer."""

import asyncio
import selectors
from collections.abc import Sequence


class VirtualClock(selectors.DefaultSelector):
    """The loop's selector; a wait with nothing to read takes no time and moves the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Sequence[tuple[selectors.SelectorKey, int]]:  # type: ignore[override]
        """Return the readable descriptors; without any timer, wait for another thread."""
        if timeout is None:
            return super().select()
        found = super().select(0)
        if not found:
            self.now += max(timeout, 0.0)
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop; `time()` is in seconds from its start."""

    def __init__(self) -> None:
        self._clock = VirtualClock()
        super().__init__(self._clock)

    def time(self) -> float:
        """Return the seconds passed on the virtual clock."""
        return self._clock.now
