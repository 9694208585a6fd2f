"""Test choosing and scoring paths with the real steps and a chat server: each misbehaviour of a judge, one by one."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.models.scripted_chat import REFUSAL, Said, make_chat_services
from support.models.scripted_judge import Manners, ScriptedJudge, always, pick, pick_first_ten
from support.rows.questions import mined_question, path_of
from support.steps.inputs import multihal_inputs
from support.steps.steps import Left, run_step

from factmill.tasks.core.calls.call import Call, CallResponse, ResponseHandler
from factmill.tasks.core.rows import Row
from factmill.tasks.multihal.core.path_selection import MAX_SCORED_PATHS, MAX_SELECTION_ROUNDS
from factmill.tasks.multihal.core.rows import QuestionWithPaths, QuestionWithSelectedPaths
from factmill.tasks.multihal.judge import score_paths, select_paths
from factmill.tasks.multihal.mine import label_paths

WORDS = [f"Ada; relation {number:02}; London" for number in range(14)]
PATHS = [path_of("Q1", f"P{number}", "Q2", labels=words.split("; ")) for number, words in enumerate(WORDS, 1)]
PASSES = 2 * MAX_SELECTION_ROUNDS
Select = Callable[[Sequence[str], bool], Said]


def once_corrected(first: Said, then: Select) -> Select:
    """Return manners of a judge that replies well only after a correction."""
    return lambda paths, is_again: then(paths, is_again) if is_again else first


SELECTIONS: dict[str, tuple[Select, int, int]] = {
    "picks ten": (pick_first_ten, 10, 2),
    "picks all": (lambda paths, _: pick(*sorted(paths)), 10, 2),
    "Windows line ends": (lambda paths, again: str(pick_first_ten(paths, again)).replace("\n", "\r\n"), 10, 2),
    "keeps to the form when corrected": (once_corrected("The first, I think.", pick_first_ten), 10, 4),
    "picks one ten times": (lambda paths, _: pick(*[min(paths)] * 10), 1, PASSES),
    "picks two and makes up eight": (
        lambda paths, _: pick(*(f"{path}; {path}" for path in paths[:8]), *sorted(paths)[:2]),
        2,
        PASSES,
    ),
    "makes paths up": (lambda paths, _: pick(*(f"{path} Bridge" for path in paths[:10])), 0, PASSES),
    "capital letters": (lambda paths, _: pick(*map(str.upper, paths)), 0, PASSES),
    "shortened labels": (lambda paths, _: pick(*(path.rpartition(";")[0] for path in paths)), 0, PASSES),
    "picks none": (always(pick("none")), 0, PASSES),
    "leaves the form out": (lambda paths, _: "\n".join(paths[:10]), 0, 2 * PASSES),
    "chats": (always("All of these are wonderful."), 0, 2 * PASSES),
    "refuses": (always(REFUSAL), 0, PASSES),
}
"""Maps a behaviour to the judge's manners, the number of paths it chooses, and its number of requests."""


@pytest.fixture
def judge() -> Iterator[ScriptedJudge]:
    judge = ScriptedJudge({})
    yield judge
    judge.close()


@pytest.fixture
def run(judge: ScriptedJudge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Left]:
    """Run a step with the judge."""

    def run(step: Any, rows: Sequence[Row]) -> Left:
        return run_step(step, rows, make_chat_services(judge.url), tmp_path / "run", monkeypatch, multihal_inputs())

    return run


def question_of(row_id: str) -> str:
    """Return the text of the question that `mined_question` makes."""
    return mined_question(row_id, PATHS[:1]).input


