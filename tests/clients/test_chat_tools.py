"""Test tools in the chat protocol: what is sent, the forms of tool calls, and servers without tools."""

import json

import pytest
from clients.test_chat import HERE, PROMPT, ask, model, open_chat
from clients.test_refusals import ONE_BY_ONE

from factmill.tasks.clients.unsupported_parameters import merge_system_and_repeated_roles, read_settings_from_refusal
from factmill.tasks.core.calls.chat import ToolCall, make_chat_call, parse_chat_response
from factmill.tasks.core.prompts import FilledPrompt, fill_prompt_template, parse_prompt_file
from factmill.tasks.core.service_settings import ModelSettings

TOOL = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}
TURNS = (
    {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "Found: " + "x" * 5000},
)  # fmt: skip


def fill(turns=(), tools=(TOOL,)) -> FilledPrompt:
    filled = fill_prompt_template(parse_prompt_file("test/p", PROMPT), name="Ada")
    return FilledPrompt(filled.prompt, filled.variables, turns=tuple(turns), tools=tuple(tools))


def call(turns=(), tools=(TOOL,)):
    return make_chat_call(HERE, "m-1", fill(turns, tools), keeps_empty_completions=True)


def reply(finish="tool_calls", **message):
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
    return {"json": {"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}}


def called(*calls):
    return [{"id": each_id, "type": "function", "function": {"name": name, "arguments": text}} for each_id, name, text in calls]  # fmt: skip


def test_tools_and_turns_are_sent_and_recorded_only_when_present(server, inbox) -> None:
    server.script(reply("stop", content="done"))
    open_chat(server).send([call(TURNS)], inbox)
    sent = server.seen[0].json()
    assert sent["tools"] == [TOOL]
    assert sent["messages"][-2:] == list(TURNS)
    kept = call(TURNS).parts
    assert kept["tools"] == [TOOL]
    assert kept["turns"][1]["characters"] == 5007
    assert len(json.dumps(kept["turns"])) < 1000
    plain = make_chat_call(HERE, "m-1", fill(tools=()))
    assert not {"tools", "turns"} & {*plain.parts, *plain.unrecorded_parts}
    assert plain.key == ask().key
    other = {**TURNS[1], "content": TURNS[1]["content"] + "y"}
    assert len({call().key, call(TURNS).key, call((TURNS[0], other)).key, call(tools=()).key}) == 4


@pytest.mark.parametrize(
    ("message", "calls", "text"),
    [
        (
            {"content": None, "tool_calls": called(("a", "search", '{"title": "x"}'), ("b", "search", '{"title": "y"}'))},
            (ToolCall("a", "search", '{"title": "x"}'), ToolCall("b", "search", '{"title": "y"}')),
            "",
        ),
        ({"content": "Let me see.", "tool_calls": called(("a", "search", "{broken"))}, (ToolCall("a", "search", "{broken"),), "Let me see."),
        ({"content": None, "tool_calls": [{"function": {"name": "other", "arguments": None}}]}, (ToolCall("call00001", "other", ""),), ""),
        ({"content": None, "tool_calls": [{"id": "a", "function": {"name": "search", "arguments": {"title": "ö"}}}]}, (ToolCall("a", "search", '{"title": "ö"}'),), ""),
        ({"content": None, "function_call": {"name": "search", "arguments": "{}"}}, (ToolCall("call00001", "search", "{}"),), ""),
        ({"content": [{"type": "text", "text": "in "}, {"type": "text", "text": "parts"}], "tool_calls": []}, None, "in parts"),
        ({"content": "plain"}, None, "plain"),
    ],
    ids=["two at once", "text and broken JSON", "no id", "arguments as object", "older form", "parts", "none"],
)  # fmt: skip
def test_tool_calls_are_parsed_in_every_format(server, inbox, message, calls, text) -> None:
    server.script(reply(**message))
    open_chat(server).send([call()], inbox)
    read = parse_chat_response(inbox[call()].body)
    assert read.texts == (text,)
    assert read.tool_calls == (() if calls is None else (calls,))
    assert ("calls" in inbox[call()].body) == (calls is not None)


@pytest.mark.parametrize(
    ("arguments", "read"),
    [('{"title": "x"}', {"title": "x"}), ("", {}), ("{broken", None), ('["x"]', None), ('"x"', None), ("[" * 100_000, None)],
)  # fmt: skip
def test_non_object_arguments_are_parsed_as_none(arguments, read) -> None:
    assert ToolCall("a", "search", arguments).parsed_arguments == read


REFUSALS = [
    (400, {"error": {"message": "Unsupported parameter: 'tools'", "param": "tools"}}),
    (400, {"error": {"message": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'}}),
    (400, {"error": {"message": "registry.ollama.ai/library/gemma:2b does not support tools"}}),
    (422, {"detail": [{"loc": ["body", "tools"], "msg": "Extra inputs are not permitted"}]}),
    (500, {"error": {"message": "tools param requires --jinja flag"}}),
    (404, {"error": {"message": "No endpoints found that support tool use."}}),
]  # fmt: skip


@pytest.mark.parametrize(("status", "expected"), REFUSALS, ids=[str(at) for at in range(len(REFUSALS))])
def test_server_refusing_tools_gets_them_only_once(server, inbox, status, expected) -> None:
    server.handle = lambda seen: (
        {"status": status, "json": expected} if "tools" in seen.json() else reply("stop", content="fine")
    )
    chat = open_chat(server, limits=ONE_BY_ONE)
    chat.send([call(), call(tools=(TOOL, TOOL))], inbox)
    assert [inbox[each].error.partition(":")[0] for each in (call(), call(tools=(TOOL, TOOL)))] == ["tools_refused"] * 2
    assert not inbox[call()].transient
    assert len(server.seen) == 1
    chat.send([call(tools=())], inbox)
    assert inbox[call(tools=())].body["texts"] == ["fine"]
    assert "tools = false" in chat.notes()[0]


def test_tools_disabled_in_world_file_send_no_request(server, inbox) -> None:
    chat = open_chat(server, tools=False)
    chat.send([call()], inbox)
    assert inbox[call()].error.startswith("tools_refused: the world's file")
    assert server.seen == []
    assert chat.notes() == []


@pytest.mark.parametrize(
    ("turns", "text"),
    [
        (TURNS, "messages with role 'tool' must follow a message with 'tool_calls'"),
        ((), "Failed to call a function. See failed_generation; code tool_use_failed"),
        ((), "the temperature is wrong"),
    ],
)
def test_refusal_of_one_tool_call_does_not_disable_tools(turns, text) -> None:
    sent = {"messages": fill(turns).build_messages(), "tools": [TOOL]}
    assert "tools" not in read_settings_from_refusal(ModelSettings(kind="openai", name="m"), 400, text, sent)


def test_tool_calls_and_results_stay_separate_messages_when_roles_are_merged() -> None:
    merged = merge_system_and_repeated_roles(
        [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}, *TURNS, TURNS[1]]
    )
    assert [each["role"] for each in merged] == ["user", "assistant", "tool", "tool"]
    assert merged[0]["content"] == "s\n\nu"
    assert merged[1:] == [*TURNS, TURNS[1]]


def test_tools_and_context_length_do_not_change_request_profile(server) -> None:
    assert model(server, tools=False, context_tokens=4096).request_profile() == {}
