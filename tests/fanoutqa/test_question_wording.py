"""Test the step that words generated questions, with a scripted chat server."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.models.scripted_chat import Message, ScriptedChat
from support.rows.fanout_rows import fan_out_row
from support.rows.fanout_wordings import ISLANDS_QUESTION, LISTED, PEOPLE
from support.steps.steps import Left, run_step

from factmill.tasks.clients.chat import ChatClient
from factmill.tasks.core.service_settings import ModelSettings, ServiceLimits
from factmill.tasks.fanoutqa.core.questions import dump_json
from factmill.tasks.fanoutqa.core.rows import GatheredFanOutQuestion
from factmill.tasks.fanoutqa.gather import phrase_generated_questions

LIMITS = ServiceLimits(parallel=2, timeout_s=5, attempts=2, backoff_s=0.01)


def make_row(row_id: str, **changed: Any) -> GatheredFanOutQuestion:
    columns = {"source": "generated", "question": "", "answer": dump_json(PEOPLE), "wording": LISTED.to_json()}
    return fan_out_row(id=row_id, **(columns | changed))


class Talker:
    """A model that gives its replies in order."""

    def __init__(self) -> None:
        self.says: list[str | int] = []
        self.asked: list[str] = []
        self.chat = ScriptedChat(self._answer)

    def _answer(self, messages: Sequence[Message]) -> tuple[int, str]:
        self.asked.append(messages[-1]["content"])
        said = self.says[min(len(self.asked), len(self.says)) - 1]
        return (200, said) if isinstance(said, str) else (said, "overloaded")


@pytest.fixture
def talker() -> Iterator[Talker]:
    talker = Talker()
    yield talker
    talker.chat.close()


@pytest.fixture
def run(talker: Talker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Left]:
    model = ModelSettings(kind="openai", name="tester", url=talker.chat.url, limits=LIMITS)

    def run(*rows: GatheredFanOutQuestion) -> Left:
        services = SimpleNamespace(
            model=lambda _role: (ChatClient(talker.chat.url, model, lambda: "key", "factmill tests"), model)
        )
        return run_step(phrase_generated_questions, rows, services, tmp_path / "step", monkeypatch)

    return run


def test_model_words_generated_question_from_its_parts_without_seeing_answer(
    run: Callable[..., Left], talker: Talker
) -> None:
    talker.says = [f"{ISLANDS_QUESTION}\n"]
    left = run(make_row("a"))
    assert (left.rows["a"]["question"], left.rows["a"]["author"]) == (ISLANDS_QUESTION, "tester")
    (asked,) = talker.asked
    assert "<group>the islands of Vogtland</group>" in asked
    assert "<choice>the five that have the largest areas</choice>" in asked
    assert "Norde" not in asked


def test_wording_that_reveals_answer_is_requested_again_once(run: Callable[..., Left], talker: Talker) -> None:
    talker.says = [ISLANDS_QUESTION.replace("?", ", such as Norde?"), ISLANDS_QUESTION]
    assert run(make_row("a")).rows["a"]["question"] == ISLANDS_QUESTION
    assert "gives away Norde" in talker.asked[1]


def test_second_invalid_wording_rejects_question(run: Callable[..., Left], talker: Talker) -> None:
    talker.says = ["I would rather not."]
    left = run(make_row("a"))
    reason, detail = left.rejects["a"]
    assert reason == "reply_not_in_format"
    assert "expected one line that ends with a question mark" in detail
    assert len(talker.asked) == 2


def test_server_failure_rejects_question_as_retryable(run: Callable[..., Left], talker: Talker) -> None:
    talker.says = [503]
    left = run(make_row("a"))
    assert left.rejects["a"][0] == "model_failed"
    assert left.receipt.unsettled == 1


def test_authored_questions_pass_unchanged(run: Callable[..., Left], talker: Talker) -> None:
    given = make_row("a", source="authored", question="Who rules where?", wording=None)
    left = run(given)
    assert GatheredFanOutQuestion.model_validate(left.rows["a"]) == given
    assert talker.asked == []
