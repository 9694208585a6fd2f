"""Whether one change shows another: what a column says now and did not say before stands in a reply that is new, too."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

_WORD = re.compile(r"\w+")
_SHORTEST = 3
"""Characters that a text must have for standing in another to say anything."""
_LEAST = 10
"""Numbers below are everywhere."""


def shows(given: tuple[Any, Any], taken: tuple[Any, Any]) -> bool:
    """True where what is new (or gone) in `taken` stands in what is new (or gone) in `given`; both are (before, after)."""
    gone, come = _split(given)
    lost, won = _split(taken)
    if _stands_in(won, come) or _stands_in(lost, gone):
        return True
    new_words, old_words = _list_words(won), _list_words(lost)
    return _share_words(new_words - old_words, _list_words(come) - _list_words(gone)) or _share_words(
        old_words - new_words, _list_words(gone) - _list_words(come)
    )


def _share_words(wanted: frozenset[str], found: frozenset[str]) -> bool:
    """True where at least half of the words stand among others: a text may have been cleaned, or put in another form."""
    return bool(wanted) and 2 * len(wanted & found) >= len(wanted)


def _list_words(leaves: frozenset[str]) -> frozenset[str]:
    return frozenset(word for leaf in leaves for word in _words_of(leaf))


@lru_cache(maxsize=256)
def _words_of(text: str) -> frozenset[str]:
    return frozenset(word for word in _WORD.findall(text) if len(word) >= _SHORTEST)


def holds(value: Any, parts: Iterable[Any]) -> bool:
    """True where every text and number of these stands in a value, whole."""
    return all(_list_leaves(part) <= _list_leaves(value) for part in parts)


def _split(change: tuple[Any, Any]) -> tuple[frozenset[str], frozenset[str]]:
    """Return what only the value before holds, and what only the one after does."""
    before, after = map(_list_leaves, change)
    return before - after, after - before


def _stands_in(leaves: frozenset[str], others: frozenset[str]) -> bool:
    return bool(leaves & others) or any(
        leaf in other or (len(other) >= _SHORTEST and other in leaf)
        for leaf in leaves
        if len(leaf) >= _SHORTEST
        for other in others
    )


def _list_leaves(value: Any) -> frozenset[str]:
    return _of_text(value) if isinstance(value, str) else frozenset(_walk(value))


@lru_cache(maxsize=256)
def _of_text(text: str) -> frozenset[str]:
    return frozenset([text]) if text else frozenset()


def _walk(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _walk(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _walk(each)
    elif isinstance(value, str):
        yield from _of_text(value)
    elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) >= _LEAST:
        yield f"{value:g}" if isinstance(value, float) else str(value)
