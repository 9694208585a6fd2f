"""Test GRANOLA-EQ's evaluation end to end: built-in models, a file of answers, and a model in the paper's settings."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.builds.measured import Measured, list_overall
from support.builds.small_builds import SmallBuilds
from support.models.scripted_chat import Message, ScriptedChat, write_chat_world

from factmill.tasks.assets import load_prompt
from factmill.tasks.granola.core.evaluation.rows import AGGREGATE_PROMPT, EVALUATION_PROMPTS
from factmill.tasks.granola.core.evaluation.scoring import MAIN_METRICS

KEY = {"TEST_KEY": "secret-key-1"}


@pytest.fixture(scope="module")
def measure(small_builds: SmallBuilds, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return Measured.small(small_builds, "granola", tmp_path_factory.mktemp("granola"))


def read_main(expected: Any, setting: str = "greedy") -> list[float]:
    overall = list_overall(expected)
    return [overall[setting, metric]["value"] for metric in MAIN_METRICS]


def test_built_in_models_score_extremes_of_each_metric(measure: Measured) -> None:
    oracle, guesser, silent = (measure("--model", model) for model in ("oracle", "guesser", "silent"))
    assert read_main(oracle) == [1, 1, 1, 1, 1]
    assert read_main(silent) == [0, 0, 0, 0, 0]
    assert list_overall(silent)["greedy", "share_no_answer"]["value"] == 1
    assert silent["unscored"] == 0
    compared = measure("--model", "oracle", "--similarity", "5")
    assert list_overall(compared)["greedy", "semantic_similarity"]["n"] == 5
    assert list_overall(compared)["greedy", "accuracy"] == list_overall(oracle)["greedy", "accuracy"]
    # of a dozen questions, the most common other answer may fit none; it is still an answer
    assert list_overall(guesser)["greedy", "informativeness"]["value"] < 1
    assert list_overall(guesser)["greedy", "share_no_answer"]["value"] == 0
    measure.verify(guesser)


def test_answer_file_with_any_answers_is_scored(measure: Measured, tmp_path: Path) -> None:
    rows = measure.read("granola_eq", measure.build_id)
    said = [
        rows[0]["granola_answers"][0].upper(),
        f"**Answer:** {rows[1]['granola_answers'][-1]}\n\nThat is all that is known.",
        "I don’t know.",
        "",
        "x" * 100_000,
        "half a character: \ud83d",
        "東京都",
        "I'm sorry, but I cannot help with that.",
    ]
    path = tmp_path / "mine.jsonl"
    lines = [{"id": row["id"], "answer": text} for row, text in zip(rows, said, strict=False)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = measure("--answers", path, "--decay", "1", "--similarity", "0")
    answers = {row["item"]: row for row in measure.read("granola_answers", result["evaluation_id"])}
    found = [(answers[row["id"]]["matched_level"], answers[row["id"]]["is_idk"]) for row in rows]
    last = len(rows[1]["granola_answers"])
    rest = len(rows) - len(said)
    assert found == [(1, False), (last, False), (0, True), *[(0, False)] * 4, (0, True), *[(None, False)] * rest]
    accuracy = list_overall(result)["greedy", "granola_accuracy"]
    assert (accuracy["value"], accuracy["n"], accuracy["n_unscored"]) == (0.25, 8, rest)
    assert list_overall(result)["greedy", "selective_granola_accuracy"]["n"] == 6
    assert not any(each["metric"] == "semantic_similarity" for each in result["metrics"])
    assert result["unscored"] == rest


class Model:
    """A model that knows the country of every place; samples name three places, two of them equal."""

    def __init__(self, golds: dict[str, list[str]]) -> None:
        self.golds = golds
        self.asked: Counter[tuple[str, str]] = Counter()
        """Maps (prompt, question) to its number of requests."""
        self.chat = ScriptedChat(self._answer)

    def _answer(self, messages: Sequence[Message]) -> tuple[int, str]:
        (prompt,) = (each for each in EVALUATION_PROMPTS if load_prompt(each).parts[0][1] == messages[0]["content"])
        text = messages[-1]["content"]
        if prompt == AGGREGATE_PROMPT:
            (question, responses) = re.findall(r"<(?:question|responses)>\n?(.*?)\n?</", text, re.DOTALL)
            self.asked[prompt, question] += 1
            assert sorted(responses.replace(".", "").splitlines()) == ["- Atlantis", "- Avalon", "- Avalon"]
            return 200, f"Aggregated answer: {self.golds[question][-1]}"
        self.asked[prompt, text] += 1
        if prompt != "granola/answer":
            return 200, "IDK"
        return 200, ("Avalon", "Avalon.", "Atlantis")[self.asked[prompt, text] % 3]


@pytest.fixture
def model(measure: Measured) -> Iterator[Model]:
    rows = measure.read("granola_eq", measure.build_id)
    model = Model({row["question"]: row["granola_answers"] for row in rows})
    yield model
    model.chat.close()


def test_model_requests_follow_each_setting(measure: Measured, model: Model, tmp_path: Path) -> None:
    world = write_chat_world(tmp_path, model.chat.url, ["answerer"])
    settings = [part for name in ("idk", "self_consistency", "drag") for part in ("--setting", name)]
    result = measure("--world", world, *settings, "--samples", "3", **KEY)
    questions = len(model.golds)
    overall = list_overall(result)
    assert [overall[setting, "share_idk"]["value"] for setting in ("idk", "self_consistency", "drag")] == [1, 0, 0]
    assert overall["idk", "selective_accuracy"]["value"] is None
    assert overall["self_consistency", "granola_accuracy"]["value"] == 0
    assert overall["drag", "granola_accuracy"]["value"] == 1
    rows = measure.read("granola_answers", result["evaluation_id"])
    majority = next(row for row in rows if row["setting"] == "self_consistency")
    assert majority["answer_read"].rstrip(".") == "Avalon"
    assert len(majority["samples"]) == 3
    drag = next(
        row
        for row in rows
        if row["setting"] == "drag"
        and not any(row["granola_answers"][-1] in finer for finer in row["granola_answers"][:-1])
    )
    assert drag["answer_read"] == drag["granola_answers"][-1]
    assert drag["answer"] == f"Aggregated answer: {drag['answer_read']}"
    assert (len(drag["samples"]), drag["tokens_out"]) == (3, 4 * 5)
    # both settings use the same samples, which are drawn once
    assert sum(times for (prompt, _), times in model.asked.items() if prompt == AGGREGATE_PROMPT) == questions
    drawn = sum(times for (prompt, _), times in model.asked.items() if prompt == "granola/answer")
    assert 3 * questions <= drawn <= 3 * questions + 8

    before = model.asked.total()
    finer = measure("--world", world, *settings, "--samples", "3", "--tau", "0.9", **KEY)
    assert (model.asked.total(), finer["calls_sent"]) == (before, 0)
    measure.verify(result, **KEY)
    explained = measure.factmill(
        "explain",
        "granola_evaluation",
        drag["id"],
        "--build",
        result["evaluation_id"],
        "--warehouse",
        measure.warehouse,
    )
    assert f"verdict     level {len(drag['granola_answers'])}" in explained.out
    assert "drawn       Av" in explained.out or "drawn       Atlantis" in explained.out


def test_single_sample_is_not_aggregated(measure: Measured, model: Model, tmp_path: Path) -> None:
    world = write_chat_world(tmp_path, model.chat.url, ["answerer"])
    measure("--world", world, "--setting", "drag", "--samples", "1", "--limit", "2", **KEY)
    assert {prompt for prompt, _ in model.asked} == {"granola/answer"}
    assert model.asked.total() == 2
