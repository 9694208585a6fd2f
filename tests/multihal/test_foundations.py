"""The first steps: what is read, united and typed, and errors planted in it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.rows.foundation_rows import SIMPLEQA, write
from support.rows.questions import typed_question
from support.steps.inputs import multihal_inputs
from support.steps.steps import Left, read_unit, run_step

from factmill.tasks.core.rows import Row
from factmill.tasks.multihal.core.rows import FoundationQuestion
from factmill.tasks.multihal.preprocess import classify_answer_types, deduplicate_foundation_questions, read_foundation

Run = Callable[..., Left]


def asked(question: str, answer: str, **more: Any) -> FoundationQuestion:
    return typed_question(question, question, answer, **more).narrow_to(FoundationQuestion)


def unite(run: Run) -> set[str]:
    encoder = SimpleNamespace(encode=lambda texts: np.ones((len(texts), 2), np.float32))
    rows = [asked("Who won in 2018?", "Ada"), asked("Who won in 2019?", "Bob")]
    left = run(deduplicate_foundation_questions, rows, SimpleNamespace(embedder=lambda: encoder))
    return {"kept apart"} if not left.merged and len(left.rows) == 2 else set()


def type_answer(answer: str) -> Callable[[Run], set[str]]:
    return lambda run: reasons(run(classify_answer_types, [asked("q", answer, answer_type="numerical")], None))


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
    ],
    ids=["another year", "code in metadata", "refusal", "unknown unit"],
)
def test_a_planted_error_is_caught(
    plant: Callable[[Run], set[str]], caught: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = multihal_inputs(languages=("eng", "deu"))

    def run(step: Any, rows: Sequence[Row] | str, given: Any) -> Left:
        if isinstance(rows, str):
            return read_unit(step, rows, None, tmp_path / "r", monkeypatch, inputs, [write(tmp_path, rows, given)])
        return run_step(step, rows, given, tmp_path / "r", monkeypatch, inputs)

    assert plant(run) == {caught}
