"""What the reports of published tables count: how often each value stands there, shares, and figures beside the paper's."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any


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
