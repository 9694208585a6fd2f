"""Test that a run never exceeds its budget: the maximum cost is reserved before a request is sent."""

import threading
from random import Random

import pytest
from support.webs.loopback import Loopback

from factmill.tasks.clients.chat import ChatClient
from factmill.tasks.clients.sending.budget import (
    Budget,
    BudgetFullyReserved,
    RunBudgetForService,
    charge_requests_to_account,
)
from factmill.tasks.clients.sending.sender import RetryingRequestSender
from factmill.tasks.core.calls.call import CallResponse
from factmill.tasks.core.calls.chat import make_chat_call
from factmill.tasks.core.prompts import fill_prompt_template, parse_prompt_file
from factmill.tasks.core.service_settings import ModelSettings, ServiceLimits
from factmill.tasks.core.spending.costs import BudgetLimits, RunSpending, compute_remaining_budget
from factmill.tasks.errors import BudgetExhausted

PROMPT = parse_prompt_file(
    "test/p",
    b'+++\nrole = "author"\ninputs = ["name"]\ntemperature = 0.7\nmax_tokens = 100\n+++\n# user\nWho is $name?\n',
)


@pytest.fixture
def server():
    web = Loopback()
    yield web
    web.close()


def ask(server, budget: Budget, names: int = 200, parallel: int = 16, **changed) -> dict[str, CallResponse]:
    """Ask until the budget is exhausted, which must happen; return the replies."""
    result = {"kind": "openai", "name": "m", "url": f"{server.url}/v1", "usd_per_million_in": 0.0, **changed}
    limits = ServiceLimits(parallel=parallel, timeout_s=30, attempts=4, backoff_s=0.001)
    chat = ChatClient(
        "m",
        ModelSettings.model_validate({"usd_per_million_out": 1e4, "limits": limits, **result}),
        lambda: "none",
        "tests",
    )
    came: dict[str, CallResponse] = {}
    with charge_requests_to_account(RunBudgetForService("m", budget)), pytest.raises(BudgetExhausted):
        calls = [make_chat_call("m", "m", fill_prompt_template(PROMPT, name=str(number))) for number in range(names)]
        chat.send(calls, lambda call, reply: came.__setitem__(call.key, reply))
    return came


def says(tokens_out: int, **more):
    choices = [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "x"}}]
    return {"json": {"choices": choices, "usage": {"prompt_tokens": 10, "completion_tokens": tokens_out}}, **more}


def test_total_cost_stays_within_bound_for_any_response_cost(server):
    random, owed, lock = Random(3), [], threading.Lock()

    def answer(_):
        with lock:
            owed.append(random.choice([1, 5, 100]) / 100)  # US$ 1 buys 100 tokens
        return says(round(100 * owed[-1]), delay_s=0.002 + random.random() / 200)

    server.handle = answer
    budget = Budget(BudgetLimits(cost_usd=20.0))
    came = ask(server, budget)
    assert 18.0 < sum(owed) <= 20.0
    assert (
        budget.spent.paid_usd
        == pytest.approx(sum(owed))
        == pytest.approx(sum(reply.cost_usd for reply in came.values()))
    )
    assert len(came) == len(owed)
    assert server.most_at_once > 1


def test_run_without_bounds_reports_its_cost(server):
    server.script(says(3))
    budget = Budget()
    model = ModelSettings(kind="openai", name="m", url=f"{server.url}/v1", usd_per_million_out=1e4)
    with charge_requests_to_account(RunBudgetForService("m", budget)):
        ChatClient("m", model, lambda: "none", "tests").send(
            [make_chat_call("m", "m", fill_prompt_template(PROMPT, name="1"))], lambda *_: None
        )
    assert (budget.spent.paid_usd, budget.spent.unanswered_usd) == (pytest.approx(0.03), 0.0)


