"""Redacts secrets in everything that servers send: bodies, errors, headers, files of batch jobs.

A server may repeat a key whole or in part, and encode it. A text is searched as it is and with its escapes decoded up
to three times (JSON, URL, HTML), for the secret itself and for its base64 form at any offset in the encoded bytes.
Strings of a JSON text are searched after parsing, so that no escape is split; a number that shows a secret becomes
text.

| what is hidden | minimum length in characters |
|---|---|
| a secret with a letter and a digit, or with a character other than letters, digits and `-_. ` | 5 |
| any other, such as `ollama`, `not-needed` or `12345678`, which ordinary text may contain | 12 |
| its beginning or its end | 8, or more until it has such a mix of characters; `sk-proj-` alone is no secret |
| its beginning and its end with asterisks or dots between, as in `sk-ab***xy` | 3 and 2 |
"""

import base64
import html
import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import TypeVar
from urllib.parse import unquote

Json = TypeVar("Json")

REDACTION_MARK = "***"
_MIN_SECRET_LENGTH, _MIN_WORD_SECRET_LENGTH, _MIN_SECRET_PIECE_LENGTH = 5, 12, 8
_MIN_BASE64_LENGTH = 12
"""Characters of base64, which hold nine of a secret."""
_MAX_UNMASKED_LENGTH = 24
"""Most characters that a masked key shows at either end."""
_MAX_DECODINGS = 3
_MASK = r"(?:[*•…]+|\.{2,})"
_ORDINARY_TEXT = re.compile(r"[A-Za-z_. -]*|[0-9_. -]*")
"""Characters of ordinary text: words alone, or numbers alone."""
_ESCAPE = re.compile(
    r"""\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|\\["'/\\]"""
    r"|%[0-7][0-9a-fA-F]|%[c-dC-D][0-9a-fA-F]%[89abAB][0-9a-fA-F]|%[eE][0-9a-fA-F](?:%[89abAB][0-9a-fA-F]){2}"
    r"|%[fF][0-9a-fA-F](?:%[89abAB][0-9a-fA-F]){3}|&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|quot|apos|amp|lt|gt);"
)
_STRING_OR_NUMBER = re.compile(r'"(?:[^"\\]++|\\.)*+"|-?[0-9][0-9.eE+-]*', re.DOTALL)
"""String or number in a JSON text."""


