"""The review queue: flagged rows, decisions about them, the effect of decisions on rows, and the queue as CSV.

A step flags a row by an item: the flag, the reason, the context that a reviewer needs, and possibly an edit that would
repair the row. The item's id is a digest of all that, so a decision is valid as long as its basis is unchanged. Decisions
come from an imported queue or from the policy: `auto` applies the rule of each flag, `manual` leaves the item open, and a
row with an open item is left out.

Fields with edits hold one `name: text` per line; a text continues on lines that begin with two spaces:

    ShortQ1: Who built the bridge of Avignon?
    ShortA1: Bénézet

A spreadsheet treats a cell that begins with = + - @, a tab or a carriage return as a formula, and texts here come from
models and web pages. Such a cell gets a leading apostrophe when written, and loses it when read; so does a cell that has
apostrophes before such a character already, so every text survives unchanged. Cells that a reviewer typed without the
apostrophe are read as they are. Open the file as UTF-8; a byte order mark is accepted.
"""

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar, get_args

from pydantic import Field, ValidationError

from factmill.tasks.core.digests import digest_json
from factmill.tasks.core.publishing.release_spec import CANARY_COLUMN
from factmill.tasks.core.rows import Reject, Row, RowOutcome, StrictModel
from factmill.tasks.core.sheets.sheet import FilledSheetRow, Sheet, SheetLayout, SheetQuestion
from factmill.tasks.errors import SourceError, UsageError

R = TypeVar("R", bound=Row)
ReviewDecision = Literal["keep", "drop", "edit", "open"]
"""keep: the row stays unchanged; drop: it is rejected; edit: texts are replaced; open: undecided."""
ReviewPolicy = Literal["auto", "manual", "ask"]
"""Treatment of flagged rows: `auto` applies each flag's rule; `manual` leaves them out until they are reviewed; `ask` does
the same, and then waits in the Prefect UI for decisions."""
AutoReviewRules = Mapping[str, ReviewDecision]
"""Flag → decision of the policy `auto`; `edit` applies the proposed edit, and drops the row where there is none; `open`
leaves the item to reviewers."""
TextLocation = str | tuple[str, int]
"""Location of a text in a row: a column, or a list column with the index in it, from 0."""
EditableTexts = Mapping[str, TextLocation]
"""Name of a text in the queue → its location in the row."""

AUTO_POLICY_REVIEWER = "policy auto"
"""Reviewer's name in items decided by the policy."""


class TextEdit(StrictModel):
    """A new text for one field of a row."""

    field: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """Name of the text in the queue, such as ShortQ1."""
    text: str = Field(min_length=1)


class ReviewItem(StrictModel):
    """A flag that a build raised on a row, and what a reviewer or a rule decided about it; `make_review_item` makes one."""

    id: str = Field(min_length=1)
    """Digest of the basis of the decision (`make_review_item`)."""
    benchmark: str
    """The benchmark of the row."""
    row_id: str = Field(min_length=1)
    """Id of the flagged row."""
    flag: str = Field(min_length=1)
    """Short snake_case code."""
    detail: str
    """One sentence about the problem."""
    context: str
    """Parts of the row and its source that a reviewer needs."""
    proposed: list[TextEdit]
    """The edit that would repair the row; empty where the check proposes none."""
    decision: ReviewDecision = "open"
    """open until decided."""
    edited: list[TextEdit] = Field(default_factory=list)
    """The new texts, where the decision is `edit`."""
    reviewer: str = ""
    """Who decided."""
    note: str = ""
    """Comment of the reviewer."""
    file: str = ""
    """File that the decision was read from; empty if from none."""
    line: int = 0
    """Line of that file at which the item begins."""


class ReviewPolicyAndDecisions(StrictModel):
    """Basis of a build's decisions about flagged rows: its policy, and earlier decisions of reviewers."""

    policy: Literal["auto", "manual"]
    """`ask` is `manual` with a pause after it."""
    decisions: tuple[ReviewItem, ...] = ()
    """Sorted by id, without the files that they were read from."""


def make_review_item(
    benchmark: str, row_id: str, flag: str, detail: str, context: str, proposed: Sequence[TextEdit] = ()
) -> ReviewItem:
    """Return an open review item; its id depends on all arguments."""
    parts = [benchmark, row_id, flag, detail, context, [[edit.field, edit.text] for edit in proposed]]
    named: dict[str, Any] = {
        "benchmark": benchmark,
        "row_id": row_id,
        "flag": flag,
        "detail": detail,
        "context": context,
    }
    return ReviewItem(id=digest_json(parts)[:16], proposed=list(proposed), **named)


