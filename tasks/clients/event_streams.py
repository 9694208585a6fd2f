"""Server-sent events of a chat completion, joined into the body of a plain response.

Servers stream where they are asked to (`stream = true`), and some always do. All other modules read plain bodies only:
choices by index, with the provider's errors and token counts. Lines that keep a connection open (`: OPENROUTER
PROCESSING`, blank lines) and a byte-order mark are dropped before plain JSON too.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from factmill.tasks.clients.sending.http_responses import parse_json_or_none, shorten_to_line
from factmill.tasks.clients.sending.sender import Retry

_KEEP_ALIVE_PREFIX = re.compile(r"(?:[\ufeff\s]++|:[^\r\n]*+(?:[\r\n]|\Z))++")
"""Possessive, since Python's `re` otherwise keeps over a hundred bytes for each repetition."""
_EVENT = re.compile(r"(?:data|event|id|retry):")
_LINE_END = re.compile(r"\r\n|\n|\r")
_STREAM_END_DATA = "[DONE]"
_CONCATENATED_FIELDS = frozenset({"content", "refusal", "reasoning", "reasoning_content", "text", "arguments"})
"""Members whose pieces are concatenated; of other texts the last piece counts."""
_FIRST_VALUE_FIELDS = frozenset({"id", "name", "role"})
"""Members of a message or a call whose first value counts, since some servers repeat them."""


def read_plain_or_streamed_json(text: str, status: int) -> str:
    """Return the JSON of a response body: events joined, or plain JSON without the keep-alive lines before it.

    Retry `truncated` for a stream that ends early, `broken_json` for an event that is not JSON.
    """
    start = _KEEP_ALIVE_PREFIX.match(text)
    rest = text[start.end() :] if start else text
    if not _EVENT.match(rest):
        return rest
    body, is_whole = join_completion_events(rest)
    if not is_whole and status < 300:
        raise Retry(f"truncated: the stream of events ends without a finish_reason: …{shorten_to_line(rest[-100:])}")
    return json.dumps(body)


def join_completion_events(text: str) -> tuple[dict[str, Any], bool]:
    """Join a stream of events into a completion; return it, and whether the stream is complete.

    Retry for an event that is not JSON.
    """
    body: dict[str, Any] = {"object": "chat.completion"}
    choices: dict[int, dict[str, Any]] = {}
    is_done = False
    for chunk in _iterate_events(text):
        if chunk is None:
            is_done = True
            continue
        pieces = chunk.pop("choices", None)
        for piece in pieces if isinstance(pieces, list) else ():
            if isinstance(piece, dict):
                index = piece.get("index")
                _merge_choice(choices.setdefault(index if isinstance(index, int) else 0, {}), piece)
        body |= {name: value for name, value in chunk.items() if value is not None}
    ends = [choice.get("finish_reason") or choice.get("error") for choice in choices.values()]
    if choices or "error" not in body:
        body["choices"] = [choices[index] for index in sorted(choices)]
    return body | {"object": "chat.completion"}, is_done or "error" in body or (bool(ends) and all(ends))


def _iterate_events(text: str) -> Iterator[dict[str, Any] | None]:
    """Yield the object of each event, and None for the event that ends the stream."""
    data: list[str] = []
    name = ""
    lines = _LINE_END.split(text)
    end = max((at for at, line in enumerate(lines) if line), default=0)
    for at, line in enumerate([*lines, ""]):
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value
        elif not line and data:
            yield from _parse_event_data(data, name, is_last=at > end)
            data, name = [], ""


def _parse_event_data(data: list[str], name: str, *, is_last: bool) -> Iterator[dict[str, Any] | None]:
    """Yield the objects in the data lines of one event: one, or one a line where a server leaves out the blank lines."""
    joined = "\n".join(data)
    for text in [joined] if len(data) == 1 or parse_json_or_none(joined) is not None else data:
        if text.strip() == _STREAM_END_DATA:
            yield None
            continue
        if not text.strip():
            continue
        try:
            read = json.loads(text)
        except RecursionError:
            raise Retry("broken_json: an event is nested too deeply") from None
        except ValueError as error:
            if name == "error":
                yield {"error": {"message": text}}
                continue
            code = "truncated" if is_last else "broken_json"
            raise Retry(f"{code}: an event is not JSON: {error}; it ends with {text[-60:]!r}") from None
        if not isinstance(read, dict):
            raise Retry(f"broken_json: an event is no JSON object: {shorten_to_line(text)}")
        yield {"error": read} if name == "error" and "error" not in read else read


def _merge_choice(choice: dict[str, Any], piece: dict[str, Any]) -> None:
    message = piece.get("delta") or piece.get("message")
    joined = choice.setdefault("message", {"role": "assistant", "content": None}) if "text" not in piece else {}
    if isinstance(message, dict):
        calls = message.get("tool_calls")
        _merge_fields(joined, {name: value for name, value in message.items() if name != "tool_calls"})
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                _merge_tool_call(joined.setdefault("tool_calls", []), call)
    _merge_fields(choice, {name: value for name, value in piece.items() if name not in ("delta", "message")})


def _merge_tool_call(calls: list[dict[str, Any]], piece: dict[str, Any]) -> None:
    """Add a piece to its call: the one with its index. A new id, or a name without an index, begins a new call."""
    index, call_id = piece.get("index"), piece.get("id")
    of_index = [call for call in calls if call.get("index") == index] if index is not None else calls
    latest = of_index[-1] if of_index else None
    has_name = isinstance(piece.get("function"), dict) and bool(piece["function"].get("name"))
    is_new = latest is None or (call_id and latest.get("id") and call_id != latest["id"])
    if latest is None or is_new or (index is None and has_name and not call_id):
        calls.append(latest := {})
    _merge_fields(latest, piece)


def _merge_fields(into: dict[str, Any], piece: dict[str, Any]) -> None:
    """Merge the members of a piece: append texts and lists, merge objects recursively, overwrite other values."""
    for name, value in piece.items():
        known = into.get(name)
        if value is None:
            into.setdefault(name, None)
        elif isinstance(value, dict):
            if not isinstance(known, dict):
                into[name] = {}
            _merge_fields(into[name], value)
        elif isinstance(value, list) or (isinstance(known, list) and name in _CONCATENATED_FIELDS):
            into[name] = [*_as_content_parts(known), *_as_content_parts(value)]
        elif isinstance(value, str) and name in _CONCATENATED_FIELDS and isinstance(known, str):
            into[name] = known + value
        elif not (name in _FIRST_VALUE_FIELDS and known):
            into[name] = value


def _as_content_parts(content: Any) -> list[Any]:
    """Return content as a list of parts, the form that some servers send."""
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []
