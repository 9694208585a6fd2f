"""Test the judge's step with a scripted chat server: replies become flags, unreadable ones are unscored."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.models.scripted_chat import Message, ScriptedChat
from support.rows.fanout_questions import release_article, release_sub
from support.rows.fanout_rows import flagged_row
from support.steps.inputs import fanout_inputs
from support.steps.steps import Left, run_step
from support.webs.small_wiki import SmallPage, SmallWiki

from factmill.tasks.assets import load_prompt
from factmill.tasks.clients.chat import ChatClient
from factmill.tasks.core.service_settings import ModelSettings, ServiceLimits
from factmill.tasks.fanoutqa.core.rows import FlaggedQuestion, QuestionFlag
from factmill.tasks.fanoutqa.judge import judge_questions

LIMITS = ServiceLimits(parallel=4, timeout_s=5, attempts=2, backoff_s=0.01)
EPOCH = "2023-11-20T00:00:00Z"
QUESTION = "What are the height of the five tallest towers of Austria?"
MENDED = "What are the heights in metres of the five tallest towers of Austria?"
ANSWER = {"Donauturm": "252 m"}
DECOMPOSITION = json.dumps(
    [
        release_sub("towers", ["Donauturm"], evidence=None),
        release_sub("its height", 252, "towers", evidence=release_article("Donauturm", 1, 10)),
    ]
)
EARLIER = QuestionFlag(code="same_article", path="strategy[1]", detail="rests on the same article as strategy[0]")

_MATERIAL = re.compile(r"<question>(.*?)</question>", re.DOTALL)
Said = str | int
"""The judge's completion, or the HTTP status of its failure."""


class Judge:
    """`objective` and `wording` map a question to the judge's first and second reply."""

    def __init__(self) -> None:
        self.objective: dict[str, Sequence[Said]] = {}
        self.wording: dict[str, Sequence[Said]] = {}
        self.asked: list[str] = []
        self.chat = ScriptedChat(self._answer)

    def _answer(self, messages: Sequence[Message]) -> tuple[int, str]:
        is_again = "<question>" not in messages[-1]["content"]
        material = messages[-3 if is_again else -1]["content"]
        self.asked.append(messages[-1]["content"])
        (question,) = _MATERIAL.findall(material)
        is_objective = material.startswith("<moment>")
        script, fine = (self.objective, "It is measured.\nY\nY") if is_objective else (self.wording, "No change.")
        said = script.get(question, [fine] * 2)[int(is_again)]
        return (200, said) if isinstance(said, str) else (said, "overloaded")


@pytest.fixture
def judge() -> Iterator[Judge]:
    judge = Judge()
    yield judge
    judge.chat.close()


Run = Callable[..., Left]


@pytest.fixture
def wiki() -> Iterator[SmallWiki]:
    wiki = SmallWiki()
    wiki.add(SmallPage(1, "Donauturm", "<p>The tower stands in Vienna. It is 252 m (827 ft) high.</p>"))
    yield wiki
    wiki.close()


