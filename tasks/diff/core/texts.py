"""How values that changed are told: in a line, cut around the place where they differ."""

import json
from typing import Any

from tasks.text.whole import clean, whole_text

_LEAD = 20
"""Characters told before the first difference of two long texts."""


def tell_value(value: Any) -> str:
    """Return a column's value as text: texts as they are, lists and records as JSON, a dash for none."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return whole_text(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def tell_line(value: Any, longest: int) -> str:
    """Return a value in one line, cleaned and cut where it is long."""
    return _cut(" ".join(tell_value(value).split()), 0, longest)


def tell_pair(before: Any, after: Any, longest: int) -> tuple[str, str]:
    """Return two values in a line each; of long ones the part from shortly before their first difference on."""
    old, new = (" ".join(tell_value(each).split()) for each in (before, after))
    if max(len(old), len(new)) <= longest:
        return clean(old), clean(new)
    start = max(_count_alike(old, new) - _LEAD, 0)
    return _cut(old, start, longest), _cut(new, start, longest)


def cut_pair(before: Any, after: Any, longest: int) -> tuple[str, str]:
    """Return two values as they are, lines kept, but of long ones the part from shortly before their first difference on."""
    old, new = tell_value(before), tell_value(after)
    start = max(_count_alike(old, new) - _LEAD, 0) if max(len(old), len(new)) > longest else 0
    return _cut(old, start, longest), _cut(new, start, longest)


def _count_alike(old: str, new: str) -> int:
    """Return how many characters two texts begin with alike."""
    low, high = 0, min(len(old), len(new))
    while low < high:  # halving: texts of a megabyte are compared whole some twenty times, not letter by letter
        middle = (low + high + 1) // 2
        low, high = (middle, high) if old[:middle] == new[:middle] else (low, middle - 1)
    return low


def _cut(text: str, start: int, longest: int) -> str:
    cut = text[start : start + longest]
    return clean(f"{'…' if start else ''}{cut}{'…' if start + longest < len(text) else ''}")
