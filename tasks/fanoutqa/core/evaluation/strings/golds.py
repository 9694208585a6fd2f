"""Gold answers of FanOutQA (nested dicts, lists and primitives): as text, and as the strings to find in an answer."""

import math
from collections.abc import Iterator
from typing import Any

from factmill.tasks.text.values.answers import write_number

Gold = Any
"""Any JSON value: dict, list, string, number, boolean or null."""


def write_gold(gold: Gold) -> str:
    """Return a gold answer as text: a line per list entry, `key - value` lines for dicts, yes or no, nothing for null.

    ROUGE and judges compare answers with this text (Appendix D, F.3), and the oracle answers with it.
    """
    if isinstance(gold, dict):
        return "\n".join(f"{key} - {write_gold(value)}" for key, value in gold.items())
    if isinstance(gold, list):
        return "\n".join(map(write_gold, gold))
    return "" if gold is None else write_primitive(gold)


def write_primitive(value: Gold) -> str:
    """Return a primitive as text: booleans as yes or no, numbers as Python formats them."""
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def list_references(gold: Gold) -> Iterator[tuple[str, ...]]:
    """Yield the strings that an answer must say: each key and value at any depth, as a tuple of its spellings.

    Null and blank texts are skipped; a float may also be written without its exponent or trailing zeros. Repeated
    strings count repeatedly.
    """
    if isinstance(gold, dict):
        for key, value in gold.items():
            yield from list_references(key)
            yield from list_references(value)
    elif isinstance(gold, list):
        for value in gold:
            yield from list_references(value)
    elif gold is not None and (text := write_primitive(gold)).strip():
        is_decimal = isinstance(gold, float) and math.isfinite(gold)
        yield tuple(dict.fromkeys((text, write_number(gold) if is_decimal else text)))


def name_kind(gold: Gold) -> str:
    """Return the kind of a gold answer: dict, list or primitive."""
    return "dict" if isinstance(gold, dict) else "list" if isinstance(gold, list) else "primitive"