class SecretRedactor:
    """Secrets of one service used so far; redacts them in texts."""

    def __init__(self) -> None:
        self._secret_forms: dict[str, tuple[str, str]] = {}
        """Form of a secret → its shortest hidden beginning and its shortest hidden end."""
        self._masked_patterns: dict[str, re.Pattern[str]] = {}

    def add_secret(self, secret: str) -> None:
        """Hide a secret in all texts from now on; of several words, such as `Bearer KEY`, each word too."""
        words = secret.split()
        for each in dict.fromkeys([" ".join(words), *words]):
            if len(each) < (_MIN_WORD_SECRET_LENGTH if _ORDINARY_TEXT.fullmatch(each) else _MIN_SECRET_LENGTH):
                continue
            if len(words) > 1 and each not in words:
                self._secret_forms |= {form: (form, form) for form in (each, each.replace(" ", "+"))}
                continue
            self._add_form(each, _MIN_SECRET_PIECE_LENGTH)
            for form in _iterate_base64_forms(each.encode()):
                self._add_form(form, _MIN_BASE64_LENGTH)
            if len(each) >= _MIN_WORD_SECRET_LENGTH:
                sizes = range(min(_MAX_UNMASKED_LENGTH, len(each)), 1, -1)
                starts = "|".join(re.escape(each[:size]) for size in sizes if size > 2)
                ends = "|".join(re.escape(each[-size:]) for size in sizes)
                self._masked_patterns[each] = re.compile(f"(?:{starts}){_MASK}(?:{ends})")

    def redact(self, text: str) -> str:
        """Return a text with `***` in place of secrets; a JSON text stays valid."""
        if not self._find_spans(text):
            return text
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            return self._redact_text(text)
        return _STRING_OR_NUMBER.sub(self._redact_json_token, text)

    def redact_json(self, value: Json) -> Json:
        """Return a JSON-able value with all its texts redacted, keys too."""
        if isinstance(value, str):
            return self._redact_text(value)  # type: ignore[return-value]
        if isinstance(value, list):
            return [self.redact_json(each) for each in value]  # type: ignore[return-value]
        if isinstance(value, dict):
            return {self._redact_text(name): self.redact_json(each) for name, each in value.items()}  # type: ignore[return-value]
        return value

    def _add_form(self, form: str, shortest: int) -> None:
        self._secret_forms[form] = (
            _find_distinctive_prefix(form, shortest),
            _find_distinctive_prefix(form[::-1], shortest)[::-1],
        )

    def _redact_json_token(self, found: re.Match[str]) -> str:
        text: str = json.loads(found[0], strict=False) if found[0].startswith('"') else found[0]
        scrubbed = self._redact_text(text)
        return found[0] if scrubbed == text else json.dumps(scrubbed)

    def _redact_text(self, text: str) -> str:
        parts, end = list[str](), -1
        for start, stop in self._find_spans(text):
            if start > end:
                parts += [text[max(0, end) : start], REDACTION_MARK]
            end = max(end, stop)
        return "".join([*parts, text[max(0, end) :]])

    def _find_spans(self, text: str) -> list[tuple[int, ...]]:
        """Return the spans of secrets in a text, sorted; they may overlap."""
        found: set[tuple[int, ...]] = set()
        steps: list[tuple[list[int], list[int]]] = []
        for _ in range(_MAX_DECODINGS + 1):
            for span in self._iterate_spans(text):
                for ends, shifts in reversed(steps):
                    span = tuple(at + shifts[bisect_right(ends, at)] for at in span)  # noqa: PLW2901
                found.add(span)
            decoded, ends, shifts = _decode_escapes_with_offset_shifts(text)
            if not ends:
                break
            text = decoded
            steps.append((ends, shifts))
        return sorted(found)

    def _iterate_spans(self, text: str) -> Iterator[tuple[int, ...]]:
        for form, (first, last) in self._secret_forms.items():
            at = text.find(first)
            while at >= 0:
                size = _common_prefix_length(form, text[at : at + len(form)])
                yield at, at + size
                at = text.find(first, at + size)
            at = text.find(last)
            while at >= 0:
                end = at + len(last)
                size = _common_prefix_length(form[::-1], text[max(0, end - len(form)) : end][::-1])
                yield end - size, end
                at = text.find(last, end)
        for pattern in self._masked_patterns.values():
            yield from (match.span() for match in pattern.finditer(text))


def _common_prefix_length(one: str, other: str) -> int:
    """Return the length of the common beginning of two texts."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _find_distinctive_prefix(form: str, shortest: int) -> str:
    """Return the shortest beginning of a secret's form that ordinary text does not contain, else the whole form."""
    sizes = range(shortest, len(form))
    return next((form[:size] for size in sizes if not _ORDINARY_TEXT.fullmatch(form[:size])), form)


def _iterate_base64_forms(secret: bytes) -> Iterator[str]:
    """Yield the base64 characters that depend on a secret alone, after 0, 1 or 2 other bytes, in both alphabets."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + secret).decode()
        inner = encoded[-(-8 * before // 6) : 8 * (before + len(secret)) // 6]
        yield inner
        yield inner.translate(str.maketrans("+/", "-_"))


def _decode_escapes_with_offset_shifts(text: str) -> tuple[str, list[int], list[int]]:
    """Decode a text's escapes once, each to one character.

    Return it with the ends of the decoded escapes, and the characters saved before the first and up to each.
    """
    parts, ends, shifts = [], list[int](), [0]
    at = length = 0
    for found in _ESCAPE.finditer(text) if any(mark in text for mark in "\\%&") else ():
        escape = found[0]
        if escape[0] == "%":
            decoded = unquote(escape)
        elif escape[0] == "&":
            decoded = html.unescape(escape)
        elif escape[1] == "u":
            decoded = json.loads(f'"{escape}"')
        else:
            decoded = chr(int(escape[2:], 16)) if escape[1] == "x" else escape[1]
        parts += [text[at : found.start()], (decoded if len(decoded) == 1 else "\ufffd")]
        length += found.start() - at + 1
        at = found.end()
        ends.append(length)
        shifts.append(at - length)
    return "".join([*parts, text[at:]]), ends, shifts
