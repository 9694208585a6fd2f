"""Calls to chat models, their responses, and settings of batch jobs.

`chat`: the parts are those of the filled prompt (`FilledPrompt.make_call_parts`) and the model's name; the body is
`{"texts": [str], "finish": [str], "fingerprint": str or null}`, one text and one finish reason per sample. With the part
`once`, an empty completion is valid and recorded: it is the answer of a model under test. With the part `tools`, the body
has `calls`, per sample a list of `{"id", "name", "arguments"}`, if the model called any; a server without support for tools
gives the failed response `tools_refused`.

The messages and the schema follow from the parts and are sent in addition (`Call.unrecorded_parts`).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.calls.operation import Operation
from factmill.tasks.core.prompts import FilledPrompt
from factmill.tasks.core.rows import MAX_SETTING_NUMBER, MAX_WAIT_S, StrictModel

_MAX_QUOTED_COMPLETION = 2_000


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call of a model."""

    id: str
    """Id that links the call to its result: the server's, or one made from the position if it gave none."""
    name: str
    """Function name as the model wrote it; the function may not exist."""
    arguments: str
    """JSON as the model wrote it; it may be invalid."""

    @property
    def parsed_arguments(self) -> dict[str, Any] | None:
        """The parsed arguments; None if they are not a JSON object."""
        try:
            found = json.loads(self.arguments or "{}")
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """Completions of a chat model for one call."""

    texts: tuple[str, ...]
    """One text per sample; some may be empty, but not all, unless the call has `once`."""
    finish: tuple[str, ...]
    """Finish reason of each text: `stop`, `length` (cut off at max_tokens), `refusal`, …"""
    fingerprint: str | None
    """The server's own mark of the system that answered."""
    tool_calls: tuple[tuple[ToolCall, ...], ...] = ()
    """Tool calls of each sample; empty if there are none."""


def make_chat_call(
    service: str,
    model_name: str,
    prompt: FilledPrompt,
    profile: Mapping[str, Any] | None = None,
    *,
    keeps_empty_completions: bool = False,
    scripted_reply_digest: str | None = None,
) -> Call:
    """Make the call that sends a filled-in prompt to a model; `profile`: settings that change requests to this model.

    `keeps_empty_completions`: any completion is the answer, even an empty one. `scripted_reply_digest`: digest of the scripted reply used in place of a model,
    empty if there is none; so editing a reply changes only the calls that use it.
    """
    schema = None if prompt.prompt.schema is None else dict(prompt.prompt.schema)
    return Call(
        service,
        CHAT_OPERATION.name,
        {
            **prompt.make_call_parts(),
            "model": model_name,
            **({"once": True} if keeps_empty_completions else {}),
            **({} if scripted_reply_digest is None else {"script": scripted_reply_digest}),
        },
        _LazyChatRequestContent(
            prompt,
            {
                "schema": schema,
                **({"tools": [dict(tool) for tool in prompt.tools]} if prompt.tools else {}),
                **({"profile": dict(profile)} if profile else {}),
            },
        ),
    )


class _LazyChatRequestContent(Mapping[str, Any]):
    """Request content beyond the parts; messages, which would fill the memory, are rendered on access."""

    __slots__ = ("_ask", "_more")

    def __init__(self, ask: FilledPrompt, more: Mapping[str, Any]) -> None:
        self._ask, self._more = ask, more

    def __getitem__(self, name: str) -> Any:
        return self._ask.build_messages() if name == "messages" else self._more[name]

    def __iter__(self) -> Iterator[str]:
        yield "messages"
        yield from self._more

    def __len__(self) -> int:
        return 1 + len(self._more)


def join_completion_texts_shortened(body: Any) -> str:
    """Format a model's completions, with thoughts, for a reject: one sample per line, at most 2,000 characters."""
    return "\n".join(text.strip() for text in parse_chat_response(body).texts)[:_MAX_QUOTED_COMPLETION]


def parse_chat_response(body: Any) -> ChatResponse:
    """Parse the body of a response to chat."""
    calls = tuple(tuple(ToolCall(**call) for call in of_one) for of_one in body.get("calls", ()))
    return ChatResponse(tuple(body["texts"]), tuple(body["finish"]), body["fingerprint"], calls)


CHAT_OPERATION = Operation("chat", service="model", part_checks={}, parse_body=parse_chat_response)
"""Its parts are those of a filled prompt, and are checked by it."""


class BatchJobSettings(StrictModel):
    """How a model's batch jobs are made and polled."""

    poll_s: float = Field(default=30.0, gt=0, le=MAX_WAIT_S)
    """Seconds until a job is looked at again, growing to ten times that; also how long a job that is not full waits for
    further requests before it is handed in."""
    requests: int = Field(default=50_000, ge=1, le=MAX_SETTING_NUMBER)
    """Requests in one job, at most."""
    megabytes: float = Field(default=200.0, gt=0, le=MAX_SETTING_NUMBER)
    """Megabytes of one job's file, at most."""
    first_singly: bool = True
    """The first request of a run goes out by itself, at the full price, so that what the server will not take is learnt in
    seconds and not by a whole job."""
    few_singly: int = Field(default=20, ge=0, le=MAX_SETTING_NUMBER)
    """So many requests that a job has left unanswered are asked singly, at the full price, and not by a job of their own; where
    the first one is."""
    window: str = "24h"
    """Time that the server is given (`completion_window`)."""
