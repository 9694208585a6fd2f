"""What is asked of a chat model, the form of its answer, and how its batch jobs are made.

`chat`: parts are those of the Ask (prompt, digest, variables, samples, sampling) and the model's name; the body is
`{"texts": [str], "finish": [str], "fingerprint": str or null}`, one text and one finish reason a sample. With `once`
among the parts a reply without a word is one too, which is kept: a model under test has answered so. With `tools` among
the parts the body has `calls`, a list a sample of `{"id", "name", "arguments"}`, where the model called any; a server that
takes no tools is a failed reply `tools_refused`.

The messages and the schema follow from the parts and are sent beside them (`Call.wire`).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.calls.operation import Operation
from factmill.tasks.core.prompts import Ask
from factmill.tasks.core.rows import LONGEST_S, MOST, StrictModel

_MOST_QUOTED = 2_000


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A function that a model called."""

    id: str
    """By which what it gives is told apart; the server's, or made up by place where it gave none."""
    name: str
    """As the model wrote it: there may be no such function."""
    arguments: str
    """JSON, as the model wrote it: it may be broken."""

    @property
    def read(self) -> dict[str, Any] | None:
        """The arguments; None where they are no JSON object."""
        try:
            found = json.loads(self.arguments or "{}")
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What a model said."""

    texts: tuple[str, ...]
    """One text a sample; a sample may be empty, but not all of them are, unless the call was for `once`."""
    finish: tuple[str, ...]
    """Why each text ends: `stop`, `length` (cut off at max_tokens), `refusal`, …"""
    fingerprint: str | None
    """The server's own mark of the system that answered."""
    calls: tuple[tuple[ToolCall, ...], ...] = ()
    """The functions that each sample calls; empty where none calls any."""


def call_chat(
    service: str,
    model_name: str,
    ask: Ask,
    profile: Mapping[str, Any] | None = None,
    *,
    once: bool = False,
    script: str | None = None,
) -> Call:
    """Ask a model a filled-in prompt; `profile`: by what settings requests to this model are not as to most.

    `once`: whatever it says is its answer, nothing too. `script`: digest of the scripted reply that answers in place of a
    model, empty where none is written; so an edited reply is another call, and all others stay the same.
    """
    schema = None if ask.prompt.schema is None else dict(ask.prompt.schema)
    return Call(
        service,
        CHAT.name,
        {
            **ask.parts(),
            "model": model_name,
            **({"once": True} if once else {}),
            **({} if script is None else {"script": script}),
        },
        _Wire(
            ask,
            {
                "schema": schema,
                **({"tools": [dict(tool) for tool in ask.tools]} if ask.tools else {}),
                **({"profile": dict(profile)} if profile else {}),
            },
        ),
    )


class _Wire(Mapping[str, Any]):
    """What is sent beside the parts: messages that are made of the ask whenever they are looked at, since those of a whole
    batch take more room than all else that it holds."""

    __slots__ = ("_ask", "_more")

    def __init__(self, ask: Ask, more: Mapping[str, Any]) -> None:
        self._ask, self._more = ask, more

    def __getitem__(self, name: str) -> Any:
        return self._ask.messages() if name == "messages" else self._more[name]

    def __iter__(self) -> Iterator[str]:
        yield "messages"
        yield from self._more

    def __len__(self) -> int:
        return 1 + len(self._more)


def quote_reply(body: Any) -> str:
    """Return what a model said, thoughts too, as a reject tells it: a sample a line, 2,000 characters at most."""
    return "\n".join(text.strip() for text in read_chat(body).texts)[:_MOST_QUOTED]


def read_chat(body: Any) -> ChatReply:
    """Read the answer to chat."""
    calls = tuple(tuple(ToolCall(**call) for call in of_one) for of_one in body.get("calls", ()))
    return ChatReply(tuple(body["texts"]), tuple(body["finish"]), body["fingerprint"], calls)


CHAT = Operation("chat", service="model", parts={}, read=read_chat)
"""Its parts are those of an Ask, and are checked by it."""


class Jobs(StrictModel):
    """How a model's batch jobs are made and watched."""

    poll_s: float = Field(default=30.0, gt=0, le=LONGEST_S)
    """Seconds until a job is looked at again, growing to ten times that; also how long a job that is not full waits for
    further requests before it is handed in."""
    requests: int = Field(default=50_000, ge=1, le=MOST)
    """Requests in one job, at most."""
    megabytes: float = Field(default=200.0, gt=0, le=MOST)
    """Megabytes of one job's file, at most."""
    first_singly: bool = True
    """The first request of a run goes out by itself, at the full price, so that what the server will not take is learnt in
    seconds and not by a whole job."""
    few_singly: int = Field(default=20, ge=0, le=MOST)
    """So many requests that a job has left unanswered are asked singly, at the full price, and not by a job of their own; where
    the first one is."""
    window: str = "24h"
    """Time that the server is given (`completion_window`)."""