def decide_review_items(
    items: Sequence[ReviewItem], decisions: Iterable[ReviewItem], rules: AutoReviewRules | None
) -> list[ReviewItem]:
    """Return the flagged items with their decisions: the reviewers', and for the rest the policy's.

    `rules`: those of the policy `auto`; None for the policy `manual`. SourceError names file and line of a decision
    about an item that is not in the queue; UsageError names a flag without a rule.
    """
    queue = {item.id: item for item in items}
    found: dict[str, ReviewItem] = {}
    for item in decisions:
        if item.id not in queue:
            raise SourceError(
                f"{format_decision_place(item)}: no item {item.id!r} (row {item.row_id!r}, flag {item.flag!r}) in the review queue "
                "of this build; export the queue again and decide on its items"
            )
        if item.decision != "open":
            taken = item.model_dump(include={"decision", "edited", "reviewer", "note", "file", "line"})
            found[item.id] = ReviewItem.model_validate(queue[item.id].model_dump() | taken)
    return [
        found.get(item.id) or (item if rules is None else decide_by_required_auto_rule(item, rules)) for item in items
    ]


def decide_by_required_auto_rule(item: ReviewItem, rules: AutoReviewRules) -> ReviewItem:
    """Return an item with the decision of the policy `auto`; UsageError when its flag has no rule."""
    if item.flag not in rules:
        raise UsageError(f"no rule for the flag {item.flag!r} of {item.benchmark}; flags with a rule: {sorted(rules)}")
    decision = rules[item.flag]
    if decision == "open":
        return item
    if decision == "edit" and not item.proposed:
        decision = "drop"
    edited = item.proposed if decision == "edit" else []
    return item.model_copy(update={"decision": decision, "edited": edited, "reviewer": AUTO_POLICY_REVIEWER})


def apply_decisions(rows: Sequence[R], items: Iterable[ReviewItem], editable: EditableTexts) -> list[RowOutcome]:
    """Return the outcome of each row, in order: the row, edited if so decided, or a Reject.

    A row is rejected when any of its items is `drop` (reason `dropped_in_review`, which names all its flags) or open
    (`not_reviewed`); rows without items stay. SourceError names file and line of a decision that concerns no given row,
    edits a text that is not editable, or contradicts another decision about a text.
    """
    known = {row.id for row in rows}
    by_row: dict[str, list[ReviewItem]] = defaultdict(list)
    for item in items:
        if item.row_id not in known:
            raise SourceError(f"{format_decision_place(item)}: no row {item.row_id!r} in {item.benchmark}")
        if unknown := [edit.field for edit in item.edited if edit.field not in editable]:
            raise SourceError(
                f"{format_decision_place(item)}: {unknown[0]!r} cannot be edited in {item.benchmark}; expected one of {list(editable)}"
            )
        if item.decision == "edit" and not item.edited:
            raise SourceError(f"{format_decision_place(item)}: the decision is edit, but the edited text is missing")
        by_row[item.row_id].append(item)
    return [_apply_to_row(row, by_row[row.id], editable) if row.id in by_row else row for row in rows]


def format_decision_place(item: ReviewItem) -> str:
    """Format the place of a decision for messages: "queue.csv, line 3", or the item if it is from no file."""
    return f"{item.file}, line {item.line}" if item.file else f"review item {item.id}"


def _apply_to_row(row: R, items: Sequence[ReviewItem], editable: EditableTexts) -> R | Reject:
    if dropped := [item for item in items if item.decision == "drop"]:
        details = [f"{item.flag}: {item.detail}" for item in dropped]
        by = dict.fromkeys(f"{item.reviewer or 'nobody named'}{item.note and f': {item.note}'}" for item in dropped)
        others = dict.fromkeys(item.flag for item in items if item.decision != "drop")
        also = [f"also flagged: {', '.join(others)}"] if others else []
        return Reject(row.id, "dropped_in_review", "; ".join([*details, f"dropped by {', '.join(by)}", *also]))
    if waiting := [item.flag for item in items if item.decision == "open"]:
        return Reject(row.id, "not_reviewed", f"waits for a decision about {', '.join(waiting)}")
    texts: dict[TextLocation, ReviewItem] = {}
    for item in items:
        for edit in item.edited if item.decision == "edit" else ():
            location = editable[edit.field]
            if (other := texts.setdefault(location, item)) is not item and edit not in other.edited:
                raise SourceError(
                    f"{format_decision_place(item)}: {edit.field} of row {row.id!r} has a different edit in {format_decision_place(other)}"
                )
            if isinstance(location, str):
                row = row.replace(**{location: edit.text})
            else:
                column, at = location
                values = list(getattr(row, column))
                values[at] = edit.text
                row = row.replace(**{column: values})
    return row


