"""Test the number of concurrent requests: fewer after failures, more after successes, evenly spaced."""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

import pytest
from support.steps.virtual_clock import VirtualLoop

from factmill.tasks.clients.sending import limiter as limiting
from factmill.tasks.clients.sending.limiter import MAX_PAUSE_S, RequestLimiter, get_or_create_shared_limiter


def drive(limiter: RequestLimiter, *outcomes: str) -> float:
    async def run() -> float:
        for outcome in outcomes:
            limiter.note_success(0.1) if outcome == "ok" else limiter.note_trouble(None)
        return limiter.allowed

    return asyncio.run(run())


def test_failure_halves_parallel_limit_and_success_restores_it_within_bounds():
    limiter = RequestLimiter(64)
    assert drive(limiter, *["trouble"] * 64) == 32
    assert 32 < drive(limiter, *["ok"] * 32) < 40
    assert drive(limiter, *["ok"] * 2000) == 64
    assert drive(limiter, *(["trouble"] + ["ok"] * 9) * 100) > 60, "one rejection in ten hardly reduces parallelism"
    assert drive(RequestLimiter(4), *["trouble"] * 100) == 1


def start_times(latency_s: float) -> list[float]:
    async def run() -> list[float]:
        limiter = RequestLimiter(32)
        for _ in range(100):
            limiter.note_success(latency_s)
        times = []
        for _ in range(32):
            await limiter.acquire()
            times.append(asyncio.get_running_loop().time())
        return times

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(run())


def test_requests_of_slow_service_start_one_by_one_without_burst():
    times = start_times(latency_s=10.0)
    # the limiter does not wait for a start that is due within 2 ms
    assert times[16] == pytest.approx(16 * 0.0015, abs=0.002)
    assert times[31] == pytest.approx(31 * 0.0015, abs=0.002)


def test_requests_of_fast_service_are_not_delayed():
    assert start_times(latency_s=0.001)[-1] == 0


def test_pause_beyond_maximum_raises_error_instead_of_waiting():
    async def run() -> None:
        limiter = RequestLimiter(1)
        limiter.note_trouble(MAX_PAUSE_S + 10)
        await limiter.acquire()

    with pytest.raises(Exception, match="asked for a pause of 610 s"):
        asyncio.run(run())


def run_virtually(main: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine, run on a clock that jumps from event to event."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def now() -> float:
    return asyncio.get_running_loop().time()


async def use(limiter: RequestLimiter, lengths: Iterable[float], spans: list[tuple[float, float]]) -> None:
    """Send requests one after the other through a limiter, and record when each begins and ends."""
    for length in lengths:
        await limiter.acquire()
        began = now()
        await asyncio.sleep(length)
        limiter.note_success(length)
        limiter.release(now() - began)
        spans.append((began, now()))


def count_most(times: Iterable[float], window_s: float) -> int:
    """Return the largest number of moments within any window."""
    ordered = sorted(times)
    return max(sum(start <= each < start + window_s for each in ordered) for start in ordered)


def share_among(limiters: Sequence[RequestLimiter], lengths: Sequence[float]) -> list[list[tuple[float, float]]]:
    """Send through each limiter with eight workers, and return the spans of each limiter's requests."""

    async def main() -> list[list[tuple[float, float]]]:
        spans: list[list[tuple[float, float]]] = [[] for _ in limiters]
        async with asyncio.TaskGroup() as group:
            for limiter, own in zip(limiters, spans, strict=True):
                for _ in range(8):
                    group.create_task(use(limiter, lengths, own))
        return spans

    result: list[list[tuple[float, float]]] = run_virtually(main())
    return result


@pytest.mark.parametrize("length_s", [0.01, 0.7, 4.0])
def test_services_sharing_limiter_stay_below_its_bounds_together(length_s: float) -> None:
    shared = RequestLimiter(3, per_minute=200)
    spans = share_among([RequestLimiter(most, within=shared) for most in (2, 4, 16)], [length_s] * 20)
    everything = [span for own in spans for span in own]
    starts = [start for start, _ in everything]
    assert count_most(starts, 60 - 1e-6) <= 200
    assert count_most(starts, 1) <= 4  # five would need four gaps of 0.3 s
    assert max(sum(start <= at < end for start, end in everything) for at in starts) <= 3
    last = max(end for _, end in everything)
    assert last < max(480 * 0.3, 480 * length_s / 3) * 1.15 + 5, "slower than the limits require"
    shares = [sum(start < last / 4 for start, _ in own) for own in spans]
    assert min(shares) >= sum(shares) / 14, f"of 14 places of their own, one service with two waits: {shares}"


def test_service_uses_its_work_time_per_minute_plus_one_minute_after_idle_time() -> None:
    shared = RequestLimiter(5, work_s_per_minute=60)
    spans = share_among([RequestLimiter(5, within=shared)], [3.0] * 60)[0]
    last = max(end for _, end in spans)
    worked = 3.0 * len(spans)
    assert worked / (last + 60) <= 1.02, "more than 60 s per minute, including the minute before the first"
    assert worked / last >= 0.95, "slower than the service permits"
    assert count_most((end for _, end in spans), 60) * 3.0 <= 120 + 5 * 3.0


def test_request_that_stops_waiting_for_shared_limiter_releases_its_own_slot() -> None:
    async def main() -> None:
        shared = RequestLimiter(1)
        own = RequestLimiter(1, within=shared)
        await shared.acquire()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await own.acquire()
        assert (own.under_way, shared.under_way) == (0, 1)
        shared.release()
        async with asyncio.timeout(1):
            await own.acquire()
        own.release()
        assert (own.under_way, shared.under_way) == (0, 0)

    run_virtually(main())


def test_refusals_without_retry_after_pause_service_of_known_rate_ever_longer() -> None:
    async def main() -> list[float]:
        shared = RequestLimiter(3, per_minute=6000)
        one, other = RequestLimiter(4, within=shared), RequestLimiter(4, within=shared)
        pauses = []
        for outcome in "rrrrrrr r-r":
            if outcome == "r":
                await one.acquire()
                one.note_trouble(None, backoff_s=5.0)
                one.note_trouble(None, backoff_s=5.0)  # in progress when the pause began
                one.release()
            began = now()
            await other.acquire()
            pauses.append(round(now() - began))
            if outcome != "r":
                other.note_success(0.1)
                one.note_success(0.1)
            other.release()
        return pauses

    assert run_virtually(main()) == [5, 10, 20, 40, 60, 60, 60, 0, 5, 0, 5]


def test_occasional_refusal_without_retry_after_does_not_pause_unknown_rate() -> None:
    async def main() -> float:
        limiter = RequestLimiter(32)
        for _ in range(50):
            for _ in range(9):
                limiter.note_success(0.1)
            limiter.note_trouble(None, backoff_s=5.0)
        began = now()
        await limiter.acquire()
        return now() - began

    assert run_virtually(main()) < 0.01


def test_shared_limiter_uses_tightest_of_several_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limiting, "_limiters", {})
    first = get_or_create_shared_limiter("a", 5, per_minute=200)
    assert get_or_create_shared_limiter("a", 3, per_minute=2000) is first
    assert get_or_create_shared_limiter("b", 3) is not first
    starts = [start for start, _ in share_among([RequestLimiter(16, within=first)], [0.001] * 5)[0]]
    assert first.max_parallel == 3
    assert count_most(starts, 60 - 1e-6) <= 200
