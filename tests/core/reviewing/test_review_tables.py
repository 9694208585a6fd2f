"""The review queue as CSV."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmill.tasks.core.review import (
    REVIEW_QUEUE_COLUMNS,
    ReviewItem,
    TextEdit,
    format_review_queue_csv,
    make_review_item,
    parse_review_queue_csv,
)
from factmill.tasks.errors import SourceError


def strip_places(items: list[ReviewItem]) -> list[ReviewItem]:
    return [item.model_copy(update={"file": "", "line": 0}) for item in items]


def make_item(detail: str = "vague", **more) -> ReviewItem:
    return make_review_item("slaq", "r1", "vague", detail, "Who? / Ada").model_copy(update=more)


def read_cells(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_the_file_has_a_head_line_and_one_record_an_item() -> None:
    edits = [TextEdit(field="ShortQ1", text="Who?\nAnd why?"), TextEdit(field="ShortA1", text="Ada")]
    text = format_review_queue_csv([make_item(proposed=edits), make_item("wrong")])
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
def test_what_is_written_is_read_back(items: list[ReviewItem]) -> None:
    assert strip_places(parse_review_queue_csv(format_review_queue_csv(items), "q.csv")) == items


@given(draw_items())
def test_no_cell_begins_like_a_formula(item: ReviewItem) -> None:
    cells = read_cells(format_review_queue_csv([item]))[0]
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in cells.values())


def fill_in(text: str, **cells: str) -> str:
    """Write cells into the first record, as a reviewer does, with the dialect of an ordinary spreadsheet."""
    records = read_cells(text)
    records[0] |= cells
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, list(reversed(REVIEW_QUEUE_COLUMNS)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return file.getvalue()


def test_a_filled_in_queue_is_read_with_its_places() -> None:
    text = format_review_queue_csv([make_item("two\nlines"), make_item("other")])
    filled = fill_in(
        text, decision=" Edit", edited="ShortA1: -5 °C\nShortQ1:How cold?\n\n", reviewer="Ada", note="=sure"
    )
    first, second = parse_review_queue_csv("\ufeff" + filled, "q.csv")
    assert first.edited == [TextEdit(field="ShortA1", text="-5 °C"), TextEdit(field="ShortQ1", text="How cold?")]
    assert (first.decision, first.reviewer, first.note, first.detail) == ("edit", "Ada", "=sure", "two\nlines")
    assert (first.file, first.line, second.line, second.decision) == ("q.csv", 2, 7, "open")


def test_an_empty_decision_is_open() -> None:
    assert (
        parse_review_queue_csv(fill_in(format_review_queue_csv([make_item()]), decision=""), "q.csv")[0].decision
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
def test_what_cannot_be_read_is_told_with_its_line(cells: dict[str, str], said: str) -> None:
    with pytest.raises(SourceError) as error:
        parse_review_queue_csv(fill_in(format_review_queue_csv([make_item()]), **cells), "q.csv")
    assert f"q.csv, {said}" in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "q.csv: the file is empty"),
        ("id,flag\r\n", "q.csv, line 1: expected the columns id, benchmark"),
        (format_review_queue_csv([]).replace('"note"', '"remark"'), "found ["),
        (format_review_queue_csv([make_item()]) + '"x","y"\r\n', "q.csv, line 3: expected 11 cells, found 2"),
        (format_review_queue_csv([make_item()]) + '"x', "q.csv, line 3: unexpected end of data"),
        (format_review_queue_csv([make_item(), make_item()]), "q.csv, line 3: the item "),
    ],
)
def test_a_file_that_is_no_queue_is_told(text: str, said: str) -> None:
    with pytest.raises(SourceError) as error:
        parse_review_queue_csv(text, "q.csv")
    assert said in str(error.value)


def test_a_queue_without_items_and_blank_lines_are_read() -> None:
    assert parse_review_queue_csv(format_review_queue_csv([]), "q.csv") == []
    assert len(parse_review_queue_csv(format_review_queue_csv([make_item()]) + "\r\n\r\n", "q.csv")) == 1
