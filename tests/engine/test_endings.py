"""Builds that publish nothing: which losses end one early, and what is told of it."""

import re
from pathlib import Path

import pytest
from support.steps.receipts import make_receipt

from factmill.tasks.engine.failures import (
    all_rows_failed,
    count_rejects_by_reason,
    find_main_reject_reason,
    format_main_reject_reason_and_advice,
    format_no_answers,
    no_row_answered,
)
from factmill.tasks.storage.shards import REJECTS_SCHEMA, make_table, write_shard


@pytest.mark.parametrize(
    ("came_in", "reasons", "unsettled", "ends"),
    [
        (0, {}, 0, False),
        (1, {"model_failed": 1}, 0, True),
        (5, {"model_failed": 5}, 0, True),
        (5, {"refused": 3, "cut_off": 2}, 0, True),
        (5, {"model_failed": 4}, 0, False),
        (5, {"model_failed": 4, "low_score": 1}, 0, False),
        (5, {"low_score": 5}, 0, False),
        (5, {"no_item_in_question": 5}, 5, True),
        (5, {"no_item_in_question": 5}, 4, False),
    ],
)
def test_a_stage_ends_a_build_when_every_row_was_lost_to_causes_of_the_run(
    came_in: int, reasons: dict[str, int], unsettled: int, ends: bool
) -> None:
    assert all_rows_failed(came_in, reasons, unsettled) == ends


@pytest.mark.parametrize(
    ("reasons", "main"),
    [
        ({}, None),
        ({"read": {}}, None),
        ({"read": {"paraphrase": 90}, "check": {"trivial": 10}}, ("read", "paraphrase")),
        ({"read": {"paraphrase": 90}, "write": {"cut_off": 4, "refused": 6}}, ("write", "refused")),
    ],
)
def test_a_cause_of_the_run_is_told_before_verdicts_however_many(
    reasons: dict[str, dict[str, int]], main: tuple[str, str] | None
) -> None:
    assert find_main_reject_reason(reasons) == main


def test_a_loss_is_told_with_stage_cause_detail_and_what_to_do() -> None:
    reasons = {"read": {"paraphrase": 3}, "write": {"model_failed": 5}}
    told = format_main_reject_reason_and_advice(reasons, "http_400: no such parameter", "my.toml", has_transient=False)
    assert told.startswith("write lost 5 to model_failed, ")
    facts = [
        *("http_400: no such parameter. ", ": read 3 to paraphrase. What to do: "),
        *("`factmill doctor --world my.toml`", "run the same command again"),
    ]
    places = [told.index(fact) for fact in facts]
    assert places == sorted(places)


def test_a_filter_that_empties_a_build_is_told_as_a_verdict_unless_a_service_was_down() -> None:
    told = format_main_reject_reason_and_advice({"check": {"trivial": 2}}, "left: none", "w", has_transient=False)
    first = "check lost 2 to trivial, first reject: left: none. What to do: "
    assert told.startswith(f"{first}these are verdicts") and "again" not in told
    told = format_main_reject_reason_and_advice({"check": {"trivial": 2}}, "left: none", "w", has_transient=True)
    assert "`factmill doctor --world w`, then run the same command again" in told


def test_a_stage_that_got_no_answer_is_told_as_such() -> None:
    assert no_row_answered(3, {}, 3)
    assert not any([no_row_answered(0, {}, 0), no_row_answered(3, {}, 2), no_row_answered(3, {"model_failed": 3}, 3)])
    told = format_no_answers({"stage": "judge_answers", "rows_in": 3}, "w.toml", "http_400:\nno such thing.")
    assert "3 rows" in told and ": http_400: no such thing. What to do: " in told
    told = format_no_answers({"stage": "judge_answers", "rows_in": 3}, "w.toml")
    assert re.fullmatch(r"judge_answers .* 3 rows\. What to do: .*`factmill doctor --world w.toml`.*", told)


def test_reasons_are_counted_the_most_frequent_first(tmp_path: Path) -> None:
    rows = [(f"{at}", reason, "", None) for at, reason in enumerate("bcab")]
    write_shard(tmp_path / "0", {"rejects": make_table(REJECTS_SCHEMA, rows)})
    receipt = make_receipt(tmp_path / "0", rows_in=4, rows=0, rejects=4)
    assert list(count_rejects_by_reason([receipt]).items()) == [("b", 2), ("a", 1), ("c", 1)]
