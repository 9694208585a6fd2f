"""Deciding on flagged rows, and what becomes of them."""

import pytest

from factmill.tasks.core.review import (
    AUTO_POLICY_REVIEWER,
    ReviewItem,
    TextEdit,
    apply_decisions,
    decide_by_required_auto_rule,
    decide_review_items,
    make_review_item,
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


def test_an_item_is_open_and_its_id_hangs_on_what_is_decided_about() -> None:
    item = make_item()
    assert (item.decision, item.edited, len(item.id)) == ("open", [], 16)
    assert make_item().id == item.id
    assert len({item.id, make_item("r2").id, make_item(flag="wrong").id, make_item(proposed=MENDED).id}) == 4


def test_rows_without_items_and_kept_rows_stay_as_they_are() -> None:
    assert apply_decisions(ROWS, [], EDITABLE) == ROWS
    assert apply_decisions(ROWS, [make_item(decision="keep")], EDITABLE) == ROWS


def test_an_edit_replaces_columns_and_places_of_lists() -> None:
    edited = [*MENDED, TextEdit(field="Answer2", text="B")]
    outcomes = apply_decisions(ROWS, [make_item(decision="edit", edited=edited)], EDITABLE)
    assert outcomes == [Topic(id="r1", question="Who built it?", answers=["a", "B"]), ROWS[1]]
    assert ROWS[0].answers == ["a", "b"]


def test_a_dropped_row_tells_reviewer_and_note() -> None:
    items = [
        make_item(decision="edit", edited=MENDED),
        make_item(flag="wrong", decision="drop", reviewer="Ada", note="no"),
    ]
    first, second = apply_decisions(ROWS, items, EDITABLE)
    told = "wrong: nobody is named; dropped by Ada: no; also flagged: vague"
    assert first == Reject("r1", "dropped_in_review", told)
    assert second == ROWS[1]


def test_a_dropped_row_tells_all_that_it_was_dropped_for() -> None:
    items = [make_item(flag=flag, decision="drop", reviewer=AUTO_POLICY_REVIEWER) for flag in ("wrong", "twice")]
    first, _ = apply_decisions(ROWS, items, EDITABLE)
    told = f"wrong: nobody is named; twice: nobody is named; dropped by {AUTO_POLICY_REVIEWER}"
    assert first == Reject("r1", "dropped_in_review", told)


def test_auto_leaves_to_reviewers_what_its_rule_leaves_open() -> None:
    assert decide_by_required_auto_rule(make_item(), {make_item().flag: "open"}) == make_item()


def test_a_row_with_an_open_item_stays_out() -> None:
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
def test_decisions_that_fit_no_row_are_told_with_file_and_line(items: list[ReviewItem], said: str) -> None:
    with pytest.raises(SourceError) as error:
        apply_decisions(ROWS, items, EDITABLE)
    assert said in str(error.value)


def test_two_decisions_may_agree_on_a_text() -> None:
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
def test_the_policy_auto_does_what_its_rule_says(item: ReviewItem, decision: str, edited: list[TextEdit]) -> None:
    decided = decide_by_required_auto_rule(item, RULES)
    assert (decided.decision, decided.edited, decided.reviewer) == (decision, edited, AUTO_POLICY_REVIEWER)


def test_a_flag_without_a_rule_is_an_error() -> None:
    with pytest.raises(UsageError, match="no rule for the flag 'new'"):
        decide_by_required_auto_rule(make_item(flag="new"), RULES)


def test_reviewers_go_before_the_policy_and_manual_leaves_the_rest_open() -> None:
    queue = [make_item(proposed=MENDED), make_item(flag="wrong"), make_item("r2", "odd")]
    decided = [
        queue[0].model_copy(update={"decision": "keep", "reviewer": "Ada", "file": "q.csv", "line": 2}),
        queue[1].model_copy(update={"file": "q.csv", "line": 3}),
    ]
    assert [item.decision for item in decide_review_items(queue, decided, RULES)] == ["keep", "drop", "keep"]
    manual = decide_review_items(queue, decided, None)
    assert [item.decision for item in manual] == ["keep", "open", "open"]
    assert (manual[0].reviewer, manual[0].line, manual[0].proposed) == ("Ada", 2, MENDED)


def test_what_a_reviewer_changed_beside_the_decision_is_not_taken() -> None:
    queue = [make_item()]
    bent = queue[0].model_copy(update={"row_id": "r2", "flag": "odd", "decision": "drop"})
    assert [(item.row_id, item.flag) for item in decide_review_items(queue, [bent], None)] == [("r1", "vague")]


def test_a_decision_about_an_item_that_is_not_in_the_queue_is_told_with_file_and_line() -> None:
    with pytest.raises(SourceError, match=r"q\.csv, line 7: no item"):
        decide_review_items([make_item()], [make_item("r2", decision="keep", file="q.csv", line=7)], None)


def test_items_are_stored_as_arrow_tables() -> None:
    items = [make_item(proposed=MENDED, decision="edit", edited=MENDED), make_item("r2")]
    assert rows_from_arrow(ReviewItem, make_arrow_table(ReviewItem, items)) == items
