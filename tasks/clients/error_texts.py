"""What the body of a model server's error reply says: its messages, the parameters that it names, and whether it is about the
length of the prompt.

Servers put their message into `error.message`, `message`, `detail`, `detail[].msg` or `error`; Gemini wraps the object in a
list, and gateways carry the body of the server behind them as JSON in a string. Values of the request that a body repeats
(`detail[].input`) are left out: what a prompt says is no message of the server.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_REPEATED = frozenset({"input", "failed_generation", "url", "id", "request_id", "user_id", "headers", "object"})
"""Fields that hold parts of the request or the reply, or names that say nothing."""
_NAMING = frozenset({"param", "parameter", "field", "loc", "argument"})
_TOO_LARGE = re.compile(
    r"too (large|long|high|many|big)|at most|(less|greater|more|larger|higher|lower) than|exceed|up to|"
    r"\b(maximum|upper|valid range|range|between)\b|<=|≤|>",
    re.IGNORECASE,
)
_TOKEN_LIMIT = r"max[_ ]?(?:completion[_ ]?|output[_ ]?|new[_ ]?)?tokens"
_TOO_LARGE_LIMIT = re.compile(
    rf"(?<!\+ )(?<!\+ ['\"`])(?<!and )(?<!and ['\"`])\b{_TOKEN_LIMIT}\b['\"`]?(?! (?:and|\+) (?:the )?(?:input|prompt|messages))"
    r"[^.;]{0,60}?(?:too (?:large|high|big)|must be(?! at least)|should be|cannot be|can't be|exceed|greater|larger|at most|range|>|≤|<=)|"
    rf"range of {_TOKEN_LIMIT}|maximum tokens you requested",
    re.IGNORECASE,
)
_TOO_LARGE_BODY = 413
_LENGTH_STATUSES = frozenset({400, 422, 500})
_TOO_LONG = re.compile(
    r"context[ _-]?(length|window|size|limit)|(max_?imum|max) (prompt|model|input) length|string_above_max_length|string too long|"
    r"(prompt|input|message|request|text)s?( \([^)]*\))?( is| are)? (too|longer than) (long|large|the (model|max|context))|"
    r"\b(prompt|input)\b[^.]{0,60}(exceed|too (long|large) (for|to)|longer than)[^.]{0,40}(max|limit|length|context|token|support)|"
    r"(input|prompt)[ _]token count[^.]{0,60}(exceed|supports? up to)|too many (input |prompt )?tokens(?! per)|"
    r"exceed[^.]{0,40}(token limit|number of tokens|context|\bn_ctx)|payload size exceeds|token limit exceeded|"
    r"total tokens[^.]{0,20} exceed|prompt has \d+ tokens|prompt[^.]{0,20}\+ ['\"`]?max_tokens|max_tokens must be at least 1, got -|"
    r"range of input length|"
    r"`inputs` (tokens \+|must have)|reduce (the length of |your |the )(the )?(input|messages?|prompt)|request_too_large|"
    r"prompt[^.]{0,20}超长|超过.{0,20}长度",
    re.IGNORECASE,
)
_MOST_DEEP = 50
_MOST_CHARACTERS = 20_000
"""Of what an error says; what stands behind is left out."""


@dataclass(frozen=True, slots=True)
class ErrorText:
    """What an error reply says."""

    words: str
    """Its messages and codes, a line each."""
    params: tuple[str, ...]
    """The parameters that it names in a field of its own, such as `seed` or `messages[0].role`; those of a FastAPI `loc` are
    joined by dots."""


def read_error_text(text: str) -> ErrorText:
    """Return what the body of an error reply says; one that is no JSON is its own message."""
    params: list[str] = []
    try:
        words = list(_iterate_words(json.loads(text), params, _MOST_DEEP))
    except (ValueError, RecursionError):
        return ErrorText(text[:_MOST_CHARACTERS], ())
    return ErrorText("\n".join(words)[:_MOST_CHARACTERS], tuple(dict.fromkeys(params)))


def is_prompt_too_long(status: int, text: str) -> bool:
    """True where a request is refused because its prompt is too long for the model, or its body for the server, and not because
    the limit of the reply is too large."""
    if status == _TOO_LARGE_BODY:
        return True
    if status not in _LENGTH_STATUSES:
        return False
    error = read_error_text(text)
    return bool(_TOO_LONG.search(error.words)) and not is_token_limit_too_large(error)


def is_token_limit_too_large(error: ErrorText) -> bool:
    """True where a request is refused because it allows the reply more tokens than the model can write."""
    is_named = any(re.search(rf"\b{_TOKEN_LIMIT}$", param) for param in error.params)
    return bool((is_named and _TOO_LARGE.search(error.words)) or _TOO_LARGE_LIMIT.search(error.words))


def _iterate_words(node: Any, params: list[str], deep: int) -> Iterator[str]:
    """Yield the strings of a body, and add the parameters that it names to `params`; RecursionError where it is nested too
    deeply."""
    if not deep:
        raise RecursionError
    if isinstance(node, str):
        yield from _read_string(node, params, deep)
    elif isinstance(node, list):
        for each in node:
            yield from _iterate_words(each, params, deep - 1)
    elif isinstance(node, dict):
        for name, value in node.items():
            if name in _NAMING and (named := _read_param(value)):
                params.append(named)
            elif name not in _REPEATED:
                yield from _iterate_words(value, params, deep - 1)


def _read_string(text: str, params: list[str], deep: int) -> Iterator[str]:
    """Yield a message; where it carries JSON, what stands before it and the words of that."""
    start, end = (
        min((at for at in (text.find("{"), text.find("[")) if at >= 0), default=0),
        max(text.rfind("}"), text.rfind("]")),
    )
    if start < end:
        try:
            carried = json.loads(text[start : end + 1])
        except ValueError:
            carried = None
        if isinstance(carried, dict) or (isinstance(carried, list) and any(isinstance(each, dict) for each in carried)):
            yield text[:start]
            yield from _iterate_words(carried, params, deep - 1)
            return
    yield text


def _read_param(value: Any) -> str:
    """Return the name of a parameter; empty where a field holds none."""
    if isinstance(value, list):
        return ".".join(str(part) for part in value if part != "body")
    return value.strip() if isinstance(value, str) else ""
