"""Test servers that refuse a parameter without naming it: one request per run retries without each parameter in turn."""

import re

import pytest
from clients.test_chat import HERE, PROMPT, ask, open_chat, says
from clients.test_chat_tools import TOOL
from clients.test_refusals import ONE_BY_ONE

from factmill.tasks.clients.parameter_probes import ModelParameterProbes, list_omittable_parameters
from factmill.tasks.clients.sending.budget import Budget, RunBudgetForService, charge_requests_to_account
from factmill.tasks.core.calls.chat import make_chat_call
from factmill.tasks.core.prompts import FilledPrompt, fill_prompt_template, parse_prompt_file
from factmill.tasks.core.service_settings import ModelSettings, ServiceLimits
from factmill.tasks.core.spending.costs import BudgetLimits

REFUSED = {"status": 400, "json": {"error": {"message": "Bad request."}}}
NAMES = [f"person {number}" for number in range(20)]


def refuse_silently(*names: str):
    """Return a server behaviour that refuses requests with any of these parameters and never says why."""

    def answer(body):
        texts = [f"sample {at}" for at in range(body.get("n", 1))]
        roles = [message["role"] for message in body["messages"]]
        return REFUSED if {*names} & {*body, *roles} else says(*texts)

    return lambda seen: answer(seen.json())


@pytest.mark.parametrize("parallel", [1, 4])
@pytest.mark.parametrize(
    ("refused", "settings", "found"),
    [
        ("seed", {}, "seed = false"),
        ("n", {"choices": True}, "choices = false"),
        ("response_format", {"json_schema": True}, "json_schema = false"),
        ("reasoning_effort", {"reasoning_effort": "low"}, 'reasoning_effort = ""'),
        ("temperature", {}, 'temperature = "none"'),
        ("max_tokens", {}, 'token_limit = "max_completion_tokens"'),
        ("max_completion_tokens", {"token_limit": "max_completion_tokens"}, 'token_limit = "max_tokens"'),
        ("system", {}, 'system = "merge"'),
    ],
)
def test_parameter_refused_without_explanation_is_found_and_no_row_is_lost(
    server, inbox, parallel, refused, settings, found
) -> None:
    server.handle = refuse_silently(refused)
    chat = open_chat(
        server, limits=ServiceLimits(parallel=parallel, timeout_s=60, attempts=3, backoff_s=0.01), **settings
    )
    calls = [ask(name, samples=2) for name in NAMES]
    chat.send(calls, inbox)
    assert {reply.status for reply in inbox.replies.values()} == {"ok"}
    assert {len(reply.body["texts"]) for reply in inbox.replies.values()} == {2}
    needed = 20 if chat.model.choices else 40
    probes = len(list_omittable_parameters(ModelSettings(kind="openai", name="m", **settings), server.seen[0].json()))
    assert len(server.seen) <= needed + probes + parallel, (
        "each that is under way when the first is refused is refused too"
    )
    [note] = chat.notes()
    assert found in note and "without naming a reason" in note


def test_requests_refused_during_probing_wait_for_probes_of_one_request(server, inbox) -> None:
    server.handle = refuse_silently("temperature")
    chat = open_chat(server, limits=ServiceLimits(parallel=16, timeout_s=60, attempts=3, backoff_s=0.01))
    chat.send([ask(name) for name in NAMES], inbox)
    assert {reply.status for reply in inbox.replies.values()} == {"ok"}
    with_temperature = sum("temperature" in seen.json() for seen in server.seen)
    assert with_temperature <= 16, "no probe before the successful one, and one rejection of each parallel request"
    assert len(server.seen) <= 20 + 16 + 1


def test_two_parameters_are_omitted_together_when_neither_alone_suffices(server, inbox) -> None:
    server.handle = refuse_silently("seed", "temperature")
    chat = open_chat(server, limits=ONE_BY_ONE)
    calls = [ask(name, samples=2) for name in NAMES]
    chat.send(calls, inbox)
    assert {reply.status for reply in inbox.replies.values()} == {"ok"}
    assert len(server.seen) == 40 + 1 + 4, "rejected, then sent without seed, temperature, limit and system role"
    [note] = chat.notes()
    assert "seed = false" in note and 'temperature = "none"' in note


def test_probe_with_explained_refusal_is_adapted(server, inbox) -> None:
    def answer(seen):
        body = seen.json()
        if "seed" in body:
            return REFUSED
        if "temperature" in body:
            return {"status": 400, "json": {"error": {"message": "Unsupported parameter: 'temperature'"}}}
        return says("fine")

    server.handle = answer
    chat = open_chat(server, limits=ONE_BY_ONE)
    chat.send([ask(name, samples=2) for name in NAMES], inbox)
    assert {reply.status for reply in inbox.replies.values()} == {"ok"}
    assert len(server.seen) == 40 + 2
    named, found = chat.notes()
    assert 'needs temperature = "none"' in named and "accepted it with seed = false" in found


def test_failed_probes_keep_refusal_and_no_other_request_is_probed(server, inbox) -> None:
    server.script(REFUSED)
    chat = open_chat(server, limits=ONE_BY_ONE)
    chat.send([ask(name) for name in NAMES], inbox)
    assert {reply.error.partition(":")[0] for reply in inbox.replies.values()} == {"http_400"}
    assert len(server.seen) == 20 + 4, "without temperature, limit, system role, and all of them"
    [note] = chat.notes()
    assert "Bad request." in note and "temperature, max_tokens, system, all of them" in note
    assert chat.learnt_settings() == {}


