"""Test the sending engine: each call runs once, failures are retried, final failures are failed replies."""

import asyncio
import gc
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pytest
from support.steps.virtual_clock import VirtualLoop

from factmill.tasks.clients.sending import sender as sending
from factmill.tasks.clients.sending.sender import Retry, RetryingRequestSender, cancel_all_sends, run_blocking_in_thread
from factmill.tasks.clients.sending.web_sessions import make_http_session
from factmill.tasks.core.calls.call import CallResponse
from factmill.tasks.core.service_settings import ServiceLimits
from factmill.tasks.errors import ResourcesExhausted, ServiceError, ServiceUnreachable

QUICK = ServiceLimits(parallel=8, timeout_s=5, attempts=4, backoff_s=0.01)


def send(
    groups: Sequence[Sequence[int]], request: Callable, limits: ServiceLimits = QUICK, **more
) -> dict[int, CallResponse]:
    got: dict[int, CallResponse] = {}

    def deliver(item: int, reply: CallResponse) -> None:
        assert item not in got, "delivered twice"
        got[item] = reply

    RetryingRequestSender(limits, "test service", **more).send(groups, request, deliver)
    return got


@pytest.fixture
def virtual_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run the sender on a clock that jumps, so that pauses are exact and take no time."""
    loop = VirtualLoop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    monkeypatch.setattr(sending, "_loops", [loop])
    yield
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def now() -> float:
    return asyncio.get_running_loop().time()


async def never() -> None:
    await asyncio.Event().wait()


async def answer(group: Sequence[int]) -> list[CallResponse]:
    return [CallResponse(item * 10) for item in group]


def test_every_item_of_every_group_gets_its_own_response():
    got = send([[1, 2], [3], []], answer)
    assert {item: reply.body for item, reply in got.items()} == {1: 10, 2: 20, 3: 30}
    assert all(reply.latency_s > 0 for reply in got.values())
    assert send([], answer) == {}


def test_transient_failure_is_retried():
    tries = Counter()

    async def request(group):
        tries[group[0]] += 1
        if tries[group[0]] < 3:
            raise Retry("connection_cut: gone")
        return await answer(group)

    got = send([[item] for item in range(20)], request)
    assert {reply.body for reply in got.values()} == {item * 10 for item in range(20)}
    assert set(tries.values()) == {3}


def test_attempts_are_bounded_and_failure_reports_reason():
    tries = Counter()

    async def request(group):
        tries[group[0]] += 1
        if group[0] == 1:
            raise Retry("http_503: closed for today")
        return await answer(group)

    got = send([[1], [2]], request)
    assert got[1] == CallResponse(None, "failed", error="http_503: closed for today", transient=True)
    assert got[2].body == 20
    assert tries[1] == QUICK.attempts


def test_final_failure_is_not_retried():
    tries = Counter()

    async def request(group):
        tries[group[0]] += 1
        return [CallResponse(None, "failed", error="http_400: bad")]

    assert send([[1]], request)[1].transient is False
    assert tries[1] == 1


def test_failing_groups_are_halved_down_to_faulty_call():
    sizes = []

    async def request(group):
        sizes.append(len(group))
        if 13 in group:
            raise Retry("timeout: too much", split=True)
        return await answer(group)

    got = send([list(range(16))], request)
    assert sorted(got) == list(range(16))
    assert [item for item, reply in got.items() if reply.status == "failed"] == [13]
    assert sizes[:3] == [16, 8, 8] and sizes.count(1) >= QUICK.attempts


def test_request_that_never_ends_is_cut_off_and_halved():
    async def request(group):
        if len(group) > 1:
            await never()
        return await answer(group)

    got = send([[1, 2]], request, ServiceLimits(parallel=2, timeout_s=0.1, attempts=2, backoff_s=0.01))
    assert {reply.body for reply in got.values()} == {10, 20}


def test_each_attempt_has_its_own_timeout(virtual_time):
    lengths = []

    async def request(group):
        started = now()
        try:
            await never()
        finally:
            lengths.append(round(now() - started, 6))

    got = send([[1]], request, ServiceLimits(attempts=3, backoff_s=0.0), timeouts_s=(0.1, 0.3))
    assert lengths == [0.1, 0.3, 0.3]
    assert got[1].error.startswith("timeout: no answer within 0.3 s")


def test_parallel_requests_stay_within_limit_for_any_number_of_threads():
    under_way = most = 0
    is_full = asyncio.Event()

    async def request(group):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == 5:
            is_full.set()
        await is_full.wait()
        await asyncio.sleep(0)
        under_way -= 1
        return await answer(group)

    sender = RetryingRequestSender(ServiceLimits(parallel=5, timeout_s=5), "test service")
    got = []
    threads = [
        threading.Thread(
            target=sender.send, args=([[i] for i in range(40)], request, lambda item, reply: got.append(item))
        )
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 5
    assert Counter(got) == dict.fromkeys(range(40), 3)


def test_tasks_exist_only_for_pending_requests():
    tasks = []

    async def request(group):
        tasks.append(len(asyncio.all_tasks()))
        return await answer(group)

    assert len(send([[item] for item in range(5000)], request)) == 5000
    assert max(tasks) < 50


def test_long_retry_after_pauses_entire_service(virtual_time):
    at = []

    async def request(group):
        at.append(now())
        if len(at) == 1:
            raise Retry("http_429: slow down", retry_after_s=1.05)
        await asyncio.sleep(0.05)
        return await answer(group)

    send([[item] for item in range(6)], request, ServiceLimits(parallel=1, timeout_s=5, attempts=3))
    assert at[1] - at[0] >= 1.05


def test_short_retry_after_among_successes_pauses_only_its_own_call(virtual_time):
    at = {}

    async def request(group):
        await asyncio.sleep(0.01)
        first = group[0] not in at
        at.setdefault(group[0], []).append(now())
        if first and group[0] == 20:
            raise Retry("http_429: slow down", retry_after_s=0.5)
        return await answer(group)

    got = send([[item] for item in range(100)], request)
    assert len(got) == 100 and got[20].status == "ok"
    assert at[20][1] - at[20][0] >= 0.5
    assert at[99][0] - at[20][0] < 0.4, "the others did not wait"


def test_pause_too_long_to_await_fails_remaining_calls():
    async def request(group):
        raise Retry("http_429: come back tomorrow", retry_after_s=86_400)

    got = send([[1], [2]], request, ServiceLimits(parallel=1, attempts=1))
    pause = "the service asked for a pause of 86400 s, over 600 s"
    assert (got[1].error, got[1].transient) == (f"asked_to_wait: {pause}; http_429: come back tomorrow", True)
    assert got[2].error.startswith("asked_to_wait") and got[2].transient


def test_unreachable_service_stops_run():
    async def request(group):
        raise Retry("unreachable: connection refused")

    with pytest.raises(ServiceUnreachable, match="test service: cannot be reached: connection refused"):
        send([[item] for item in range(100)], request)


@pytest.mark.parametrize(("limits", "lost", "most"), [(QUICK, 16, 60), (ServiceLimits(parallel=1, attempts=1), 10, 41)])
def test_service_failing_midway_stops_run_and_keeps_received_responses(limits, lost, most):
    got = {}

    async def request(group):
        if group[0] < 30:
            return await answer(group)
        raise Retry("http_503: down")

    with pytest.raises(ServiceUnreachable, match=f"{lost} requests in a row"):
        RetryingRequestSender(limits, "test service").send([[item] for item in range(500)], request, got.__setitem__)
    assert {item for item, reply in got.items() if reply.status == "ok"} == set(range(30))
    assert 30 + lost <= len(got) < most


def test_samples_of_one_always_failing_prompt_do_not_stop_run():
    async def request(group):
        if group[0] == 0:
            return await answer(group)
        raise Retry("provider_failed: no")

    limits, items = ServiceLimits(parallel=1, attempts=1), [[item] for item in range(50)]
    assert len(send(items, request, limits, find_subject=lambda item: item // 25)) == 50
    with pytest.raises(ServiceUnreachable, match="10 requests in a row"):
        send(items, request, limits, find_subject=lambda item: item // 5 if item < 5 else item)


def test_failures_specific_to_single_requests_do_not_stop_run():
    async def request(group):
        raise Retry("no_choices: no", is_about_request=True)

    got = send([[item] for item in range(50)], request, ServiceLimits(parallel=1, attempts=1))
    assert {(reply.error, reply.transient) for reply in got.values()} == {("no_choices: no", True)}


@pytest.mark.parametrize("error", [ServiceUnreachable("key refused"), ZeroDivisionError("a mistake of ours")])
def test_unexpected_request_errors_reach_caller(error):
    async def request(group):
        if group[0] == 3:
            raise error
        return await answer(group)

    with pytest.raises(type(error), match=str(error)):
        send([[item] for item in range(50)], request)


def test_failures_mixed_with_successes_do_not_stop_run():
    async def request(group):
        if group[0] % 10 == 9:
            return await answer(group)
        raise Retry("http_500: this one is broken")

    got = send([[item] for item in range(40)], request, ServiceLimits(parallel=1, attempts=1))
    assert [item for item, reply in got.items() if reply.status == "ok"] == [9, 19, 29, 39]


def test_error_during_delivery_reaches_caller_and_ends_sending():
    sent = []
    all_places_taken = asyncio.Event()
    ended = threading.Semaphore(0)

    async def request(group):
        sent.append(group[0])
        if len(sent) == QUICK.parallel:
            all_places_taken.set()
        if group[0] == 0:
            await all_places_taken.wait()
            return await answer(group)
        try:
            await never()
        finally:
            ended.release()

    def deliver(item, reply):
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        RetryingRequestSender(QUICK, "test service").send([[item] for item in range(1000)], request, deliver)
    for _ in range(QUICK.parallel - 1):
        ended.acquire()
    assert len(sent) <= QUICK.parallel + 1


def test_ctrl_c_ends_sending_without_waiting_for_pending_requests():
    is_over = threading.Event()

    def block(item):
        if item == 0:
            os.kill(os.getpid(), signal.SIGINT)
        is_over.wait()

    async def request(group):
        await run_blocking_in_thread(block, group[0])

    with pytest.raises(KeyboardInterrupt):
        send([[item] for item in range(100)], request)
    is_over.set()


def test_sending_in_other_threads_can_be_interrupted():
    raised = []
    is_under_way = threading.Event()

    async def request(group):
        is_under_way.set()
        await never()

    def work():
        try:
            send([[1]], request)
        except ServiceError as error:
            raised.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    is_under_way.wait()
    cancel_all_sends()
    thread.join()
    assert raised == ["test service: sending was interrupted"]


def test_exception_in_thread_is_raised_where_it_is_awaited():
    async def request(group):
        return [CallResponse(await run_blocking_in_thread(int, "no number"))]

    with pytest.raises(ValueError, match="no number"):
        send([[1]], request)


class Scarce:
    """Makes the sending thread run out of memory at the n-th callback that its loop schedules."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.left = self.used = 0
        schedule = asyncio.BaseEventLoop.call_soon

        def call_soon(loop, *args, **kwargs):
            if threading.current_thread().name == "factmill-sending":
                self.used += 1
                self.left -= 1
                if not self.left:
                    raise MemoryError
            return schedule(loop, *args, **kwargs)

        patch.setattr(asyncio.BaseEventLoop, "call_soon", call_soon)

    def try_to_send(self, left: int) -> object:
        """Return the replies, the error, or None if sending does not end."""
        self.left, self.used, ended = left, 0, []

        def try_it() -> None:
            try:
                ended.append(
                    send(
                        [[1], [2], [3]],
                        lambda group: run_blocking_in_thread(lambda: [CallResponse(item) for item in group]),
                    )
                )
            except (MemoryError, ResourcesExhausted) as error:
                ended.append(error)

        thread = threading.Thread(target=try_it, daemon=True)
        thread.start()
        thread.join(20)
        return ended[0] if ended else None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore:coroutine .* was never awaited")
