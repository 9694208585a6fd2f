"""Gold answers of FanOutQA: primitives, lists and dicts in one another, as the text of an answer and as what is to be found in one."""

import math
from collections.abc import Iterator
from typing import Any

from factmill.tasks.text.values.answers import write_number

Gold = Any
"""What a JSON text holds: a dict, a list, text, a number, true or false, null."""


def write_gold(gold: Gold) -> str:
    """Return a gold answer as text: lists a line an entry, dicts `key - value` lines, booleans as yes or no, null as nothing.

    This is what ROUGE and judges compare with (Appendix D, F.3), and what the oracle answers.
    """
    if isinstance(gold, dict):
        return "\n".join(f"{key} - {write_gold(value)}" for key, value in gold.items())
    if isinstance(gold, list):
        return "\n".join(map(write_gold, gold))
    return "" if gold is None else write_primitive(gold)


def write_primitive(value: Gold) -> str:
    """Return a primitive as text: booleans as yes or no, numbers as Python writes them."""
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def list_references(gold: Gold) -> Iterator[tuple[str, ...]]:
    """Yield what an answer must say: each key and each value, however deep it lies, with the ways to write it.

    Null, and a text of nothing, say nothing that could be found; a float may also be written without its exponent or its
    empty decimals. What stands twice is counted twice.
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
    """Return what kind of answer it is: dict, list or primitive."""
    return "dict" if isinstance(gold, dict) else "list" if isinstance(gold, list) else "primitive"
