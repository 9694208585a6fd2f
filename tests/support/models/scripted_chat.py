"""Serve a chat model over HTTP that answers as a test says, and write a world with this model."""

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from support.webs.loopback import Loopback, Seen
from support.worlds.with_models import write_world_with_model

from factmill.tasks.clients.chat import ChatClient
from factmill.tasks.core.service_settings import ModelSettings, ServiceLimits

Message = dict[str, Any]
Said = str | int
"""The model's text, or the HTTP status of its overload error."""
REFUSAL = "I cannot help with that."
Answer = Callable[[Sequence[Message]], tuple[int, str | dict[str, Any]] | Said]
"""Messages of a request → status, and the model's text, message with tool calls, or error; or `Said`."""

_LIMITS = "{ parallel = 4, timeout_s = 600, attempts = 2, backoff_s = 0.02 }"


class ScriptedChat:
    """The server; while `free` is not set (`answer` may clear it) it accepts requests and answers none.

    `takes_tools`: False refuses requests with tools. `with_tools`: the number of requests with tools.
    """

    def __init__(self, answer: Answer) -> None:
        self.free = threading.Event()
        self.free.set()
        self.takes_tools = True
        self.with_tools = 0
        self._answer = answer
        self.web = Loopback()
        """The web server; trials inject faults into it."""
        self.web.handle = self._handle
        self.url = f"{self.web.url}/v1"

    def close(self) -> None:
        """Stop the server."""
        self.free.set()
        self.web.close()

    def _handle(self, seen: Seen) -> dict[str, Any]:
        if not seen.path.endswith("/chat/completions"):
            return {"status": 404, "json": {"error": {"message": "Not Found"}}}
        asked = seen.json()
        if "messages" not in asked:
            return {"status": 400, "json": {"error": {"message": "Missing required parameter: 'messages'."}}}
        if "tools" in asked:
            self.with_tools += 1
            if not self.takes_tools:
                return {"status": 400, "json": {"error": {"message": f"{asked['model']} does not support tools"}}}
        result = self._answer(asked["messages"])
        status, said = (
            result
            if isinstance(result, tuple)
            else (200, result)
            if isinstance(result, str)
            else (result, "overloaded")
        )
        if status != 200:
            return {"status": status, "json": {"error": {"message": said}}, "until": self.free}
        message = {"content": said} if isinstance(said, str) else said
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        reply = {"id": "x", "object": "chat.completion", "created": 0, "model": asked["model"], "usage": usage}
        return {"json": {**reply, "choices": [choice]}, "until": self.free}


def write_chat_world(
    folder: Path, url: str, roles: Iterable[str], name: str = "tester", world: str = "embedded"
) -> Path:
    """Write the embedded world with a model at this URL (with /v1) in some roles; its key is in TEST_KEY.

    `world`: its name; an evaluation takes builds of a world of another name only by --build.
    """
    settings = f'kind = "openai"\nname = "{name}"\nurl = "{url}"\nkey_env = "TEST_KEY"\nusd_per_million_in = 1.0\nlimits = {_LIMITS}'
    return write_world_with_model(folder / "chatty.toml", roles, settings, world)


def make_chat_services(url: str) -> Any:
    """Return services whose model of every role is `tester` on a server, with a new client each time, as in each build."""
    limits = ServiceLimits(parallel=4, timeout_s=5, attempts=2, backoff_s=0.01)
    model = ModelSettings(kind="openai", name="tester", url=url, limits=limits)
    return SimpleNamespace(model=lambda _role: (ChatClient(url, model, lambda: "key", "factmill tests"), model))