@pytest.fixture
def run(judge: Judge, wiki: SmallWiki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the step on questions; responses are cached."""
    model = ModelSettings(kind="openai", name="tester", url=judge.chat.url, limits=LIMITS)

    def run(*rows: FlaggedQuestion) -> Left:
        services = SimpleNamespace(
            model=lambda _role: (ChatClient(judge.chat.url, model, lambda: "key", "factmill tests"), model),
            wikipedia=wiki.services().wikipedia,
        )
        return run_step(judge_questions, rows, services, tmp_path, monkeypatch, fanout_inputs(epoch=EPOCH))

    return run


def make_row(question: str = QUESTION, **changed: Any) -> FlaggedQuestion:
    columns = {"id": f"id of {question}", "answer": json.dumps(ANSWER), "decomposition": DECOMPOSITION, "epoch": EPOCH}
    return flagged_row(question=question, **(columns | changed))


def flags_of(left: Left, question: str = QUESTION) -> list[tuple[str, str, str]]:
    return [(flag["code"], flag["detail"], flag["proposed"]) for flag in left.rows[f"id of {question}"]["flags"]]


def test_valid_question_gets_no_new_flag_and_keeps_existing_flags(run: Run) -> None:
    left = run(make_row(flags=[EARLIER]))
    row = left.rows[f"id of {QUESTION}"]
    assert row["flags"] == [EARLIER.model_dump()]
    assert (row["judge"], row["question"]) == ("tester", QUESTION)


IN_FEET, IN_ELLS = (MENDED.replace("metres", unit) for unit in ("feet", "ells"))
CHANGE = 'the judge changes "height" to "heights in'
EMPTY_REPLY = ("unscored", "objectivity: empty_reply: 1 samples without text, finish ['stop']", "")


@pytest.mark.parametrize(
    ("objective", "wording", "flags"),
    [
        (
            "Towers are measured. Tall is what one calls tall.\n\nN\nN",
            f"Rewrite: {MENDED}",
            [("not_objective", "Tall is what one calls tall.", ""), ("wording", f'{CHANGE} metres"', MENDED)],
        ),
        ("N", None, [("not_objective", "the judge says N and gives no reason", "")]),
        (None, IN_FEET, [("unproven_unit", f'{CHANGE} feet"; Donauturm does not say "252 feet"', IN_FEET)]),
        (None, IN_ELLS, [("unproven_unit", f'{CHANGE} ells"; Donauturm does not say "252 ells"', IN_ELLS)]),
        (None, "FLAG\nNobody can tell what it is.", [("cannot_be_mended", "Nobody can tell what it is.", "")]),
        ("", None, [EMPTY_REPLY]),
        (" \n", None, [EMPTY_REPLY]),
    ],
)
def test_judge_findings_become_flags(
    run: Run, judge: Judge, objective: str | None, wording: str | None, flags: list[tuple[str, str, str]]
) -> None:
    judge.objective = {} if objective is None else {QUESTION: [objective] * 2}
    judge.wording = {} if wording is None else {QUESTION: [wording] * 2}
    left = run(make_row())
    assert flags_of(left) == flags
    assert left.rows[f"id of {QUESTION}"]["question"] == QUESTION


def test_wording_judge_sees_steps_and_number_passages_of_articles(run: Run, judge: Judge) -> None:
    run(make_row())
    (asked,) = (each for each in judge.asked if "<steps>" in each)
    assert asked.endswith(
        '<steps>What is towers? — ["Donauturm"]\n'
        "What is its height? — 252 [Donauturm]: It is 252 m (827 ft) high.</steps>"
    )


def test_unreadable_completion_is_requested_again_once(run: Run, judge: Judge) -> None:
    judge.objective = {QUESTION: ["Yes", "Y"]}
    judge.wording = {QUESTION: [MENDED.replace("five", "six"), MENDED]}
    left = run(make_row())
    assert [code for code, _, _ in flags_of(left)] == ["wording"]
    assert len(judge.asked) == 4
    corrections = [said for said in judge.asked if "could not be read" in said]
    assert any("the reply ends with 'Yes', expected the letter Y or N" in said for said in corrections)
    assert any("the rewrite lacks 'five'" in said for said in corrections)


def test_repeatedly_unreadable_completion_leaves_question_unscored(run: Run, judge: Judge) -> None:
    judge.objective = {QUESTION: ["N is unknown", "N is the number of towers"]}
    judge.wording = {QUESTION: ["It is fine.", "Austria lies in Europe."]}
    left = run(make_row(flags=[EARLIER]))
    (earlier, objectivity, wording) = flags_of(left)
    assert earlier[0] == EARLIER.code
    assert (objectivity[0], wording[0]) == ("unscored", "unscored")
    assert objectivity[1].startswith(
        "objectivity: the reply ends with 'N is the number of towers', expected the letter"
    )
    assert wording[1].startswith("wording: the reply is 'Austria lies in Europe.', expected \"No change.\"")
    assert left.rejects == {}


@pytest.mark.parametrize("prompt", ["objective", "wording"])
def test_unavailable_judge_rejects_row_as_retryable(run: Run, judge: Judge, prompt: str) -> None:
    setattr(judge, prompt, {QUESTION: [500] * 2})
    left = run(make_row(), make_row("Which is the highest tower of Austria?"))
    assert list(left.rows) == ["id of Which is the highest tower of Austria?"]
    assert left.rejects[f"id of {QUESTION}"][0] == "model_failed"
    assert left.receipt.unsettled == 1


def test_question_with_withheld_answer_is_judged_without_it(run: Run, judge: Judge) -> None:
    run(make_row(answer=None, decomposition="[]"))
    assert f"<moment>{EPOCH}</moment>\n<question>{QUESTION}</question>" in judge.asked
    assert f"<question>{QUESTION}</question>\n<answer>not given</answer>\n<steps>not given</steps>" in judge.asked


def test_cached_judgements_are_not_requested_again(run: Run, judge: Judge) -> None:
    first = run(make_row())
    asked = len(judge.asked)
    assert run(make_row()).receipt.digest == first.receipt.digest
    assert len(judge.asked) == asked


@pytest.mark.parametrize("name", ["objective", "wording"])
def test_judge_prompts_use_judge_role_and_temperature_0(name: str) -> None:
    prompt = load_prompt(f"fanoutqa/{name}")
    assert (prompt.role, prompt.temperature) == ("judge", 0.0)
