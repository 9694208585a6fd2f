"""Test each gate, and names of configs."""

import re
from dataclasses import replace

import pytest

from factmill.tasks.release.core.selection_and_gates import (
    GateFacts,
    ReleaseGates,
    find_failed_gates,
    make_dataset_config_name,
)

GATES = ReleaseGates(
    max_row_change=0.1, max_reject_share=0.5, requires_judge_card=True, requires_explained_changes=True
)
STAGE = {"stage": "check", "rows_in": 10, "rejects": 5}
GOOD = GateFacts(rows=110, previous_rows=100, stages=[STAGE], judge="judge", judge_card_count=1, unexplained_rows=0)


def test_build_meeting_every_gate_passes() -> None:
    assert find_failed_gates(GATES, GOOD) == []
    assert find_failed_gates(GATES, replace(GOOD, previous_rows=None, unexplained_rows=None)) == []
    assert find_failed_gates(GATES, replace(GOOD, judge="", judge_card_count=0)) == []


@pytest.mark.parametrize(
    ("change", "gate", "facts"),
    [
        ({"rows": 0, "previous_rows": None}, "rows", ["0"]),
        ({"rows": 111}, "rows", ["111", "100", "10%"]),
        ({"rows": 89}, "rows", ["89", "100", "10%"]),
        ({"stages": [{**STAGE, "rejects": 6}]}, "check", ["6 of 10 rows", "60%", "50%"]),
        ({"judge": "gpt-9", "judge_card_count": 0}, "judge", ["gpt-9", "factmill judge-card"]),
        ({"unexplained_rows": 2}, "changes", ["2 rows"]),
        ({"unexplained_rows": None}, "changes", ["warehouse"]),
    ],
)
def test_failed_gate_names_found_and_expected_values(change: dict[str, object], gate: str, facts: list[str]) -> None:
    (closed,) = find_failed_gates(GATES, replace(GOOD, **change))  # type: ignore[arg-type]
    assert closed.startswith(f"{gate}: ") and all(fact in closed for fact in facts)


def test_gates_not_requested_pass() -> None:
    gates = replace(GATES, requires_judge_card=False, requires_explained_changes=False)
    assert find_failed_gates(gates, replace(GOOD, judge_card_count=0, unexplained_rows=9)) == []


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("eng", "eng"),
        ("P19", "P19"),
        ("zh/TW", "zh-TW-[0-9a-f]{8}"),
        ("日本", "part-[0-9a-f]{8}"),
        ("", "part-[0-9a-f]{8}"),
    ],
)
def test_config_name_is_the_value_where_safe_and_else_recognisable(value: str, name: str) -> None:
    assert re.fullmatch(name, make_dataset_config_name(value))


def test_similar_values_have_different_config_names() -> None:
    values = ("zh-TW", "zh/TW", "zh TW", "日本", "中国", "")
    assert len({*map(make_dataset_config_name, values)}) == len(values)
