"""Whole builds with models that behave as models do: what they mean well is published, what says nothing is not.

`python tests/speed/habits.py` prints the whole table; here are all habits on GRANOLA-EQ, and of the others what differs.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from support.habits.runs import Came, HabitRuns
from support.habits.server import HabitsServer
from support.habits.table import HABITS
from support.work.command import Factmill

from tasks.engine.services import embedded_graph

OTHERS = ("multihal", "biokalma", "slaq", "fanoutqa")
DRESSED = [name for name, habit in HABITS.items() if habit.kind == "well meant" and name != "slow tokens"]
OWN_REASON = {
    "refusing": "refused",
    "cut off": "cut_off",
    "empty": "empty_reply",
    "JSON 10,000 deep": "reply_not_in_format",
}


@pytest.fixture(scope="module")
def runs(factmill: Factmill, session_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HabitRuns]:
    with embedded_graph(session_home) as graph:
        server = HabitsServer(graph)
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
    """Hold a build to the embedded world's, and its corrections to one an ask where the dress is one that needs them."""
    embedded, came = build(runs, benchmark, None), build(runs, benchmark, habit)
    assert came.code == 0, came.err
    assert came.tables == embedded.tables
    assert came.published > 0
    plain = build(runs, benchmark, "well-formed")
    # a correction follows a reply, and there is one a reply at the most
    assert came.corrected <= came.answered / 2
    assert came.answered <= plain.answered + came.corrected or HABITS[habit].ignores_n
    assert HABITS[habit].mends or came.corrected == plain.corrected


@pytest.mark.parametrize("habit", DRESSED)
def test_granola_has_the_same_rows_from_any_server_that_means_well(runs: HabitRuns, habit: str) -> None:
    check_same_rows(runs, "granola", habit)


@pytest.mark.parametrize("benchmark", OTHERS)
@pytest.mark.parametrize("habit", ["any dress", "reasoning model"])
def test_every_benchmark_has_the_same_rows_from_servers_that_mean_well(
    runs: HabitRuns, benchmark: str, habit: str
) -> None:
    check_same_rows(runs, benchmark, habit)


@pytest.mark.parametrize(
    ("benchmark", "habit"), [*(("granola", habit) for habit in OWN_REASON), *((each, "refusing") for each in OTHERS)]
)
def test_who_says_nothing_has_nothing_published_and_a_reason_of_its_own(
    runs: HabitRuns, benchmark: str, habit: str
) -> None:
    came = build(runs, benchmark, habit)
    assert (came.code, came.published) == (1, 0)
    assert came.reasons[OWN_REASON[habit]] > 0
    plain = build(runs, benchmark, "well-formed")
    assert set(came.reasons) - set(plain.reasons) == {OWN_REASON[habit]}
    assert OWN_REASON[habit] in came.err


def test_what_an_author_makes_up_is_answered_by_a_reason_or_by_rows_that_differ(runs: HabitRuns) -> None:
    plain = build(runs, "slaq", "well-formed")
    came = build(runs, "slaq", "a fact not in the text")
    assert came.published < plain.published
    assert came.reasons.total() > plain.reasons.total()
