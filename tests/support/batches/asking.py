"""Make calls for tests of batch jobs, and a chat model that sends them as jobs."""

import threading
from pathlib import Path

from support.batches.server import BatchServer

from factmill.tasks.clients.batch_jobs.job_files import BatchJobsFolderAndRun
from factmill.tasks.clients.batch_jobs.offline_batches import OfflineRequestAndReplyFilesOfRun
from factmill.tasks.clients.chat import ChatClient
from factmill.tasks.clients.sending.sender import cancel_all_sends
from factmill.tasks.core.calls.call import CallResponse
from factmill.tasks.core.calls.chat import BatchJobSettings, make_chat_call
from factmill.tasks.core.prompts import fill_prompt_template, parse_prompt_file
from factmill.tasks.core.service_settings import ModelSettings, ServiceLimits
from factmill.tasks.errors import ServiceError

PROMPT = b"""+++
role = "author"
inputs = ["name"]
temperature = 0.7
max_tokens = 99
+++
# system
Answer.
# user
Who is $name?
"""


def answer(body: dict) -> dict:
    """Return the server's response to a request."""
    said = f"{body['messages'][-1]['content']} {body.get('seed', '')}"
    choices = [
        {"index": at, "finish_reason": "stop", "message": {"content": f"{said} {at}"}} for at in range(body.get("n", 1))
    ]
    return {"json": {"choices": choices, "usage": {"prompt_tokens": 100, "completion_tokens": 20}}}


def open_chat(
    server: BatchServer,
    folder: Path | None,
    key: str = "key",
    files: OfflineRequestAndReplyFilesOfRun | None = None,
    **changed,
) -> ChatClient:
    """Return a model at a server, with job files in a folder; `files`: request and reply files to use instead of jobs."""
    given = {
        "kind": "openai",
        "name": "m-1",
        "url": server.url,
        "mode": "batch",
        "usd_per_million_in": 2.0,
        "usd_per_million_out": 10.0,
        "key_env": "MY_KEY",
        "jobs": jobs(),
        "limits": ServiceLimits(parallel=4, timeout_s=5, attempts=4, backoff_s=0.01),
    }
    return ChatClient(
        "here",
        ModelSettings.model_validate({**given, **changed}),
        lambda: key,
        "tests",
        folder and place_of(folder),
        files,
    )


def place_of(folder: Path) -> BatchJobsFolderAndRun:
    """Return where a folder's job files are; its warehouse has an unusual name."""
    return BatchJobsFolderAndRun(folder / "jobs", "granola-1a2b", folder / "w.duckdb")


def jobs(**changed) -> BatchJobSettings:
    return BatchJobSettings.model_validate({"poll_s": 0.005, "first_singly": False, **changed})


def ask(name="Ada", samples=1, once=False):
    return make_chat_call(
        "here",
        "m-1",
        fill_prompt_template(parse_prompt_file("test/p", PROMPT), samples=samples, name=name),
        keeps_empty_completions=once,
    )


def ask_all(count=60, samples=1):
    return [ask(f"person {number}", samples) for number in range(count)]


def collect(chat: ChatClient, calls) -> dict[str, CallResponse]:
    got: dict[str, CallResponse] = {}

    def deliver(call, reply):
        assert call.key not in got, "delivered twice"
        got[call.key] = reply

    chat.send(calls, deliver)
    return got


def bodies(replies) -> dict:
    return {key: (reply.status, reply.body) for key, reply in replies.items()}


def wait_for(condition) -> None:
    while not condition():
        threading.Event().wait(0.005)


def interrupt(chat: ChatClient, calls, condition) -> dict[str, CallResponse]:
    """Send calls, interrupt when a condition is true, and return the replies so far."""
    got: dict[str, CallResponse] = {}
    errors = []

    def send():
        try:
            chat.send(calls, lambda call, reply: got.update({call.key: reply}))
        except ServiceError as error:
            errors.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    wait_for(condition)
    cancel_all_sends()
    thread.join()
    assert "sending was interrupted" in str(errors[0])
    return got
