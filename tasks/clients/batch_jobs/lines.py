"""The lines of a batch job: one request a line in, one answer a line out, in any order.

What comes back is read tolerantly, since a line that is given up is paid for again: files with a byte order mark, in
UTF-16, with CRLF, without a newline at the end. A line that is no JSON, not in UTF-8, or says nothing of a request is
counted and left out, as are lines of requests that nobody made; of several lines for one request the first that answers
it counts.
"""

import codecs
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from factmill.tasks.core.spending.bounds import count

ENDPOINT = "/v1/chat/completions"
_NO_ANSWER = 0


@dataclass(frozen=True, slots=True)
class LineAnswer:
    """What the server says of one request."""

    status: int
    """HTTP status; 0: there was no answer."""
    text: str
    """Body as JSON; without an answer the reason: a code, a colon and particulars."""

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300


@dataclass(slots=True)
class Lines:
    """What was read of a job's files."""

    answers: dict[str, LineAnswer] = field(default_factory=dict)
    """By custom id."""
    unreadable: int = 0
    unknown: int = 0
    doubled: int = 0

    def describe(self) -> str:
        """Return what was odd about the lines, in words; empty: nothing."""
        odd = {
            "could not be read": self.unreadable,
            "answer no request of ours": self.unknown,
            "came twice": self.doubled,
        }
        return ", ".join(f"{count:,} {what}" for what, count in odd.items() if count)


def count_requests(number: int) -> str:
    """Return a number of requests in words."""
    return count(number, "request")


def write_line(custom_id: str, body: Mapping[str, Any]) -> bytes:
    """Return a request's line, in ASCII alone: no separator of lines that some program knows can stand in it."""
    line = {"custom_id": custom_id, "method": "POST", "url": ENDPOINT, "body": body}
    return json.dumps(line, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"


def read_lines(content: bytes, known: Collection[str] | None, lines: Lines) -> None:
    """Add what a file of a job says of the requests with known ids; None: of all."""
    for line in _split(content):
        read = _read_line(line)
        if read is None:
            lines.unreadable += 1
            continue
        custom_id, answer = read
        before = lines.answers.get(custom_id)
        if known is not None and custom_id not in known:
            lines.unknown += 1
        elif before is None:
            lines.answers[custom_id] = answer
        else:
            lines.doubled += 1
            if answer.is_good and not before.is_good:
                lines.answers[custom_id] = answer


def _split(content: bytes) -> Iterator[bytes]:
    """Yield lines that are not empty; only a line feed ends one, since JSON may hold all other separators."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        content = content.decode("utf-16", "replace").encode("utf-8", "replace")
    for line in content.removeprefix(codecs.BOM_UTF8).split(b"\n"):
        if stripped := line.strip():
            yield stripped


def _read_line(line: bytes) -> tuple[str, LineAnswer] | None:
    try:
        read = json.loads(line.decode("utf-8"))
        custom_id = read["custom_id"]
        response, error = read.get("response"), read.get("error")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if not isinstance(custom_id, str):
        return None
    if isinstance(response, dict) and not response.get("body") and error:
        response = {**response, "body": error}  # where vLLM puts the reason of a request that it refuses
    answer = _read_response(response) if isinstance(response, dict) else None
    if answer is None and error:
        answer = LineAnswer(_NO_ANSWER, _describe_error(error))
    return None if answer is None else (custom_id, answer)


def _read_response(response: Mapping[str, Any]) -> LineAnswer | None:
    """Return a line's response; a status that is not told is 200 where there is an answer."""
    body, status = response.get("body"), response.get("status_code")
    if isinstance(status, str) and status.isascii() and status.isdigit():
        status = int(status)
    if not isinstance(status, int) or isinstance(status, bool):
        status = 200 if isinstance(body, dict) and "choices" in body else None
    if status is None:
        return None
    return LineAnswer(status, body if isinstance(body, str) else json.dumps(body))


def _describe_error(error: Any) -> str:
    if not isinstance(error, dict):
        return f"line_failed: {error}"
    return f"{error.get('code') or 'line_failed'}: {error.get('message') or 'no reason given'}"
