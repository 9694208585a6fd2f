"""Test refused parameters: learnt once, noted, and left out of the keys of recorded calls."""

import pytest
from clients.test_chat import HERE, PROMPT, ask, model, open_chat, says

from factmill.tasks.clients.unsupported_parameters import merge_system_and_repeated_roles
from factmill.tasks.core.calls.chat import make_chat_call
from factmill.tasks.core.prompts import fill_prompt_template, parse_prompt_file
from factmill.tasks.core.service_settings import ServiceLimits

ONE_BY_ONE = ServiceLimits(parallel=1, timeout_s=60, attempts=3, backoff_s=0.01)


def refuse(name: str, message: str = "", param: bool = True) -> dict:
    """Return the error of a server that does not accept a parameter."""
    error = {"message": message or f"Unsupported parameter: '{name}'", "param": name if param else None}
    return {"status": 400, "json": {"error": error}}


def refuse_these(*names: str, param: bool = True):
    """Return a server behaviour that refuses requests with any of these parameters."""

    def answer(seen):
        refused = [name for name in names if name in seen.json()]
        return refuse(refused[0], param=param) if refused else says("fine")

    return answer


@pytest.mark.parametrize("param", [True, False])
def test_refused_max_tokens_is_replaced_by_max_completion_tokens_after_one_try(server, inbox, param) -> None:
    server.handle = refuse_these("max_tokens", param=param)
    chat = open_chat(server, limits=ONE_BY_ONE)
    chat.send([ask("Ada"), ask("Bob")], inbox)
    assert {reply.status for reply in inbox.replies.values()} == {"ok"}
    assert ["max_tokens" in seen.json() for seen in server.seen] == [True, False, False]
    assert server.seen[2].json()["max_completion_tokens"] == 99
    (note,) = chat.notes()
    assert note.startswith('model m-1 needs token_limit = "max_completion_tokens": ')


def test_all_refused_parameters_are_learned_from_one_call(server, inbox) -> None:
    def answer(seen):
        if seen.json()["messages"][0]["role"] == "system":
            return {"status": 500, "json": {"error": {"message": "System role not supported"}}}
        return refuse_these("temperature", "max_tokens", "max_completion_tokens", "seed", "reasoning_effort")(seen)

    server.handle = answer
    chat = open_chat(server, limits=ONE_BY_ONE, reasoning_effort="low")
    call = ask(samples=2)
    chat.send([call], inbox)
    assert inbox[call].body["texts"] == ["fine", "fine"]
    assert server.seen[-1].json() == {
        "model": "m-1",
        "messages": [{"role": "user", "content": "Answer.\n\nWho is Ada?"}],
        "stream": False,
    }
    assert len(server.seen) == 8, "six refusals, then two samples"


def test_server_ignoring_n_gets_one_request_per_sample_from_then_on(server, inbox) -> None:
    server.handle = lambda seen: says(f"sample {seen.json().get('seed', 'of none')}")
    chat = open_chat(server, choices=True, limits=ONE_BY_ONE)
    calls = [ask("Ada", samples=2), ask("Bob", samples=2)]
    chat.send(calls, inbox)
    for call in calls:
        assert inbox[call].body["texts"] == ["sample 0", "sample 1"]
    assert [seen.json().get("n") for seen in server.seen] == [2, None, None, None, None]
    assert inbox[calls[0]].tokens_in == 300, "ignored samples are paid for"
    assert "choices = false" in chat.notes()[0]


def test_server_refusing_n_gets_one_request_per_sample(server, inbox) -> None:
    server.handle = refuse_these("n")
    open_chat(server, choices=True, limits=ONE_BY_ONE).send([ask(samples=2)], inbox)
    assert inbox[ask(samples=2)].body["texts"] == ["fine", "fine"]


def test_refusals_that_adapting_does_not_end_change_no_setting(server, inbox) -> None:
    server.handle = lambda _: refuse("temperature")
    chat = open_chat(server, limits=ONE_BY_ONE)
    chat.send([ask()], inbox)
    assert inbox[ask()].error.startswith("http_400: ") and len(server.seen) == 2
    assert chat.notes() == []


def test_merged_roles_alternate_and_begin_with_user() -> None:
    spoken = [("system", "a"), ("user", "b"), ("assistant", "c"), ("user", "d"), ("user", "e")]
    merged = merge_system_and_repeated_roles([{"role": who, "content": text} for who, text in spoken])
    assert [(each["role"], each["content"]) for each in merged] == [
        ("user", "a\n\nb"),
        ("assistant", "c"),
        ("user", "d\n\ne"),
    ]


def test_request_profile_determines_sent_parameters(server, inbox) -> None:
    server.script(says("fine"))
    profile = {"token_limit": "max_completion_tokens", "thinking_tokens": 4000, "temperature": 1.0, "system": "merge"}
    extra = {"top_k": 20, "chat_template_kwargs": {"enable_thinking": False}}
    open_chat(server, **profile, reasoning_effort="low", extra_body=extra).send([ask()], inbox)
    assert server.seen[0].json() == {
        "model": "m-1",
        "messages": [{"role": "user", "content": "Answer.\n\nWho is Ada?"}],
        "temperature": 1.0,
        "max_completion_tokens": 4099,
        "stream": False,
        "reasoning_effort": "low",
        **extra,
    }


def test_cached_and_reasoning_tokens_have_their_own_prices(server, inbox) -> None:
    answer = says("fine")
    answer["json"]["usage"] |= {
        "prompt_tokens_details": {"cached_tokens": 40},
        "completion_tokens_details": {"reasoning_tokens": 15},
    }
    server.script(answer)
    open_chat(server, usd_per_million_cached=1.0, usd_per_million_reasoning=4.0).send([ask()], inbox)
    assert inbox[ask()].cost_usd == pytest.approx((60 * 2 + 40 * 1 + 5 * 10 + 15 * 4) / 1e6)


def test_call_keys_change_only_if_profile_changes_sent_parameters(server) -> None:
    before = "b4759ddc44affa45fdb82d6d5f96ae803f2478116bff2f1d179cf183f7a686a7"
    filled = fill_prompt_template(parse_prompt_file("test/p", PROMPT), name="Ada")

    def key(**settings) -> str:
        return make_chat_call(HERE, "m-1", filled, model(server, **settings).request_profile()).key

    assert key() == ask().key == before
    assert key(usd_per_million_cached=1.0, usd_per_million_in=9.0, limits=ONE_BY_ONE, choices=True) == before
    others = [{"temperature": "none"}, {"thinking_tokens": 9}, {"extra_body": {"top_k": 2}}, {"system": "merge"}]
    assert len({before, *(key(**other) for other in others)}) == 1 + len(others)
