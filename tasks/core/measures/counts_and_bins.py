"""Counts, rounded shares and quantile bins, for reports of published tables."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

UNKNOWN_BIN = "unknown"
"""Bin of items with an unknown number."""


def bin_by_quantile(values: Mapping[str, int | None], bins: int) -> dict[str, str]:
    """Return id → its bin, smallest number first: bins of equal size as far as equal numbers, which share one bin, allow;
    unknown numbers separately.

    Without equal numbers, sizes differ by at most 1. Equal ones go to the bin of the middle one of them. A bin's name has its position and its smallest and largest number (`2 of 5 (1,200 to 4,310)`), or is UNKNOWN. The
    order of `values` does not matter.
    """
    known = sorted(value for value in values.values() if value is not None)
    found = {each: UNKNOWN_BIN for each, value in values.items() if value is None}
    digits = len(str(bins))
    bin_of_place = [
        number for number in range(bins) for _ in range(len(known) * number // bins, len(known) * (number + 1) // bins)
    ]
    bin_of_value = {
        value: bin_of_place[(bisect_left(known, value) + bisect_right(known, value) - 1) // 2] for value in set(known)
    }
    members: dict[int, list[int]] = {}
    for value in sorted(bin_of_value):
        members.setdefault(bin_of_value[value], []).append(value)
    names = {
        number: f"{number + 1:0{digits}} of {bins} ({there[0]:,} to {there[-1]:,})" for number, there in members.items()
    }
    return found | {each: names[bin_of_value[value]] for each, value in values.items() if value is not None}


def count_values_sorted_by_value(values: Iterable[Any]) -> dict[str, int]:
    """Return value as text → its number of occurrences, sorted by value; values must be comparable."""
    return {str(value): count for value, count in sorted(Counter(values).items())}


def divide_rounded(part: float, total: int, digits: int = 3) -> float | None:
    """Return a share or mean, rounded; None if `total` is 0."""
    return round(part / total, digits) if total else None


def pair_with_paper_figures(
    measured: Mapping[str, tuple[float | None, int]], paper: Mapping[str, float]
) -> dict[str, dict[str, float | int | None]]:
    """Return figure → `here`, `n` and `paper`, from figures given as (value, n); `here` is None without data."""
    return {name: {"here": value, "n": n, "paper": paper[name]} for name, (value, n) in measured.items()}
