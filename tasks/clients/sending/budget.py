"""Budget of a run: bounds on money, requests and hours, checked before they are exceeded.

The cost of a request to a priced model is unknown until its response arrives, and with 64 in progress, comparing the
bound with payments alone notices too late. So each request first reserves its highest possible cost (openai_server.py),
and payments plus reservations never exceed the bound. The response gives the real price and frees the rest. A request
that does not fit now waits while others are in progress, which may free enough; when none is, the bound is reached.

A request whose response never came (a time-out, a cut connection) may have been billed, so its reservation counts as
spent; likewise where the response gives no usage. A refused request, or one that failed with an error, costs nothing.

`LazyBudgetedService` sets the account of its service around `send`; the sender and the server read it from the context, in
which all sending runs. All but `check`, `spent` and `take` (redirects, in separate threads) is used from the sending
loop only.
"""

import asyncio
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from factmill.tasks.core.calls.call import Call, CallResponse, CallService, ResponseHandler
from factmill.tasks.core.spending.costs import (
    BudgetLimits,
    RunSpending,
    format_count_with_noun,
    format_hours,
    format_usd,
)
from factmill.tasks.errors import BudgetExhausted


class BudgetFullyReserved(Exception):
    """A request does not fit the budget until others, now in progress, free some of their reservations."""


class Budget:
    """What a run has spent, and may spend."""

    def __init__(self, bounds: BudgetLimits = BudgetLimits()) -> None:  # noqa: B008 - frozen
        self.bounds = bounds
        self.requests: Counter[str] = Counter()
        """Service → requests sent to it, each try counted."""
        self._paid_usd = self._unanswered_usd = 0.0
        self._reserved_usd: dict[int, float] = {}
        self._answered_models: set[str] = set()
        self._probed_models: dict[int, str] = {}
        self._last_reservation = 0
        self._budget_freed = asyncio.Event()
        self._budget_freed.set()
        self._started = time.monotonic()
        self._reached_bound = ""
        """Which bound was reached first, as text; empty: none."""
        self.reached_reason = ""
        """What would have exceeded it; empty where it was used up."""
        self.is_too_low = False
        """True when repeating the same command would not get past it."""
        self._count_lock = threading.Lock()

    def start_run(self, bounds: BudgetLimits) -> None:
        """Begin a run with these bounds; its hours count from now."""
        self.bounds, self._started, self._reached_bound = bounds, time.monotonic(), ""

    @property
    def spent(self) -> RunSpending:
        """Amounts spent so far."""
        hours = (time.monotonic() - self._started) / 3600
        return RunSpending(self._paid_usd, self._unanswered_usd, self.requests.total(), hours)

    def check(self) -> None:
        """Raise BudgetExhausted when a bound was reached before, or time is up."""
        if not self._reached_bound:
            self.check_time()
        if self._reached_bound:
            raise self._make_reached_error(self._reached_bound)

    def check_time(self) -> None:
        """Raise BudgetExhausted when time is up, even if another bound was reached before."""
        if self.bounds.hours is not None and self.spent.hours >= self.bounds.hours:
            raise self._make_reached_error(f"{format_hours(self.bounds.hours)} (--max-hours)")

    @property
    def seconds_left(self) -> float | None:
        """Seconds until time is up; None without a bound on time."""
        return None if self.bounds.hours is None else max(0.0, 3600 * (self.bounds.hours - self.spent.hours))

    async def sleep(self, seconds: float) -> None:
        """Sleep for `seconds`, or until time is up, and then raise BudgetExhausted."""
        left_s = self.seconds_left
        await asyncio.sleep(seconds if left_s is None else min(seconds, left_s))
        self.check_time()

    def count_request(self, service: str) -> None:
        """Count a request that is about to go out; BudgetExhausted when it exceeds the bound."""
        self.check()
        most = self.bounds.requests
        with self._count_lock:
            if most is not None and self.requests.total() >= most:
                raise self._make_reached_error(f"{format_count_with_noun(most, 'request')} (--max-requests)")
            self.requests[service] += 1
            _process_totals.requests += 1

    def uncount_request(self, service: str) -> None:
        """Undo the count of a request that did not go out."""
        with self._count_lock:
            self.requests[service] -= 1
            _process_totals.requests -= 1

    def reserve(self, model: str, usd: float, *, is_probed: bool = True) -> int:
        """Reserve the highest cost of a request to a model; return the reservation's number.

        BudgetFullyReserved when the request has to wait for others, BudgetExhausted when it costs too much. Until a priced model
        has answered once, only one request goes out to it, if it `is_probed`: it shows whether the server keeps to
        limits.
        """
        self.check()
        most = math.inf if self.bounds.cost_usd is None else self.bounds.cost_usd
        committed = self._paid_usd + self._unanswered_usd + math.fsum(self._reserved_usd.values())
        if model in self._probed_models.values() or (committed + usd > most and self._reserved_usd):
            self._budget_freed.clear()
            raise BudgetFullyReserved
        if committed + usd > most:
            why = f"since the next request can cost up to {format_usd(usd)}"
            raise self._make_reached_error(f"{format_usd(most)} (--max-cost)", why, is_too_low=usd > most)
        self._last_reservation += 1
        self._reserved_usd[self._last_reservation] = usd
        if is_probed and model not in self._answered_models and usd and math.isfinite(most):
            self._probed_models[self._last_reservation] = model
        return self._last_reservation

    def settle(self, number: int, usd: float, *, is_answer: bool = True) -> None:
        """Free a request's reservation, and count its actual cost."""
        model = self._probed_models.pop(number, None)
        if model is not None and is_answer:
            self._answered_models.add(model)
        del self._reserved_usd[number]
        self._paid_usd += usd
        _process_totals.paid_usd += usd
        self._budget_freed.set()

    def charge_reservation(self, number: int, *, is_answer: bool = False) -> None:
        """Count a request's whole reservation as spent: no response came, or one without usage (`is_answer`)."""
        usd = self._reserved_usd[number]
        self.settle(number, 0.0, is_answer=is_answer)
        self._unanswered_usd += usd
        _process_totals.unanswered_usd += usd

    async def wait_for_free_budget(self) -> None:
        """Wait until another request ends, while the budget is fully reserved."""
        while not self._budget_freed.is_set() and self._reserved_usd:
            await self._budget_freed.wait()

    async def wait_until_idle(self) -> None:
        """Wait until no request that costs money is in progress."""
        while self._reserved_usd:
            self._budget_freed.clear()
            await self._budget_freed.wait()

    def _make_reached_error(self, what: str, why: str = "", *, is_too_low: bool = False) -> BudgetExhausted:
        """Return a new error for the bound that was reached first; raising one error again and again would grow its
        traceback."""
        if not self._reached_bound:
            self._reached_bound = what
            self.reached_reason, self.is_too_low = why, is_too_low or not self.requests.total()
        return BudgetExhausted(self._reached_bound)


