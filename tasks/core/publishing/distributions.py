"""Bar charts of distributions of a benchmark's published rows, for the page of a build; the benchmark's package counts."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from factmill.tasks.core.measures.report_figures import FigureSeries, ReportFigure

MAX_BARS = 24
"""Maximum number of bars of one figure; other values share one bar."""
_MAX_BAR_NAME_CHARACTERS = 60
"""Maximum number of characters of a bar's name."""


@dataclass(frozen=True, slots=True)
class PublishedBuildForDistributions:
    """A published build, as input for its distributions."""

    facts: Mapping[str, Any]
    """Figures in the build's report."""
    load_columns: Callable[[str, Sequence[str]], pa.Table]
    """Published table and columns of it → their values, rows by id."""

    def load_column(self, table: str, name: str) -> list[Any]:
        """Return the values of one column."""
        values: list[Any] = self.load_columns(table, [name])[name].to_pylist()
        return values


DistributionMaker = Callable[[PublishedBuildForDistributions], Iterable[ReportFigure]]


def make_bar_figure(
    name: str, title: str, counted: str, counts: Mapping[Any, int], by: str, note: str = ""
) -> ReportFigure:
    """Make a figure with one bar per value, in order; `counted`: name of the rows, `by`: name of the values."""
    return make_grouped_bar_figure(name, title, counted, {counted: counts}, by, note)


def make_grouped_bar_figure(
    name: str,
    title: str,
    counted: str,
    groups: Mapping[str, Mapping[Any, int]],
    by: str = "",
    note: str = "",
    max_bars: int = MAX_BARS,
    kind: Literal["bars", "stacked"] = "bars",
) -> ReportFigure:
    """Make a figure with bars of several colours from group → value → count; `stacked` if groups share no row. Of more than
    `max_bars` values, the commonest stay and the others share one bar."""
    cut: dict[str, Counter[str]] = {group: Counter() for group in groups}
    for group, by_value in groups.items():
        for value, count in by_value.items():
            name_of_bar = str(value)
            if len(name_of_bar) > _MAX_BAR_NAME_CHARACTERS:
                name_of_bar = f"{name_of_bar[: _MAX_BAR_NAME_CHARACTERS - 1]}…"
            cut[group][name_of_bar] += count
    in_all: Counter[str] = Counter()
    for counts in cut.values():
        in_all.update(counts)
    kept = {value for value, _ in sorted(in_all.items(), key=lambda each: (-each[1], each[0]))[:max_bars]}
    values = [value for value in in_all if value in kept]
    others = len(in_all) - len(values)
    rest = [f"{others} others"] if others else []
    series = []
    for group, counts in cut.items():
        left = [sum(count for value, count in counts.items() if value not in kept)] if others else []
        series.append(
            FigureSeries(group, (*values, *rest), tuple(float(each) for each in [*(counts[v] for v in values), *left]))
        )
    return ReportFigure(name, title, kind, by, counted, tuple(series), note)


def count_values_commonest_first(values: Iterable[Any]) -> dict[Any, int]:
    """Return value → number of occurrences, the commonest first, ties by name."""
    return dict(sorted(Counter(values).items(), key=lambda each: (-each[1], str(each[0]))))


def count_numbers_filling_gaps(values: Iterable[int]) -> dict[int, int]:
    """Return number → number of occurrences, sorted by number, without gaps unless there would be too many bars."""
    counts = Counter(values)
    if not counts:
        return {}
    if max(counts) - min(counts) >= MAX_BARS:
        return dict(sorted(counts.items()))
    return {number: counts[number] for number in range(min(counts), max(counts) + 1)}


def count_by_power_of_ten(values: Iterable[int | None]) -> dict[str, int]:
    """Return range of numbers with equally many digits → count; unknown numbers come last."""
    counts = Counter(None if value is None else len(str(value)) if value > 0 else 0 for value in values)
    known = [digits for digits in counts if digits is not None]
    by_range = {}
    for digits in range(min(known), max(known) + 1) if known else ():
        above_nine = f"{10 ** max(0, digits - 1):,} to {10**digits - 1:,}"
        by_range[["0", "1 to 9"][digits] if digits < 2 else above_nine] = counts[digits]
    return by_range | ({"not known": counts[None]} if None in counts else {})