@pytest.mark.parametrize(
    ("bounds", "usd", "expected", "is_too_low"),
    [
        (BudgetLimits(requests=1), 0.0, "1 request (--max-requests)", False),
        (BudgetLimits(requests=0), 0.0, "0 requests (--max-requests)", True),
        (BudgetLimits(hours=0.0), 0.0, "0 hours (--max-hours)", True),
        (BudgetLimits(cost_usd=1.0), 0.6, "US$ 1.0000 (--max-cost)", False),
        (BudgetLimits(cost_usd=0.5), 0.6, "US$ 0.5000 (--max-cost)", True),
    ],
)
def test_reached_bound_is_reported_with_whether_rerun_makes_progress(bounds, usd, expected, is_too_low):
    budget = Budget(bounds)
    with pytest.raises(BudgetExhausted) as reached:
        for _ in range(2):
            budget.count_request("m")
            budget.settle(budget.reserve("m", usd), usd)
    assert (reached.value.limit, budget.is_too_low) == (expected, is_too_low)
    assert budget.reached_reason == ("since the next request can cost up to US$ 0.6000" if usd else "")


def test_possible_cost_of_lost_response_counts(server):
    server.script(says(1), says(1, cut=True), says(1))
    budget = Budget(BudgetLimits(cost_usd=2.5))
    ask(server, budget, parallel=1)
    assert budget.spent.unanswered_usd == pytest.approx(1.0)
    assert 2.5 >= budget.spent.cost_usd > 1.49


def test_refused_request_costs_nothing(server):
    server.script(*[{"status": 429, "json": {"error": {"message": "slow"}}}] * 3, says(100))
    budget = Budget(BudgetLimits(cost_usd=1.0))
    assert len(ask(server, budget, parallel=1)) == 1
    assert (budget.spent.cost_usd, budget.spent.requests) == (1.0, 4)


FAILED = {"error": {"message": "overloaded"}}


USED = {"usage": {"prompt_tokens": 10, "completion_tokens": 50}}


@pytest.mark.parametrize(
    ("trouble", "unanswered_usd", "paid_usd"),
    [
        ({"status": 529, "json": FAILED}, 0.0, 2.0),
        ({"status": 529, "text": ""}, 0.0, 2.0),
        ({"status": 503, "text": "<html>busy</html>"}, 0.0, 2.0),
        ({"status": 500, "json": FAILED}, 0.0, 2.0),
        ({"status": 502, "json": FAILED}, 0.0, 2.0),
        ({"status": 400, "json": FAILED}, 0.0, 2.0),
        ({"json": FAILED}, 0.0, 2.0),
        ({"json": {"choices": [{"error": FAILED["error"], "finish_reason": "error", "message": {"content": ""}}]}}, 0.0, 2.0),
        # a gateway timed out, and the server may have answered
        ({"status": 504, "json": FAILED}, 1.0, 1.0),
        ({"status": 408, "json": FAILED}, 1.0, 1.0),
        ({"status": 500, "text": "<html>bad gateway</html>"}, 1.0, 1.0),
        ({"text": "<html>welcome</html>"}, 1.0, 1.0),
        # an error that reports usage
        ({"json": FAILED | USED}, 0.0, 2.5),
    ],
)  # fmt: skip
def test_failed_request_is_charged_by_usage_or_free_unless_it_may_be_answered(
    server, trouble, unanswered_usd, paid_usd
):
    budget = Budget(BudgetLimits(cost_usd=2.5))
    server.script(trouble, says(100))
    ask(server, budget, parallel=1)
    assert (budget.spent.unanswered_usd, budget.spent.paid_usd) == (unanswered_usd, paid_usd)


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 10, "completion_tokens": -1}, {"read": 10}])
def test_unknown_usage_counts_as_full_reservation_and_keeps_requests_parallel(server, usage):
    reply = says(1, delay_s=0.02)
    server.handle = lambda _: reply | {"json": reply["json"] | {"usage": usage}}
    budget = Budget(BudgetLimits(cost_usd=20.0))
    came = ask(server, budget)
    assert (len(came), budget.spent.unanswered_usd, budget.spent.paid_usd) == (20, 20.0, 0.0)
    assert {(reply.tokens_in, reply.tokens_out, reply.cost_usd) for reply in came.values()} == {(0, 0, 0.0)}
    assert server.most_at_once > 1


def test_reasoning_tokens_beyond_completion_tokens_are_charged_and_expected(server):
    reply = says(50)
    reply["json"]["usage"] = {"prompt_tokens": 10, "completion_tokens": 50, "total_tokens": 10 + 400}
    server.script(reply)
    budget = Budget(BudgetLimits(cost_usd=40.0))
    came = ask(server, budget)
    assert {reply.cost_usd for reply in came.values()} == {4.0}
    assert 40.0 - 6.0 < budget.spent.paid_usd <= 40.0
    assert budget.spent.paid_usd == 4.0 * len(server.seen)


