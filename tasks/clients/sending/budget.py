"""Bounds on what a run may spend: money, requests, hours; kept while it runs, before they are crossed.

Nobody knows what a request to a priced model costs before its reply has come, and with 64 under way at once a bound that
is compared with what was paid is long crossed when it is noticed. So each request first holds the most that it can cost
(openai_server.py), and what is paid and what is held never come to more than the bound. The reply tells the real price,
and the rest is let go. What cannot be afforded just now waits while others are under way, whose replies may let go enough;
when none is, the bound is reached.

A request whose reply never came (a time-out, a cut connection) may have been paid for: what it held counts as spent. So does
what a request held whose reply tells no usage. A request that was refused, or failed with an error, costs nothing.

`LazyService` opens an account of its service around `send`; the sender and the server find it by the context, in which all
that is sent there runs. All but `check`, `spent` and `take` (redirects, in threads of their own) is used from the sending loop only.
"""

import asyncio
import math
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from factmill.tasks.core.spending.bounds import Bounds, Spent, count, count_hours, count_usd
from factmill.tasks.errors import BudgetReached


class TightError(Exception):
    """A request cannot be afforded while others are under way, whose replies may let go enough of what they hold."""


class Budget:
    """What a run has spent, and may spend."""

    def __init__(self, bounds: Bounds = Bounds()) -> None:  # noqa: B008 - frozen
        self.bounds = bounds
        self.requests: Counter[str] = Counter()
        """Service → requests that went out to it, each try of one."""
        self._paid = self._unanswered = 0.0
        self._held: dict[int, float] = {}
        self._answered: set[str] = set()
        self._probes: dict[int, str] = {}
        self._last = 0
        self._room = asyncio.Event()
        self._room.set()
        self._started = time.monotonic()
        self._reached = ""
        """Which bound was reached first, in words; empty: none."""
        self.why = ""
        """What would have crossed it; empty where it was used up."""
        self.is_too_low = False
        """True when the same command would come no further than to it."""
        self._counting = threading.Lock()

    def bind(self, bounds: Bounds) -> None:
        """Begin a run with these bounds; its hours count from now."""
        self.bounds, self._started, self._reached = bounds, time.monotonic(), ""

    @property
    def spent(self) -> Spent:
        """What was spent so far."""
        hours = (time.monotonic() - self._started) / 3600
        return Spent(self._paid, self._unanswered, self.requests.total(), hours)

    def check(self) -> None:
        """Raise BudgetReached when a bound was reached before, or time is up."""
        if not self._reached:
            self.check_time()
        if self._reached:
            raise self._reach(self._reached)

    def check_time(self) -> None:
        """Raise BudgetReached when time is up, whatever other bound was reached before."""
        if self.bounds.hours is not None and self.spent.hours >= self.bounds.hours:
            raise self._reach(f"{count_hours(self.bounds.hours)} (--max-hours)")

    @property
    def left_s(self) -> float | None:
        """Seconds until time is up; None where nothing bounds it."""
        return None if self.bounds.hours is None else max(0.0, 3600 * (self.bounds.hours - self.spent.hours))

    async def sleep(self, seconds: float) -> None:
        """Wait so long, or until time is up, and raise BudgetReached then."""
        left_s = self.left_s
        await asyncio.sleep(seconds if left_s is None else min(seconds, left_s))
        self.check_time()

    def take(self, service: str) -> None:
        """Count a request that is about to go out; BudgetReached when it would be one too many."""
        self.check()
        most = self.bounds.requests
        with self._counting:
            if most is not None and self.requests.total() >= most:
                raise self._reach(f"{count(most, 'request')} (--max-requests)")
            self.requests[service] += 1
            _of_process.requests += 1

    def give_back(self, service: str) -> None:
        """Take back the count of a request that did not go out after all."""
        with self._counting:
            self.requests[service] -= 1
            _of_process.requests -= 1

    def hold(self, model: str, usd: float, *, is_probed: bool = True) -> int:
        """Hold the most that a request to a model can cost, and return the number of what is held.

        TightError when that has to wait for replies, BudgetReached when it is too much. Until a priced model has answered
        once, one request goes out to it alone, if it `is_probed`: whether its server keeps to limits is learnt from that.
        """
        self.check()
        most = math.inf if self.bounds.cost_usd is None else self.bounds.cost_usd
        committed = self._paid + self._unanswered + math.fsum(self._held.values())
        if model in self._probes.values() or (committed + usd > most and self._held):
            self._room.clear()
            raise TightError
        if committed + usd > most:
            why = f"since the next request can cost up to {count_usd(usd)}"
            raise self._reach(f"{count_usd(most)} (--max-cost)", why, is_too_low=usd > most)
        self._last += 1
        self._held[self._last] = usd
        if is_probed and model not in self._answered and usd and math.isfinite(most):
            self._probes[self._last] = model
        return self._last

    def settle(self, number: int, usd: float, *, is_answer: bool = True) -> None:
        """Let go what a request held, and count what it has cost."""
        model = self._probes.pop(number, None)
        if model is not None and is_answer:
            self._answered.add(model)
        del self._held[number]
        self._paid += usd
        _of_process.paid_usd += usd
        self._room.set()

    def forgo(self, number: int, *, is_answer: bool = False) -> None:
        """Count as spent all that a request held: its reply never came, or tells no usage (`is_answer`)."""
        usd = self._held[number]
        self.settle(number, 0.0, is_answer=is_answer)
        self._unanswered += usd
        _of_process.unanswered_usd += usd

    async def wait_for_room(self) -> None:
        """Wait while nothing can be afforded before another request is answered."""
        while not self._room.is_set() and self._held:
            await self._room.wait()

    async def wait_until_idle(self) -> None:
        """Wait until nothing that costs money is under way."""
        while self._held:
            self._room.clear()
            await self._room.wait()

    def _reach(self, what: str, why: str = "", *, is_too_low: bool = False) -> BudgetReached:
        """Return the error of the bound that was reached first: a new one each time, since an error that is raised again and
        again drags all those ways along."""
        if not self._reached:
            self._reached = what
            self.why, self.is_too_low = why, is_too_low or not self.requests.total()
        return BudgetReached(self._reached)


@dataclass(frozen=True, slots=True)
class Account:
    """A budget, as one service spends from it."""

    service: str
    """Its identity."""
    budget: Budget


@contextmanager
def spending(account: Account) -> Iterator[None]:
    """Have what is sent in this context spend from an account."""
    token = _account.set(account)
    try:
        yield
    finally:
        _account.reset(token)


def find_account() -> Account:
    """Return the account of this context; one without bounds where nobody has opened any."""
    return _account.get(_UNBOUND)


def spent_by_process() -> Spent:
    """Return what all runs of this process have spent so far; its hours are those of a clock, to be compared with others."""
    return Spent(_of_process.paid_usd, _of_process.unanswered_usd, _of_process.requests, time.monotonic() / 3600)


@dataclass(slots=True)
class _Total:
    paid_usd: float = 0.0
    unanswered_usd: float = 0.0
    requests: int = 0


_of_process = _Total()
_account: ContextVar[Account] = ContextVar("_account")
_UNBOUND = Account("", Budget())