REVIEW_QUEUE_COLUMNS = (
    *("id", "benchmark", "row_id", "flag", "detail", "context", "proposed"),
    *("decision", "edited", "reviewer", "note"),
)
"""Columns of the file; the reviewer fills in `decision`, `edited`, `reviewer` and `note`."""
REVIEW_LAYOUT = SheetLayout(
    columns=REVIEW_QUEUE_COLUMNS,
    key="id",
    who="reviewer",
    shown=("row_id", "flag", "detail", "context", "proposed"),
    questions=(
        SheetQuestion(
            "decision",
            "What becomes of the row?",
            {"keep": "it stays as it is", "drop": "it is left out", "edit": "its texts are replaced"},
        ),
        SheetQuestion("edited", "New texts, one per line, as in ShortQ1: Who …?", needed_with=("decision", "edit")),
        SheetQuestion("note", "Note"),
    ),
    instruction="A check flagged this row. Decide whether it is kept, dropped or edited.",
)

_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_GUARDED_FORMULA_START = re.compile(r"'+[=+\-@\t\r]")
_EDIT_ENTRY = re.compile(r"([A-Za-z_][A-Za-z0-9_]*): ?(.*)", re.DOTALL)
_MAX_CELL_CHARACTERS = 2**31 - 1


def format_review_queue_csv(items: Sequence[ReviewItem], canary: str = "") -> str:
    """Format the queue as CSV text with a header, items in the given order; a canary gets its own column."""
    more = {CANARY_COLUMN: canary} if canary else {}
    return format_formula_safe_csv([*REVIEW_QUEUE_COLUMNS, *more], (_format_item_cells(item) | more for item in items))


def parse_review_queue_csv(text: str, file: str) -> list[ReviewItem]:
    """Parse a queue that `format_review_queue_csv` wrote and a reviewer filled in; columns may be in any order.

    An empty decision is `open`. SourceError names file, line and reason: missing or extra columns, the same item twice, an
    unknown decision, an `edit` without new texts or texts without `edit`.
    """
    items: dict[str, ReviewItem] = {}
    for line, cells in iterate_formula_safe_csv_records(
        text, REVIEW_QUEUE_COLUMNS, file, optional_columns=(CANARY_COLUMN,)
    ):
        item = _parse_review_item(cells, file, line)
        if item.id in items:
            raise SourceError(f"{file}, line {line}: the item {item.id!r} is already on line {items[item.id].line}")
        items[item.id] = item
    return list(items.values())


def make_review_sheet(items: Sequence[ReviewItem]) -> Sheet:
    """Return the queue as a sheet; open items have no decision yet."""
    undecided = {"decision": ""}
    return Sheet(
        REVIEW_LAYOUT,
        [_format_item_cells(item) | (undecided if item.decision == "open" else {}) for item in items],
    )


def parse_review_row(row: FilledSheetRow, file: str) -> ReviewItem:
    """Parse a row that a person filled in anywhere; errors as `parse_review_queue_csv`."""
    place = (file, row.number) if row.place == f"line {row.number}" else (f"{file}, {row.place}", 1)
    return _parse_review_item(row.cells, *place)


def format_formula_safe_csv(columns: Sequence[str], lines: Iterable[Mapping[str, str]]) -> str:
    """Format lines of cells by column as CSV text with a header; cells that look like formulas are escaped."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\r\n", quoting=csv.QUOTE_ALL)
    writer.writerow(columns)
    for cells in lines:
        writer.writerow([f"'{cell}" if _FORMULA.match(cell) else cell for cell in map(cells.__getitem__, columns)])
    return file.getvalue()


def iterate_formula_safe_csv_records(
    text: str, columns: Sequence[str], file: str, optional_columns: Sequence[str] = ()
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield for each record of a CSV the number of its first line and its cells by column; columns may be in any order.

    `optional_columns`: optional columns, which are skipped. SourceError for other columns and for invalid CSV.
    """
    csv.field_size_limit(_MAX_CELL_CHARACTERS)
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    begins = 1
    head: list[str] = []
    try:
        for record in reader:
            line, begins = begins, reader.line_num + 1
            if not head:
                head = record
                if sorted(name for name in head if name not in optional_columns) != sorted(columns):
                    raise SourceError(f"{file}, line {line}: expected the columns {', '.join(columns)}; found {head}")
            elif len(record) == len(head):
                cells = zip(head, map(_unguard_formula_cell, record), strict=True)
                yield line, {name: cell for name, cell in cells if name not in optional_columns}
            elif record:
                raise SourceError(f"{file}, line {line}: expected {len(head)} cells, found {len(record)}")
    except csv.Error as error:
        raise SourceError(f"{file}, line {begins}: {error}; expected CSV with commas and double quotes") from error
    if not head:
        raise SourceError(f"{file}: the file is empty; expected the columns {', '.join(columns)}")