@dataclass(frozen=True, slots=True)
class RunBudgetForService:
    """A budget, as one service spends from it."""

    service: str
    """The service's identity."""
    budget: Budget


@contextmanager
def charge_requests_to_account(account: RunBudgetForService) -> Iterator[None]:
    """Charge requests sent within the context to an account."""
    token = _current_account.set(account)
    try:
        yield
    finally:
        _current_account.reset(token)


def get_current_budget_account() -> RunBudgetForService:
    """Return the account of this context; one without bounds by default."""
    return _current_account.get(_UNLIMITED_ACCOUNT)


def get_process_total_spending() -> RunSpending:
    """Return the spending of all runs of this process; its hours are a clock reading, for differences only."""
    return RunSpending(
        _process_totals.paid_usd, _process_totals.unanswered_usd, _process_totals.requests, time.monotonic() / 3600
    )


@dataclass(slots=True)
class _ProcessSpendingTotals:
    paid_usd: float = 0.0
    unanswered_usd: float = 0.0
    requests: int = 0


_process_totals = _ProcessSpendingTotals()
_current_account: ContextVar[RunBudgetForService] = ContextVar("_account")
_UNLIMITED_ACCOUNT = RunBudgetForService("", Budget())


class LazyBudgetedService:
    """A service that is opened at the first call and spends from its run's budget."""

    def __init__(
        self, identity: str, is_outside: bool, open_service: Callable[[], CallService], *, computes: bool = False
    ) -> None:
        """`computes`: answers are computed locally, slowly and free of charge, so they stop between two replies when
        the budget is reached; requests to other services are waited for."""
        self.identity = identity
        self._computes = computes
        self.budget = Budget()
        """Budget that it spends from; replaced by the run's."""
        self.is_outside = is_outside
        self._open = open_service
        self._service: CallService | None = None
        self._lock = threading.Lock()

    def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        """Answer every call (see CallService); BudgetExhausted when the run may spend no more."""

        def deliver_and_check(call: Call, reply: CallResponse) -> None:
            deliver(call, reply)
            self.budget.check()

        self.budget.check()
        with self._lock:
            if self._service is None:
                self._service = self._open()
        with charge_requests_to_account(RunBudgetForService(self.identity, self.budget)):
            self._service.send(calls, deliver_and_check if self._computes else deliver)

    def notes(self) -> list[str]:
        """Return messages on what was learnt of the service, where it learns (a chat model)."""
        noting = getattr(self._service, "notes", None)
        return noting() if noting else []
