"""Test that no key that a server repeats, in any encoding, appears in a reply, error, note, log or file."""

import asyncio
import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from support.batches.asking import PROMPT, jobs
from support.secrets.spelled_keys import KEY, SPELLINGS, find_key
from support.webs.loopback import Loopback, Seen

from factmill.flows.commands.doctor import _probe_model_server
from factmill.tasks.clients.batch_jobs.job_files import BatchJobsFolderAndRun
from factmill.tasks.clients.chat import ChatClient
from factmill.tasks.clients.openai_server import OpenAiServerClient
from factmill.tasks.clients.perplexity import TextPerplexityClient
from factmill.tasks.clients.sending.secret_redaction import SecretRedactor
from factmill.tasks.core.calls.chat import make_chat_call
from factmill.tasks.core.calls.translation_and_perplexity import make_log_probability_call
from factmill.tasks.core.prompts import fill_prompt_template, parse_prompt_file
from factmill.tasks.core.service_settings import ModelSettings, ServiceLimits
from factmill.tasks.errors import FactmillError

ASKED = make_chat_call("m", "m", fill_prompt_template(parse_prompt_file("test/p", PROMPT), name="Ada"))
HALF = len(KEY) // 2


def answer(status: int = 200, **body: Any) -> dict[str, Any]:
    return {"status": status, "json": body}


