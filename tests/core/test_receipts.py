"""Test descriptions of batches and stages, in names of Prefect's task runs and in a run's log."""

import pytest

from factmill.tasks.core.batch_receipts import StageBatch, format_batch_name, format_stage_summary


@pytest.mark.parametrize(
    ("index", "units", "size", "rows", "name"),
    [
        (0, ("P19",), 0, 0, "link_question_entities P19"),
        (0, ("P19",), 200, 450, "link_question_entities P19 rows 1-200"),
        (2, ("P19", "P26", "P50", "P57"), 200, 450, "link_question_entities P19,P26,P50 +1 rows 401-450"),
        (0, (), 200, 0, "link_question_entities no rows"),
    ],
)
def test_batch_name_has_stage_units_and_range(
    index: int, units: tuple[str, ...], size: int, rows: int, name: str
) -> None:
    assert (
        format_batch_name(StageBatch(run="r", stage="link_question_entities", index=index, key="k"), units, size, rows)
        == name
    )


def test_stage_summary_has_reject_reasons() -> None:
    summary = {
        "stage": "link_question_entities",
        "rows_in": 1200,
        "rows_out": 1195,
        "rejects": 5,
        "merged": 0,
        "seconds": 2.04,
    }
    calls = {"calls_sent": 3, "calls_replayed": 0, "cost_usd": 0.5}
    assert format_stage_summary({**summary, **calls}, {"no_item": 4, "ambiguous": 1}) == (
        "link_question_entities: 1,200 rows in, 1,195 out, 5 rejected (no_item 4, ambiguous 1), calls 3 sent 0 replayed, US$ 0.5000, 2.0 s"
    )


def test_rows_not_sampled_by_pilot_are_not_called_rejected() -> None:
    summary = {"stage": "draw_pilot", "rows_in": 1200, "rows_out": 20, "rejects": 1180, "merged": 0, "seconds": 0.04}
    calls = {"calls_sent": 0, "calls_replayed": 0, "cost_usd": 0.0}
    assert format_stage_summary({**summary, **calls}, {"not_in_pilot": 1180}) == (
        "draw_pilot: 1,200 rows in, 20 out, 1,180 not drawn (not_in_pilot 1,180), 0.0 s"
    )
