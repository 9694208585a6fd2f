"""Test builds that publish nothing: which losses end a build early, and what it reports."""

import re
from pathlib import Path

import pytest
from support.steps.receipts import make_receipt

from factmill.tasks.engine.failures import (
    all_rows_failed,
    all_rows_left_to_retry,
    count_rejects_by_reason,
    find_main_failure_or_reject_reason,
    format_main_reject_reason_and_advice,
    format_no_answers,
)
from factmill.tasks.storage.shards import REJECTS_SCHEMA, make_table, write_shard_and_digest_rows_file


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
def test_stage_stops_build_when_all_rows_failed_for_run_related_reasons(
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
def test_run_related_reason_takes_precedence_over_filter_rejects(
    reasons: dict[str, dict[str, int]], main: tuple[str, str] | None
) -> None:
    assert find_main_failure_or_reject_reason(reasons) == main


def test_rejection_message_names_stage_cause_detail_and_advice() -> None:
    reasons = {"read": {"paraphrase": 3}, "write": {"model_failed": 5}}
    text = format_main_reject_reason_and_advice(reasons, "http_400: no such parameter", "my.toml", has_transient=False)
    assert text.startswith("write lost 5 to model_failed, ")
    facts = [
        *("http_400: no such parameter. ", ": read 3 to paraphrase. What to do: "),
        *("`factmill doctor --world my.toml`", "run the same command again"),
    ]
    places = [text.index(fact) for fact in facts]
    assert places == sorted(places)


def test_filter_that_empties_build_is_reported_unless_service_was_down() -> None:
    text = format_main_reject_reason_and_advice({"check": {"trivial": 2}}, "left: none", "w", has_transient=False)
    first = "check lost 2 to trivial, first reject: left: none. What to do: "
    assert text.startswith(f"{first}these are verdicts") and "again" not in text
    text = format_main_reject_reason_and_advice({"check": {"trivial": 2}}, "left: none", "w", has_transient=True)
    assert "`factmill doctor --world w`, then run the same command again" in text


def test_stage_without_any_answer_is_reported() -> None:
    assert all_rows_left_to_retry(3, {}, 3)
    assert not any(
        [
            all_rows_left_to_retry(0, {}, 0),
            all_rows_left_to_retry(3, {}, 2),
            all_rows_left_to_retry(3, {"model_failed": 3}, 3),
        ]
    )
    text = format_no_answers({"stage": "judge_answers", "rows_in": 3}, "w.toml", "http_400:\nno such thing.")
    assert "3 rows" in text and ": http_400: no such thing. What to do: " in text
    text = format_no_answers({"stage": "judge_answers", "rows_in": 3}, "w.toml")
    assert re.fullmatch(r"judge_answers .* 3 rows\. What to do: .*`factmill doctor --world w.toml`.*", text)


def test_reject_reasons_are_counted_and_sorted_by_frequency(tmp_path: Path) -> None:
    rows = [(f"{at}", reason, "", None) for at, reason in enumerate("bcab")]
    write_shard_and_digest_rows_file(tmp_path / "0", {"rejects": make_table(REJECTS_SCHEMA, rows)})
    receipt = make_receipt(tmp_path / "0", rows_in=4, rows=0, rejects=4)
    assert list(count_rejects_by_reason([receipt]).items()) == [("b", 2), ("a", 1), ("c", 1)]