def test_only_verbatim_picks_of_judge_count_and_rest_is_drawn_at_random(
    judge: ScriptedJudge, run: Callable[..., Left]
) -> None:
    judge.manners = {question_of(name): Manners(select, always(500)) for name, (select, _, _) in SELECTIONS.items()}
    left = run(select_paths, [mined_question(name, PATHS) for name in SELECTIONS])
    assert (left.rejects, left.rows.keys()) == ({}, SELECTIONS.keys())
    for name, (_, by_judge, asked) in SELECTIONS.items():
        chosen = left.rows[name]["paths"]
        assert Counter(path["chosen_by"] for path in chosen) == Counter(
            judge=by_judge, chance=MAX_SCORED_PATHS - by_judge
        )
        assert [path["ids"] for path in chosen] == [
            each.ids for each in PATHS if each.ids in [p["ids"] for p in chosen]
        ]
        assert judge.selections[question_of(name)] == asked, name
        assert judge.shown[question_of(name)] == set(WORDS)
    by_judge = [
        path["labels"][1] for path in left.rows["picks two and makes up eight"]["paths"] if path["chosen_by"] == "judge"
    ]
    assert by_judge == ["relation 00", "relation 01"]
    assert Counter(drop["question_id"] for drop in left.extras) == dict.fromkeys(SELECTIONS, 4)
    assert {drop["reason"] for drop in left.extras} == {"not_selected"}
    draws = {str([path["ids"] for path in left.rows[name]["paths"]]) for name in ("refuses", "chats", "picks none")}
    assert len(draws) > 1, "another question gets other samples"


def test_random_draw_is_identical_in_every_build(judge: ScriptedJudge, run: Callable[..., Left]) -> None:
    judge.manners = {question_of("a"): Manners(always(REFUSAL), always(500))}
    first = run(select_paths, [mined_question("a", PATHS)])
    again = run(select_paths, [mined_question("a", PATHS)])
    assert again.rows == first.rows
    assert judge.asked == PASSES, "recorded"


def test_unavailable_judge_rejects_question_only_until_later_run(
    judge: ScriptedJudge, run: Callable[..., Left]
) -> None:
    failing: dict[str, Select] = {
        "down": always(500),
        "silent": always(""),
        "down at the correction": once_corrected("?", always(503)),
    }
    judge.manners = {question_of(name): Manners(select, always(500)) for name, select in failing.items()}
    rows = [mined_question(name, PATHS) for name in failing]
    left = run(select_paths, rows)
    codes = {row_id: (reason, detail.partition(":")[0]) for row_id, (reason, detail) in left.rejects.items()}
    assert codes == {
        "down": ("model_failed", "http_500"),
        "silent": ("empty_reply", "empty_reply"),
        "down at the correction": ("model_failed", "http_503"),
    }
    assert (left.receipt.unsettled, left.extras) == (3, [])

    judge.manners = {question: Manners(pick_first_ten, always(500)) for question in judge.manners}
    again = run(select_paths, rows)
    assert (again.rows.keys(), again.receipt.unsettled) == (failing.keys(), 0)


def test_few_paths_skip_judge_and_duplicate_wordings_are_dropped(
    judge: ScriptedJudge, run: Callable[..., Left]
) -> None:
    alike = path_of("Q7", "P1", "Q2", labels=PATHS[0].labels)
    left = run(select_paths, [mined_question("ten", PATHS[:10]), mined_question("alike", [*PATHS[:10], alike])])
    for row in left.rows.values():
        assert [(path["ids"], path["chosen_by"]) for path in row["paths"]] == [(path.ids, "all") for path in PATHS[:10]]
    assert [(drop["path_ids"], drop["reason"]) for drop in left.extras] == [(alike.ids, "same_words")]
    assert judge.asked == 0


class Labels:
    """A label service that knows every item except Q13."""

    identity = "labels"
    is_outside = True

    def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        for call in calls:
            deliver(call, CallResponse(None if call.parts["id"] == "Q13" else f"label of {call.parts['id']}"))


