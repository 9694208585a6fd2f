"""How rows of two builds are known to be the same, and what of them says only by what they were made.

A row's id may digest what it says (then a changed question has another id) or count its place in a file (then a row put in
before it moves it). So rows are matched by one group of columns after another: the first by which a row of either build,
left over until then, has one partner alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


def _no_ids(_row: Mapping[str, Any]) -> tuple[str, ...]:
    return ()


def _no_unit(_row: Mapping[str, Any]) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Matching:
    """What a benchmark says of its rows to those who compare two builds of it."""

    keys: tuple[tuple[str, ...], ...] = (("id",),)
    """Groups of columns of the main table, the surest first; those behind the first that holds more than the id are its
    natural keys."""
    given: tuple[str, ...] = ()
    """Columns that hold what the source says, as it says it."""
    marks: tuple[str, ...] = ()
    """Columns that say by which call or from which place a row was made: rows that differ in these alone are the same."""
    whole: tuple[str, ...] = ()
    """Published tables with more columns of the main table's rows, under the same ids."""
    together: tuple[str, ...] = ()
    """Stages in which what becomes of a row depends on the other rows too."""
    read_ids: Callable[[Mapping[str, Any]], tuple[str, ...]] = _no_ids
    """A row → ids under which it was read, beside those of its benchmark's `trace`."""
    unit: Callable[[Mapping[str, Any]], str] = _no_unit
    """A row → what it was drawn from, under which the calls of drawing are filed: a relation, a kind of sets."""
