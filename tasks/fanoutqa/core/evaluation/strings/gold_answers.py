"""Gold answers of FanOutQA (nested dicts, lists and primitives): as text, and as the strings to find in an answer."""

import math
from collections.abc import Iterator
from typing import Any

from factmill.tasks.fanoutqa.core.evaluation.rows import GoldKind
from factmill.tasks.text.values.answer_search import format_number_without_exponent

GoldAnswer = Any
"""Any JSON value: dict, list, string, number, boolean or null."""


def format_gold_answer(gold: GoldAnswer) -> str:
    """Return a gold answer as text: a line per list entry, `key - value` lines for dicts, yes or no, nothing for null.

    ROUGE and judges compare answers with this text (Appendix D, F.3), and the oracle answers with it.
    """
    if isinstance(gold, dict):
        return "\n".join(f"{key} - {format_gold_answer(value)}" for key, value in gold.items())
    if isinstance(gold, list):
        return "\n".join(map(format_gold_answer, gold))
    return "" if gold is None else format_gold_primitive(gold)


def format_gold_primitive(value: GoldAnswer) -> str:
    """Return a primitive as text: booleans as yes or no, numbers as Python formats them."""
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def list_gold_string_spellings(gold: GoldAnswer) -> Iterator[tuple[str, ...]]:
    """Yield the strings that an answer must say: each key and value at any depth, as a tuple of its spellings.

    Null and blank texts are skipped; a float may also be written without its exponent or trailing zeros. Repeated
    strings count repeatedly.
    """
    if isinstance(gold, dict):
        for key, value in gold.items():
            yield from list_gold_string_spellings(key)
            yield from list_gold_string_spellings(value)
    elif isinstance(gold, list):
        for value in gold:
            yield from list_gold_string_spellings(value)
    elif gold is not None and (text := format_gold_primitive(gold)).strip():
        is_decimal = isinstance(gold, float) and math.isfinite(gold)
        yield tuple(dict.fromkeys((text, format_number_without_exponent(gold) if is_decimal else text)))


def get_gold_dict_list_or_primitive(gold: GoldAnswer) -> GoldKind:
    """Return the kind of a gold answer: dict, list or primitive."""
    return "dict" if isinstance(gold, dict) else "list" if isinstance(gold, list) else "primitive"
