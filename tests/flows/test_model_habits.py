"""Test builds with typical model habits: well-meant replies are published, empty ones are not.

`python bench speed.habits` prints the table of all habits and benchmarks; tests/core/test_replies.py reads every form
in
every wrapper. This module tests what only a whole build shows.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from support.commands.command import Factmill
from support.habits.runs import Came, HabitRuns
from support.habits.server import HabitsServer

BENCHMARKS = ("granola", "multihal", "biokalma", "slaq", "fanoutqa")
SERVERS = (
    "ignores n",
    "ignores the schema",
    "refuses the schema",
    "fixed temperature",
    "strict roles",
    "storms of 429",
)
OWN_REASON = {"cut off": "cut_off", "empty": "empty_reply", "JSON 10,000 deep": "reply_not_in_format"}


@pytest.fixture(scope="module")
def runs(factmill: Factmill, session_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HabitRuns]:
    server = HabitsServer()
    yield HabitRuns(factmill, server, tmp_path_factory.mktemp("habits"), rows=4)
    server.close()
    assert server.faults == 0


@cache
def build(runs: HabitRuns, benchmark: str, habit: str | None) -> Came:
    """Build once a session."""
    came = runs.build(benchmark, habit)
    assert "Traceback" not in came.err
    return came


def check_same_rows(runs: HabitRuns, benchmark: str, habit: str) -> None:
    """Check that a build has the embedded world's rows, and at most one correction per reply."""
    embedded, came = build(runs, benchmark, None), build(runs, benchmark, habit)
    assert came.code == 0, came.err
    assert came.published > 0
    assert came.tables == embedded.tables
    assert came.corrected <= came.answered / 2


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_reasoning_model_with_decorated_replies_yields_same_rows(runs: HabitRuns, benchmark: str) -> None:
    check_same_rows(runs, benchmark, "reasoning model")


@pytest.mark.parametrize("habit", SERVERS)
def test_every_server_reply_style_yields_same_rows(runs: HabitRuns, habit: str) -> None:
    check_same_rows(runs, "granola", habit)


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_refusing_model_publishes_none_of_its_rows(runs: HabitRuns, benchmark: str) -> None:
    came = build(runs, benchmark, "refusing")
    assert came.written == 0
    assert came.reasons["refused"] > 0
    if came.published:
        # people's own questions, which a model only judges, stay with a flag
        assert benchmark == "fanoutqa"
        assert all("unscored" in str(row["flags"]) for row in came.tables["fanoutqa"])
    else:
        assert came.code == 1
        assert "refused" in came.err


@pytest.mark.parametrize("habit", OWN_REASON)
def test_unreadable_replies_have_own_reject_reason(runs: HabitRuns, habit: str) -> None:
    came = build(runs, "granola", habit)
    assert (came.code, came.published) == (1, 0)
    lost = set(came.reasons) - set(build(runs, "granola", None).reasons)
    assert lost == {OWN_REASON[habit]}
    assert OWN_REASON[habit] in came.err


@pytest.mark.parametrize("benchmark", ["slaq", "fanoutqa"])
def test_invented_author_facts_are_rejected_with_reason(runs: HabitRuns, benchmark: str) -> None:
    plain, came = build(runs, benchmark, None), build(runs, benchmark, "a fact not in the text")
    assert came.published < plain.published
    assert came.reasons.total() > plain.reasons.total()
