"""MultiHal with a judge that misbehaves in every way: a build ends, and nothing in it is the judge's that it never said."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Factmill, Ran
from support.models.scripted_chat import write_chat_world
from support.models.scripted_judge import REFUSAL, Manners, Said, ScriptedJudge, always, pick, pick_first_ten
from support.rows.foundation_rows import HALUEVAL, write

from tasks.storage.warehouse import open_warehouse


def by_turns(*said: Said) -> Callable[[str, bool], Said]:
    """Return manners of one that says something else of each path, and the same of it when asked again."""
    told: dict[str, Said] = {}
    return lambda path, _is_again: told.setdefault(path, said[len(told) % len(said)])


def invent(paths: Sequence[str], _is_again: bool) -> Said:
    return pick(*(f"{path}; owner of; Eiffel Tower" for path in paths[:10]))


def repeat(paths: Sequence[str], _is_again: bool) -> Said:
    return pick(*[min(paths)] * 10)


PICKS = "Where in France did Marie Curie look for radium?"
REPEATS = "Marie Curie came to France to learn, but whereto?"
INVENTS = "What made France a home to Marie Curie?"
REFUSES = "Who showed Marie Curie around when she was new in France?"
CHATS = "Of all that France has to see, what did Marie Curie see daily?"
FAILS_AT_TIMES = "France or Poland: which did Marie Curie leave for good?"
FAILS = "Did Marie Curie ever own a bicycle in France?"
IS_SILENT = "Name one thing that Marie Curie and France share!"
JUDGES = {
    PICKS: Manners(pick_first_ten, by_turns("Score: 5", "Score: 4")),
    REPEATS: Manners(repeat, always("Score: 4")),
    INVENTS: Manners(invent, by_turns("Score: 5", "Score: 2")),
    REFUSES: Manners(always(REFUSAL), always(REFUSAL)),
    CHATS: Manners(always("These are all good paths."), by_turns("Score: 7", "Score: 0", "good", "5", "Score: 4.5")),
    FAILS_AT_TIMES: Manners(always(pick("none")), by_turns("", 500, "Score: 5", "Score: 1")),
    FAILS: Manners(always(500), always("Score: 5")),
    IS_SILENT: Manners(always(""), always("Score: 5")),
}
"""Question → how the judge answers about it. All have Paris as their answer; in the embedded world more than twenty
paths join Marie Curie and France to it, so there is always a choice."""


@dataclass(frozen=True)
class Building:
    """What is needed to build with a judge, again and again, in one warehouse."""

    factmill: Factmill
    judge: ScriptedJudge
    source: Path
    world: Path
    warehouse: Path

    def build(self, *more: str) -> Ran:
        chosen = ["--world", self.world, "--source", self.source, "--language", "eng", "--all-hops", *more]
        return self.run("build", "multihal", *chosen, "--json")

    def run(self, *arguments: str | Path) -> Ran:
        return self.factmill(*arguments, "--warehouse", self.warehouse, TEST_KEY="secret-key-1")

    def read(self, table: str, build_id: str) -> list[dict[str, Any]]:
        """Return what a build left in a table of the warehouse."""
        with open_warehouse(self.warehouse) as db:
            found = db.sql(f"SELECT * FROM {table} WHERE build_id = $1", params=[build_id]).to_arrow_table()
        rows: list[dict[str, Any]] = found.to_pylist()
        return rows


@pytest.fixture
def building(factmill: Factmill, tmp_path: Path) -> Iterator[Building]:
    judge = ScriptedJudge(JUDGES)
    source = write(tmp_path, "halueval", [{**HALUEVAL, "question": asked, "right_answer": "Paris"} for asked in JUDGES])
    world = write_chat_world(tmp_path, judge.url, ["judge"])
    yield Building(factmill, judge, source, world, tmp_path / "w.duckdb")
    judge.close()


def check_balance(report: Any) -> None:
    assert report["inputs"] + report["opened"] == report["rows"] + report["rejects"] + report["merged"]
    for stage in report["stages"]:
        assert stage["rows_in"] == stage["rows_out"] + stage["rejects"] + stage["merged"], stage
        assert sum(report["reasons"].get(stage["stage"], {}).values()) == stage["rejects"]


def check_rows(judge: ScriptedJudge, rows: Sequence[Any]) -> None:
    """No path is one that was not mined, and no score one that the judge did not give to this very path."""
    for row in rows:
        words = "; ".join(row["trip_labels"])
        assert words in judge.shown[row["input"]]
        assert judge.scored[row["input"], words][-1] in (f"Score: {row['judged_score']}", str(row["judged_score"]))
        assert row["judged_by"] == "tester"


def test_a_build_ends_whatever_the_judge_says_and_a_later_run_mends_what_passed(building: Building) -> None:
    judge = building.judge
    ran = building.build()
    assert ran.code == 0, ran.err
    report = ran.json
    check_balance(report)
    assert (report["inputs"], report["opened"], report["merged"]) == (len(JUDGES), (10 - 1) * 6, 0)
    assert report["reasons"] == {
        "select_paths": {"empty_reply": 1, "model_failed": 1},
        "score_paths": {"unscored": 8, "refused": 10, "low_score": 7, "empty_reply": 3, "model_failed": 3},
    }
    assert (report["rows"], report["unsettled"]) == (29, 2 + 6)

    rows = building.read("multihal", report["build_id"])
    check_rows(judge, rows)
    assert Counter((row["input"], row["chosen_by"]) for row in rows) == {
        (PICKS, "judge"): 10,
        (REPEATS, "judge"): 1,
        (REPEATS, "chance"): 9,
        (INVENTS, "chance"): 5,
        (CHATS, "chance"): 2,
        (FAILS_AT_TIMES, "chance"): 2,
    }
    rejects = [reject for reject in building.read("rejects", report["build_id"]) if reject["stage"] == "score_paths"]
    lost = [json.loads(reject["row"]) for reject in rejects]
    assert Counter(path["chosen_by"] for path in [*rows, *lost]) == {"judge": 11, "chance": 60 - 11}
    mined = set.union(*judge.shown.values())
    assert {"; ".join(path["labels"]) for path in lost} <= mined
    details = [(reject["reason"], reject["detail"]) for reject in rejects]
    told = (("refused", REFUSAL), ("unscored", "was: Score: 7"), ("unscored", "was: good"))
    assert [sum(why == reason and said in detail for why, detail in details) for reason, said in told] == [10, 2, 2]

    left_out = building.read("multihal_dropped_paths", report["build_id"])
    assert {path["detail"] for path in left_out} <= mined
    assert len({path["id"] for path in left_out}) == len(left_out)
    chosen_from = [judge.shown[question] for question in {question for question, _ in judge.scored}]
    assert sum(path["reason"] == "not_selected" for path in left_out) == sum(len(shown) - 10 for shown in chosen_from)
    # other hash seeds than those it was built with
    again = building.factmill.run_process("verify", report["build_id"], "--warehouse", building.warehouse)
    assert again.code == 0, again.err

    judge.manners = dict.fromkeys(JUDGES, Manners(pick_first_ten, always("Score: 5")))
    mended = building.build().json
    check_balance(mended)
    assert (mended["rows"], mended["unsettled"]) == (29 + 6 + 2 * 10, 0)
    assert mended["reasons"] == {"score_paths": {"unscored": 8, "refused": 10, "low_score": 7}}
    assert mended["calls_sent"] == 6 + 2 * 2 + 2 * 10, "nothing is asked again but what had failed"
    check_rows(judge, building.read("multihal", mended["build_id"]))


def test_a_judge_that_is_down_or_refuses_everything_leaves_no_row_and_no_ruin(building: Building) -> None:
    judge = building.judge
    judge.manners = dict.fromkeys(JUDGES, Manners(always(500), always(500)))
    ran = building.build("--limit", "2")
    assert (ran.code, "Traceback" in ran.err) == (1, False), ran.err
    assert "select_paths lost 2 to model_failed, the first: http_500" in ran.err
    assert "run the same command again" in ran.err

    judge.manners = dict.fromkeys(JUDGES, Manners(always(REFUSAL), always(REFUSAL)))
    ran = building.build("--limit", "2")
    assert ran.code == 1, ran.err
    check_balance(ran.json)
    assert (ran.json["rows"], ran.json["unsettled"]) == (0, 0)
    assert ran.json["reasons"] == {"score_paths": {"refused": 20}}
    assert "score_paths lost 20 to refused, the first: " in ran.err
    assert REFUSAL in ran.err

    judge.manners = dict.fromkeys(JUDGES, Manners(pick_first_ten, always("Score: 5")))
    mended = building.build("--limit", "2")
    assert (mended.code, mended.json["rows"]) == (0, 20), mended.err
