"""Texts from outside: what can be stored and shown, how they stand in Markdown, and what a mistyped name may have meant.

JSON can spell half a surrogate pair, which is no character, and which neither UTF-8 nor Arrow can hold; it can nest without
end; and texts hold characters that act on the terminal or page that shows them.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

MOST_DEEP = 100
"""Levels of lists and objects in each other that are read; nothing that is asked for has ten."""
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Control characters, and those that turn the direction of what stands around them."""


def clean(text: str) -> str:
    """Return a text with control characters written out, so that none acts on who shows it; lines stay."""
    return _UNSEEN.sub(lambda found: f"[U+{ord(found[0]):04X}]", text.replace("\r\n", "\n"))


def shorten_middle(text: str, most: int = 200) -> str:
    """Return a text of at most `most` characters; of a longer one beginning and end."""
    return text if len(text) <= most else f"{text[: most * 2 // 3]} … {text[-(most // 3 - 3) :]}"


def is_too_deep(value: Any) -> bool:
    """True for a value of JSON of more than MOST_DEEP levels."""
    level = [value]
    for _ in range(MOST_DEEP):
        inside = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list))
        level = [inner for values in inside for inner in values]
    return any(isinstance(each, dict | list) for each in level)


def whole_text(text: str) -> str:
    """Return a text with halves of surrogate pairs replaced by question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def whole_json(value: Any) -> Any:
    """Return a value of JSON with all its texts, keys too, made whole."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, list):
        return [whole_json(each) for each in value]
    if isinstance(value, dict):
        return {whole_text(key): whole_json(each) for key, each in value.items()}
    return value


_SPECIAL = re.compile(r"([\\`*\[\]|#~$]|(?<!\w)_|_(?!\w)|^(?:[-+=]|\d+[.)])(?=\s))")


def escape_markdown(text: str) -> str:
    """Return a text as it stands in a line or in a cell of a table; its lines are parted by <br>."""
    text = clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "<br>".join(_SPECIAL.sub(r"\\\1", line) for line in text.split("\n"))


_ALIKE = 0.7
"""Ratio of difflib from which a name is like another."""


def suggest_name(given: str, known: Iterable[str]) -> str:
    """Return `; did you mean NAME?` with the known name that is most like the one given; empty where none is."""
    names = {name.casefold(): name for name in known}
    close = get_close_matches(given.casefold(), names, 1, _ALIKE)
    return f"; did you mean {names[close[0]]}?" if close else ""
