"""Test the size of request groups: it shrinks to what works, grows slowly, and one heavy call does not lower it."""

import asyncio
from collections.abc import Sequence

import pytest

from factmill.tasks.clients.sending.limiter import AdaptiveCallsPerRequest
from factmill.tasks.clients.sending.sender import Retry, RetryingRequestSender
from factmill.tasks.core.calls.call import CallResponse
from factmill.tasks.core.service_settings import ServiceLimits

ONE_BY_ONE = ServiceLimits(parallel=1, timeout_s=5, attempts=2, backoff_s=0.0)
PARALLEL = ServiceLimits(parallel=4, timeout_s=5, attempts=2, backoff_s=0.0)


class Service:
    """Answers groups up to a maximum size, and records the size of each."""

    def __init__(self, most: int, heavy: Sequence[int] = ()) -> None:
        self.most = most
        self.heavy = set(heavy)
        self.sizes: list[int] = []

    async def answer(self, group: Sequence[int]) -> list[CallResponse]:
        self.sizes.append(len(group))
        await asyncio.sleep(0)
        if len(group) > self.most or self.heavy.intersection(group):
            raise Retry("timeout: too much", split=True)
        return [CallResponse(item) for item in group]


def send(
    service: Service, items: int, size: AdaptiveCallsPerRequest, limits: ServiceLimits = ONE_BY_ONE
) -> dict[int, CallResponse]:
    got: dict[int, CallResponse] = {}

    def deliver(item: int, reply: CallResponse) -> None:
        assert item not in got, "delivered twice"
        got[item] = reply

    RetryingRequestSender(limits, "test service").send([range(items)], service.answer, deliver, [size])
    return got


def test_group_is_split_into_requests_of_current_size():
    service, size = Service(most=100), AdaptiveCallsPerRequest(8)
    got = send(service, 20, size)
    assert service.sizes == [8, 8, 4]
    assert {item: reply.body for item, reply in got.items()} == {item: item for item in range(20)}


@pytest.mark.parametrize("limits", [ONE_BY_ONE, PARALLEL], ids=["one by one", "parallel"])
def test_waiting_calls_are_split_to_size_that_works(limits):
    service, size = Service(most=7), AdaptiveCallsPerRequest(64)
    got = send(service, 1000, size, limits)
    assert {reply.status for reply in got.values()} == {"ok"}
    assert sum(each > 7 for each in service.sizes) < 30, service.sizes
    assert len(service.sizes) < 350, "most requests have the maximum size"
    assert 1 < size.current <= 9


def test_learned_size_persists_across_sends():
    service, size = Service(most=7), AdaptiveCallsPerRequest(64)
    send(service, 200, size)
    tried = len(service.sizes)
    send(service, 7, size)
    assert max(service.sizes[tried:]) <= 8


def test_one_heavy_call_fails_alone_and_other_calls_are_still_grouped():
    service, size = Service(most=1000, heavy=[37]), AdaptiveCallsPerRequest(64)
    got = send(service, 640, size)
    assert [item for item, reply in got.items() if reply.status == "failed"] == [37]
    assert got[37].error == "timeout: too much"
    assert size.current >= 32
    assert len(service.sizes) < 40


def test_size_grows_back_when_service_has_recovered():
    service, size = Service(most=7), AdaptiveCallsPerRequest(64)
    send(service, 200, size)
    service.most = 1000
    send(service, 30_000, size)
    assert size.current == 64


def test_growth_is_tried_less_often_after_failures():
    service, size = Service(most=7), AdaptiveCallsPerRequest(64)
    send(service, 500, size)
    early = len(service.sizes), sum(each > 7 for each in service.sizes)
    send(service, 5000, size)
    late = len(service.sizes) - early[0], sum(each > 7 for each in service.sizes) - early[1]
    assert late[1] / late[0] < early[1] / early[0] / 3


def test_success_of_small_groups_does_not_grow_size():
    size = AdaptiveCallsPerRequest(64)
    size.note_too_big(64)
    for _ in range(1000):
        size.note_success(31)
    assert size.current == 32
    for _ in range(1000):
        size.note_success(64)
    assert size.current == 64


def test_failures_of_old_size_shrink_it_once_and_size_stays_at_least_one():
    size = AdaptiveCallsPerRequest(100)
    for _ in range(4):
        size.note_too_big(100)
    assert size.current == 50
    size = AdaptiveCallsPerRequest(2)
    for _ in range(5):
        size.note_too_big(2)
        size.note_too_big(1)
    assert size.current == 1


def test_groups_of_different_kinds_have_separate_sizes():
    sizes = [AdaptiveCallsPerRequest(10), AdaptiveCallsPerRequest(3)]
    seen: list[tuple[str, int]] = []

    async def answer(group: Sequence[str]) -> list[CallResponse]:
        seen.append((group[0][0], len(group)))
        return [CallResponse(item) for item in group]

    groups = [[f"a{number}" for number in range(12)], [f"b{number}" for number in range(7)]]
    RetryingRequestSender(ONE_BY_ONE, "test service").send(groups, answer, lambda item, reply: None, sizes)
    assert seen == [("a", 10), ("a", 2), ("b", 3), ("b", 3), ("b", 1)]
