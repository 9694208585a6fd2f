"""Gates: what a build has to hold to before it is released by itself, without anybody looking at it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """What is asked of a build."""

    rows_within: float
    """Share by which rows may be more or fewer than in the release before."""
    most_lost: float
    """Largest share of its rows that a stage may reject."""
    judge_card: bool
    """The judge was held against people."""
    explained: bool
    """Of every row that changed since the release before something that is recorded tells why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What is known of a build."""

    rows: int
    rows_before: int | None
    """Of the release before; None: there is none."""
    stages: Sequence[Mapping[str, Any]]
    """Funnel: stage, rows_in, rejects."""
    judge: str
    """Empty: nothing is judged."""
    judge_cards: int
    unexplained: int | None
    """Rows that changed without a cause; None: there is no release before, or its build is no longer there."""


def find_closed(gates: Gates, found: Found) -> list[str]:
    """Return the gates that are closed, each with what was found and what was expected; none: the build may go out."""
    closed = [] if found.rows else ["rows: none is published"]
    before = found.rows_before
    if before is not None and abs(found.rows - before) > gates.rows_within * before:
        closed.append(
            f"rows: {found.rows:,}, in the release before {before:,}; expected within {gates.rows_within:.0%}"
        )
    for stage in found.stages:
        lost = stage["rejects"] / stage["rows_in"] if stage["rows_in"] else 0.0
        if lost > gates.most_lost:
            closed.append(
                f"{stage['stage']}: rejected {stage['rejects']:,} of {stage['rows_in']:,} rows ({lost:.0%}); expected "
                f"{gates.most_lost:.0%} at most"
            )
    if gates.judge_card and found.judge and not found.judge_cards:
        closed.append(f"judge: nobody has held {found.judge} against people (factmill judge-card)")
    if gates.explained and before is not None:
        if found.unexplained is None:
            closed.append(
                "changes: the build of the release before is no longer in the warehouse, so nothing tells them"
            )
        elif found.unexplained:
            closed.append(f"changes: of {found.unexplained:,} rows nothing that is recorded tells why they changed")
    return closed
