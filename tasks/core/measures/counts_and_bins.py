"""Counts, rounded shares and quantile bins, for reports of published tables."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

UNKNOWN_BIN = "unknown"
"""Bin of items with an unknown number."""


def bin_by_quantile(values: Mapping[str, int | None], bins: int) -> dict[str, str]:
    """Return id → its bin, smallest number first: bins of equal size (±1), ties by id; unknown numbers separately.

    A bin's name has its position and its smallest and largest number (`2 of 5 (1,200 to 4,310)`), or is UNKNOWN. The
    order of `values` does not matter.
    """
    known = sorted((value, each) for each, value in values.items() if value is not None)
    found = {each: UNKNOWN_BIN for each, value in values.items() if value is None}
    digits = len(str(bins))
    for number in range(bins):
        members = known[len(known) * number // bins : len(known) * (number + 1) // bins]
        if members:
            name = f"{number + 1:0{digits}} of {bins} ({members[0][0]:,} to {members[-1][0]:,})"
            found |= {each: name for _, each in members}
    return found


def count_values_sorted_by_value(values: Iterable[Any]) -> dict[str, int]:
    """Return value as text → its number of occurrences, sorted by value; values must be comparable."""
    return {str(value): count for value, count in sorted(Counter(values).items())}


def divide_rounded(part: float, total: int, digits: int = 3) -> float | None:
    """Return a share or mean, rounded; None if `total` is 0."""
    return round(part / total, digits) if total else None


def pair_with_paper_figures(
    here: Mapping[str, tuple[float | None, int]], paper: Mapping[str, float]
) -> dict[str, dict[str, float | int | None]]:
    """Return figure → `here`, `n` and `paper`, from figures given as (value, n); `here` is None without data."""
    return {name: {"here": value, "n": n, "paper": paper[name]} for name, (value, n) in here.items()}
