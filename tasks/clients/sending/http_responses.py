"""Classification of HTTP responses, the same for every service: success, permanent failure, or retryable.

| response | outcome |
|---|---|
| 2xx | success, if the body is JSON; HTML or truncated JSON is retryable |
| 408, 425, 429, 5xx | retryable, not before Retry-After |
| 3xx | a redirect without a target (others were followed): retryable |
| 413, 414, 504 | retryable with half of the group |
| 401, 403 | the service refuses us, not this call: the run stops |
| 402 | the account may make no further requests: the run stops |
| 400, 404, 410, 422 | about the content of this request: permanent |
| any other 4xx | a failure that the next run asks again |

completions.py classifies chat responses.
"""

import json
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from factmill.tasks.clients.sending.sender import Retry
from factmill.tasks.core.calls.call import CallResponse, make_failed_response
from factmill.tasks.errors import AccountBlocked, ServiceUnreachable
from factmill.tasks.text.sanitize import MAX_JSON_DEPTH, exceeds_json_depth, replace_surrogates_in_json

_TOO_LARGE_STATUSES = {413, 414}
_SURROGATE_ESCAPE = "\\ud"
"""Beginning of a JSON escape for half of a surrogate pair, lone or in a whole pair."""
_TRANSIENT_STATUSES = {408, 425, 429} | _TOO_LARGE_STATUSES
_PAYMENT_REQUIRED = 402
_PERMANENT_STATUSES = {400, 404, 410, 422}
_USER_AGENT_MENTION = re.compile(r"user[-_ ]?agent", re.IGNORECASE)


def find_final_http_failure_or_raise(
    service: str, status: int, text: str, retry_after: str | None = None
) -> CallResponse | None:
    """Return None for 2xx, and a failed reply where retrying in this run is useless; else raise Retry or
    ServiceUnreachable."""
    if 200 <= status < 300:
        return None
    code, detail = f"http_{status}", shorten_to_line(text)
    if status == _PAYMENT_REQUIRED:
        raise AccountBlocked(service, f"HTTP {status}: {detail}")
    if status == 403 and _USER_AGENT_MENTION.search(text):
        raise ServiceUnreachable(
            f"{service}: refuses factmill's user agent with HTTP {status}: {detail.rstrip('.')}. Put your web page or mail address into "
            'user_agent in the world\'s file, such as user_agent = "factmill/0.1 (you@example.org)"'
        )
    if status in (401, 403):
        raise ServiceUnreachable(
            f"{service}: refuses the request with HTTP {status}: {detail.rstrip('.')}. Check the key or token; for Wikimedia, also the contact address in user_agent"
        )
    if 300 <= status < 400:
        raise Retry(f"{code}: a redirect that leads nowhere: {detail}", parse_retry_after(retry_after))
    if status in _TRANSIENT_STATUSES or status >= 500:
        raise Retry(
            f"{code}: {detail}", parse_retry_after(retry_after), split=status in _TOO_LARGE_STATUSES or status == 504
        )
    return make_failed_response(code, detail, transient=status not in _PERMANENT_STATUSES)


def parse_json_body(text: str) -> Any:
    """Parse a body as JSON; Retry when it is HTML, truncated, or nested too deeply."""
    try:
        read = json.loads(text)
        if text.count("[") + text.count("{") > MAX_JSON_DEPTH and exceeds_json_depth(read):
            raise RecursionError
    except RecursionError as error:
        raise Retry("broken_json: nested too deeply") from error
    except ValueError as error:
        if text.lstrip()[:1] == "<":
            raise Retry(f"html_instead_of_json: {shorten_to_line(text)}") from error
        raise Retry(f"broken_json: {error}; the body ends with {text[-60:]!r}") from error
    return replace_surrogates_in_json(read) if _SURROGATE_ESCAPE in text.lower() else read


def parse_json_or_none(text: str | bytes) -> Any:
    """Parse a body or a part of one as JSON; None where it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def parse_retry_after(value: str | None) -> float | None:
    """Parse a Retry-After header, in seconds or as an HTTP date, into seconds; None when it is neither."""
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def format_library_error(error: BaseException) -> str:
    """Format a library's error as text: its message, without class and number, or its class name where it has none."""
    text = (error.strerror if isinstance(error, OSError) else None) or str(error).strip()
    return text or type(error).__name__


def shorten_to_line(text: str, max_characters: int = 200) -> str:
    """Return text on one line, at most `max_characters` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= max_characters else f"{flat[: max_characters - 1]}…"
