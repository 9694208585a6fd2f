"""Test audits: samples, sheets, marks and figures."""

import csv
import io
from pathlib import PurePath
from typing import Any

import pytest

from factmill.tasks.core.measures.audits import (
    AuditCriterion,
    AuditMarksOfRow,
    AuditProtocol,
    compute_audit_criterion_results,
    draw_audit_sample_ids,
    format_audit_figure_beside_paper,
    make_audit_layout,
    make_audit_sheet,
    parse_audit_rows,
    read_audit_mark,
)
from factmill.tasks.core.sheets.forms import format_sheet_files, parse_sheet_csv
from factmill.tasks.errors import SourceError

WRONG = AuditCriterion("wrong", "Is it wrong?", paper_value=0.05)
PAIRS = AuditCriterion("pairs", "How many pairs are wrong?", maximum=6, paper_value=0.0214)
NATURAL = AuditCriterion("natural", "Is it natural?", "score", 5, 4.38)
AUDIT = AuditProtocol((WRONG, PAIRS, NATURAL), "a test")


def fill(sheet: str, **cells: dict[str, Any]) -> str:
    """Fill in rows of a sheet, by row id."""
    rows = list(csv.DictReader(io.StringIO(sheet, newline="")))
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, rows[0])
    writer.writeheader()
    writer.writerows({**row, **cells.get(row["row_id"], {})} for row in rows)
    return file.getvalue()


def format_csv(shown: dict[str, str], verdicts: dict[str, AuditMarksOfRow]) -> str:
    sheet = make_audit_sheet(AUDIT, "b-1", shown, verdicts)
    return format_sheet_files(sheet, PurePath("s.csv"), "csv")["s.csv"]


def parse_csv(text: str) -> list[AuditMarksOfRow]:
    return parse_audit_rows(AUDIT, "b-1", parse_sheet_csv(make_audit_layout(AUDIT), text, "s.csv"), "s.csv")


def test_larger_audit_sample_contains_smaller_regardless_of_id_order() -> None:
    ids = [f"r{number}" for number in range(300)]
    assert draw_audit_sample_ids(ids, 100, 1)[:60] == draw_audit_sample_ids(reversed(ids), 60, 1)
    assert draw_audit_sample_ids(ids, 60, 1) != draw_audit_sample_ids(ids, 60, 2)
    assert draw_audit_sample_ids(ids[:5], 60, 1) == draw_audit_sample_ids(ids[:5], 5, 1)


def test_filled_in_audit_sheet_is_parsed_without_unreviewed_rows() -> None:
    sheet = format_csv({"a": "=row a\n  of two lines", "b": "row b", "c": "row c"}, {})
    filled = fill(sheet, a={"wrong": "x", "pairs": "2", "natural": "4", "reviewer": "ada"}, b={"natural": "5"})
    assert parse_csv(filled) == [
        AuditMarksOfRow(row_id="a", marks={"wrong": 1, "pairs": 2, "natural": 4}, reviewer="ada"),
        AuditMarksOfRow(row_id="b", marks={"wrong": 0, "pairs": 0, "natural": 5}),
    ]
    known = {verdict.row_id: verdict for verdict in parse_csv(filled)}
    again = format_csv({"b": "row b"}, known)
    assert parse_csv(again) == [known["b"]]


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ({"wrong": "maybe"}, "line 2: wrong is 'maybe'; expected x for a fault, "),
        ({"pairs": "7", "natural": "3"}, "line 2: pairs is '7'; expected the number of faults, 0 to 6"),
        ({"reviewer": "ada"}, "line 2: natural is ''; expected a mark from 1 to 5"),
        ({"build": "b-2"}, "build 'b-2'; expected 'b-1'"),
    ],
)
def test_invalid_audit_mark_is_reported_with_line(cells: dict[str, str], text: str) -> None:
    sheet = format_csv({"a": "row a"}, {})
    with pytest.raises(SourceError, match=r"s\.csv, ") as error:
        parse_csv(fill(sheet, a=cells))
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("kind", "given", "mark"),
    [
        *((WRONG, "", 0), (WRONG, " X\n", 1), (WRONG, "2", None), (PAIRS, "6", 6), (PAIRS, "-1", None)),
        *(
            (NATURAL, "0", None),
            (NATURAL, "5", 5),
            (NATURAL, "", None),
            (AuditCriterion("all", "?", "score", 1), "0", 0),
        ),
    ],
)
def test_typed_audit_marks_are_parsed(kind: AuditCriterion, given: str, mark: int | None) -> None:
    assert read_audit_mark(kind, given) == mark


def test_audit_figures_have_interval_row_count_and_paper_figure() -> None:
    verdicts = [AuditMarksOfRow(row_id=str(at), marks={"wrong": at % 2, "pairs": at, "natural": 4}) for at in range(4)]
    wrong, pairs, natural = compute_audit_criterion_results(AUDIT, verdicts)
    assert (wrong.here, wrong.low, wrong.high, wrong.rows) == (0.5, 0.15, 0.85, 4)
    assert (pairs.here, pairs.rows) == (0.25, 4)
    assert pairs.low is not None and pairs.high is not None and pairs.low < 0.25 < pairs.high
    assert (natural.here, natural.low, natural.high) == (4.0, 4.0, 4.0)
    assert format_audit_figure_beside_paper(WRONG, wrong) == "wrong: 50.0% (15.0% to 85.0%; 4 rows; paper 5.0%)"
    assert format_audit_figure_beside_paper(NATURAL, natural) == "natural: 4.00 (4.00 to 4.00; 4 rows; paper 4.38)"
    assert (
        format_audit_figure_beside_paper(WRONG, compute_audit_criterion_results(AUDIT, [])[0]) == "wrong: no verdicts"
    )