def test_fee_per_request_is_reserved_and_paid(server):
    server.script(says(10))
    budget = Budget(BudgetLimits(cost_usd=3.0))
    came = ask(server, budget, parallel=1, usd_per_request=0.5)
    assert {reply.cost_usd for reply in came.values()} == {0.6}
    assert budget.spent.paid_usd == pytest.approx(1.8)  # the fourth request may cost 1.5


def test_reported_cost_above_token_prices_raises_later_reservations(server):
    reply = says(50)
    reply["json"]["usage"]["cost"] = 2.0
    server.script(reply)
    budget = Budget(BudgetLimits(cost_usd=9.0))
    came = ask(server, budget, parallel=1)
    assert {reply.cost_usd for reply in came.values()} == {2.0}
    assert budget.spent.paid_usd == 6.0  # the reservation grows by the same factor, to 4


def test_server_exceeding_its_token_limit_raises_later_reservations(server):
    server.script(says(300))
    budget = Budget(BudgetLimits(cost_usd=20.0))
    ask(server, budget)
    assert 20.0 - 4.5 < budget.spent.paid_usd <= 20.0


def test_missing_token_limit_reserves_full_context_length(server):
    server.script(says(1))
    budget = Budget(BudgetLimits(cost_usd=2.0))
    assert ask(server, budget, token_limit="none", context_tokens=201) == {}
    assert len(ask(server, Budget(BudgetLimits(cost_usd=2.0)), token_limit="none", context_tokens=199, parallel=1)) > 0


def test_reached_bound_stops_new_requests_and_delivers_pending_ones(server):
    server.handle = lambda _: says(1, delay_s=0.02)
    budget = Budget(BudgetLimits(requests=30))
    assert len(ask(server, budget, parallel=4)) == len(server.seen) == 30


def test_request_waiting_for_budget_is_counted_once(server):
    server.handle = lambda _: says(100, delay_s=0.002)
    budget = Budget(BudgetLimits(cost_usd=5.0, requests=100))
    ask(server, budget)
    assert budget.requests == {"m": len(server.seen)} == {"m": 5}


def test_exhausted_run_time_sends_no_request(server):
    server.script(says(1))
    assert ask(server, Budget(BudgetLimits(hours=0.0))) == {}
    assert not server.seen


@pytest.mark.parametrize("parallel", [1, 16], ids=["parallel 1", "parallel 16"])
def test_pause_requested_by_service_is_not_awaited_beyond_run_hours(server, parallel):
    server.script({"status": 429, "json": {"error": {"message": "later"}}, "headers": {"Retry-After": "500"}})
    assert ask(server, budget := Budget(BudgetLimits(hours=2e-4)), names=2, parallel=parallel) == {}
    assert server.seen and budget.spent.hours < 0.1


def test_request_bound_applies_to_any_service():
    async def answer(group):
        return [CallResponse(each) for each in group]

    got: list[int] = []
    with (
        charge_requests_to_account(RunBudgetForService("wiki", budget := Budget(BudgetLimits(requests=3)))),
        pytest.raises(BudgetExhausted, match="3 requests"),
    ):
        RetryingRequestSender(ServiceLimits(parallel=2), "wiki").send(
            [[1], [2], [3], [4], [5]], answer, lambda item, _: got.append(item)
        )
    assert sorted(got) == [1, 2, 3]
    assert budget.requests == {"wiki": 3}
    with pytest.raises(BudgetExhausted):
        budget.check()


def test_first_request_to_priced_model_is_sent_alone():
    budget = Budget(BudgetLimits(cost_usd=10.0))
    first = budget.reserve("m", 1.0)
    with pytest.raises(BudgetFullyReserved):
        budget.reserve("m", 1.0)
    other = budget.reserve("n", 1.0)
    budget.settle(first, 0.5)
    budget.reserve("m", 1.0)
    budget.charge_reservation(other)
    assert budget.spent.cost_usd == 1.5


def test_spending_of_earlier_build_reduces_remaining_budget():
    assert compute_remaining_budget(BudgetLimits(1.0, None, 2.0), RunSpending(0.25, 0.25, 7, 3.0)) == BudgetLimits(
        0.5, None, 0.0
    )
