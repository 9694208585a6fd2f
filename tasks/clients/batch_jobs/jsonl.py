"""JSONL lines of a batch job: one request a line in, one result a line out, in any order.

Results are read tolerantly, since a lost line is paid for again: files with a byte order mark, in UTF-16, with CRLF,
without a newline at the end. A line that is not JSON, not UTF-8, or about no request is counted and skipped, as are
lines of unknown requests; of several lines for one request the first successful one counts.
"""

import codecs
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from factmill.tasks.clients.openai_server import ServerResponse
from factmill.tasks.core.spending.costs import format_count_with_noun

CHAT_ENDPOINT = "/v1/chat/completions"


@dataclass(slots=True)
class ParsedBatchResults:
    """Results read from a job's files."""

    results: dict[str, ServerResponse] = field(default_factory=dict)
    """By custom id; status 0: there was no response, and the text is the reason: a code, a colon and details."""
    unreadable: int = 0
    unknown_ids: int = 0
    duplicates: int = 0

    def format_problems(self) -> str:
        """Format the problems of the lines as text; empty: none."""
        odd = {
            "are unreadable": self.unreadable,
            "belong to no known request": self.unknown_ids,
            "are duplicates": self.duplicates,
        }
        return ", ".join(f"{count:,} {what}" for what, count in odd.items() if count)


def format_request_count(number: int) -> str:
    """Format a number of requests as text."""
    return format_count_with_noun(number, "request")


def format_request_line(custom_id: str, body: Mapping[str, Any]) -> bytes:
    """Return the line of a request, in pure ASCII, so that no program takes a character in it for a line break."""
    line = {"custom_id": custom_id, "method": "POST", "url": CHAT_ENDPOINT, "body": body}
    return json.dumps(line, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"


def parse_result_lines(content: bytes, known_ids: Collection[str] | None, parsed: ParsedBatchResults) -> None:
    """Add the results in a job's file for the known ids (None: all) to `parsed`."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        content = content.decode("utf-16", "replace").encode("utf-8", "replace")
    # only a line feed ends a line, since JSON may hold all other separators
    for line in filter(None, map(bytes.strip, content.removeprefix(codecs.BOM_UTF8).split(b"\n"))):
        read = _parse_result_line(line)
        if read is None:
            parsed.unreadable += 1
            continue
        custom_id, answer = read
        before = parsed.results.get(custom_id)
        if known_ids is not None and custom_id not in known_ids:
            parsed.unknown_ids += 1
        elif before is None:
            parsed.results[custom_id] = answer
        else:
            parsed.duplicates += 1
            if answer.is_success and not before.is_success:
                parsed.results[custom_id] = answer


def _parse_result_line(line: bytes) -> tuple[str, ServerResponse] | None:
    """Return the request's id and its result; None where a line has neither a response nor an error."""
    try:
        read = json.loads(line.decode("utf-8"))
        custom_id = read["custom_id"]
        response, error = read.get("response"), read.get("error")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if not isinstance(custom_id, str):
        return None
    if isinstance(response, dict):
        body, status = response.get("body"), response.get("status_code")
        if not body and error:
            body = error  # where vLLM puts the reason for a refused request
        if isinstance(status, str) and status.isascii() and status.isdigit():
            status = int(status)
        if isinstance(status, int) and not isinstance(status, bool):
            return custom_id, ServerResponse(status, body if isinstance(body, str) else json.dumps(body))
        if isinstance(body, dict) and "choices" in body:  # the answer of a server that gives no status
            return custom_id, ServerResponse(200, json.dumps(body))
    if isinstance(error, dict) and error:
        reason = f"{error.get('code') or 'line_failed'}: {error.get('message') or 'no reason given'}"
    else:
        reason = f"line_failed: {error}"
    return (custom_id, ServerResponse(0, reason)) if error else None
