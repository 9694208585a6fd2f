"""Serve chat models with habits: one address per habit, so that one server plays all.

A response follows from the seed, the habit and the request's messages, never from the order of arrival.
"""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, unquote

from support.habits.contents import LOOKED_UP, Contents, recognise
from support.habits.dresses import say_plainly
from support.habits.table import HABITS, Habit
from support.webs.loopback import Loopback, Seen
from support.worlds.with_models import write_world_with_model

from factmill.tasks.core.digests import digest_json

_LIMITS = "{ parallel = 4, timeout_s = 60, attempts = 6, backoff_s = 0.02 }"


class HabitsServer:
    """The server.

    `answered` and `refused` count requests by habit; `corrected` counts the answered requests that correct a reply.
    """

    def __init__(self, seed: int = 1, contents: type[Contents] = Contents) -> None:
        """`contents`: writes what the models say; the habits change its form."""
        self.answered: Counter[str] = Counter()
        self.corrected: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._received = 0
        self._contents = contents()
        self._seed = seed
        self._storms: Counter[str] = Counter()
        self._web = Loopback()
        self._web.handle = self._handle

    @property
    def faults(self) -> int:
        """Return the number of requests at which this server itself failed; callers check that it is 0."""
        return self._received - self.answered.total() - self.refused.total()

    def url(self, habit: str) -> str:
        """Return the base URL of the model with this habit."""
        return f"{self._web.url}/{quote(habit)}/v1"

    def close(self) -> None:
        """Stop the server."""
        self._web.close()

    def _handle(self, seen: Seen) -> dict[str, Any]:
        self._received += 1
        name = unquote(seen.path.split("/")[1])
        if not seen.path.endswith("/v1/chat/completions"):
            self.refused[name] += 1
            return {"status": 404, "json": {"error": {"message": "Not Found"}}}
        if not seen.body.strip(b"{}"):
            self.refused[name] += 1
            return _error(400, "Missing required parameter: 'messages'.")
        return self.answer(name, seen.json())

    def answer(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        """Answer a request to the model with a habit."""
        answer = self._answer(name, HABITS[name], body)
        (self.answered if answer.get("status", 200) == 200 else self.refused)[name] += 1
        return answer

    def _answer(self, name: str, habit: Habit, body: dict[str, Any]) -> dict[str, Any]:
        if refused := _refuse(habit, body):
            return refused
        content = digest_json([name, body["messages"], body.get("seed")])
        draw = Random(f"{self._seed} {content}")
        if self._storms[content] < draw.randint(0, habit.most_storms):
            self._storms[content] += 1
            return _error(429, "Rate limit reached, try again shortly.", headers={"Retry-After": "0.05"})
        asked = recognise(body["messages"])
        self.corrected[name] += asked.is_correction
        text = self._contents.write(asked)
        dress = say_plainly if habit.mends and asked.is_correction else habit.dress
        said = [dress(text, asked, draw) for _ in range(1 if habit.ignores_n else body.get("n", 1))]
        choices = [
            {
                "index": index,
                "finish_reason": each.finish,
                "message": {"role": "assistant", "content": each.content, "refusal": each.refusal},
            }
            for index, each in enumerate(said)
        ]
        if "tools" in body and not asked.is_correction:
            call = {"name": body["tools"][0]["function"]["name"], "arguments": json.dumps({"title": LOOKED_UP})}
            for choice in choices:
                choice["finish_reason"] = "tool_calls"
                choice["message"]["tool_calls"] = [{"id": "call00001", "type": "function", "function": call}]
        words_in = sum(len(message["content"].split()) for message in body["messages"])
        words_out = sum(len((each.content or "").split()) for each in said)
        usage = {"prompt_tokens": words_in, "completion_tokens": words_out, "total_tokens": words_in + words_out}
        reply = {"id": content[:16], "object": "chat.completion", "created": 0, "model": body["model"], "usage": usage}
        return {"json": {**reply, "choices": choices}, "delay_s": habit.word_s * words_out}


def write_habit_world(
    folder: Path, server: HabitsServer, habit: str, roles: Sequence[str] = ("author", "judge")
) -> Path:
    """Write the embedded world with this habit's model in some roles."""
    return write_model_world(folder, server.url(habit), habit, roles)


def write_model_world(
    folder: Path, url: str, habit: str, roles: Sequence[str] = ("author", "judge"), settings: str = ""
) -> Path:
    """Write the embedded world with this habit's model at an address in some roles; `settings`: lines about it."""
    text = "".join(f"{key} = {str(value).lower()}\n" for key, value in HABITS[habit].model.items())
    settings = f'kind = "openai"\nname = "habits"\nurl = "{url}"\n{text}{settings}\nlimits = {_LIMITS}'
    return write_world_with_model(folder / f"{habit.replace(' ', '-')}.toml", roles, settings, habit)


def _refuse(habit: Habit, body: dict[str, Any]) -> dict[str, Any] | None:
    """Return the 400 of a server without these parameters or roles, in the words of real servers."""
    for parameter in habit.refuses:
        if parameter in body:
            advice = " Use 'max_completion_tokens' instead." if parameter == "max_tokens" else ""
            text = f"Unsupported parameter: '{parameter}' is not supported with this model.{advice}"
            return _error(400, text, param=parameter, code="unsupported_parameter")
    temperature = body.get("temperature", 1)
    if habit.fixed_temperature and temperature != 1:
        text = f"Unsupported value: 'temperature' does not support {temperature} with this model. Only the default (1) value is supported."
        return _error(400, text, param="temperature", code="unsupported_value")
    roles = [message["role"] for message in body["messages"]]
    if "tool" in roles:
        # a tool call and its result belong to the turn of the user's message and its answer
        roles = roles[: roles.index("tool") - 1]
    turns = roles[1:] if roles[0] == "system" else roles
    if habit.strict_roles and turns != [("user", "assistant")[at % 2] for at in range(len(turns))]:
        return _error(400, "Conversation roles must alternate user/assistant/user/assistant/...")
    return None


def _error(status: int, message: str, headers: dict[str, str] | None = None, **more: str) -> dict[str, Any]:
    error = {"message": message, "type": "invalid_request_error" if status == 400 else "requests", **more}
    return {"status": status, "json": {"error": error}, "headers": headers or {}}
