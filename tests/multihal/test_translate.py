"""Test translation with the real step and a scripted translator: what a translated path must keep."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.rows.questions import typed_question
from support.steps.inputs import multihal_inputs
from support.steps.steps import Left, run_step

from factmill.tasks.core.calls.call import Call, CallResponse, ResponseHandler
from factmill.tasks.multihal.core.rows import ScoredPath
from factmill.tasks.multihal.translate import translate_paths


class Translator:
    """A translator that marks every text except "?", which it cannot translate, and renders paths as scripted."""

    is_outside = True
    identity = "t"

    def __init__(self, said: Callable[[list[str]], list[str]]) -> None:
        self.said = said

    def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        for call in calls:
            if call.operation == "translate_text":
                text = str(call.parts["text"])
                deliver(
                    call,
                    CallResponse(None, "failed", "untranslatable: x") if text == "?" else CallResponse(f"{text} (t)"),
                )
            else:
                parts: list[str] = call.parts["parts"]  # type: ignore[assignment]
                deliver(call, CallResponse([{"text": text, "origin": "translated"} for text in self.said(parts)]))


def scored_path(**changed: Any) -> ScoredPath:
    path = ["Q43512", "P2044", "8611"]
    return typed_question("q", "How high is K2?", "8,611 metres", answer_type="numerical", **changed).extend_to(
        ScoredPath, question_id="q", subjects=["Q43512"], objects=["8611"], responses=path, responses_formatted=path,
        path_statement=None, path_labels=["K2", "elevation", "8611 metre"], chosen_by="all", judged_by="j",
        judged_score=5, judge_call="c",
    )  # fmt: skip


@pytest.fixture
def translate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Left]:
    """Translate a path with a translator that renders paths by `said`."""

    def run(row: ScoredPath, said: Callable[[list[str]], list[str]], *languages: str) -> Left:
        services, inputs = SimpleNamespace(translator=lambda: Translator(said)), multihal_inputs(languages=languages)
        return run_step(translate_paths, [row], services, tmp_path / "run", monkeypatch, inputs)

    return run


@pytest.mark.parametrize(
    ("said", "is_kept"),
    [
        (lambda parts: parts, True),
        (lambda parts: [*parts[:-1], "8611 Meter"], True),
        (lambda parts: [*parts[:-1], "Meter 8611"], False),
        (lambda parts: [*parts[:-1], "8.611 Meter"], False),
        (lambda parts: [parts[-1], *parts[1:-1], parts[0]], False),
        (lambda parts: parts[:-1], False),
    ],
)
def test_value_must_keep_its_text_and_position_in_translation(
    translate: Callable[..., Left], said: Callable[[list[str]], list[str]], is_kept: bool
) -> None:
    left = translate(scored_path(), said, "eng", "deu")
    assert len(left.rows) == 1 + is_kept
    assert [reason for reason, _ in left.rejects.values()] == ["value_moved"] * (not is_kept)


def test_item_at_end_of_path_is_translated(translate: Callable[..., Left]) -> None:
    path, labels = ["Q1", "P19", "Q64"], ["Ada", "place of birth", "Cologne"]
    row = scored_path().replace(responses_formatted=path, responses=path, path_labels=labels)
    left = translate(row, lambda parts: [*parts[:-1], "Köln"], "deu")
    assert [each["trip_labels"][-1] for each in left.rows.values()] == ["Köln"]


def test_incorrect_and_disputed_answers_are_translated_like_correct_ones(translate: Callable[..., Left]) -> None:
    row = scored_path(optional_output=["a", "?"], incorrect_answers=["b", "?"], disputed_answers=["c", "?"])
    rows = translate(row, lambda parts: parts, "eng", "deu").rows
    kinds = ("optional_output", "incorrect_answers", "disputed_answers")
    assert [rows["q_eng"][kind] for kind in kinds] == [["a", "?"], ["b", "?"], ["c", "?"]]
    assert [rows["q_deu"][kind] for kind in kinds] == [["a (t)"], ["b (t)"], ["c (t)"]]
