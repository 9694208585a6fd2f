"""Gates, one by one."""

from dataclasses import replace

import pytest

from factmill.tasks.release.core.selection_and_gates import GateFacts, ReleaseGates, find_failed_gates

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