def test_request_similar_to_accepted_one_is_refused_for_content_without_probes(server, inbox) -> None:
    server.handle = lambda seen: REFUSED if "person 7?" in seen.json()["messages"][-1]["content"] else says("fine")
    chat = open_chat(server, limits=ONE_BY_ONE)
    chat.send([ask(name) for name in NAMES], inbox)
    assert len(server.seen) == 20
    assert [name for name in NAMES if inbox[ask(name)].status == "failed"] == ["person 7"]
    assert chat.notes() == []


def test_parameter_of_only_some_requests_is_probed_at_their_first_refusal(server, inbox) -> None:
    server.handle = refuse_silently("response_format")
    chat = open_chat(server, json_schema=True, limits=ONE_BY_ONE)
    plain = re.sub(rb"\[schema\].*?\n\+\+\+", b"+++", PROMPT, flags=re.S)
    chat.send([ask("Ada", data=plain)], inbox)
    chat.send([ask(name) for name in NAMES], inbox)
    assert {reply.status for reply in inbox.replies.values()} == {"ok"}
    assert len(server.seen) == 1 + 20 + 1, "all other probes were answered, so only the schema is left out"
    assert "json_schema = false" in chat.notes()[0]


def test_failure_during_probes_lets_them_resume_where_they_stopped(server, inbox) -> None:
    answers = iter([REFUSED, {"status": 503, "text": "busy"}, REFUSED, REFUSED, {"status": 503, "text": "busy"}])

    def answer(seen):
        return next(answers, None) or refuse_silently("temperature")(seen)

    server.handle = answer
    chat = open_chat(server, limits=ServiceLimits(parallel=1, timeout_s=60, attempts=5, backoff_s=0.01))
    chat.send([ask("Ada", samples=2)], inbox)
    assert inbox[ask("Ada", samples=2)].status == "ok"
    without_seed = [seen for seen in server.seen if "seed" not in seen.json()]
    assert len(without_seed) == 2, "the failed probe and the rejected one"
    assert 'temperature = "none"' in chat.notes()[0]


def test_transient_error_resembling_refusal_changes_no_setting(server, inbox) -> None:
    server.script({"status": 500, "json": {"error": {"message": "unsupported operand type"}}}, says("fine"))
    chat = open_chat(server, limits=ONE_BY_ONE)
    chat.send([ask("Ada"), ask("Bob")], inbox)
    assert {reply.status for reply in inbox.replies.values()} == {"ok"}
    assert server.seen[0].json() == server.seen[1].json()
    assert chat.notes() == []


def test_tools_are_omitted_last_and_caller_gets_tools_refused_error(server, inbox) -> None:
    server.handle = refuse_silently("tools")
    filled = fill_prompt_template(parse_prompt_file("test/p", PROMPT), name="Ada")
    call = make_chat_call(
        HERE, "m-1", FilledPrompt(filled.prompt, filled.variables, tools=(TOOL,)), keeps_empty_completions=True
    )
    chat = open_chat(server, limits=ONE_BY_ONE)
    chat.send([call], inbox)
    assert inbox[call].error.startswith("tools_refused: ") and inbox[call].tokens_in == 100
    assert "tools = false" in chat.notes()[0]


def test_every_probe_counts_as_request(server, inbox) -> None:
    server.handle = refuse_silently("system")
    budget = Budget(BudgetLimits(requests=100))
    with charge_requests_to_account(RunBudgetForService("test", budget)):
        open_chat(server, limits=ONE_BY_ONE).send([ask()], inbox)
    assert inbox[ask()].status == "ok"
    assert budget.requests.total() == len(server.seen) == 4


def test_router_finding_no_provider_for_parameters_is_also_probed(server, inbox) -> None:
    nobody = {"error": {"message": "No endpoints found that can handle the requested parameters.", "code": 404}}
    server.handle = lambda seen: {"status": 404, "json": nobody} if "temperature" in seen.json() else says("fine")
    chat = open_chat(server, limits=ONE_BY_ONE)
    chat.send([ask("Ada"), ask("Bob")], inbox)
    assert {reply.status for reply in inbox.replies.values()} == {"ok"}


def test_parameters_not_sent_are_never_omitted() -> None:
    model = ModelSettings(kind="openai", name="m")
    sent = {"messages": [{"role": "user", "content": "hi"}], "seed": 3, "temperature": 0}
    assert [each.name for each in list_omittable_parameters(model, sent)] == ["seed", "temperature"]
    probes = ModelParameterProbes()
    probes.note_accepted(model, sent)
    assert list(probes.iterate_omissions(model, {**sent, "seed": 4})) == []
    assert [each.name for each in probes.iterate_omissions(model, {**sent, "temperature": 1})] == ["temperature"]


def test_probes_end_when_requests_with_all_same_parameters_are_accepted() -> None:
    model, probes = ModelSettings(kind="openai", name="m"), ModelParameterProbes()
    sent = {"messages": [{"role": "user", "content": "hi"}], "seed": 3, "temperature": 0}
    omissions = probes.iterate_omissions(model, sent)
    assert next(omissions).name == "seed"
    probes.note_accepted(model, sent)
    assert list(omissions) == []
    probes.give_up(model, sent, "Bad request.")
    assert probes.unexplained_refusal == "", "it was rejected for its content, so another request can still be probed"
