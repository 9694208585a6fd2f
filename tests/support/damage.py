"""Damage files: lose, change or insert bytes, and draw malformed JSON."""

import json
import random
from typing import Any

from hypothesis import strategies as st

_SPLICED = (
    b"\x00", b"\xff", b"\xed\xa0\x80", b"\r", b"\n", b'"', b"'", b",", b"[", b"]", b"{", b"}", b"=", b"\\", b"\\ud800",
    b"\x1b[31m", b"null", b"true", b"NaN", b"-Infinity", b"1e999", b"-1", b"9" * 5000, b"[" * 10_000, b'{"a":' * 3_000, b" " * 5000,
    "\ufeff".encode(), "\u202e".encode(), b"2026-02-30", b"[[a]]\n", b"[models.author]\n",
)  # fmt: skip

_PAGE = 512
WAYS = ("bit", "bit", "cut", "zeros", "more", "twice", "nothing")
"""Kinds of damage: a flipped bit, a lost end, a page of zeros, appended bytes, a repeated line or chunk, an empty file.
"""


def damage(whole: bytes, how: str, draw: random.Random) -> bytes:
    """Return a file damaged in one of these ways at a drawn position; it always differs from the original."""
    if not whole or how == "nothing":
        return b"" if whole else b"\x00"
    at = draw.randrange(len(whole))
    match how:
        case "bit":
            return whole[:at] + bytes([whole[at] ^ 1 << draw.randrange(8)]) + whole[at + 1 :]
        case "cut":
            return whole[:at]
        case "zeros":
            page = whole[at : at + _PAGE]
            return whole[:at] + (bytes(len(page)) if any(page) else b"\xff" * len(page)) + whole[at + _PAGE :]
        case "twice":
            start = whole.rfind(b"\n", 0, at) + 1
            return whole[: whole.find(b"\n", at) + 1 or len(whole)] + whole[start:]
        case _:
            return whole + draw.randbytes(40)


def mutilate(whole: bytes) -> st.SearchStrategy[bytes]:
    """Draw files like this one with a few faults."""
    places = st.integers(0, len(whole))
    edit = st.tuples(places, st.integers(0, 40), st.sampled_from(_SPLICED) | st.binary(max_size=8))

    def apply(edits: list[tuple[int, int, bytes]], cut: int | None) -> bytes:
        text = whole
        for at, lost, spliced in edits:
            text = text[:at] + spliced + text[at + lost :]
        return text[:cut]

    return st.builds(apply, st.lists(edit, max_size=4), st.none() | places)


_LEAVES: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        ["\ud800", "\x00", "\x1b[2J", "Q1", "P19", "P26", "2026-01-01", " ", "https://x.org/a?b#c", "x" * 9000]
    )
)


def odd_json(*keys: str) -> st.SearchStrategy[Any]:
    """Draw JSON values; objects prefer these keys."""
    names = st.sampled_from(keys or ("id",)) | st.text(max_size=4)
    return st.recursive(
        _LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=6), max_leaves=12
    )


def replace_parts(row: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw rows like this one with some values replaced and some keys missing."""
    other = odd_json(*row)
    return st.fixed_dictionaries({}, optional={key: st.just(value) | other for key, value in row.items()})


def write_lines(rows: list[Any]) -> bytes:
    """Return rows as JSON Lines as Python writes them, with escaped half surrogates, NaN and Infinity."""
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()
