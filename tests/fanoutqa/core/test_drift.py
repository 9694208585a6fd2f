"""Test drift: the outcome of a reference at two moments."""

import csv
import io
from typing import Any

import pytest

from factmill.tasks.fanoutqa.core.drift import (
    DRIFT_COLUMNS,
    check_lost_share,
    classify_reference_drifts,
    compute_lost_share,
    count_drift_report_figures,
    format_drift_csv,
)
from factmill.tasks.fanoutqa.core.rows import EvidenceReference

GONE = "evidence_missing: there is no such page"
DOWN = "wikipedia_failed: http_503"


def refer(
    found: bool | None = None, problem: str | None = None, revid: int | None = 1, **more: Any
) -> EvidenceReference:
    values: dict[str, Any] = {
        "question_id": "q", "path": "strategy[0]", "sub_question": "What?", "answer": '"a"', "title_asked": "A",
        "title": "A", "pageid": 5, "timestamp": "2020-01-01T00:00:00Z", "url": "u", "missing": [],
    }  # fmt: skip
    return EvidenceReference(id="q strategy[0]", found=found, problem=problem, revid=revid, **{**values, **more})


CASES = [
    (refer(True), refer(False, missing=["a"]), "no_longer_found"),
    (refer(False, missing=["a"]), refer(True), "now_found"),
    (refer(True), refer(True), "unchanged"),
    (refer(True), refer(True, revid=2), "unchanged"),
    (refer(False, missing=["a"]), refer(False, missing=["a"]), "unchanged"),
    (refer(False, missing=["a", "b"]), refer(False, missing=["b", "a"]), "unchanged"),
    (refer(False, missing=["a"]), refer(False, missing=["a", "b"]), "other_parts_missing"),
    (refer(None), refer(None, revid=2), "unchanged"),
    (refer(None), refer(True, revid=2), "unchanged"),
    (refer(True), refer(problem=GONE, revid=None), "no_longer_pinned"),
    (refer(problem=GONE, revid=None), refer(False), "now_pinned"),
    (refer(problem=GONE, revid=None), refer(problem="younger_than_epoch: x", revid=None), "unchanged"),
    (refer(True), refer(problem=DOWN, revid=None), "not_looked_up"),
    (refer(problem=DOWN, revid=None), refer(True), "not_looked_up"),
    (refer(problem=DOWN, revid=None), refer(problem=GONE, revid=None), "not_looked_up"),
]


@pytest.mark.parametrize(("before", "after", "kind"), CASES)
def test_reference_change_gets_expected_drift_kind(
    before: EvidenceReference, after: EvidenceReference, kind: str
) -> None:
    [drift] = classify_reference_drifts([before], [after])
    assert (drift.kind, drift.before, drift.after) == (kind, before, after)


def test_references_are_matched_by_id_in_any_order_and_counted() -> None:
    ids = [f"q{at} strategy[0]" for at in range(3)]
    before = [refer(True).replace(id=each, question_id=each[:2]) for each in ids]
    after = [each.replace(found=each.id != ids[1], revid=2 if each.id == ids[1] else 1) for each in before]
    drifts = classify_reference_drifts(before, reversed(after))
    assert [drift.before.id for drift in drifts] == ids
    counts = count_drift_report_figures(drifts)
    assert (counts["references"], counts["questions"], counts["in_another_revision"]) == (3, 3, 1)
    assert (counts["no_longer_found"], counts["unchanged"], counts["now_found"]) == (1, 2, 0)
    assert sum(counts.values()) == 3 + 3 + 1 + 3


def test_reference_missing_on_one_side_raises_value_error() -> None:
    with pytest.raises(ValueError, match=r"1 references .* the first is q strategy"):
        classify_reference_drifts([refer()], [])


def test_csv_cells_are_escaped_against_formulas() -> None:
    odd = refer(True, sub_question='=1+1, "quoted"', missing=["b\nc", "d"], title="Été")
    text = format_drift_csv(classify_reference_drifts([odd], [odd.replace(found=False)]))
    [row] = csv.DictReader(io.StringIO(text, newline=""))
    assert tuple(row) == DRIFT_COLUMNS
    assert (row["kind"], row["sub_question"]) == ("no_longer_found", '\'=1+1, "quoted"')
    assert (row["missing_before"], row["title_after"], row["problem_after"]) == ("b\nc\nd", "Été", "")


@pytest.mark.parametrize(
    ("lost", "gained", "unknown", "most", "share", "verdict"),
    [
        (0, 0, 0, 0.0, 0.0, "within"),
        (1, 0, 0, 0.0, 0.1, "over"),
        (2, 3, 0, 0.2, 0.2, "within"),
        (3, 0, 0, 0.2, 0.3, "over"),
        # a reference that could not be checked may or may not be lost
        (1, 0, 1, 0.2, 1 / 9, "within"),
        (1, 0, 2, 0.2, 1 / 8, "untold"),
        (2, 0, 2, 0.2, 0.25, "over"),
        (0, 0, 10, 0.2, None, "untold"),
        (0, 0, 10, 1.0, None, "within"),
    ],
)
def test_lost_share_check_passes_fails_or_is_unknown(
    lost: int, gained: int, unknown: int, most: float, share: float | None, verdict: str
) -> None:
    counts = {"references": 10, "not_looked_up": unknown, "now_found": gained, "no_longer_found": lost}
    counts |= {"other_parts_missing": 0, "no_longer_pinned": 0}
    assert (compute_lost_share(counts), check_lost_share(counts, most)) == (share, verdict)
