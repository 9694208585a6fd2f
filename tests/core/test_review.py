"""Test decisions on flagged rows, their effects, and the review queue as CSV."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmill.tasks.core.review import (
    AUTO_POLICY_REVIEWER,
    REVIEW_QUEUE_COLUMNS,
    ReviewItem,
    TextEdit,
    apply_decisions,
    decide_by_required_auto_rule,
    decide_review_items,
    format_review_queue_csv,
    make_review_item,
    parse_review_queue_csv,
)
from factmill.tasks.core.rows import Reject, Row, make_arrow_table, rows_from_arrow
from factmill.tasks.errors import SourceError, UsageError


class Topic(Row):
    question: str
    answers: list[str]


EDITABLE = {"Question": "question", "Answer2": ("answers", 1)}
ROWS = [Topic(id="r1", question="Who?", answers=["a", "b"]), Topic(id="r2", question="When?", answers=["c", "d"])]
MENDED = [TextEdit(field="Question", text="Who built it?")]


def make_item(row_id: str = "r1", flag: str = "vague", proposed: list[TextEdit] | None = None, **more) -> ReviewItem:
    item = make_review_item("slaq", row_id, flag, "nobody is named", "Who? / a", proposed or [])
    return item.model_copy(update=more)


def test_new_item_is_open_and_its_id_depends_on_decision_content() -> None:
    item = make_item()
    assert (item.decision, item.edited, len(item.id)) == ("open", [], 16)
    assert make_item().id == item.id
    assert len({item.id, make_item("r2").id, make_item(flag="wrong").id, make_item(proposed=MENDED).id}) == 4


def test_rows_without_items_and_rows_decided_keep_stay_unchanged() -> None:
    assert apply_decisions(ROWS, [], EDITABLE) == ROWS
    assert apply_decisions(ROWS, [make_item(decision="keep")], EDITABLE) == ROWS


def test_edit_decision_replaces_columns_and_list_elements() -> None:
    edited = [*MENDED, TextEdit(field="Answer2", text="B")]
    outcomes = apply_decisions(ROWS, [make_item(decision="edit", edited=edited)], EDITABLE)
    assert outcomes == [Topic(id="r1", question="Who built it?", answers=["a", "B"]), ROWS[1]]
    assert ROWS[0].answers == ["a", "b"]


def test_dropped_row_reports_reviewer_and_note() -> None:
    items = [
        make_item(decision="edit", edited=MENDED),
        make_item(flag="wrong", decision="drop", reviewer="Ada", note="no"),
    ]
    first, second = apply_decisions(ROWS, items, EDITABLE)
    text = "wrong: nobody is named; dropped by Ada: no; also flagged: vague"
    assert first == Reject("r1", "dropped_in_review", text)
    assert second == ROWS[1]


def test_dropped_row_reports_all_drop_flags() -> None:
    items = [make_item(flag=flag, decision="drop", reviewer=AUTO_POLICY_REVIEWER) for flag in ("wrong", "twice")]
    first, _ = apply_decisions(ROWS, items, EDITABLE)
    text = f"wrong: nobody is named; twice: nobody is named; dropped by {AUTO_POLICY_REVIEWER}"
    assert first == Reject("r1", "dropped_in_review", text)


def test_auto_policy_leaves_items_open_if_rule_is_open() -> None:
    assert decide_by_required_auto_rule(make_item(), {make_item().flag: "open"}) == make_item()


def test_row_with_open_item_is_rejected_as_not_reviewed() -> None:
    first, _ = apply_decisions(ROWS, [make_item(decision="keep"), make_item(flag="wrong")], EDITABLE)
    assert first == Reject("r1", "not_reviewed", "waits for a decision about wrong")


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([make_item("r9", file="q.csv", line=4)], "q.csv, line 4: no row 'r9'"),
        (
            [make_item(decision="edit", edited=[TextEdit(field="Title", text="x")], file="q.csv", line=5)],
            "q.csv, line 5: 'Title' cannot be edited in slaq; expected one of ['Question', 'Answer2']",
        ),
        ([make_item(decision="edit")], "the decision is edit, but"),
        (
            [
                make_item(decision="edit", edited=MENDED, file="q.csv", line=2),
                make_item(
                    flag="wrong", decision="edit", edited=[TextEdit(field="Question", text="X?")], file="q.csv", line=3
                ),
            ],
            "q.csv, line 3: Question of row 'r1' has a different edit in q.csv, line 2",
        ),
    ],
)
def test_decisions_that_fit_no_row_raise_error_with_file_and_line(items: list[ReviewItem], said: str) -> None:
    with pytest.raises(SourceError) as error:
        apply_decisions(ROWS, items, EDITABLE)
    assert said in str(error.value)


def test_two_decisions_may_agree_on_same_edit() -> None:
    items = [make_item(decision="edit", edited=MENDED), make_item(flag="wrong", decision="edit", edited=MENDED)]
    assert apply_decisions(ROWS, items, EDITABLE)[0] == ROWS[0].replace(question="Who built it?")


RULES = {"vague": "edit", "wrong": "drop", "odd": "keep"}


@pytest.mark.parametrize(
    ("item", "decision", "edited"),
    [
        (make_item(proposed=MENDED), "edit", MENDED),
        (make_item(), "drop", []),
        (make_item(flag="wrong", proposed=MENDED), "drop", []),
        (make_item(flag="odd", proposed=MENDED), "keep", []),
    ],
)
def test_auto_policy_applies_its_rule(item: ReviewItem, decision: str, edited: list[TextEdit]) -> None:
    decided = decide_by_required_auto_rule(item, RULES)
    assert (decided.decision, decided.edited, decided.reviewer) == (decision, edited, AUTO_POLICY_REVIEWER)


def test_flag_without_rule_raises_usage_error() -> None:
    with pytest.raises(UsageError, match="no rule for the flag 'new'"):
        decide_by_required_auto_rule(make_item(flag="new"), RULES)


def test_reviewers_win_over_auto_policy_and_manual_leaves_rest_open() -> None:
    queue = [make_item(proposed=MENDED), make_item(flag="wrong"), make_item("r2", "odd")]
    decided = [
        queue[0].model_copy(update={"decision": "keep", "reviewer": "Ada", "file": "q.csv", "line": 2}),
        queue[1].model_copy(update={"file": "q.csv", "line": 3}),
    ]
    assert [item.decision for item in decide_review_items(queue, decided, RULES)] == ["keep", "drop", "keep"]
    manual = decide_review_items(queue, decided, None)
    assert [item.decision for item in manual] == ["keep", "open", "open"]
    assert (manual[0].reviewer, manual[0].line, manual[0].proposed) == ("Ada", 2, MENDED)


def test_reviewer_changes_outside_decision_fields_are_ignored() -> None:
    queue = [make_item()]
    bent = queue[0].model_copy(update={"row_id": "r2", "flag": "odd", "decision": "drop"})
    assert [(item.row_id, item.flag) for item in decide_review_items(queue, [bent], None)] == [("r1", "vague")]


def test_decision_for_unknown_item_raises_error_with_file_and_line() -> None:
    with pytest.raises(SourceError, match=r"q\.csv, line 7: no item"):
        decide_review_items([make_item()], [make_item("r2", decision="keep", file="q.csv", line=7)], None)


def test_review_items_round_trip_through_arrow_tables() -> None:
    items = [make_item(proposed=MENDED, decision="edit", edited=MENDED), make_item("r2")]
    assert rows_from_arrow(ReviewItem, make_arrow_table(ReviewItem, items)) == items


def strip_places(items: list[ReviewItem]) -> list[ReviewItem]:
    return [item.model_copy(update={"file": "", "line": 0}) for item in items]


def make_table_item(detail: str = "vague", **more) -> ReviewItem:
    return make_review_item("slaq", "r1", "vague", detail, "Who? / Ada").model_copy(update=more)


def read_cells(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_csv_has_header_line_and_one_record_per_item() -> None:
    edits = [TextEdit(field="ShortQ1", text="Who?\nAnd why?"), TextEdit(field="ShortA1", text="Ada")]
    text = format_review_queue_csv([make_table_item(proposed=edits), make_table_item("wrong")])
    assert text.startswith(",".join(f'"{column}"' for column in REVIEW_QUEUE_COLUMNS) + "\r\n")
    first, second = read_cells(text)
    assert first["proposed"] == "ShortQ1: Who?\n  And why?\nShortA1: Ada"
    assert (first["decision"], second["detail"], second["edited"]) == ("open", "wrong", "")


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["=1+1", "'=1", "''@x", "-5", "+1", "\tx", "\r\n", "a\rb", 'say "no", please', "“Zürich”\n東京", "'quoted'", "  x"]
)
EDITS = st.lists(
    st.builds(TextEdit, field=st.sampled_from(["ShortQ1", "ShortA1", "LongQ", "_x9"]), text=TEXT.filter(len)),
    max_size=3,
    unique_by=lambda edit: edit.field,
)


@st.composite
def draw_items(draw: st.DrawFn) -> ReviewItem:
    item = make_review_item("slaq", draw(TEXT.filter(len)), "vague", draw(TEXT), draw(TEXT), draw(EDITS))
    decision = draw(st.sampled_from(["open", "keep", "drop", "edit"]))
    edited = draw(EDITS.filter(len)) if decision == "edit" else []
    return item.model_copy(update={"decision": decision, "edited": edited, "reviewer": draw(TEXT), "note": draw(TEXT)})


@given(st.lists(draw_items(), max_size=4, unique_by=lambda item: item.id))
def test_review_queue_round_trips_through_csv(items: list[ReviewItem]) -> None:
    assert strip_places(parse_review_queue_csv(format_review_queue_csv(items), "q.csv")) == items


@given(draw_items())
def test_no_csv_cell_starts_like_formula(item: ReviewItem) -> None:
    cells = read_cells(format_review_queue_csv([item]))[0]
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in cells.values())


def fill_in(text: str, **cells: str) -> str:
    """Write cells into the first record as a reviewer does, in an ordinary spreadsheet's dialect."""
    records = read_cells(text)
    records[0] |= cells
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, list(reversed(REVIEW_QUEUE_COLUMNS)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return file.getvalue()


def test_filled_in_queue_is_parsed_with_line_numbers() -> None:
    text = format_review_queue_csv([make_table_item("two\nlines"), make_table_item("other")])
    filled = fill_in(
        text, decision=" Edit", edited="ShortA1: -5 °C\nShortQ1:How cold?\n\n", reviewer="Ada", note="=sure"
    )
    first, second = parse_review_queue_csv("\ufeff" + filled, "q.csv")
    assert first.edited == [TextEdit(field="ShortA1", text="-5 °C"), TextEdit(field="ShortQ1", text="How cold?")]
    assert (first.decision, first.reviewer, first.note, first.detail) == ("edit", "Ada", "=sure", "two\nlines")
    assert (first.file, first.line, second.line, second.decision) == ("q.csv", 2, 7, "open")


def test_empty_decision_is_parsed_as_open() -> None:
    assert (
        parse_review_queue_csv(fill_in(format_review_queue_csv([make_table_item()]), decision=""), "q.csv")[0].decision
        == "open"
    )


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"decision": "maybe"}, "line 2: the decision is 'maybe'; expected one of keep, drop, edit, open"),
        ({"decision": "edit"}, 'line 2: the decision is edit, but the column "edited" is empty'),
        ({"decision": "edit", "edited": " \n"}, 'line 2: the decision is edit, but the column "edited" is empty'),
        ({"edited": "ShortQ1: Who?"}, 'line 2: the column "edited" has new texts, but the decision is open'),
        ({"decision": "edit", "edited": "Who?"}, "line 2, column edited: 'Who?' "),
        ({"decision": "edit", "edited": "ShortQ1:"}, "line 2, column edited: 'ShortQ1:' "),
        ({"decision": "edit", "edited": "A: x\nA: y"}, "line 2, column edited: 'A: y' appears twice"),
        ({"id": ""}, "line 2, column id: "),
        ({"row_id": ""}, "line 2, column row_id: "),
    ],
)
def test_unreadable_cells_raise_error_with_line(cells: dict[str, str], said: str) -> None:
    with pytest.raises(SourceError) as error:
        parse_review_queue_csv(fill_in(format_review_queue_csv([make_table_item()]), **cells), "q.csv")
    assert f"q.csv, {said}" in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "q.csv: the file is empty"),
        ("id,flag\r\n", "q.csv, line 1: expected the columns id, benchmark"),
        (format_review_queue_csv([]).replace('"note"', '"remark"'), "found ["),
        (format_review_queue_csv([make_table_item()]) + '"x","y"\r\n', "q.csv, line 3: expected 11 cells, found 2"),
        (format_review_queue_csv([make_table_item()]) + '"x', "q.csv, line 3: unexpected end of data"),
        (format_review_queue_csv([make_table_item(), make_table_item()]), "q.csv, line 3: the item "),
    ],
)
def test_non_queue_file_raises_source_error(text: str, said: str) -> None:
    with pytest.raises(SourceError) as error:
        parse_review_queue_csv(text, "q.csv")
    assert said in str(error.value)


def test_empty_queue_and_blank_lines_are_accepted() -> None:
    assert parse_review_queue_csv(format_review_queue_csv([]), "q.csv") == []
    assert len(parse_review_queue_csv(format_review_queue_csv([make_table_item()]) + "\r\n\r\n", "q.csv")) == 1
