"""Budget of a run: bounds on money, requests and hours, checked before they are exceeded.

The cost of a request to a priced model is unknown until its response arrives, and with 64 in progress, comparing the
bound with payments alone notices too late. So each request first reserves its highest possible cost (openai_server.py),
and payments plus reservations never exceed the bound. The response gives the real price and frees the rest. A request
that does not fit now waits while others are in progress, which may free enough; when none is, the bound is reached.

A request whose response never came (a time-out, a cut connection) may have been billed, so its reservation counts as
spent; likewise where the response gives no usage. A refused request, or one that failed with an error, costs nothing.

`LazyService` sets the account of its service around `send`; the sender and the server read it from the context, in
which all sending runs. All but `check`, `spent` and `take` (redirects, in separate threads) is used from the sending
loop only.
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
    """A request does not fit the budget until others, now in progress, free some of their reservations."""


class Budget:
    """What a run has spent, and may spend."""

    def __init__(self, bounds: Bounds = Bounds()) -> None:  # noqa: B008 - frozen
        self.bounds = bounds
        self.requests: Counter[str] = Counter()
        """Service → requests sent to it, each try counted."""
        self._paid = self._unanswered = 0.0
        self._held: dict[int, float] = {}
        self._answered: set[str] = set()
        self._probes: dict[int, str] = {}
        self._last = 0
        self._room = asyncio.Event()
        self._room.set()
        self._started = time.monotonic()
        self._reached = ""
        """Which bound was reached first, as text; empty: none."""
        self.why = ""
        """What would have exceeded it; empty where it was used up."""
        self.is_too_low = False
        """True when repeating the same command would not get past it."""
        self._counting = threading.Lock()

    def bind(self, bounds: Bounds) -> None:
        """Begin a run with these bounds; its hours count from now."""
        self.bounds, self._started, self._reached = bounds, time.monotonic(), ""

    @property
    def spent(self) -> Spent:
        """Amounts spent so far."""
        hours = (time.monotonic() - self._started) / 3600
        return Spent(self._paid, self._unanswered, self.requests.total(), hours)

    def check(self) -> None:
        """Raise BudgetReached when a bound was reached before, or time is up."""
        if not self._reached:
            self.check_time()
        if self._reached:
            raise self._reach(self._reached)

    def check_time(self) -> None:
        """Raise BudgetReached when time is up, even if another bound was reached before."""
        if self.bounds.hours is not None and self.spent.hours >= self.bounds.hours:
            raise self._reach(f"{count_hours(self.bounds.hours)} (--max-hours)")

    @property
    def left_s(self) -> float | None:
        """Seconds until time is up; None without a bound on time."""
        return None if self.bounds.hours is None else max(0.0, 3600 * (self.bounds.hours - self.spent.hours))

    async def sleep(self, seconds: float) -> None:
        """Sleep for `seconds`, or until time is up, and then raise BudgetReached."""
        left_s = self.left_s
        await asyncio.sleep(seconds if left_s is None else min(seconds, left_s))
        self.check_time()

    def take(self, service: str) -> None:
        """Count a request that is about to go out; BudgetReached when it exceeds the bound."""
        self.check()
        most = self.bounds.requests
        with self._counting:
            if most is not None and self.requests.total() >= most:
                raise self._reach(f"{count(most, 'request')} (--max-requests)")
            self.requests[service] += 1
            _of_process.requests += 1

    def give_back(self, service: str) -> None:
        """Undo the count of a request that did not go out."""
        with self._counting:
            self.requests[service] -= 1
            _of_process.requests -= 1

    def hold(self, model: str, usd: float, *, is_probed: bool = True) -> int:
        """Reserve the highest cost of a request to a model; return the reservation's number.

        TightError when the request has to wait for others, BudgetReached when it costs too much. Until a priced model
        has answered once, only one request goes out to it, if it `is_probed`: it shows whether the server keeps to
        limits.
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
        """Free a request's reservation, and count its actual cost."""
        model = self._probes.pop(number, None)
        if model is not None and is_answer:
            self._answered.add(model)
        del self._held[number]
        self._paid += usd
        _of_process.paid_usd += usd
        self._room.set()

    def forgo(self, number: int, *, is_answer: bool = False) -> None:
        """Count a request's whole reservation as spent: no response came, or one without usage (`is_answer`)."""
        usd = self._held[number]
        self.settle(number, 0.0, is_answer=is_answer)
        self._unanswered += usd
        _of_process.unanswered_usd += usd

    async def wait_for_room(self) -> None:
        """Wait until another request ends, while the budget is fully reserved."""
        while not self._room.is_set() and self._held:
            await self._room.wait()

    async def wait_until_idle(self) -> None:
        """Wait until no request that costs money is in progress."""
        while self._held:
            self._room.clear()
            await self._room.wait()

    def _reach(self, what: str, why: str = "", *, is_too_low: bool = False) -> BudgetReached:
        """Return a new error for the bound that was reached first; raising one error again and again would grow its
        traceback."""
        if not self._reached:
            self._reached = what
            self.why, self.is_too_low = why, is_too_low or not self.requests.total()
        return BudgetReached(self._reached)


@dataclass(frozen=True, slots=True)
class Account:
    """A budget, as one service spends from it."""

    service: str
    """The service's identity."""
    budget: Budget


@contextmanager
def spending(account: Account) -> Iterator[None]:
    """Charge requests sent within the context to an account."""
    token = _account.set(account)
    try:
        yield
    finally:
        _account.reset(token)


def find_account() -> Account:
    """Return the account of this context; one without bounds by default."""
    return _account.get(_UNBOUND)


def spent_by_process() -> Spent:
    """Return the spending of all runs of this process; its hours are a clock reading, for differences only."""
    return Spent(_of_process.paid_usd, _of_process.unanswered_usd, _of_process.requests, time.monotonic() / 3600)


@dataclass(slots=True)
class _Total:
    paid_usd: float = 0.0
    unanswered_usd: float = 0.0
    requests: int = 0


_of_process = _Total()
_account: ContextVar[Account] = ContextVar("_account")
_UNBOUND = Account("", Budget())
