"""What a server of the OpenAI protocol will not take, read from how it refuses a request, and what to send instead.

Servers name the parameter in `error.param` (OpenAI), in `detail[].loc` (FastAPI) or in the message alone. A refusal that
names nothing that was sent, or says that a number is too large, teaches nothing.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tasks.settings import Model

_REFUSING = frozenset({400, 422})
_TOOL_KEYS = frozenset({"tool_calls", "tool_call_id"})
_TOO_LARGE = re.compile(r"too (large|long|high|many)|at most|less than|maximum (value|context)", re.IGNORECASE)
_ROLES = re.compile(
    r"roles? must alternate|alternate user/assistant|system role|role.{0,20}\bsystem\b.{0,40}not|"
    r"(not|n't) support.{0,20}\bsystem\b|\bsystem\b.{0,30}not supported|messages\[\d+\]\.role",
    re.IGNORECASE | re.DOTALL,
)
_ONLY_STREAMS = re.compile(
    r"\bstream\W{1,4}(parameter )?(must|has to|should|needs to) be (set to )?\W?true|"
    r"only stream(ing|ed)?\b.{0,40}(support|allow|available|accept)|only.{0,20}support\w*.{0,20}\bstream|support\w* only.{0,20}\bstream|must.{0,20}\b(stream the response|use streaming)|"
    r"streaming (is|mode is) (required|mandatory)|requires? (the )?\W?stream(ing)?\b|"
    r"non-?stream(ing)?\b.{0,40}\b(not|n't|cannot|unsupported|disabled)|(not|n't) support.{0,20}non-?stream|"
    r"must be set to false for non-streaming|\"param\"\s*:\s*\"stream\"|\"stream\"\W{1,9}msg\W{1,5}input should be true",
    re.IGNORECASE | re.DOTALL,
)
_SCHEMA = re.compile(r"response_format|json_schema")
_TOOLS = re.compile(r"\btools?\b|tool.?(choice|call|use)|function.?call", re.IGNORECASE)
_OF_ONE_CALL = re.compile(r"tool_use_failed|failed_generation|tool_call_id|messages\[")
"""A refusal of what a model wrote as a call, or of a message, and not of tools as such."""

Message = Mapping[str, Any]


def read_refusal(model: Model, status: int, text: str, sent: Mapping[str, Any]) -> dict[str, Any]:
    """Return by what settings of a model a request would not be refused so; nothing where the refusal does not say.

    Some servers tell a request whose schema they cannot read, or whose roles their template refuses, with status 500;
    one that routes requests finds no model that takes tools, with 404.
    """
    change = _read_stream_refusal(text, sent) if status in _REFUSING else {}
    if "tools" in sent and status in (*_REFUSING, 404, 500, 501) and _refuses_tools(text, sent):
        change = {"tools": False}
    if change or status not in (*_REFUSING, 500):
        return change
    if "response_format" in sent and _SCHEMA.search(text):
        return {"json_schema": "json_object" if model.json_schema is True else False}
    if model.system == "own" and _ROLES.search(text) and merge_roles(sent["messages"]) != list(sent["messages"]):
        return {"system": "merge"}
    name = _find_named(text, sent) if status in _REFUSING else None
    if name in ("max_tokens", "max_completion_tokens") and not _TOO_LARGE.search(text):
        return {"token_limit": "max_completion_tokens" if name == "max_tokens" else "none"}
    instead: dict[str | None, dict[str, Any]] = {
        "temperature": {"temperature": "none"},
        "n": {"choices": False},
        "seed": {"seed": False},
        "reasoning_effort": {"reasoning_effort": ""},
    }
    return instead.get(name, {})


def merge_roles(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages without a system role, whose speakers alternate, the user first.

    Calls of tools and what these gave stay as they are, one message behind the other.
    """
    merged: list[dict[str, Any]] = []
    for message in messages:
        role = "user" if message["role"] == "system" else message["role"]
        if merged and merged[-1]["role"] == role and not _TOOL_KEYS & {*message, *merged[-1]}:
            merged[-1]["content"] += f"\n\n{message['content']}"
        else:
            merged.append({**message, "role": role})
    return merged


def _read_stream_refusal(text: str, sent: Mapping[str, Any]) -> dict[str, Any]:
    """Return the setting for a server that only streams, or one that streams without `stream_options`."""
    if not sent.get("stream") and _ONLY_STREAMS.search(text):
        return {"stream": True}
    return {"stream": "no_usage"} if "stream_options" in sent and "stream_options" in text else {}


def _refuses_tools(text: str, sent: Mapping[str, Any]) -> bool:
    """True where a first request is refused for its tools; one in the midst of calls may be for what these hold."""
    is_first = not any(_TOOL_KEYS & {*message} for message in sent["messages"])
    return is_first and bool(_TOOLS.search(text)) and not _OF_ONE_CALL.search(text)


def describe_learnt(before: Model, after: Model) -> list[str]:
    """Return the settings by which two states of a model differ, as lines of a world's file."""
    return [f"{name} = {json.dumps(value)}" for name, value in find_learnt(before, after).items()]


def find_learnt(before: Model, after: Model) -> dict[str, Any]:
    """Return the settings of one state of a model that another has otherwise."""
    was, now = (model.model_dump(mode="json") for model in (before, after))
    return {name: value for name, value in now.items() if value != was[name]}


def _find_named(text: str, sent: Mapping[str, Any]) -> str | None:
    """Return the parameter of a request that its refusal names: as its `param`, else quoted or as a word."""
    try:
        answer = json.loads(text)
        error = answer.get("error", answer)
        named = [error.get("param"), *(part for each in answer.get("detail") or [] for part in each.get("loc", ()))]
    except (ValueError, AttributeError, TypeError, RecursionError):
        named = []
    if exact := next((name for name in named if isinstance(name, str) and name in sent and name != "model"), None):
        return exact
    marks = r"['\"`]{}['\"`]", r"(?<![\w.]){}(?![\w.])"
    for mark in marks:
        for name in ("max_tokens", "max_completion_tokens", "temperature", "seed", "reasoning_effort", "n"):
            is_word = len(name) > 1 or mark is marks[0]
            if name in sent and is_word and re.search(mark.format(name), text):
                return name
    return None
