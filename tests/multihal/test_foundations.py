"""Test the first steps: rows read, merged and typed, with planted errors."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.rows.foundation_rows import SIMPLEQA, write
from support.rows.questions import typed_question
from support.steps.inputs import multihal_inputs
from support.steps.steps import read_unit, run_step

from factmill.tasks.multihal.core.rows import FoundationQuestion
from factmill.tasks.multihal.preprocess import classify_answer_types, deduplicate_foundation_questions, read_foundation

INPUTS = multihal_inputs(languages=("eng", "deu"))


def asked(question: str, answer: str, **more: Any) -> FoundationQuestion:
    return typed_question(question, question, answer, **more).narrow_to(FoundationQuestion)


def test_questions_about_different_years_are_not_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = SimpleNamespace(encode=lambda texts: np.ones((len(texts), 2), np.float32))
    services = SimpleNamespace(embedder=lambda: encoder)
    rows = [asked("Who won in 2018?", "Ada"), asked("Who won in 2019?", "Bob")]
    left = run_step(deduplicate_foundation_questions, rows, services, tmp_path / "r", monkeypatch, INPUTS)
    assert (left.merged, len(left.rows)) == ({}, 2)


def test_code_in_metadata_makes_row_malformed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(tmp_path, "simpleqa", [{**SIMPLEQA, "metadata": "__import__('os')"}, SIMPLEQA])
    left = read_unit(read_foundation, "simpleqa", None, tmp_path / "r", monkeypatch, INPUTS, [source])
    assert list(left.reasons.values()) == ["malformed_row"]


def test_refusals_and_unknown_units_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [asked(answer, answer, answer_type="numerical") for answer in ("I have no comment", "1.96 apples")]
    left = run_step(classify_answer_types, rows, None, tmp_path / "r", monkeypatch, INPUTS)
    assert left.reasons == {"I have no comment": "refusal", "1.96 apples": "unknown_unit"}
