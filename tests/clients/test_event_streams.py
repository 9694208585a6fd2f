"""Test server-sent events: how streams are parsed, and chat, refusals and limits on servers that stream."""

import json
from typing import Any

import pytest
from support.webs.loopback import Loopback, Seen

from factmill.tasks.clients.chat import ChatClient
from factmill.tasks.clients.event_streams import read_plain_or_streamed_json
from factmill.tasks.clients.sending.sender import Retry
from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.calls.chat import make_chat_call
from factmill.tasks.core.prompts import fill_prompt_template, parse_prompt_file
from factmill.tasks.core.service_settings import ModelSettings, ServiceLimits

PROMPT = parse_prompt_file(
    "test/p", b'+++\nrole = "author"\ninputs = ["name"]\ntemperature = 0\nmax_tokens = 9\n+++\n# user\nWho is $name?\n'
)


def piece(content: Any = None, finish: str | None = None, index: int = 0, **delta: Any) -> dict[str, Any]:
    given = delta | ({} if content is None else {"content": content})
    return {"choices": [{"index": index, "delta": given, "finish_reason": finish}]}


def stream(*chunks: Any, done: bool = True, end: str = "\n\n") -> str:
    texts = [each if isinstance(each, str) else json.dumps(each) for each in chunks]
    return "".join(f"data: {text}{end}" for text in [*texts, *(["[DONE]"] if done else [])])


def call(
    index: int | None = None, call_id: str | None = None, name: str | None = None, given: str = ""
) -> dict[str, Any]:
    function = {"arguments": given} | ({"name": name} if name else {})
    result = {"index": index, "id": call_id, "function": function}
    return {name: value for name, value in result.items() if value is not None}


HALVES = [piece("Ber", role="assistant"), piece("lin"), piece(finish="stop")]
WHOLE = [("Berlin", "stop")]
USAGE = {"prompt_tokens": 7, "completion_tokens": 2}

