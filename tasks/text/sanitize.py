"""Sanitising of external texts for storage and display, Markdown escaping, and suggestions for mistyped names.

JSON can encode half a surrogate pair, which is no character, and which neither UTF-8 nor Arrow can hold; it can nest
without limit; and texts may contain characters that control the terminal or page that shows them.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

MAX_JSON_DEPTH = 100
"""Most levels of nested lists and objects that are read; no expected value has ten."""
_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Control characters, and those that change the direction of text."""


def escape_control_characters(text: str) -> str:
    """Return a text with control characters written as their code points, such as [U+001B], so that none affects the display; line breaks stay."""
    return _CONTROL_CHARACTER.sub(lambda found: f"[U+{ord(found[0]):04X}]", text.replace("\r\n", "\n"))


def shorten_middle(text: str, max_characters: int = 200) -> str:
    """Shorten a text to at most `max_characters` characters, keeping its beginning and end."""
    return (
        text
        if len(text) <= max_characters
        else f"{text[: max_characters * 2 // 3]} … {text[-(max_characters // 3 - 3) :]}"
    )


def exceeds_json_depth(value: Any) -> bool:
    """True for a JSON value nested more than MAX_JSON_DEPTH levels."""
    level = [value]
    for _ in range(MAX_JSON_DEPTH):
        inside = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list))
        level = [inner for values in inside for inner in values]
    return any(isinstance(each, dict | list) for each in level)


def replace_lone_surrogates_by_question_mark(text: str) -> str:
    """Return a text with lone surrogates replaced by question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def replace_surrogates_in_json(value: Any) -> Any:
    """Return a JSON value with lone surrogates replaced in all its texts, keys too."""
    if isinstance(value, str):
        return replace_lone_surrogates_by_question_mark(value)
    if isinstance(value, list):
        return [replace_surrogates_in_json(each) for each in value]
    if isinstance(value, dict):
        return {
            replace_lone_surrogates_by_question_mark(key): replace_surrogates_in_json(each)
            for key, each in value.items()
        }
    return value


_MARKDOWN_SPECIAL = re.compile(r"([\\`*\[\]|#~$]|(?<!\w)_|_(?!\w)|^(?:[-+=]|\d+[.)])(?=\s))")


def escape_markdown(text: str) -> str:
    """Escape a text for a Markdown line or table cell, with <br> between its lines."""
    text = escape_control_characters(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "<br>".join(_MARKDOWN_SPECIAL.sub(r"\\\1", line) for line in text.split("\n"))


_MIN_SIMILARITY = 0.7
"""Lowest difflib ratio at which two names count as similar."""


def find_most_similar_name(given: str, known: Iterable[str]) -> str:
    """Return the known name most similar to `given`; empty where none is similar."""
    names = {name.casefold(): name for name in known}
    close = get_close_matches(given.casefold(), names, 1, _MIN_SIMILARITY)
    return names[close[0]] if close else ""


def format_did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return `; did you mean NAME?` with the known name most similar to `given`; empty where none is similar."""
    name = find_most_similar_name(given, known)
    return f"; did you mean {name}?" if name else ""