def parse_spreadsheet_csv(text: str, file: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Parse a CSV table saved by a spreadsheet: return its header in lower case, and its rows, each with its number.

    The delimiter is the comma, semicolon or tab that is most frequent in the header; a line `sep=;` before it is skipped.
    Rows are numbered as in a spreadsheet, where the header is row 1. SourceError for invalid CSV, or an empty file.
    """
    csv.field_size_limit(_MAX_CELL_CHARACTERS)
    plain = text.removeprefix("\ufeff")
    first = re.match(r"sep=.\r?\n", plain)
    plain = plain[first.end() :] if first else plain
    line = plain.split("\n", 1)[0]
    delimiter = max(",;\t", key=line.count)
    reader = csv.reader(io.StringIO(plain, newline=""), strict=True, delimiter=delimiter)
    rows: list[tuple[int, list[str]]] = []
    try:
        for number, record in enumerate(reader, 2 if first else 1):
            if any(cell.strip() for cell in record):
                rows.append((number, [_unguard_formula_cell(cell) for cell in record]))
    except csv.Error as error:
        after = rows[-1][0] if rows else 0
        raise SourceError(
            f"{file}, after row {after}: {error}; quotation marks are unbalanced, or the file is cut off"
        ) from error
    if not rows:
        raise SourceError(f"{file}: the file is empty; expected a table with a header row")
    (_, head), *body = rows
    return [cell.strip().lower() for cell in head], body


def _parse_review_item(cells: Mapping[str, str], file: str, line: int) -> ReviewItem:
    decision = cells["decision"].strip().lower() or "open"
    if decision not in get_args(ReviewDecision):
        raise SourceError(
            f"{file}, line {line}: the decision is {cells['decision']!r}; expected one of {', '.join(get_args(ReviewDecision))}"
        )
    edits = {column: list(_parse_field_edits(cells[column], column, file, line)) for column in ("proposed", "edited")}
    if decision == "edit" and not edits["edited"]:
        raise SourceError(
            f'{file}, line {line}: the decision is edit, but the column "edited" is empty; expected new texts such as ShortQ1: …'
        )
    if edits["edited"] and decision != "edit":
        raise SourceError(
            f'{file}, line {line}: the column "edited" has new texts, but the decision is {decision}; expected edit'
        )
    values: dict[str, Any] = {**cells, **edits, "decision": decision, "file": file, "line": line}
    try:
        return ReviewItem.model_validate(values)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise SourceError(f"{file}, line {line}, column {wrong['loc'][0]}: {wrong['msg']}") from error


def _format_item_cells(item: ReviewItem) -> dict[str, str]:
    edits = {
        column: "\n".join(f"{edit.field}: " + edit.text.replace("\n", "\n  ") for edit in given)
        for column, given in (("proposed", item.proposed), ("edited", item.edited))
    }
    return item.model_dump(include=set(REVIEW_QUEUE_COLUMNS)) | edits


def _parse_field_edits(cell: str, column: str, file: str, line: int) -> Iterator[TextEdit]:
    """Yield the edits of a cell, ignoring blank lines."""
    if not cell.strip():
        return
    parts: list[list[str]] = []
    for each in cell.split("\n"):
        if each.startswith("  ") and parts:
            parts[-1].append(each[2:])
        elif each.strip():
            parts.append([each])
    names = set()
    for part in parts:
        found = _EDIT_ENTRY.fullmatch("\n".join(part))
        if not found or not found[2] or found[1] in names:
            problem = "appears twice" if found and found[1] in names else "does not have the form name: text"
            raise SourceError(f"{file}, line {line}, column {column}: {part[0]!r} {problem}")
        names.add(found[1])
        yield TextEdit(field=found[1], text=found[2])


def _unguard_formula_cell(cell: str) -> str:
    return cell[1:] if _GUARDED_FORMULA_START.match(cell) else cell
