"""Test batch jobs under a cost bound: a job takes only the lines that the budget can pay for."""

from collections import Counter

import pytest
from support.batches.asking import answer, ask_all, collect, open_chat

from factmill.tasks.clients.sending.budget import Budget, RunBudgetForService, charge_requests_to_account
from factmill.tasks.core.calls.call import CallResponse
from factmill.tasks.core.spending.costs import BudgetLimits
from factmill.tasks.errors import BudgetExhausted


def ask_bound(server, folder, bounds: BudgetLimits) -> tuple[dict[str, CallResponse], Budget]:
    got: dict[str, CallResponse] = {}
    budget = Budget(bounds)
    chat = open_chat(server, folder, usd_per_million_in=0.0, usd_per_million_out=2e4)
    with charge_requests_to_account(RunBudgetForService("here", budget)), pytest.raises(BudgetExhausted):
        chat.send(ask_all(60), lambda call, reply: got.__setitem__(call.key, reply))
    return got, budget


def test_batch_jobs_submit_affordable_lines_until_cost_bound_is_reached(make_server, tmp_path):
    # At half price a line costs at most US$ 0.99 and in fact US$ 0.20.
    got, budget = ask_bound(server := make_server(), tmp_path, BudgetLimits(cost_usd=5.0))
    lines = [len(server.read_input(job)) for job in server.jobs]
    assert len(got) == sum(lines) == budget.requests["here"]
    assert (
        budget.spent.paid_usd == pytest.approx(0.2 * len(got)) == pytest.approx(sum(r.cost_usd for r in got.values()))
    )
    assert 4.0 < budget.spent.cost_usd <= 5.0
    assert lines[0] == 5 and len(lines) > 2


def test_each_batch_line_counts_as_request_and_submitted_lines_are_awaited(make_server, tmp_path):
    got, budget = ask_bound(server := make_server(), tmp_path, BudgetLimits(requests=7))
    assert len(got) == 7 == budget.requests["here"]
    assert [len(server.read_input(job)) for job in server.jobs] == [7]


def test_completion_without_usage_is_charged_maximum_cost_of_its_line(make_server, tmp_path):
    def say(body):
        return {"json": {**answer(body)["json"], "usage": None}}

    got, budget = ask_bound(make_server(say), tmp_path, BudgetLimits(cost_usd=3.0))
    assert len(got) == 3  # at most US$ 0.99 each
    assert (budget.spent.paid_usd, budget.spent.unanswered_usd) == (0.0, pytest.approx(2.97))


@pytest.mark.parametrize("status", [200, 429, 500])
def test_line_that_failed_with_error_costs_nothing(make_server, tmp_path, status):
    turns = Counter[str]()

    def say(body):
        turns[question := body["messages"][-1]["content"]] += 1
        if turns[question] == 1:
            return {"status": status, "json": {"error": {"message": "overloaded"}}}
        return answer(body)

    got, budget = ask_bound(make_server(say), tmp_path, BudgetLimits(cost_usd=5.0))
    assert len(got) >= 20
    assert (budget.spent.unanswered_usd, budget.spent.paid_usd) == (0.0, pytest.approx(0.2 * len(got)))


def test_run_stops_waiting_for_batch_job_when_its_hours_are_up(make_server, tmp_path, messages):
    server = make_server()
    server.ends = {1: "never"}
    budget = Budget(BudgetLimits(hours=100.0))
    chat, got = open_chat(server, tmp_path, usd_per_million_in=0.0, usd_per_million_out=2e4), {}
    look = server.web.handle

    def end_time(seen):
        if "/batches/" in seen.path:
            budget.start_run(BudgetLimits(hours=0.0))
        return look(seen)

    server.web.handle = end_time
    with (
        charge_requests_to_account(RunBudgetForService("here", budget)),
        pytest.raises(BudgetExhausted, match="--max-hours"),
    ):
        chat.send(ask_all(10), lambda call, reply: got.__setitem__(call.key, reply))
    assert got == {}
    # a line costs at most US$ 0.99
    assert (budget.spent.paid_usd, budget.spent.unanswered_usd) == (0.0, pytest.approx(9.9))
    assert f"To cancel it: factmill jobs --cancel batch_0001 --warehouse {tmp_path}/w.duckdb" in messages[-1]
    server.ends.clear()
    assert len(collect(open_chat(server, tmp_path), ask_all(10))) == 10
    assert len(server.jobs) == 1


def test_pause_requested_by_server_is_reported_but_not_awaited_beyond_run_hours(make_server, tmp_path, messages):
    server = make_server()
    serve = server.web.handle
    refusal = {"status": 429, "json": {"error": {"message": "later"}}, "headers": {"Retry-After": "7200"}}
    server.web.handle = lambda seen: refusal if seen.path.endswith("/files") else serve(seen)
    got, budget = ask_bound(server, tmp_path, BudgetLimits(hours=1e-4))
    assert (got, server.jobs) == ({}, [])
    assert "http_429: " in messages[-1] and "7,200 s" in messages[-1]
    assert budget.spent.hours < 1
