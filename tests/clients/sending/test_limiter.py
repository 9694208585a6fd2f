"""How many requests a service is sent at once: fewer after trouble, more after successes, and evenly spread."""

import asyncio

import pytest
from support.steps.virtual_clock import VirtualLoop

from tasks.clients.sending.limiter import LONGEST_PAUSE_S, Limiter


def drive(limiter: Limiter, *outcomes: str) -> float:
    async def run() -> float:
        for outcome in outcomes:
            limiter.note_success(0.1) if outcome == "ok" else limiter.note_trouble(None)
        return limiter.allowed

    return asyncio.run(run())


def test_a_round_of_nothing_but_trouble_halves_what_is_permitted():
    assert drive(Limiter(64), *["trouble"] * 64) == 32


def test_permission_never_falls_below_one_nor_rises_above_the_limit():
    assert drive(Limiter(4), *["trouble"] * 100) == 1
    assert drive(Limiter(4), *["ok"] * 100) == 4


def test_success_wins_places_back_step_by_step():
    limiter = Limiter(64)
    low = drive(limiter, *["trouble"] * 64)
    assert low < drive(limiter, *["ok"] * 32) < 40
    assert drive(limiter, *["ok"] * 2000) == 64


def test_one_refusal_in_ten_by_chance_costs_hardly_any_places():
    assert drive(Limiter(64), *(["trouble"] + ["ok"] * 9) * 100) > 60


def start_times(latency_s: float) -> list[float]:
    async def run() -> list[float]:
        limiter = Limiter(32)
        for _ in range(100):
            limiter.note_success(latency_s)
        times = []
        for _ in range(32):
            await limiter.enter()
            times.append(asyncio.get_running_loop().time())
        return times

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(run())


def test_the_requests_of_a_slow_service_start_one_after_the_other_and_not_in_a_burst():
    times = start_times(latency_s=10.0)
    # a start that is due within two milliseconds is not waited for
    assert times[16] == pytest.approx(16 * 0.0015, abs=0.002)
    assert times[31] == pytest.approx(31 * 0.0015, abs=0.002)


def test_the_requests_of_a_quick_service_are_not_held_up():
    assert start_times(latency_s=0.001)[-1] == 0


def test_a_pause_beyond_the_longest_is_refused_rather_than_waited_for():
    async def run() -> None:
        limiter = Limiter(1)
        limiter.note_trouble(LONGEST_PAUSE_S + 10)
        await limiter.enter()

    with pytest.raises(Exception, match="asked for a pause of 610 s"):
        asyncio.run(run())
