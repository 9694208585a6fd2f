"""What is asked of a chat model, and the form of its answer.

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

from tasks.core.calls.call import Call
from tasks.core.prompts import Ask

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
        "chat",
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
