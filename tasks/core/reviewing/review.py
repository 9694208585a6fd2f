"""The review queue: what a check flagged, what somebody decided about it, and what becomes of the row (shared part).

A step flags a row by an item: the flag, why, the context that a reviewer needs, and perhaps an edit that would mend it.
The item's id digests all of that, so a decision holds as long as what was decided on stays the same. Decisions come
from an imported queue or from the policy: `auto` does to each flag what its rule says, `manual` leaves the item open,
and a row with an open item stays out. `review_tables` writes and reads the queue as CSV.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeVar

from pydantic import Field

from tasks.core.fingerprints import digest_json
from tasks.core.rows import Outcome, Reject, Row, StrictModel
from tasks.errors import SourceError, UsageError

R = TypeVar("R", bound=Row)
Decision = Literal["keep", "drop", "edit", "open"]
"""keep: the row stays as it is; drop: it goes; edit: texts are replaced; open: not decided."""
Policy = Literal["auto", "manual", "ask"]
"""What becomes of flagged rows: `auto` does what each flag's rule says, `manual` leaves them out until they are reviewed,
and so does `ask`, which then waits in the Prefect UI for decisions."""
AutoRules = Mapping[str, Decision]
"""What the policy `auto` does to each flag; `edit` takes the proposed edit, and drops the row where there is none; `open`
leaves it to reviewers."""
Column = str | tuple[str, int]
"""Where a text stands in a row: a column, or a column that is a list with the place in it, from 0."""
Editable = Mapping[str, Column]
"""Name of a text in the queue → where it stands in the row."""

POLICY = "policy auto"
"""Reviewer of items that the policy decided."""


class Edit(StrictModel):
    """A new text for one field of a row."""

    field: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """Name of the text in the queue, such as ShortQ1."""
    text: str = Field(min_length=1)


class ReviewItem(StrictModel):
    """One flag of one row and the decision about it; `flag_row` makes one."""

    id: str = Field(min_length=1)
    """Digest of what the decision rests on (`flag_row`)."""
    benchmark: str
    row_id: str = Field(min_length=1)
    flag: str = Field(min_length=1)
    """Short snake_case code."""
    detail: str
    """One sentence: what is wrong."""
    context: str
    """What a reviewer needs to see of the row and its source."""
    proposed: list[Edit]
    """The edit that would mend the row; empty where the check proposes none."""
    decision: Decision = "open"
    edited: list[Edit] = Field(default_factory=list)
    """The new texts, where the decision is `edit`."""
    reviewer: str = ""
    note: str = ""
    file: str = ""
    """File that the decision was read from; empty where it was not."""
    line: int = 0
    """Line of that file on which the item begins."""


class Reviewing(StrictModel):
    """What a build goes by where rows are flagged: its policy, and what reviewers decided before it."""

    policy: Literal["auto", "manual"]
    """`ask` is `manual` with a pause after it."""
    decisions: tuple[ReviewItem, ...] = ()
    """By id, without the files that they were read from."""


def flag_row(
    benchmark: str, row_id: str, flag: str, detail: str, context: str, proposed: Sequence[Edit] = ()
) -> ReviewItem:
    """Return an open item; its id stays the same as long as everything that is given here does."""
    parts = [benchmark, row_id, flag, detail, context, [[edit.field, edit.text] for edit in proposed]]
    return ReviewItem(
        id=digest_json(parts)[:16],
        benchmark=benchmark,
        row_id=row_id,
        flag=flag,
        detail=detail,
        context=context,
        proposed=list(proposed),
    )


def decide_items(
    items: Sequence[ReviewItem], decided: Iterable[ReviewItem], rules: AutoRules | None
) -> list[ReviewItem]:
    """Return the flagged items with their decisions: the reviewers', and for the rest what the policy says.

    `rules` are those of the policy `auto`; None is the policy `manual`. SourceError names file and line of a decision
    about an item that is not in the queue; UsageError a flag that `rules` lack.
    """
    queue = {item.id: item for item in items}
    found: dict[str, ReviewItem] = {}
    for item in decided:
        if item.id not in queue:
            raise SourceError(
                f"{format_place(item)}: no item {item.id!r} (row {item.row_id!r}, flag {item.flag!r}) in the review queue "
                "of this build; export the queue again and decide on what it holds"
            )
        if item.decision != "open":
            taken = item.model_dump(include={"decision", "edited", "reviewer", "note", "file", "line"})
            found[item.id] = ReviewItem.model_validate(queue[item.id].model_dump() | taken)
    return [found.get(item.id) or (item if rules is None else decide_by_rule(item, rules)) for item in items]


def decide_by_rule(item: ReviewItem, rules: AutoRules) -> ReviewItem:
    """Return an item with the decision of the policy `auto`; UsageError when no rule is about its flag."""
    if item.flag not in rules:
        raise UsageError(f"no rule for the flag {item.flag!r} of {item.benchmark}; there are rules for {sorted(rules)}")
    decision = rules[item.flag]
    if decision == "open":
        return item
    if decision == "edit" and not item.proposed:
        decision = "drop"
    edited = item.proposed if decision == "edit" else []
    return item.model_copy(update={"decision": decision, "edited": edited, "reviewer": POLICY})


def apply_decisions(rows: Sequence[R], items: Iterable[ReviewItem], editable: Editable) -> list[Outcome]:
    """Return what becomes of each row, in order: the row, edited where that was decided, or a Reject.

    A row goes when any of its items says `drop` (reason `dropped_in_review`, which names all of its flags) or is open (`not_reviewed`); rows without items stay. SourceError names file and line of a decision that is about no given row, names a text that is not
    editable, or gives a text another content than another decision does.
    """
    known = {row.id for row in rows}
    by_row: dict[str, list[ReviewItem]] = defaultdict(list)
    for item in items:
        if item.row_id not in known:
            raise SourceError(f"{format_place(item)}: no row {item.row_id!r} in {item.benchmark}")
        _check_edits(item, editable)
        by_row[item.row_id].append(item)
    return [_decide_row(row, by_row[row.id], editable) if row.id in by_row else row for row in rows]


def format_place(item: ReviewItem) -> str:
    """Return where a decision stands, for messages: "queue.csv, line 3", or the item where it is from no file."""
    return f"{item.file}, line {item.line}" if item.file else f"review item {item.id}"


def _check_edits(item: ReviewItem, editable: Editable) -> None:
    if unknown := [edit.field for edit in item.edited if edit.field not in editable]:
        raise SourceError(
            f"{format_place(item)}: {unknown[0]!r} cannot be edited in {item.benchmark}; expected one of {list(editable)}"
        )
    if item.decision == "edit" and not item.edited:
        raise SourceError(f"{format_place(item)}: the decision is edit, but no edited text is given")


def _decide_row(row: R, items: Sequence[ReviewItem], editable: Editable) -> R | Reject:
    if dropped := [item for item in items if item.decision == "drop"]:
        told = [f"{item.flag}: {item.detail}" for item in dropped]
        by = dict.fromkeys(f"{item.reviewer or 'nobody named'}{item.note and f': {item.note}'}" for item in dropped)
        others = dict.fromkeys(item.flag for item in items if item.decision != "drop")
        also = [f"also flagged: {', '.join(others)}"] if others else []
        return Reject(row.id, "dropped_in_review", "; ".join([*told, f"dropped by {', '.join(by)}", *also]))
    if waiting := [item.flag for item in items if item.decision == "open"]:
        return Reject(row.id, "not_reviewed", f"waits for a decision about {', '.join(waiting)}")
    texts: dict[Column, ReviewItem] = {}
    for item in items:
        for edit in item.edited if item.decision == "edit" else ():
            column = editable[edit.field]
            if (other := texts.setdefault(column, item)) is not item and edit not in other.edited:
                raise SourceError(
                    f"{format_place(item)}: {edit.field} of row {row.id!r} is edited in another way in {format_place(other)}"
                )
            row = _put_text(row, column, edit.text)
    return row


def _put_text(row: R, column: Column, text: str) -> R:
    if isinstance(column, str):
        return row.replace(**{column: text})
    name, at = column
    values = list(getattr(row, name))
    values[at] = text
    return row.replace(**{name: values})
