"""Test the Messages API through the official SDK, against a loopback server of its wire format."""

import sys

import pytest
from clients.test_chat import PROMPT
from clients.test_chat_tools import TOOL, TURNS
from pydantic import ValidationError
from support.messages.server import KEY, MessagesServer, error

from factmill.tasks.clients.anthropic_server import (
    build_messages_request,
    convert_batch_line_to_openai_format,
    translate_message_to_chat_completion,
    translate_response_json_to_chat,
)
from factmill.tasks.clients.chat import ChatClient
from factmill.tasks.core.calls.chat import make_chat_call, parse_chat_response
from factmill.tasks.core.prompts import FilledPrompt, fill_prompt_template, parse_prompt_file
from factmill.tasks.core.service_settings import ModelSettings, ServiceLimits
from factmill.tasks.errors import ServiceUnreachable, SettingsError
from factmill.tasks.settings import World

SCHEMA = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}, "maxItems": 5}}}


def say(body):
    """Return a chat completion with the last message and the system text."""
    texts = [message["content"] for message in body["messages"]]
    message = {"content": " | ".join(texts)}
    return {"json": {"choices": [{"message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 7}}}


@pytest.fixture
def serve(tmp_path):
    servers = []

    def start(answer=say, **options) -> MessagesServer:
        servers.append(MessagesServer(tmp_path / f"server-{len(servers)}", answer, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def model(server, **changed) -> ModelSettings:
    quick = ServiceLimits(parallel=4, timeout_s=5, attempts=3, backoff_s=0.01)
    return ModelSettings.model_validate(
        {"kind": "anthropic", "name": "claude-1", "url": server.url, "limits": quick, **changed}
    )


def open_chat(server, key=KEY, **changed) -> ChatClient:
    return ChatClient(server.url, model(server, **changed), lambda: key, "tests")


def call(server, samples=1, turns=(), tools=()):
    filled = fill_prompt_template(parse_prompt_file("test/p", PROMPT), samples=samples, name="Ada")
    return make_chat_call(
        server.url,
        "claude-1",
        FilledPrompt(filled.prompt, filled.variables, samples, turns=turns, tools=tools),
        keeps_empty_completions=True,
    )


def test_prompt_is_sent_with_sdk_names_and_completion_is_parsed(serve, inbox) -> None:
    server = serve(accepts=frozenset({"temperature"}))
    asked = call(server)
    open_chat(server, reasoning_effort="low", extra_body={"service_tier": "standard_only"}).send([asked], inbox)
    [sent] = server.seen
    assert sent["system"] == asked.unrecorded_parts["messages"][0]["content"]
    assert sent["messages"] == [{"role": "user", "content": [{"type": "text", "text": asked.unrecorded_parts["messages"][1]["content"]}]}]  # fmt: skip
    assert sent["output_config"] == {"effort": "low"}
    assert sent["service_tier"] == "standard_only"
    assert sent["max_tokens"] == asked.parts["max_tokens"]
    assert not {"seed", "n", "stream", "reasoning_effort"} & {*sent}
    assert parse_chat_response(inbox[asked].body).texts == (
        " | ".join(each["content"] for each in asked.unrecorded_parts["messages"]),
    )
    assert parse_chat_response(inbox[asked].body).finish == ("end_turn",)


def test_model_without_temperature_is_retried_without_it(serve, inbox) -> None:
    server = serve()
    asked, chat = call(server), open_chat(server)
    chat.send([asked], inbox)
    assert inbox[asked].status == "ok"
    assert chat.model.temperature == "none"
    assert len(server.seen) == 1


def test_samples_are_separate_requests_without_seed(serve, inbox) -> None:
    server = serve(accepts=frozenset({"temperature"}))
    asked = call(server, samples=3)
    open_chat(server).send([asked], inbox)
    assert len(parse_chat_response(inbox[asked].body).texts) == 3
    assert len(server.seen) == 3


def test_tool_calls_and_tool_results_are_translated_both_ways(serve, inbox) -> None:
    def use_tool(body):
        if body["messages"][-1]["role"] == "tool":
            return say(body)
        function = {"name": "search", "arguments": '{"title": "ö"}'}
        message = {"content": "Let me see.", "tool_calls": [{"id": "toolu_1", "function": function}]}
        return {"json": {"choices": [{"message": message, "finish_reason": "tool_calls"}]}}

    server = serve(use_tool, accepts=frozenset({"temperature"}))
    first, second = call(server, tools=(TOOL,)), call(server, turns=TURNS, tools=(TOOL,))
    open_chat(server).send([first, second], inbox)
    read = parse_chat_response(inbox[first].body)
    assert read.finish == ("tool_use",)
    assert [(each.id, each.name, each.parsed_arguments) for each in read.tool_calls[0]] == [
        ("toolu_1", "search", {"title": "ö"})
    ]
    assert server.seen[0]["tools"] == [{"name": "search", "input_schema": {"type": "object"}}]
    [after] = [sent for sent in server.seen if len(sent["messages"]) == 3]
    assert after["messages"][1]["content"] == [{"type": "tool_use", "id": "c1", "name": "search", "input": {}}]
    assert after["messages"][2]["content"][0]["tool_use_id"] == "c1"
    assert "Found: " in parse_chat_response(inbox[second].body).texts[0]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"max_tokens": 500}),
        ({"max_completion_tokens": 9}, {"max_tokens": 9}),
        ({"max_tokens": 9, "temperature": 1.4}, {"max_tokens": 9, "temperature": 1.0}),
        (
            {"max_tokens": 9, "temperature": 0.2, "thinking": {"type": "adaptive"}},
            {"max_tokens": 9, "thinking": {"type": "adaptive"}},
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": {"type": "null"}}}},
            {"max_tokens": 500, "output_config": {"format": {"type": "json_schema", "schema": {"type": "null"}}}},
        ),
        (
            {"reasoning_effort": "low", "output_config": {"task_budget": 1}},
            {"max_tokens": 500, "output_config": {"effort": "low", "task_budget": 1}},
        ),
    ],
    ids=["no limit", "the newer limit", "too hot", "thinking", "schema", "both configs"],
)
def test_parameters_are_translated(given, expected) -> None:
    body = {"messages": [{"role": "user", "content": "x"}], **given}
    turns = [{"role": "user", "content": [{"type": "text", "text": "x"}]}]
    assert build_messages_request(body, 500, lambda schema: schema) == {"messages": turns, **expected}


def test_consecutive_messages_of_one_role_are_merged() -> None:
    said = [("system", "a"), ("user", "b"), ("user", "c"), ("assistant", ""), ("assistant", "d"), ("system", "e"), ("user", "f")]  # fmt: skip
    body = {"messages": [{"role": role, "content": text} for role, text in said]}
    request = build_messages_request(body, 500, dict)
    assert request["system"] == "a\n\ne"
    assert [(turn["role"], [block["text"] for block in turn["content"]]) for turn in request["messages"]] == [
        ("user", ["b", "c"]),
        ("assistant", ["d"]),
        ("user", ["f"]),
    ]


def test_schema_is_sent_in_subset_supported_by_api(serve) -> None:
    server = serve()
    response_format = {"type": "json_schema", "json_schema": {"name": "reply", "schema": SCHEMA, "strict": True}}
    body = {"messages": [{"role": "user", "content": "x"}], "response_format": response_format}
    sent = open_chat(server)._server.translate(body)["output_config"]["format"]["schema"]
    assert "maxItems" not in sent["properties"]["a"]
    assert sent["additionalProperties"] is False


@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal", "model_context_window_exceeded"])  # fmt: skip
def test_stop_reasons_and_usage_are_unchanged_and_thinking_is_not_text(reason) -> None:
    usage = {"input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 5}
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    read = translate_message_to_chat_completion(
        {"type": "message", "content": content, "stop_reason": reason, "usage": usage}
    )
    [choice] = read["choices"]
    assert choice["finish_reason"] == reason
    assert choice["message"]["content"] == "ab"
    assert read["usage"] == usage
    assert ("refusal" in choice["message"]) == (reason == "refusal")


@pytest.mark.parametrize("text", ["", "<html>", "[1]", '{"type": "error", "error": {"type": "api_error"}}', '{"a": '])
def test_non_message_body_stays_unchanged(text) -> None:
    assert translate_response_json_to_chat(text) == text


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b'{"custom_id": "a"}', b'{"custom_id": "a", "result": {"type": "new"}}'])  # fmt: skip
def test_unreadable_batch_result_line_stays_unchanged(line) -> None:
    assert convert_batch_line_to_openai_format(line) == line


def test_overloaded_server_is_retried(serve, inbox) -> None:
    server = serve(accepts=frozenset({"temperature"}))
    left = [error(529, "Overloaded"), {**error(429, "slow down"), "headers": {"retry-after": "0.01"}}]
    server.errors = lambda _: left.pop() if left else None
    asked = call(server)
    open_chat(server).send([asked], inbox)
    assert inbox[asked].status == "ok"
    assert len(server.web.seen) == 3, "the SDK retries nothing"


def test_wrong_key_stops_run_after_one_request(serve, inbox) -> None:
    server = serve()
    with pytest.raises(ServiceUnreachable, match="HTTP 401"):
        open_chat(server, key="sk-ant-wrong").send([call(server)], inbox)
    assert [seen.headers["authorization"] for seen in server.web.seen] == ["Bearer sk-ant-wrong"]


def test_environment_key_of_sdk_is_ignored(serve, inbox, monkeypatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-other")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    server = serve(accepts=frozenset({"temperature"}))
    asked = call(server)
    open_chat(server).send([asked], inbox)
    assert inbox[asked].status == "ok"
    assert {seen.headers["authorization"] for seen in server.web.seen} == {f"Bearer {KEY}"}


def test_missing_sdk_error_names_extra(serve, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(SettingsError, match=r"factmill\[anthropic\]"):
        open_chat(serve())


def test_openai_and_anthropic_calls_to_one_address_have_different_keys(serve) -> None:
    server = serve()
    native = model(server)
    plain = native.model_copy(update={"kind": "openai"})
    assert plain.request_profile() == {}
    assert native.request_profile() == {"kind": "anthropic"}


def test_default_address_has_no_v1_and_unsupported_settings_are_rejected() -> None:
    assert ModelSettings(kind="anthropic", name="m").url == "https://api.anthropic.com"
    with pytest.raises(ValidationError, match="the address has no /v1"):
        ModelSettings(kind="anthropic", name="m", url="https://api.anthropic.com/v1")
    with pytest.raises(ValidationError, match="one reply per request"):
        ModelSettings(kind="anthropic", name="m", choices=True)
    with pytest.raises(ValidationError, match="factmill does not stream replies"):
        ModelSettings(kind="anthropic", name="m", stream=True)
    with pytest.raises(ValidationError, match="`local` or `openai`"):
        World(name="w", user_agent="u", models={"perplexity": ModelSettings(kind="anthropic", name="m")})