def complete(content: Any = "fine", **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, **more}
    return {"choices": [{"message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1}}


def stream(*texts: str, ending: str = "stop") -> dict[str, Any]:
    pieces = [{"choices": [{"delta": {"content": text}}]} for text in texts]
    pieces[-1]["choices"][0]["finish_reason"] = ending or None  # type: ignore[index]
    return {"text": "".join(f"data: {json.dumps(piece)}\n\n" for piece in pieces), "type": "text/event-stream"}


def message(*texts: str) -> dict[str, Any]:
    blocks = [{"type": "text", "text": text} for text in texts]
    return {"id": "x", "type": "message", "content": blocks, "stop_reason": "end_turn", "usage": {"input_tokens": 1}}


CALLED = [{"id": "KEY", "type": "function", "function": {"name": "look", "arguments": '{"at": "KEY"}'}}]
ANSWERS: dict[str, dict[str, Any]] = {
    "text of a reply": answer(**complete("my key is KEY.")),
    "other fields of a reply": answer(**complete(reasoning_content="KEY"), id="KEY", system_fingerprint="KEY"),
    "names in a reply": answer(**complete(), KEY=1, error={"KEY": "KEY"}),
    "arguments of a call": answer(**complete(tool_calls=CALLED)),
    "refusal": answer(**complete(None, refusal="not with KEY")),
    "stream": stream("my key is ", "KEY", "."),
    "stream that ends early": stream("my key is KEY", ending=""),
    "event that is no JSON": {"text": 'data: {"KEY": "KEY"\n\n', "type": "text/event-stream"},
    "reply that is no JSON": {"text": '{"choices": "KEY"'},
    "error 400": answer(400, error={"message": "bad key KEY", "code": "KEY"}),
    "error 401": answer(401, error={"message": "Incorrect API key provided: KEY. See the console."}),
    "error 402": answer(402, error={"message": "KEY has no credit"}),
    "error 429": answer(429, error={"message": "KEY: too many requests"}),
    "error 500 in HTML": {"status": 500, "text": "<p title='KEY'>KEY failed</p>"},
    "headers": {**answer(400, error={"message": "no"}), "headers": {"X-Echo": "KEY", "Retry-After": "KEY"}},
    "redirect to another host": {"status": 307, "headers": {"Location": "http://elsewhere.invalid/KEY?key=KEY"}},
    "redirect within the host": {"status": 307, "headers": {"Location": "/v1/KEY?key=KEY#KEY"}},
}
"""Place → a server's response; `KEY` stands for a spelling of the key."""


def spell(template: dict[str, Any], spelling: str) -> dict[str, Any]:
    """Return a response with a spelling of the key in the places of `KEY`; headers get it on one line, without escapes."""
    body = json.dumps(template["json"]) if "json" in template else template.get("text", "")
    if template.get("type") == "text/event-stream" or "json" in template or body.startswith("{"):
        text = body.replace('\\"KEY\\"', '\\"' + spelling.replace("\\", "\\\\") + '\\"').replace("KEY", spelling)
    else:
        text = body.replace("KEY", spelling)
    headers = {
        name: value.replace("KEY", spelling.encode("ascii", "replace").decode())
        for name, value in template.get("headers", {}).items()
    }
    return {"type": "application/json", **template, "bytes": text.encode(), "headers": headers}


def model(server: Loopback, **changed: Any) -> ModelSettings:
    limits = ServiceLimits(parallel=1, timeout_s=20, attempts=2, backoff_s=0.001)
    return ModelSettings.model_validate(
        {"kind": "openai", "name": "m", "url": f"{server.url}/v1", "limits": limits} | changed
    )


def send_to(chat: ChatClient, handed: list[str]) -> None:
    chat.send([ASKED], lambda _, reply: handed.append(str(reply)))


def ask_chat(server: Loopback, handed: list[str], **changed: Any) -> None:
    chat = ChatClient("m", model(server, **changed), lambda: KEY, "tests")
    send_to(chat, handed)
    handed.extend(chat.notes())


def ask_anthropic(server: Loopback, handed: list[str]) -> None:
    ask_chat(server, handed, kind="anthropic", url=server.url)


def ask_scorer(server: Loopback, handed: list[str]) -> None:
    scorer = TextPerplexityClient("m", model(server), lambda: KEY, "tests")
    scorer.send([make_log_probability_call("m", "a b")], lambda _, reply: handed.append(str(reply)))


def look(server: Loopback, handed: list[str]) -> None:
    handed.append(asyncio.run(_probe_model_server(OpenAiServerClient(model(server), lambda: KEY, "tests"))))


KINDS: dict[str, Callable[[Loopback, list[str]], None]] = {
    "chat": ask_chat,
    "anthropic": ask_anthropic,
    "scorer": ask_scorer,
    "doctor": look,
}


def gather(ask: Callable[[list[str]], None], caplog: Any, capsys: Any) -> str:
    """Return all output of a request: replies, printed and logged text, and errors."""
    caplog.set_level(logging.DEBUG)
    caplog.clear()
    handed: list[str] = []
    try:
        ask(handed)
    except FactmillError as error:
        handed.append(str(error))
    assert handed, "no request was sent"
    printed = capsys.readouterr()
    return "\n".join([*handed, caplog.text, printed.out, printed.err])


@pytest.mark.parametrize(
    ("kind", "place"),
    [("chat", place) for place in ANSWERS]
    + [(kind, place) for kind in ("anthropic", "scorer", "doctor") for place in ("refusal", "error 401", "headers")],
)
def test_key_repeated_by_server_appears_in_no_output(place, kind, server, caplog, capsys):
    shown = {}
    for name, spelling in SPELLINGS.items():
        server.script(spell(ANSWERS[place], spelling))
        text = gather(partial(KINDS[kind], server), caplog, capsys)
        assert server.seen
        if found := find_key(text):
            shown[name] = found
    assert shown == {}


def test_key_split_across_chunks_is_scrubbed_after_joining(server, caplog, capsys):
    for ask, result in (
        (ask_chat, stream(f"it is {KEY[:HALF]}", f"{KEY[HALF:]}.")),
        (ask_chat, stream(*f"it is {KEY}.")),
        (ask_chat, stream(f"it is {KEY[:HALF]}", f"{KEY[HALF:]}.", ending="")),
        (ask_chat, answer(**complete([{"type": "text", "text": KEY[:HALF]}, {"type": "text", "text": KEY[HALF:]}]))),
        (ask_anthropic, answer(**message(f"it is {KEY[:HALF]}", f"{KEY[HALF:]}."))),
    ):
        server.script(result)
        assert find_key(gather(partial(ask, server), caplog, capsys)) == ""


def test_numeric_key_repeated_as_json_number_is_scrubbed():
    secrets = SecretRedactor()
    secrets.add_secret("987654321098765")
    scrubbed = secrets.redact(
        '{"account": 987654321098765, "left": [-987654321098765.5, 98765], "id": "k987654321098765"}'
    )
    assert json.loads(scrubbed) == {"account": "***", "left": ["-***.5", 98765], "id": "k***"}


LINES: dict[str, Any] = {
    "answer": {"response": {"status_code": 200, "body": complete("my key is KEY.")}},
    "refused line": {"response": {"status_code": 400, "body": {"error": {"message": "bad key KEY"}}}},
    "body as text": {"response": {"status_code": 400, "body": "bad key KEY"}},
    "error in place of an answer": {"error": {"code": "KEY", "message": "KEY"}},
    "error as text": {"error": "KEY"},
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("place", LINES)
def test_key_in_batch_job_file_is_scrubbed(place, encoding, server, tmp_path, caplog, capsys):
    shown = {}
    for number, (name, spelling) in enumerate(SPELLINGS.items()):
        uploaded: list[bytes] = []

        def handle(seen: Seen, spelling: str = spelling, uploaded: list[bytes] = uploaded) -> dict[str, Any]:
            if seen.path.endswith(("/files", "/batches")) and seen.method == "GET":
                return answer(data=[])
            if seen.path.endswith("/files"):
                uploaded.append(seen.body)
                return answer(id="file-1")
            if seen.path.endswith("/content"):
                custom_id = json.loads(next(line for line in uploaded[-1].split(b"\r\n") if line[:1] == b"{"))[
                    "custom_id"
                ]
                line = json.dumps({"custom_id": custom_id, **LINES[place]}).replace("KEY", spelling)
                return {"bytes": f"{line}\n".encode(encoding)}
            if "/files/" in seen.path:
                return {"json": {"id": "file-1", "status": "processed"}}
            done = {"status": "completed", "output_file_id": "file-2", "request_counts": {"completed": 1, "total": 1}}
            return {"json": {"id": "batch-1", **done}}

        server.handle = handle
        settings = model(server, mode="batch", jobs=jobs(), limits=ServiceLimits(attempts=1, backoff_s=0.001))
        folder = tmp_path / str(number)
        chat = ChatClient(
            "m", settings, lambda: KEY, "tests", BatchJobsFolderAndRun(folder, "run", tmp_path / "w.duckdb")
        )
        text = gather(partial(send_to, chat), caplog, capsys)
        assert uploaded
        kept = "".join(path.read_text("utf-8") for path in folder.rglob("*") if path.is_file())
        if found := find_key(text + kept):
            shown[name] = found
    assert shown == {}
