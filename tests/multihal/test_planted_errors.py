"""Errors planted in rows, replies and translations, kind by kind: each is caught by the check that is there for it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.rows.foundation_rows import SIMPLEQA, write
from support.rows.questions import mined_question, path_of, typed_question
from support.steps.inputs import multihal_inputs
from support.steps.steps import Left, read_unit, run_step

from tasks.core.calls.call import Call, Deliver, Reply
from tasks.core.rows import Row
from tasks.multihal.core.path_choice import open_choice, read_selection
from tasks.multihal.core.rows import FoundationQuestion, ScoredPath
from tasks.multihal.foundations import read_foundation, type_answers, unite_duplicates
from tasks.multihal.mine import label_paths
from tasks.multihal.translate import translate_paths

Run = Callable[..., Left]
LABELS = {"Q1": "K2", "P2": "elevation", "Q3": "Q3", "Q4": "K2 from afar.jpg", "Q5": "metre"}
PATH = ["Q1", "P2", "8611"]
SCORED = typed_question("q", "How high is K2?", "8,611 metres", answer_type="numerical").extend(
    ScoredPath, question_id="q", subjects=["Q1"], objects=["8611"], responses=PATH, responses_formatted=PATH,
    path_statement=None, path_labels=["K2", "elevation", "8611 metre"], chosen_by="all", judged_by="j",
    judged_score=5, judge_call="c",
)  # fmt: skip


class Service:
    """Answers each call as it is told; texts are translated as they are."""

    is_outside, identity = True, "s"

    def __init__(self, answer: Callable[[Call], Any]) -> None:
        self.answer = answer

    def send(self, calls: Sequence[Call], deliver: Deliver) -> None:
        for call in calls:
            deliver(call, Reply(call.parts["text"] if call.operation == "translate_text" else self.answer(call)))


def asked(question: str, answer: str, **more: Any) -> FoundationQuestion:
    return typed_question(question, question, answer, **more).narrow(FoundationQuestion)


def unite(run: Run) -> set[str]:
    encoder = SimpleNamespace(encode=lambda texts: np.ones((len(texts), 2), np.float32))
    rows = [asked("Who won in 2018?", "Ada"), asked("Who won in 2019?", "Bob")]
    left = run(unite_duplicates, rows, SimpleNamespace(embedder=lambda: encoder))
    return {"kept apart"} if not left.merged and len(left.rows) == 2 else set()


def type_answer(answer: str) -> Callable[[Run], set[str]]:
    return lambda run: reasons(run(type_answers, [asked("q", answer, answer_type="numerical")], None))


def label(*path: str) -> Callable[[Run], set[str]]:
    service = Service(lambda call: LABELS.get(str(call.parts["id"])))
    row = mined_question("q", [path_of(*path)])
    return lambda run: {drop["reason"] for drop in run(label_paths, [row], SimpleNamespace(wikidata=service)).extras}


def translate(*parts: str) -> Callable[[Run], set[str]]:
    service = Service(lambda _: [{"text": part, "origin": "translated"} for part in parts])
    services = SimpleNamespace(translator=lambda: service)
    return lambda run: reasons(run(translate_paths, [SCORED], services))


def select(_: Run) -> set[str]:
    choice = open_choice("q", [f"a; {number}; b" for number in range(11)])
    picks = read_selection("Path: a; 99; b")
    assert isinstance(picks, list)
    choice.take(picks, picks)
    return {"invented"} if choice.invented == 2 and "judge" not in choice.finish().values() else set()


def read_source(run: Run) -> set[str]:
    return reasons(run(read_foundation, "simpleqa", [{**SIMPLEQA, "metadata": "__import__('os')"}, SIMPLEQA]))


def reasons(left: Left) -> set[str]:
    return {reason for reason, _ in left.rejects.values()}


@pytest.mark.parametrize(
    ("plant", "caught"),
    [
        (unite, "kept apart"),
        (read_source, "malformed_row"),
        (type_answer("I have no comment"), "refusal"),
        (type_answer("1.96 apples"), "unknown_unit"),
        (label("Q1", "P2", "Q9"), "part_without_label"),
        (label("Q1", "P2", "Q4"), "part_in_no_words"),
        (label("Q1", "P2", "https://example.org/k2"), "part_in_no_words"),
        (label("Q1", "P2", "Q3"), "part_in_no_words"),
        (label("Q1", "P2", "Q1"), "ends_alike"),
        (select, "invented"),
        (translate("K2", "8611 Meter"), "value_moved"),
        (translate("K2", "Höhe", "Meter 8611"), "value_moved"),
        (translate("K2", "Höhe", "8.611 Meter"), "value_moved"),
    ],
    ids=[
        "another year", "code in metadata", "refusal", "unknown unit", "no label", "file name", "web address",
        "id for a label", "film and country of one name", "path of the judge's own", "part lost", "value behind its unit", "value rewritten",
    ],
)  # fmt: skip
def test_a_planted_error_is_caught(
    plant: Callable[[Run], set[str]], caught: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = multihal_inputs(languages=("eng", "deu"))

    def run(step: Any, rows: Sequence[Row] | str, given: Any) -> Left:
        if isinstance(rows, str):
            return read_unit(step, rows, None, tmp_path / "r", monkeypatch, inputs, [write(tmp_path, rows, given)])
        return run_step(step, rows, given, tmp_path / "r", monkeypatch, inputs)

    assert plant(run) == {caught}