def test_sending_ends_cleanly_wherever_memory_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Scarce(monkeypatch)
    whole = memory.try_to_send(0)
    assert len(whole) == 3
    ended = [type(memory.try_to_send(at)) for at in range(1, memory.used + 1)]
    assert type(None) not in ended
    assert ResourcesExhausted in ended
    gc.collect()  # unfinished coroutines warn here


def test_abandoned_function_closes_no_connection_after_reading_its_response(server, limits):
    session = make_http_session("the service", "tests", limits.model_copy(update={"parallel": 1}))
    has_read, goes_on, may_answer = threading.Event(), threading.Event(), threading.Event()
    server.script({"text": "first"}, {"text": "second", "until": may_answer})

    def read_and_work() -> None:
        session.get(server.url)
        has_read.set()
        goes_on.wait()

    async def main() -> str:
        first = asyncio.create_task(run_blocking_in_thread(read_and_work))
        await asyncio.to_thread(has_read.wait)
        second = asyncio.create_task(run_blocking_in_thread(session.get, server.url))
        while len(server.seen) < 2:
            await asyncio.sleep(0.01)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        may_answer.set()
        return (await second).text

    try:
        assert asyncio.run(main()) == "second"
    finally:
        goes_on.set()
    assert server.seen[0].port == server.seen[1].port
