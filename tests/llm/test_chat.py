"""Test the chat client against a real server: completions, samples and seeds, schemas, and overlong prompts."""

import json
from typing import Any

import pytest

from factmill.tasks.clients.chat import ChatClient
from factmill.tasks.core.calls.call import Call, CallResponse
from factmill.tasks.core.calls.chat import make_chat_call
from factmill.tasks.core.prompts import FilledPrompt, fill_prompt_template, parse_prompt_file
from factmill.tasks.core.service_settings import ModelSettings, ServiceLimits
from factmill.tasks.errors import ServiceUnreachable

pytestmark = pytest.mark.llm

HEAD = """+++
role = "author"
inputs = ["name"]
temperature = 1.0
max_tokens = 24
+++
# system
Answer in one line.
# user
Who is $name?
"""
SCHEMA = {
    "type": "object",
    "properties": {
        "level": {"type": "string", "enum": ["city", "country"]},
        "is_sure": {"type": "boolean"},
        "parts": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1, "maxItems": 3},
    },
    "required": ["level", "is_sure", "parts"],
    "additionalProperties": False,
}


def open_chat(server: Any, key: str | None = None, **changed: Any) -> ChatClient:
    limits = ServiceLimits(parallel=1, timeout_s=60, attempts=3, backoff_s=0.05)
    given = {"kind": "openai", "name": "tiny", "url": server.url, "limits": limits, "usd_per_million_out": 10.0}
    return ChatClient(
        server.url, ModelSettings.model_validate({**given, **changed}), lambda: key or server.key, "factmill-tests"
    )


def make_ask(name: str = "Ada", samples: int = 1, schema: dict[str, Any] | None = None) -> FilledPrompt:
    head = HEAD if schema is None else HEAD.replace("+++\n# system", f"schema = {write_toml(schema)}\n+++\n# system")
    if schema is not None:
        head = head.replace("max_tokens = 24", "max_tokens = 200")
    return fill_prompt_template(parse_prompt_file("test/who", head.encode()), samples=samples, name=name)


def write_toml(value: Any) -> str:
    """Return a JSON value as an inline TOML value."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {write_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(write_toml, value)) + "]"
    return json.dumps(value)


def send(chat: ChatClient, *asks: FilledPrompt) -> list[CallResponse]:
    """Return the completions in the order of the requests."""
    calls = [make_chat_call(chat.identity, "tiny", ask) for ask in asks]
    replies: dict[str, CallResponse] = {}

    def keep(call: Call, reply: CallResponse) -> None:
        assert call.key not in replies
        replies[call.key] = reply

    chat.send(calls, keep)
    return [replies[call.key] for call in calls]


def test_response_includes_tokens_cost_and_duration(chat_server: Any) -> None:
    asked = chat_server.count_asked()
    [reply] = send(open_chat(chat_server), make_ask())
    assert (reply.status, reply.error) == ("ok", None)
    assert len(reply.body["texts"]) == 1
    assert reply.body["texts"][0].strip()
    assert reply.body["finish"] == ["length"]
    assert reply.tokens_out == 24
    messages = "".join(f"[{message['role']}] {message['content']}\n" for message in make_ask().build_messages())
    assert reply.tokens_in == len(f"{messages}[assistant] ") + 1, "one token per character, and one at the start"
    assert reply.cost_usd == pytest.approx(24 * 10e-6)
    assert reply.latency_s > 0
    assert chat_server.count_asked() == asked + 1


def test_samples_differ_and_same_seeds_yield_same_texts(chat_server: Any) -> None:
    # from here on the server has the prompt's state in its cache
    [_warm] = send(open_chat(chat_server), make_ask("Bob"))
    asked = chat_server.count_asked()
    [first] = send(open_chat(chat_server), make_ask("Bob", samples=3))
    [second] = send(open_chat(chat_server), make_ask("Bob", samples=3))
    assert (first.status, second.status) == ("ok", "ok")
    assert len(set(first.body["texts"])) == 3
    assert first.body == second.body
    assert first.tokens_out == 3 * 24
    assert chat_server.count_asked() == asked + 6


def test_concurrent_calls_are_each_answered_once(chat_server: Any) -> None:
    asks = [make_ask(f"person {number}", samples=2) for number in range(10)]
    replies = send(open_chat(chat_server, limits=ServiceLimits(parallel=8, timeout_s=60)), *asks)
    assert [reply.status for reply in replies] == ["ok"] * 10
    assert [len(reply.body["texts"]) for reply in replies] == [2] * 10


def test_json_schema_constrains_even_random_model(chat_server: Any) -> None:
    chat = open_chat(chat_server, json_schema=True)
    replies = send(chat, *(make_ask(name, samples=2, schema=SCHEMA) for name in ("Ada", "Bob")))
    texts = [text for reply in replies for text in reply.body["texts"]]
    assert len(texts) == 4
    for text in texts:
        value = json.loads(text)
        assert value.keys() == {"level", "is_sure", "parts"}
        assert value["level"] in ("city", "country")
        assert isinstance(value["is_sure"], bool)
        assert 1 <= len(value["parts"]) <= 3
        assert set(value["parts"]) <= {"a", "b"}


def test_same_model_without_schema_writes_no_json(chat_server: Any) -> None:
    [reply] = send(open_chat(chat_server, json_schema=False), make_ask(schema=SCHEMA))
    with pytest.raises(json.JSONDecodeError):
        json.loads(reply.body["texts"][0])


def test_too_long_prompt_fails_permanently_after_one_request(chat_server: Any) -> None:
    asked = chat_server.count_asked()
    reply, other = send(open_chat(chat_server), make_ask("x" * 20_000), make_ask("Bob"))
    assert (reply.status, reply.body, reply.transient) == ("failed", None, False)
    assert reply.error is not None
    assert reply.error.startswith("prompt_too_long: ")
    assert "16384" in reply.error
    assert other.status == "ok"
    assert chat_server.count_asked() == asked + 2


def test_wrong_api_key_stops_run_and_is_not_shown(chat_server: Any) -> None:
    wrong = "wrong-key-0987654321"
    with pytest.raises(ServiceUnreachable, match="HTTP 401") as caught:
        send(open_chat(chat_server, key=wrong), make_ask())
    assert wrong not in str(caught.value)
