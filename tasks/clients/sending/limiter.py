"""Adaptive limits on requests in parallel and on calls per request, both learnt from a service's responses.

The rule is that of data-centre TCP (RFC 8257): react to the *share* of troubled responses, not to each one. A round of
requests in which all are refused halves the limit; a round in which one in ten is refused by chance costs a twentieth,
which the other nine win back. So an overloaded service is relieved within a few round trips, while one that drops some
requests at random keeps its throughput; halving on every single refusal would reduce 64 parallel requests to about
four. As arithmetic per response, this needs no clock and no window: each trouble takes half a place away, each success
gives `step / allowed` places back.

Retry-After always delays the request that it answered. It delays the whole service as well when it is longer than a
second, since such a time concerns the client's budget, or when half of the last responses were trouble. A short one
amid successes concerns its own request only. A rate refusal without Retry-After pauses the service likewise, for a time
that doubles with each refusal until one request succeeds: where half of the last responses were trouble, and always
where the service's rate is known, since it refuses nobody by chance.

Requests start one after the other with a small gap, not all at once: a burst of 64 returns as a burst, and while its
responses are processed no new request leaves. With the gap, responses and new requests interleave (measured with 64 in
parallel and 200 ms a response: 93 % of the ideal throughput instead of 89 %). The gap spreads a round over half of a
response's time, so that it never delays a quick service.

Services that count a client's requests together share a limiter (`get_or_create_shared_limiter`): each has its own within it. A rate
uses the same clock as the gap: a start, or the time that the service worked, moves the next start, so that no minute
exceeds the rate.

An endpoint's speed differs a thousandfold between queries and between items, so no fixed size fits all. A request that
was too big, because it timed out or was refused for its size, is halved, and waiting items go out in groups of that
half at once. The size grows by a quarter after some full-size groups in a row succeeded, and returns to the previous
one when that was too much. Each time it shrinks, growing takes twice as many successes: a failed request has cost the
endpoint's whole time-out, so growth is tried rarely.

One oversized call must not make all others go out one by one. Hence, if only one half of a group is too big as well, it
contains that call and is only halved further; if both are, the size is at fault.
"""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

SHORT_PAUSE_S = 1.0
MAX_PAUSE_S = 600.0
MAX_BACKOFF_S = 60.0
"""Longest pause where the service gave no time."""
_TROUBLE_WINDOW = 16
_MAX_START_GAP_S = 0.0015
_WAIT_TOLERANCE_S = 0.002


class PauseTooLongError(Exception):
    """The service asked for a pause that is longer than a run should wait."""


