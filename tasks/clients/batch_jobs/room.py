"""How many requests the batch jobs of one model may hold at once.

A server bounds what all jobs of an account hold together, in tokens, and others may use the same account. So neither the bound
nor what is left of it is known: it is searched for. A refused job halves what is tried, a job that is taken lets it grow again,
and after some jobs at the size found the refusal is forgotten, since others may have finished by then. A refused job costs
minutes and no money, a job that is too small costs up to a day.
"""

import math

_PATIENCE = 4
"""Jobs that are taken at the size found before a larger one is tried again; doubled each time that one is refused."""


class Room:
    """The search for the number of requests that may be in hand."""

    def __init__(self) -> None:
        self.now: float = math.inf
        """Requests that may be in hand now, at least 1."""
        self.lone_refusals = 0
        """How many jobs of a single request were refused in a row, with no other job in hand."""
        self._refused: float = math.inf
        """The fewest requests in hand that were refused."""
        self._accepted = 0
        """The most requests in hand that were taken since; 0: none were."""
        self._taken, self._patience = 0, _PATIENCE

    def note_refusal(self, requests: int, others: int) -> None:
        """Note that a job of so many requests was refused while other jobs held `others`."""
        in_hand = requests + others
        self._refused = min(self._refused, in_hand)
        if in_hand <= self._accepted:
            self._accepted = 0  # others have more in hand than before
        self._taken = 0
        self.lone_refusals += in_hand == 1
        self.now = max(1, min(self.now, others or self._accepted or requests // 2))

    def note_success(self, in_hand: int) -> None:
        """Note that a job was taken with which so many requests were in hand."""
        self.lone_refusals = 0
        if in_hand < self.now:
            return  # it does not show that more would be taken
        if self._refused == math.inf:
            self._patience = _PATIENCE
        self._accepted = in_hand
        self._taken += 1
        if self._taken >= self._patience:
            self._taken, self._patience, self._refused = 0, 2 * self._patience, math.inf
        if self.now * 2 < self._refused:
            self.now *= 2
        elif self._refused - self.now > self.now // 2:
            self.now = (self.now + self._refused) // 2