STREAMS: dict[str, tuple[str, Any]] = {
    "plain": (stream(*HALVES), WHOLE),
    "CRLF": (stream(*HALVES, end="\r\n\r\n"), WHOLE),
    "CR": (stream(*HALVES, end="\r\r"), WHOLE),
    "byte-order mark": ("\ufeff" + stream(*HALVES), WHOLE),
    "comments": (": OPENROUTER PROCESSING\n\n" * 3 + stream(*HALVES).replace("\n\n", "\n\n: ping\n\n"), WHOLE),
    "blank lines first": ("\n\r\n \n" + stream(*HALVES), WHOLE),
    "no [DONE]": (stream(*HALVES, done=False), WHOLE),
    "no end of line": (stream(*HALVES, done=False).rstrip("\n"), WHOLE),
    "no space": (stream(*HALVES).replace("data: ", "data:"), WHOLE),
    "events named": (stream(*HALVES).replace("data: ", "event: chunk\nid: 3\nretry: 10\ndata: "), WHOLE),
    "several data lines": (stream(json.dumps(HALVES[0], indent=1).replace("\n", "\ndata: "), *HALVES[1:]), WHOLE),
    "no blank lines": (stream(*HALVES, end="\n"), WHOLE),
    "line separators in a text": (
        stream(json.dumps(piece("a\u2028b\x85c", "stop"), ensure_ascii=False)),
        [("a\u2028b\x85c", "stop")],
    ),
    "two choices": (
        stream(piece("a", index=1), piece("b", index=0), piece("c", "stop", 1), piece("d", "length", 0)),
        [("bd", "length"), ("ac", "stop")],
    ),
    "nothing said": (stream(piece(finish="stop", role="assistant")), [(None, "stop")]),
    "done without a reason": (stream(piece("a")), [("a", None)]),
    "message instead of delta": (
        stream({"choices": [{"message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}]}),
        [("a", "stop")],
    ),
    "parts": (
        stream(piece([{"type": "text", "text": "a"}]), piece("b", "stop")),
        [([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "stop")],
    ),
    "half a surrogate pair each": (
        stream(
            '{"choices": [{"delta": {"content": "\\ud83d"}}]}',
            '{"choices": [{"delta": {"content": "\\ude00"}, "finish_reason": "stop"}]}',
        ),
        [("\U0001f600", "stop")],
    ),
}


@pytest.mark.parametrize("name", STREAMS)
def test_stream_is_assembled_into_equivalent_json_response(name):
    text, expected = STREAMS[name]
    choices = json.loads(read_plain_or_streamed_json(text, 200))["choices"]
    assert [(choice["message"]["content"], choice.get("finish_reason")) for choice in choices] == expected
    assert {choice["message"].get("role") for choice in choices} == {"assistant"}


MEMBERS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "usage of the last chunk": (
        [*HALVES, {"choices": [], "usage": {"prompt_tokens": 1}}, {"choices": [], "usage": USAGE}],
        {"usage": USAGE},
    ),
    "usage that a later chunk leaves out": ([{**HALVES[0], "usage": USAGE}, *HALVES[1:]], {"usage": USAGE}),
    "fingerprint": ([{**HALVES[0], "system_fingerprint": "fp"}, *HALVES[1:]], {"system_fingerprint": "fp"}),
    "error of a chunk": (
        [HALVES[0], {"error": {"code": 502, "message": "gone"}}],
        {"error": {"code": 502, "message": "gone"}},
    ),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_top_level_members_of_chunks_are_kept_at_top_level(name):
    chunks, expected = MEMBERS[name]
    body = json.loads(read_plain_or_streamed_json(stream(*chunks, done=False), 200))
    assert {key: body[key] for key in expected} == expected


def test_error_event_without_choices_becomes_body():
    assert json.loads(read_plain_or_streamed_json(stream({"error": {"code": 429}}, done=False), 200))["error"] == {
        "code": 429
    }
    assert "choices" not in json.loads(read_plain_or_streamed_json(stream({"error": {"code": 429}}), 200))
    assert json.loads(read_plain_or_streamed_json('event: error\ndata: {"message": "no"}\n\n', 200))["error"] == {
        "message": "no"
    }
    assert json.loads(read_plain_or_streamed_json("event: error\ndata: overloaded\n\n", 200))["error"] == {
        "message": "overloaded"
    }


def test_error_of_choice_stays_with_its_choice():
    chunk = {"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error", "error": {"code": 502}}]}
    [choice] = json.loads(read_plain_or_streamed_json(stream(piece("ha"), chunk), 200))["choices"]
    assert (choice["error"], choice["finish_reason"]) == ({"code": 502}, "error")


def test_refusal_and_reasoning_chunks_are_joined():
    [choice] = json.loads(
        read_plain_or_streamed_json(
            stream(piece(refusal="I "), piece(refusal="can't", reasoning_content="h"), piece(finish="stop")), 200
        )
    )["choices"]
    assert choice["message"] == {"role": "assistant", "content": None, "refusal": "I can't", "reasoning_content": "h"}


CALLS: dict[str, tuple[list[list[dict[str, Any]]], list[tuple[str | None, str, str]]]] = {
    "pieces by index": (
        [[call(0, "a", "look", '{"x"')], [call(1, "b", "find", "{")], [call(0, given=": 1}")], [call(1, given="}")]],
        [("a", "look", '{"x": 1}'), ("b", "find", "{}")],
    ),
    "the name repeated": ([[call(0, "a", "look", "{")], [call(0, "a", "look", "}")]], [("a", "look", "{}")]),
    "one index for several": ([[call(0, "a", "look", "{}")], [call(0, "b", "find", "{}")]], [("a", "look", "{}"), ("b", "find", "{}")]),
    "no index": ([[call(None, "a", "look", "{}"), call(None, "b", "find", "{}")]], [("a", "look", "{}"), ("b", "find", "{}")]),
    "neither index nor id": ([[call(None, None, "look", "{")], [call(given="}")], [call(None, None, "find", "{}")]], [(None, "look", "{}"), (None, "find", "{}")]),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_tool_call_chunks_are_joined(name):
    pieces, expected = CALLS[name]
    text = stream(*(piece(tool_calls=each) for each in pieces), piece(finish="tool_calls"))
    [choice] = json.loads(read_plain_or_streamed_json(text, 200))["choices"]
    found = choice["message"]["tool_calls"]
    assert [(one.get("id"), one["function"]["name"], one["function"]["arguments"]) for one in found] == expected


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (stream(*HALVES[:2], done=False), "truncated"),
        (stream(*HALVES, done=False)[:-20], "truncated"),
        (stream(piece("a", "stop"), piece("b", index=1), done=False), "truncated"),
        ("data: ", "truncated"),
        (stream("{broken", *HALVES), "broken_json"),
        (stream("[1]", *HALVES), "broken_json"),
        (stream("[" * 100_000, *HALVES), "broken_json"),
    ],
)
def test_truncated_or_non_json_stream_is_retried(text, code):
    with pytest.raises(Retry) as caught:
        read_plain_or_streamed_json(text, 200)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "before", ["", "\ufeff", "\n\n  \r\n", ": OPENROUTER PROCESSING\n\n: ping\r\n", "\ufeff\n: x\n"]
)
def test_text_before_plain_json_is_dropped(before):
    assert read_plain_or_streamed_json(f'{before}{{"choices": []}}', 200) == '{"choices": []}'


def test_other_texts_stay_unchanged():
    for text in ("", "<html>data: no</html>", "no such model", '{"data: ": 1}'):
        assert read_plain_or_streamed_json(text, 200) == text


def open_chat(server: Loopback, **changed: Any) -> ChatClient:
    limits = ServiceLimits(parallel=4, timeout_s=5, attempts=2, backoff_s=0.01)
    given = {"kind": "openai", "name": "m", "url": f"{server.url}/v1", "limits": limits}
    return ChatClient("m", ModelSettings.model_validate(given | changed), lambda: "sk-secret-0123", "tests")


def ask(number: int = 0, samples: int = 1) -> Call:
    return make_chat_call("m", "m", fill_prompt_template(PROMPT, samples=samples, name=str(number)))


def events(*chunks: Any, done: bool = True, **more: Any) -> dict[str, Any]:
    return {"bytes": stream(*chunks, done=done).encode(), "type": "text/event-stream", **more}


USED = {"choices": [], "usage": USAGE, "system_fingerprint": "fp"}


def test_stream_setting_requests_events_and_yields_same_response(server, inbox):
    plain = {
        "choices": [{"index": 0, "message": {"content": "Berlin"}, "finish_reason": "stop"}],
        "system_fingerprint": "fp",
    }
    server.handle = lambda seen: events(*HALVES, USED) if seen.json()["stream"] else {"json": {**plain, "usage": USAGE}}
    found = []
    for settings in ({"stream": True}, {}):
        inbox.replies.clear()
        open_chat(server, **settings).send([ask()], inbox)
        found.append((inbox[ask()].body, inbox[ask()].tokens_in, inbox[ask()].tokens_out))
    assert found[0] == found[1] == ({"texts": ["Berlin"], "finish": ["stop"], "fingerprint": "fp"}, 7, 2)
    assert server.seen[0].json()["stream_options"] == {"include_usage": True}
    assert "stream_options" not in server.seen[1].json()


@pytest.mark.parametrize(
    ("answer", "texts"),
    [
        (events(piece("b", "stop", 1), piece("a", "stop", 0), USED), ["a", "b"]),
        (events(piece("it is sk-sec"), piece("ret-0123", "stop")), ["it is ***"]),
        (
            {**events(json.dumps(piece("Zürich – 東京", "stop"), ensure_ascii=False), USED), "slice": 1},
            ["Zürich – 東京"],
        ),
    ],
    ids=["two samples", "a secret in pieces", "cut within a character"],
)
def test_stream_is_read_as_one_response(server, inbox, answer, texts):
    server.script(answer)
    call = ask(samples=len(texts))
    open_chat(server, stream=True, choices=True).send([call], inbox)
    assert inbox[call].body["texts"] == texts


def test_unexpected_plain_json_and_unexpected_stream_are_parsed(server, inbox):
    server.script({"json": {"choices": [{"message": {"content": "fine"}, "finish_reason": "stop"}]}})
    open_chat(server, stream=True).send([ask(1)], inbox)
    server.script(events(*HALVES, type="application/json"))
    open_chat(server).send([ask(2)], inbox)
    assert [inbox[ask(number)].body["texts"] for number in (1, 2)] == [["fine"], ["Berlin"]]


@pytest.mark.parametrize(
    "text",
    [
        "stream must be true",
        "'stream' must be set to true",
        "Only streaming is supported for this model",
        "This model only support stream mode, please enable the stream parameter to access the model.",
        "parameter.enable_thinking must be set to false for non-streaming calls",
        "Non-streaming requests are not supported by this endpoint",
        "Streaming is required for this model",
        {"error": {"message": "Unsupported value", "param": "stream"}},
        {"detail": [{"loc": ["body", "stream"], "msg": "Input should be True"}]},
    ],
)
def test_stream_only_server_is_learned_once(text, server, inbox):
    def answer(seen: Seen) -> dict[str, Any]:
        if seen.json()["stream"]:
            return events(*HALVES, USED)
        return {"status": 400, "json": text if isinstance(text, dict) else {"error": {"message": text}}}

    server.handle = answer
    chat = open_chat(server)
    chat.send([ask()], inbox)
    chat.send([ask(number) for number in range(1, 6)], inbox)
    assert {reply.status for reply in inbox.replies.values()} == {"ok"}
    assert len(server.seen) == 7
    (note,) = chat.notes()
    assert note.startswith("model m needs stream = true: ")


def test_server_refusing_stream_options_is_retried_without_them(server, inbox):
    def answer(seen: Seen) -> dict[str, Any]:
        if "stream_options" in seen.json():
            return {"status": 422, "json": {"detail": [{"loc": ["body", "stream_options"], "msg": "Extra inputs"}]}}
        return events(*HALVES)

    server.handle = answer
    chat = open_chat(server, stream=True)
    chat.send([ask()], inbox)
    assert inbox[ask()].status == "ok"
    assert chat.learnt_settings() == {"stream": "no_usage"}


def test_interrupted_stream_is_retried(server, inbox):
    server.script(events(*HALVES[:2], done=False), events(*HALVES))
    open_chat(server, stream=True).send([ask()], inbox)
    assert inbox[ask()].body["texts"] == ["Berlin"] and len(server.seen) == 2


def test_batch_job_requests_never_stream(server):
    [draw] = open_chat(server)._list_sample_requests(0, ask())
    body = open_chat(server, stream=True).build_request_body(draw, {"stream": True})
    assert body["stream"] is False and "stream_options" not in body


def test_timeout_applies_to_stream_without_long_pauses(server, inbox):
    """Thirty chunks arrive, each within a fraction of the time-out."""
    server.script({**events(*HALVES), "slice": 8, "every_s": 0.05})
    open_chat(server, stream=True, limits=ServiceLimits(timeout_s=0.4, attempts=1)).send([ask()], inbox)
    assert inbox[ask()].error.startswith("timeout") and inbox[ask()].transient


@pytest.mark.parametrize(
    "text",
    [
        "streaming is not supported for this model",
        "max_tokens is too large for non-batch requests",
        "Invalid value for 'temperature': only 1 is supported by this model, see the stream of announcements",
    ],
)
def test_unrelated_refusals_do_not_enable_streaming(text, server, inbox):
    server.handle = lambda seen: {"status": 400, "json": {"error": {"message": text}}}
    chat = open_chat(server)
    chat.send([ask()], inbox)
    assert not any(seen.json()["stream"] for seen in server.seen)