class RequestLimiter:
    """Admits requests of one service; used from the sending loop only."""

    def __init__(
        self,
        most: int,
        *,
        per_minute: float | None = None,
        work_s_per_minute: float | None = None,
        within: "RequestLimiter | None" = None,
    ) -> None:
        """`per_minute`: requests that may start in a minute, evenly spread; `work_s_per_minute`: seconds that the
        service may work on requests per minute on average, twice as many in any one. None: no limit.

        `within`: a limiter that has to admit these requests too.
        """
        self.max_parallel = most
        self.allowed = float(most)
        """Current number of places, between 1 and `most`; the whole part counts."""
        self.under_way = 0
        self._within = within
        self._start_cost_s = self._work_cost = 0.0
        self.tighten(most, per_minute, work_s_per_minute)
        self._paused_until = 0.0
        self._next_start = 0.0
        self._gap_s = _MAX_START_GAP_S
        self._trouble_share = 0.0
        self._refusals_in_row = 0
        """Pauses since the last success where the service gave no time."""
        self._changed = asyncio.Event()
        self._entry_lock = asyncio.Lock()
        """First come, first served, among all services that share this limiter."""

    def tighten(self, most: int, per_minute: float | None, work_s_per_minute: float | None) -> None:
        """Apply these bounds as well."""
        self.max_parallel = min(self.max_parallel, most)
        self.allowed = min(self.allowed, float(self.max_parallel))
        self._start_cost_s = max(self._start_cost_s, 60 / per_minute if per_minute else 0.0)
        self._work_cost = max(self._work_cost, 60 / work_s_per_minute if work_s_per_minute else 0.0)
        # work that a service did not use within the last minute, it may use later
        self._lead_s = 60.0 if self._work_cost else 0.0

    async def acquire(self) -> None:
        """Wait for a place and take it; PauseTooLongError when the service asked for more than MAX_PAUSE_S."""
        async with self._entry_lock:
            await self._wait_for_place()
        if self._within is not None:
            try:
                await self._within.acquire()
            except BaseException:  # such as a time-out or Ctrl-C: free the unused place
                self.under_way -= 1
                self._changed.set()
                raise

    async def _wait_for_place(self) -> None:
        while True:
            now = asyncio.get_running_loop().time()
            pause_s = self._paused_until - now
            wait_s = self._next_start - self._lead_s - now
            if pause_s > MAX_PAUSE_S:
                raise PauseTooLongError(f"the service asked for a pause of {pause_s:.0f} s, over {MAX_PAUSE_S:.0f} s")
            if pause_s > 0 or self.under_way >= int(self.allowed):
                self._changed.clear()
                await wait_for_event(self._changed, pause_s if pause_s > 0 else None)
            elif wait_s > _WAIT_TOLERANCE_S:
                await asyncio.sleep(wait_s)
            else:
                self._next_start = max(now, self._next_start) + max(self._gap_s, self._start_cost_s)
                self.under_way += 1
                return

    def release(self, worked_s: float = 0.0) -> None:
        """Release the place; `worked_s`: seconds from the request's start to its end."""
        if self._work_cost:
            now = asyncio.get_running_loop().time()
            self._next_start = max(now, self._next_start) + worked_s * self._work_cost
        self.under_way -= 1
        self._changed.set()
        if self._within is not None:
            self._within.release(worked_s)

    def note_success(self, latency_s: float) -> None:
        """Count a response without signs of overload, and its latency."""
        self._update_trouble_share(0.0)
        self._refusals_in_row = 0
        self._gap_s += (min(_MAX_START_GAP_S, latency_s / self.max_parallel / 2) - self._gap_s) / _TROUBLE_WINDOW
        self.allowed = min(self.max_parallel, self.allowed + max(1.0, self.max_parallel / 16) / self.allowed)
        if self._within is not None:
            self._within.note_success(latency_s)

    def note_trouble(self, retry_after_s: float | None, backoff_s: float | None = None) -> float:
        """Count a response that asks for fewer requests: 429, 503, a time-out, maxlag, or anything with Retry-After.

        `backoff_s`: the first pause after a rate refusal; None: it is none. Returns the seconds of the pause that
        begins now although the service gave no time; 0: none begins.
        """
        self._update_trouble_share(1.0)
        self.allowed = max(1.0, self.allowed - 0.5)
        now = asyncio.get_running_loop().time()
        pause_s = 0.0
        is_often = self._trouble_share >= 0.5
        if retry_after_s is not None:
            if retry_after_s > SHORT_PAUSE_S or is_often:
                self._paused_until = max(self._paused_until, now + retry_after_s)
        # a refusal of a request sent before the pause began tells nothing new
        elif backoff_s and now >= self._paused_until and (is_often or self._start_cost_s or self._work_cost):
            pause_s = min(MAX_BACKOFF_S, backoff_s * 2 ** min(self._refusals_in_row, 16))
            self._paused_until = now + pause_s
            self._refusals_in_row += 1
        if self._within is not None:
            pause_s = max(pause_s, self._within.note_trouble(retry_after_s, backoff_s))
        return pause_s

    def _update_trouble_share(self, trouble: float) -> None:
        self._trouble_share += (trouble - self._trouble_share) / min(_TROUBLE_WINDOW, self.max_parallel)


