"""Spell a key as servers repeat it, and find it in any of these forms."""

import base64
import html
import re
from collections.abc import Iterator
from urllib.parse import quote, unquote

KEY = "sk-canary/5f0c+7e1d93b2=Zq9"
_PIECE = 12
"""Minimum number of the key's characters that count as a leak."""


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


SPELLINGS = {
    "as it is": KEY,
    "JSON escapes": KEY.replace("-", "\\u002d").replace("/", "\\/").replace("=", "\\u003D"),
    "JSON escapes of all characters": "".join(f"\\u{ord(each):04x}" for each in KEY),
    "URL, upper hex": quote(KEY, safe=""),
    "URL, lower hex": re.sub("%..", lambda found: found[0].lower(), quote(KEY, safe="")),
    "URL, all characters": "".join(f"%{ord(each):02x}" for each in KEY),
    "URL, twice": quote(quote(KEY, safe=""), safe=""),
    "HTML entities": KEY.replace("-", "&#45;").replace("+", "&#x2B;"),
    "base64": _encode(KEY),
    "base64 without padding": _encode(KEY).rstrip("="),
    "base64 for URLs": base64.urlsafe_b64encode(KEY.encode()).decode(),
    "base64 behind one character": _encode(f":{KEY}"),
    "base64 behind two characters": _encode(f"u:{KEY}!"),
    "base64 of user and key": _encode(f"user:{KEY}"),
    "base64 of a part": _encode(KEY[:17]),
    "base64 in JSON escapes": _encode(f"u:{KEY}").replace("/", "\\/").replace("=", "\\u003d"),
    "first half": f"{KEY[: len(KEY) // 2]}…",
    "all but one character": f"{KEY[:-1]}…",
    "masked in the middle": f"{KEY[:14]}*******{KEY[-3:]}",
}
"""Name → spelling between the quotes of a JSON string."""


def find_key(text: str) -> str:
    """Return the first twelve consecutive characters of the key that a text shows, in any encoding; empty if none."""
    pieces = [KEY[at : at + _PIECE] for at in range(len(KEY) - _PIECE + 1)]
    views = [text]
    for _ in range(3):
        escaped = re.sub(r"\\+u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), views[-1]).replace("\\/", "/")
        views.append(unquote(html.unescape(escaped)))
    views += [decoded for view in views for decoded in _iterate_base64(view)]
    return next((piece for piece in pieces for view in views if piece in view), "")


def _iterate_base64(text: str) -> Iterator[str]:
    for run in set(re.findall(r"[A-Za-z0-9+/_-]{12,}", text)):
        for start in range(4):
            whole = run[start : start + (len(run) - start) // 4 * 4].translate(str.maketrans("-_", "+/"))
            yield base64.b64decode(whole).decode("latin-1")
