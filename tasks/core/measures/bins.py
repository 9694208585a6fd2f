"""Counts, shares and bins: what reports of published tables count, and bins of equal size by a number that items have."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

UNKNOWN = "unknown"
"""Bin of the items whose number is not known."""


def bin_by_quantile(values: Mapping[str, int | None], bins: int) -> dict[str, str]:
    """Return id → its bin, smallest number first: bins of equal size (one more in some), ties by id; those unknown apart.

    A bin is called by its place and its smallest and largest number (`2 of 5 (1,200 to 4,310)`), or UNKNOWN. The order of
    `values` decides nothing.
    """
    known = sorted((value, each) for each, value in values.items() if value is not None)
    found = {each: UNKNOWN for each, value in values.items() if value is None}
    digits = len(str(bins))
    for number in range(bins):
        members = known[len(known) * number // bins : len(known) * (number + 1) // bins]
        if members:
            name = f"{number + 1:0{digits}} of {bins} ({members[0][0]:,} to {members[-1][0]:,})"
            found |= {each: name for _, each in members}
    return found


def count_values(values: Iterable[Any]) -> dict[str, int]:
    """Return value as text → how often it stands there, by value; values are of one kind, which has an order."""
    return {str(value): count for value, count in sorted(Counter(values).items())}


def divide(part: float, whole: int, digits: int = 3) -> float | None:
    """Return a share or mean, rounded; None where there is nothing to divide by."""
    return round(part / whole, digits) if whole else None


def compare_figures(
    here: Mapping[str, tuple[float | None, int]], paper: Mapping[str, float]
) -> dict[str, dict[str, float | int | None]]:
    """Return figure → here, n and paper, of figures given as (value, n); here is None where there is no data."""
    return {name: {"here": value, "n": n, "paper": paper[name]} for name, (value, n) in here.items()}
