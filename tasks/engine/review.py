"""Decisions about flagged rows within a build: those of its lock, then the policy's; steps of several benchmarks share it."""

from collections.abc import Sequence
from typing import TypeVar

from tasks.core.reviewing.review import AutoRules, Editable, Reviewing, ReviewItem, apply_decisions, decide_items
from tasks.core.rows import Outcome, Row, arrow_table
from tasks.engine.batches import Work

R = TypeVar("R", bound=Row)


def review_rows(
    work: Work,
    rows: Sequence[R],
    items: Sequence[ReviewItem],
    reviewing: Reviewing,
    rules: AutoRules,
    editable: Editable,
) -> list[Outcome]:
    """Return what becomes of the rows of a batch, and leave the decided items as its side table.

    Rows have a column `reviewed_by`. Decisions about items of other batches are left to them; `rules` hold where the policy
    is `auto`.
    """
    known = {item.id for item in items}
    given = [each for each in reviewing.decisions if each.id in known]
    decided = decide_items(items, given, rules if reviewing.policy == "auto" else None)
    reviewers: dict[str, dict[str, None]] = {}
    for item in decided:
        if item.reviewer:
            reviewers.setdefault(item.row_id, {})[item.reviewer] = None
    work.extras = arrow_table(ReviewItem, decided)
    return [
        row.replace(reviewed_by=list(reviewers[row.id])) if isinstance(row, Row) and row.id in reviewers else row
        for row in apply_decisions(rows, decided, editable)
    ]
