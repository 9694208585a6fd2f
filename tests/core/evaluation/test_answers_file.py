"""Files of answers: what is taken, what is told of them, what is refused."""

from typing import Any

import pytest

from factmill.tasks.core.evaluation.answers import UnscoredAnswer, parse_answers_file
from factmill.tasks.errors import SourceError


def _read(*values: Any) -> Any:
    return parse_answers_file(enumerate(values, 1), "mine.jsonl")


def test_an_answer_of_a_setting_goes_before_one_of_none() -> None:
    found = _read({"id": "a", "answer": "1"}, {"id": "a", "setting": "idk", "answer": "2"}, {"id": "b", "answer": None})
    assert found.find_answer_to("greedy", "a") == "1"
    assert found.find_answer_to("idk", "a") == "2"
    assert found.find_answer_to("idk", "b") == ""
    assert found.find_answer_to("idk", "c") is None


def test_what_does_not_fit_is_told_with_its_first_ids() -> None:
    found = _read(
        *({"id": each, "answer": each} for each in ("a", "b", "a", "x", "y", "z", "w")),
        {"id": "b", "setting": "odd", "answer": ""},
    )
    assert found.format_mismatches([("greedy", "a"), ("greedy", "b"), ("greedy", "c")]) == {
        "answers missing": "1: c", "answers extra": "5: x, y, z …", "answers doubled": "1: a"
    }  # fmt: skip
    assert found.find_answer_to("greedy", "a") == "a"
    assert _read({"id": "a", "answer": "1"}).format_mismatches([("greedy", "a")]) == {}


def test_a_file_is_to_the_questions_of_one_build() -> None:
    row = {"id": "a", "answer": "1"}
    assert _read(row).build == ""
    assert _read(row, row | {"build": "toy-1"}, row | {"build": None}).build == "toy-1"
    with pytest.raises(SourceError, match=r"mine.jsonl, row 3: .*toy-2.*toy-1"):
        _read(row | {"build": "toy-1"}, row, row | {"build": "toy-2"})


@pytest.mark.parametrize("setting", ["", "greedy"])
def test_answers_of_which_none_is_asked_for_are_an_error(setting: str) -> None:
    found = _read({"id": "a", "answer": "1", "setting": setting}, {"id": "b", "answer": "2", "setting": setting})
    found.require_any_match([("greedy", "a"), ("greedy", "c")], "mine")
    with pytest.raises(SourceError, match=rf"mine: .*: 2: {setting} ?a, .*: 1: odd c\..*--build BUILD"):
        found.require_any_match([("odd", "c")], "mine")
    _read().require_any_match([("odd", "c")], "mine")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("text", 'row 1: .*str.*"id".*"answer"'),
        ({"id": "a"}, "row 1: answer "),
        ({"answer": "a"}, "row 1: id "),
        ({"id": 3, "answer": "a"}, "row 1: id "),
        ({"id": "a", "answer": ["b"]}, "row 1: answer "),
        ({"id": "a", "answer": "b", "build": 7}, "row 1: build "),
        ({"id": "a", "setting": 1, "answer": "b"}, "row 1: setting "),
    ],
)
def test_what_is_no_answer_is_refused(value: Any, said: str) -> None:
    with pytest.raises(SourceError, match=f"mine.jsonl, {said}"):
        _read(value)


def test_an_answer_that_was_not_delivered_has_its_reason() -> None:
    found = _read({"id": "a", "answer": "", "unscored": "model_failed", "detail": "TimeoutError: \ud800"})
    assert found.find_answer_to("greedy", "a") == UnscoredAnswer("model_failed", "TimeoutError: ?")
    for reason in ("judge_failed", "missing", "lost", 7, ["model_failed"]):
        with pytest.raises(SourceError, match=r"row 1: unscored is .*expected one of model_failed, "):
            _read({"id": "a", "answer": "", "unscored": reason})
    with pytest.raises(SourceError, match="detail 7"):
        _read({"id": "a", "answer": "", "unscored": "refused", "detail": 7})
    assert _read({"id": "a", "answer": "b", "unscored": None, "detail": ""}).find_answer_to("", "a") == "b"


def test_half_of_a_surrogate_pair_is_replaced() -> None:
    assert _read({"id": "a", "answer": "Q\ud800 29"}).find_answer_to("", "a") == "Q? 29"
