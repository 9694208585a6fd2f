"""How many calls go out in one request, learnt from its answers.

What an endpoint does in its time differs a thousandfold between queries and between items, so no size is right for
all. A request that was too big, because it timed out or was refused for its size, is halved, and what still waits goes
out in groups of that half at once. The size grows back by a quarter after some groups of full size in a row got through,
and goes back where it was when that was too much; each time it had to shrink, growing takes twice as many: a request
that fails has cost the endpoint's whole time-out, so it is tried rarely.

One call that is too much by itself must not make all others go out one by one. Hence of the two halves of a group, one
alone that is too big as well is only halved further, being where that call is; both say that the size is at fault.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")

_FIRST_PATIENCE = 4
_LONGEST_PATIENCE = 256


class GroupSize:
    """The size of one kind of request; changed from the sending loop only."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.now = most
        """Calls in one request, between 1 and `most`."""
        self._before = 0
        """The size it last grew from; 0 when it has shrunk since."""
        self._calm = 0
        self._patience = _FIRST_PATIENCE

    def note_success(self, calls: int) -> None:
        """Count a request with so many calls that was answered."""
        if calls < self.now or self.now == self.most:
            return
        self._calm += 1
        if self._calm >= self._patience:
            self._before, self._calm = self.now, 0
            self.now = min(self.most, self.now + max(1, self.now // 4))

    def note_too_big(self, calls: int) -> None:
        """Count a request with so many calls that was too big; several of the old size under way count once."""
        half = max(1, calls // 2, self.now // 2)
        smaller = self._before if half <= self._before < calls else half
        if smaller < self.now:
            self.now, self._before, self._calm = smaller, 0, 0
            self._patience = min(_LONGEST_PATIENCE, 2 * self._patience)


@dataclass(slots=True)
class Split:
    """A group that was too big and went out again in two halves."""

    too_big: int = 0
    """How many of the halves were too big in their turn."""


@dataclass(slots=True)
class Piece(Generic[Item]):
    """What goes out in one request, and how often it was tried."""

    items: Sequence[Item]
    size: GroupSize | None = None
    """Where to note how it went; None for groups whose size is given."""
    split: Split | None = None
    """The split that it came from."""
    tries: int = 0

    def note_too_big(self) -> None:
        """Blame the size for what was too big, or wait until it is clear that no single item is to blame."""
        if self.split is not None:
            self.split.too_big += 1
        if self.size is None:
            return
        is_size_to_blame = len(self.items) >= self.size.now if self.split is None else self.split.too_big == 2
        if is_size_to_blame:
            self.size.note_too_big(len(self.items))

    def trim(self) -> "Piece[Item] | None":
        """Cut this piece to the size that works now, and return what is left of it; None when it is not bigger."""
        if self.size is None or len(self.items) <= self.size.now:
            return None
        rest = Piece(self.items[self.size.now :], self.size, None, self.tries)
        self.items, self.split = self.items[: self.size.now], None
        return rest

    def halve(self) -> "tuple[Piece[Item], Piece[Item]]":
        """Return both halves, as often tried as the whole was before: a split is not an attempt."""
        half, split = len(self.items) // 2, Split()
        return (
            Piece(self.items[:half], self.size, split, self.tries),
            Piece(self.items[half:], self.size, split, self.tries),
        )
