"""A deployment's run that stops at a bound says so in its state; a rebuild that does says what is left."""

import pytest

from flows.rebuild import _try
from flows.served import BOUND_REACHED, end_in_state
from tasks.errors import BudgetReached, BuildError


def stop() -> str:
    raise BudgetReached("US$ 1.0000 (--max-cost)", "6 stages are done")


def fail() -> str:
    raise BuildError("no row")


def test_a_run_that_stops_at_a_bound_ends_in_a_state_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.served.await_server", lambda: None)
    state = end_in_state(stop)
    assert (state.type.value, state.name, state.message) == ("FAILED", BOUND_REACHED, "6 stages are done")
    assert end_in_state(fail).name == "Failed"


def test_a_part_of_a_rebuild_that_stops_at_a_bound_has_not_failed() -> None:
    assert [_try("granola", each)[0].ending for each in (stop, fail, lambda: "made it")] == [
        "stopped",
        "failed",
        "made",
    ]
