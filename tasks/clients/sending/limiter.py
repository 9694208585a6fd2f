"""How many requests a service is sent at once, learnt from its answers.

The rule is that of data-centre TCP (RFC 8257): react to the *share* of answers that are trouble, not to each one. A
round of requests in which all are refused halves what is permitted; a round in which one in ten is refused by chance
costs a twentieth, which the other nine win back. So a service that is over its budget is left in peace within a few
round trips, while one that drops some requests at random keeps its throughput; halving on every single refusal would
bring 64 parallel requests down to about four. Kept as arithmetic per answer, this needs no clock and no window:
each trouble takes half a place away, each success gives `step / allowed` places back.

Retry-After always holds back the request that was answered with it. It holds back the whole service as well when it is
longer than a second, since a service that names such a time speaks of the client's budget, or when half of the last
answers were trouble. A short one amid successes concerns its own request only.

Requests start one after the other with a small gap between them, not all at once: a burst of 64 comes back as a burst,
and while its replies are worked off no new request leaves. With the gap, replies and new requests interleave (measured
with 64 in parallel and 200 ms a reply: 93 % of the ideal throughput instead of 89 %). The gap spreads a round over half
of a reply's time, so that it never stands in the way of a quick service.
"""

import asyncio

SHORT_PAUSE_S = 1.0
LONGEST_PAUSE_S = 600.0
_MEMORY = 16
_LONGEST_GAP_S = 0.0015
_TOLERANCE_S = 0.002


class PauseError(Exception):
    """The service asked for a pause that is longer than a run should wait."""


class Limiter:
    """Admits requests of one service; used from the sending loop only."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.allowed = float(most)
        """Places there are now, between 1 and `most`; the whole part counts."""
        self.under_way = 0
        self._paused_until = 0.0
        self._next_start = 0.0
        self._gap_s = _LONGEST_GAP_S
        self._share = 0.0
        self._changed = asyncio.Event()

    async def enter(self) -> None:
        """Wait for a place and take it; PauseError when the service asked for more than LONGEST_PAUSE_S."""
        while True:
            now = asyncio.get_running_loop().time()
            pause_s = self._paused_until - now
            if pause_s > LONGEST_PAUSE_S:
                raise PauseError(f"the service asked for a pause of {pause_s:.0f} s, over {LONGEST_PAUSE_S:.0f} s")
            if pause_s > 0 or self.under_way >= int(self.allowed):
                self._changed.clear()
                await wait_for_event(self._changed, pause_s if pause_s > 0 else None)
            elif self._next_start - now > _TOLERANCE_S:
                await asyncio.sleep(self._next_start - now)
            else:
                self._next_start = max(now, self._next_start) + self._gap_s
                self.under_way += 1
                return

    def leave(self) -> None:
        """Give the place back."""
        self.under_way -= 1
        self._changed.set()

    def note_success(self, latency_s: float) -> None:
        """Count an answer that shows the service at ease, and how long it took."""
        self._remember(0.0)
        self._gap_s += (min(_LONGEST_GAP_S, latency_s / self.most / 2) - self._gap_s) / _MEMORY
        self.allowed = min(self.most, self.allowed + max(1.0, self.most / 16) / self.allowed)

    def note_trouble(self, retry_after_s: float | None) -> None:
        """Count an answer that asks for less: 429, 503, a time-out, maxlag, or anything with Retry-After."""
        self._remember(1.0)
        self.allowed = max(1.0, self.allowed - 0.5)
        if retry_after_s is not None and (retry_after_s > SHORT_PAUSE_S or self._share >= 0.5):
            now = asyncio.get_running_loop().time()
            self._paused_until = max(self._paused_until, now + retry_after_s)

    def _remember(self, trouble: float) -> None:
        self._share += (trouble - self._share) / min(_MEMORY, self.most)


async def wait_for_event(event: asyncio.Event, timeout_s: float | None) -> None:
    """Wait until the event is set, at most `timeout_s` seconds (None: without end)."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return