def test_dropped_paths_have_unique_ids_across_steps(
    judge: ScriptedJudge, run: Callable[..., Left], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge.manners = {question_of("a"): Manners(always(REFUSAL), always(500))}
    rows = [mined_question("a", [path_of("Q1", "P1", "Q13"), path_of("Q1", "P2", "Q13"), *PATHS])]
    labelled = run_step(
        label_paths, rows, SimpleNamespace(wikidata=Labels()), tmp_path / "labels", monkeypatch, multihal_inputs()
    )
    selected = run(select_paths, [QuestionWithPaths.model_validate(row) for row in labelled.rows.values()])
    dropped = [*labelled.extras, *selected.extras]
    assert Counter(drop["reason"] for drop in dropped) == {"part_without_label": 2, "not_selected": 4}
    assert len({drop["id"] for drop in dropped}) == len(dropped)


GIVEN: dict[Said, int] = {"Score: 5": 5, "**Score:** 4": 4, "Score: 4/5": 4, "Hm. Score: 2? No.\nScore: 5": 5}
LOW: dict[Said, int] = {"Score: 3": 3, "Score: 1 of 5": 1}
UNREADABLE: list[Said] = [
    "Score: 7", "Score: 0", "Score: -4", "Score: 4.5", "Score: 4-5", "Score: 5/10", "Score: high", "Score:", "five",
    "The path is useful.",
]  # fmt: skip
FAILING: dict[Said, str] = {"": "empty_reply", " \n": "empty_reply", 500: "http_500"}


def selected_question(said: Said) -> QuestionWithSelectedPaths:
    """Return a question with one path and the judge's reply `said`."""
    mined = mined_question(repr(said), PATHS[:1])
    return QuestionWithSelectedPaths.model_validate(
        {**mined.model_dump(), "paths": [{**PATHS[0].model_dump(), "chosen_by": "chance"}]}
    )


def test_score_is_that_of_judge_or_none(judge: ScriptedJudge, run: Callable[..., Left]) -> None:
    everything: list[Said] = [*GIVEN, *LOW, *UNREADABLE, *FAILING, REFUSAL]
    rows = [selected_question(said) for said in everything]
    judge.manners = {row.input: Manners(always(500), always(said)) for row, said in zip(rows, everything, strict=True)}
    left = run(score_paths, rows)

    assert {row["question_id"]: row["judged_score"] for row in left.rows.values()} == {
        repr(said): score for said, score in GIVEN.items()
    }
    assert {(row["judged_by"], row["chosen_by"]) for row in left.rows.values()} == {("tester", "chance")}
    reasons = {row_id.removesuffix("_0"): found for row_id, found in left.rejects.items()}
    for said, score in LOW.items():
        assert reasons.pop(repr(said)) == ("low_score", f"score {score}: {WORDS[0]}")
    for said in UNREADABLE:
        reason, detail = reasons.pop(repr(said))
        assert (reason, detail.endswith(f"; the reply was: {str(said).strip()}")) == ("unscored", True), detail
        assert judge.scored[question_of(repr(said)), WORDS[0]] == [said, said], "asked once more"
    for said, code in FAILING.items():
        reason, detail = reasons.pop(repr(said))
        assert (reason, detail.partition(":")[0]) == (code if code == "empty_reply" else "model_failed", code)
    assert reasons.pop(repr(REFUSAL))[0] == "refused"
    assert judge.scored[question_of(repr(REFUSAL)), WORDS[0]] == [REFUSAL], "not pressed"
    assert (reasons, left.receipt.unsettled) == ({}, len(FAILING))


def test_judge_that_follows_format_after_correction_gives_its_score(
    judge: ScriptedJudge, run: Callable[..., Left]
) -> None:
    row = selected_question("later")
    judge.manners = {row.input: Manners(always(500), lambda _, is_again: "Score: 4" if is_again else "four")}
    left = run(score_paths, [row])
    assert [found["judged_score"] for found in left.rows.values()] == [4]
    assert judge.scored[row.input, WORDS[0]] == ["four", "Score: 4"]
