"""What somebody may have meant who wrote a name that is not known."""

from collections.abc import Iterable
from difflib import get_close_matches

_ALIKE = 0.7
"""Ratio of difflib from which a name is like another."""


def suggest_name(given: str, known: Iterable[str]) -> str:
    """Return `; did you mean NAME?` with the known name that is most like the one given; empty where none is."""
    names = {name.casefold(): name for name in known}
    close = get_close_matches(given.casefold(), names, 1, _ALIKE)
    return f"; did you mean {names[close[0]]}?" if close else ""
