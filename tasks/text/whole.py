"""Sanitising of external texts for storage and display, Markdown escaping, and suggestions for mistyped names.

JSON can encode half a surrogate pair, which is no character, and which neither UTF-8 nor Arrow can hold; it can nest
without limit; and texts may contain characters that control the terminal or page that shows them.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

MOST_DEEP = 100
"""Most levels of nested lists and objects that are read; no expected value has ten."""
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Control characters, and those that change the direction of text."""


def clean(text: str) -> str:
    """Return a text with control characters written as [U+XXXX], so that none affects the display; line breaks stay."""
    return _UNSEEN.sub(lambda found: f"[U+{ord(found[0]):04X}]", text.replace("\r\n", "\n"))


def shorten_middle(text: str, most: int = 200) -> str:
    """Shorten a text to at most `most` characters, keeping its beginning and end."""
    return text if len(text) <= most else f"{text[: most * 2 // 3]} … {text[-(most // 3 - 3) :]}"


def is_too_deep(value: Any) -> bool:
    """True for a JSON value nested more than MOST_DEEP levels."""
    level = [value]
    for _ in range(MOST_DEEP):
        inside = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list))
        level = [inner for values in inside for inner in values]
    return any(isinstance(each, dict | list) for each in level)


def whole_text(text: str) -> str:
    """Return a text with lone surrogates replaced by question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def whole_json(value: Any) -> Any:
    """Return a JSON value with lone surrogates replaced in all its texts, keys too."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, list):
        return [whole_json(each) for each in value]
    if isinstance(value, dict):
        return {whole_text(key): whole_json(each) for key, each in value.items()}
    return value


_SPECIAL = re.compile(r"([\\`*\[\]|#~$]|(?<!\w)_|_(?!\w)|^(?:[-+=]|\d+[.)])(?=\s))")


def escape_markdown(text: str) -> str:
    """Escape a text for a Markdown line or table cell, with <br> between its lines."""
    text = clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "<br>".join(_SPECIAL.sub(r"\\\1", line) for line in text.split("\n"))


_ALIKE = 0.7
"""Lowest difflib ratio at which two names count as similar."""


def suggest_name(given: str, known: Iterable[str]) -> str:
    """Return `; did you mean NAME?` with the known name most similar to `given`; empty where none is similar."""
    names = {name.casefold(): name for name in known}
    close = get_close_matches(given.casefold(), names, 1, _ALIKE)
    return f"; did you mean {names[close[0]]}?" if close else ""