_limiters: dict[str, RequestLimiter] = {}
_limiters_lock = threading.Lock()


def get_or_create_shared_limiter(
    name: str, max_parallel: int, per_minute: float | None = None, work_s_per_minute: float | None = None
) -> RequestLimiter:
    """Return this process's only limiter with this name; the tightest of all bounds apply."""
    with _limiters_lock:
        limiter = _limiters.setdefault(name, RequestLimiter(max_parallel))
        limiter.tighten(max_parallel, per_minute, work_s_per_minute)
        return limiter


async def wait_for_event(event: asyncio.Event, timeout_s: float | None) -> None:
    """Wait until the event is set, at most `timeout_s` seconds (None: no limit)."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return


Item = TypeVar("Item")

_FIRST_GROWTH_THRESHOLD = 4
_MAX_GROWTH_THRESHOLD = 256


class AdaptiveCallsPerRequest:
    """Adaptive number of calls in one kind of request; changed from the sending loop only."""

    def __init__(self, most: int) -> None:
        self.max_size = most
        self.current = most
        """Calls in one request, between 1 and `most`."""
        self._size_before_growth = 0
        """Size that it last grew from; 0 when it has shrunk since."""
        self._successes_in_row = 0
        self._growth_threshold = _FIRST_GROWTH_THRESHOLD

    def note_success(self, calls: int) -> None:
        """Count an answered request with `calls` calls."""
        if calls < self.current or self.current == self.max_size:
            return
        self._successes_in_row += 1
        if self._successes_in_row >= self._growth_threshold:
            self._size_before_growth, self._successes_in_row = self.current, 0
            self.current = min(self.max_size, self.current + max(1, self.current // 4))

    def note_too_big(self, calls: int) -> None:
        """Count a request with `calls` calls that was too big; several of the old size in progress count once."""
        half = max(1, calls // 2, self.current // 2)
        smaller = self._size_before_growth if half <= self._size_before_growth < calls else half
        if smaller < self.current:
            self.current, self._size_before_growth, self._successes_in_row = smaller, 0, 0
            self._growth_threshold = min(_MAX_GROWTH_THRESHOLD, 2 * self._growth_threshold)


@dataclass(slots=True)
class SharedCountOfTooBigHalves:
    """A group that was too big and went out again in two halves."""

    too_big: int = 0
    """How many of the halves were too big themselves."""


@dataclass(slots=True)
class SendGroup(Generic[Item]):
    """Items that go out in one request, and how often it was tried."""

    items: Sequence[Item]
    size: AdaptiveCallsPerRequest | None = None
    """Size to adapt to the outcome; None for groups of a given size."""
    split: SharedCountOfTooBigHalves | None = None
    """The split that it came from."""
    tries: int = 0

    def note_too_big(self) -> None:
        """Reduce the size, unless a single item may be to blame; then wait for the other half."""
        if self.split is not None:
            self.split.too_big += 1
        if self.size is None:
            return
        is_size_to_blame = len(self.items) >= self.size.current if self.split is None else self.split.too_big == 2
        if is_size_to_blame:
            self.size.note_too_big(len(self.items))

    def trim_to_size(self) -> "SendGroup[Item] | None":
        """Cut this piece to the current size, and return the rest; None when it is not bigger."""
        if self.size is None or len(self.items) <= self.size.current:
            return None
        rest = SendGroup(self.items[self.size.current :], self.size, None, self.tries)
        self.items, self.split = self.items[: self.size.current], None
        return rest

    def halve(self) -> "tuple[SendGroup[Item], SendGroup[Item]]":
        """Return both halves, with the tries of the whole: a split is not an attempt."""
        half, split = len(self.items) // 2, SharedCountOfTooBigHalves()
        return (
            SendGroup(self.items[:half], self.size, split, self.tries),
            SendGroup(self.items[half:], self.size, split, self.tries),
        )
