"""Test run limits: local computing stops at the limit, and requests already sent are awaited."""

from collections.abc import Callable, Sequence

import pytest

from factmill.tasks.clients.sending.budget import LazyBudgetedService
from factmill.tasks.core.calls.call import Call, CallResponse, ResponseHandler
from factmill.tasks.core.spending.costs import BudgetLimits
from factmill.tasks.errors import BudgetExhausted

CALLS = [Call("here", "translate_text", {"text": str(number)}) for number in range(5)]


class Answering:
    """Answers calls one after the other; the time limit passes after the second."""

    identity, is_outside = "here", True

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end

    def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        for number, call in enumerate(calls, 1):
            if number == 2:
                self._end()
            deliver(call, CallResponse("said"))


@pytest.mark.parametrize(("computes", "answered"), [(True, 2), (False, 5)])
def test_local_computation_in_progress_is_last_one_when_time_limit_is_reached(computes: bool, answered: int) -> None:
    service = LazyBudgetedService(
        "here", True, lambda: Answering(lambda: service.budget.start_run(BudgetLimits(hours=0.0))), computes=computes
    )
    came: list[CallResponse] = []
    try:
        service.send(CALLS, lambda _call, reply: came.append(reply))
    except BudgetExhausted as reached:
        assert "0 hours (--max-hours)" in str(reached)
        assert computes
    assert len(came) == answered
    with pytest.raises(BudgetExhausted):
        service.send(CALLS, lambda _call, reply: came.append(reply))
    assert len(came) == answered
