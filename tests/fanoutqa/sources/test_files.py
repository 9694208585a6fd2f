"""Test files of fan-out questions: recognised by content, read row by row without loss."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.rows.fanout_questions import author_question, leaf, release_dev, release_test

from factmill.tasks.core.rows import Reject
from factmill.tasks.errors import SourceError
from factmill.tasks.fanoutqa.core.questions import list_sub_questions
from factmill.tasks.fanoutqa.core.rows import GatheredFanOutQuestion
from factmill.tasks.fanoutqa.sources.question_files import check_and_parse_question, read_question_file
from factmill.tasks.storage.source_files import (
    ParsedSourceRow,
    SourceFile,
    make_source_file_with_digest,
    make_source_file_without_digest,
)
from factmill.tasks.text.values.answer_search import AnswerValue


def read(file: Path, text: str) -> list[ParsedSourceRow]:
    file.write_text(text, "utf-8")
    return list(read_question_file(make_source_file_without_digest(file)))


def keep(read_rows: list[ParsedSourceRow]) -> list[GatheredFanOutQuestion]:
    return [each.outcome for each in read_rows if isinstance(each.outcome, GatheredFanOutQuestion)]


@pytest.mark.parametrize("is_list", [True, False], ids=["list", "lines"])
def test_question_form_is_detected_from_content_not_file_name(tmp_path: Path, is_list: bool) -> None:
    rows = [author_question(), release_dev(), release_test()]
    text = json.dumps(rows, indent=1) if is_list else "\n".join(map(json.dumps, rows))
    found = read(tmp_path / "questions.txt", text)
    assert [each.row_id for each in found] == ["questions_0", "questions_1", "questions_2"]
    assert [json.loads(each.raw_json) for each in found] == rows
    authored, dev, test = keep(found)
    assert [(row.source, row.published_split) for row in (authored, dev, test)] == [
        ("authored", None), ("released", "dev"), ("released", "test"),
    ]  # fmt: skip
    assert {row.licence for row in (authored, dev, test)} == {"none stated"}, "the form does not state a licence"
    assert [(row.source_name, row.source_row) for row in (authored, test)] == [
        ("questions.txt", 1),
        ("questions.txt", 3),
    ]
    assert json.loads(dev.decomposition) == release_dev()["decomposition"]
    assert (test.answer, test.decomposition, authored.necessary_evidence) == (None, "[]", None)
    assert json.loads(test.necessary_evidence or "") == release_test()["necessary_evidence"]
    for row, form in zip((authored, dev, test), rows, strict=True):
        assert row.tree() == check_and_parse_question(form).question


def test_questions_carry_licence_of_their_file(tmp_path: Path) -> None:
    file = tmp_path / "q.json"
    file.write_text(json.dumps([author_question(), release_dev()]))
    found = keep(list(read_question_file(SourceFile(file, "q", licence="CC0-1.0"))))
    assert [row.licence for row in found] == ["CC0-1.0", "CC0-1.0"]


def test_invalid_rows_are_rejected_with_all_broken_rules_and_others_are_kept(tmp_path: Path) -> None:
    broken = author_question()
    broken["strategy"][1]["then"][0] |= {"answer": None, "evidence": "https://de.wikipedia.org/wiki/Donau"}
    wrong = release_dev()
    wrong["decomposition"][0]["depends_on"] = ["z"]
    no_strategy = leaf("Who?", "Ada", 1)
    rows: list[Any] = [broken, 5, {"a": 1}, wrong, author_question(), no_strategy, None]
    found = [each.outcome for each in read(tmp_path / "q.json", json.dumps(rows))]
    lines = [(each.row_id, each.reason) if isinstance(each, Reject) else each.id for each in found]
    assert lines == [
        ("q_0", "invalid_question"),
        ("q_1", "malformed_row"),
        ("q_2", "malformed_row"),
        ("q_3", "invalid_question"),
        keep(read(tmp_path / "one.json", json.dumps([author_question()])))[0].id,
        ("q_5", "invalid_question"),
        ("q_6", "malformed_row"),
    ]
    details = [each.detail for each in found if isinstance(each, Reject)]
    assert "strategy[1].then[0]: the answer is null" in details[0]
    assert "; strategy[1].then[0]: evidence: " in details[0]
    assert details[1] == "top-level question: expected an object, found 5"
    assert 'question and strategy, decomposition or necessary_evidence, found "a"' in details[2]
    assert 'decomposition[0]: depends_on names "z"' in details[3]
    assert "has its own evidence" in details[4]
    assert "has no strategy" in details[4]


def test_minimum_article_count_applies_only_to_authored_questions(tmp_path: Path) -> None:
    file = tmp_path / "q.json"
    file.write_text(json.dumps([author_question(), release_dev()]))
    assert [type(each.outcome) for each in read_question_file(make_source_file_without_digest(file), 8)] == [
        Reject,
        GatheredFanOutQuestion,
    ]
    assert [type(each.outcome) for each in read_question_file(make_source_file_without_digest(file), 7)] == [
        GatheredFanOutQuestion,
        GatheredFanOutQuestion,
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty; expected a JSON list or JSON Lines of questions with strategy"),
        ("[]", "no rows"),
        ("[1, {}]", "row 1: top-level question: expected an object, found 1, and no other row is better"),
    ],
)
def test_file_of_wrong_type_raises_source_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        read(tmp_path / "q.json", text)


def test_row_with_non_json_number_is_rejected(tmp_path: Path) -> None:
    good = json.dumps(author_question())
    for number in ("NaN", "-Infinity", "1e999"):
        text = f"{good}\n{good.replace('2850.0', number)}"
        assert [type(each.outcome) for each in read(tmp_path / "q.jsonl", text)] == [GatheredFanOutQuestion, Reject]


@pytest.mark.parametrize("levels", [30, 200, *range(470, 500, 3), 600, 5000])
def test_deep_nesting_is_rejected_or_raises_source_error(tmp_path: Path, levels: int) -> None:
    deep = '{"question": "Who?", "answer": 1, "strategy": [' * levels + "1" + "]}" * levels
    try:
        found = read(tmp_path / "q.json", deep)
    except SourceError as error:
        assert "nested too deeply" in str(error)
        assert levels > 30
    else:
        assert "expected at most 20 levels" in found[0].outcome.detail  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "sub_questions"), [("fanout-final-dev.json", 2225), ("fanout-final-dev-nov23.json", 2193)]
)
def test_published_files_load_completely(shared_data: Path, name: str, sub_questions: int) -> None:
    file = shared_data / "fanoutqa" / name
    rows = keep(list(read_question_file(make_source_file_with_digest(file))))
    released = json.loads(file.read_text("utf-8"))
    assert [row.id for row in rows] == [each["id"] for each in released]
    assert len({row.id for row in rows}) == 310
    assert {(row.published_split, row.licence) for row in rows} == {("dev", "CC-BY-SA-4.0")}
    for row, form in zip(rows, released, strict=True):
        assert row.answer == json.dumps(form["answer"], ensure_ascii=False)
        assert json.loads(row.decomposition) == form["decomposition"]
    trees = [row.tree() for row in rows]
    subs = [sub for tree in trees for _, sub in list_sub_questions(tree)]
    assert len(subs) == sub_questions
    assert _count_types(tree.answer for tree in trees) == _count_types(each["answer"] for each in released)
    assert set(_count_types(sub.answer for sub in subs)) == {"str", "int", "float", "bool", "list", "dict"}


def _count_types(answers: Any) -> Counter[str]:
    kinds: list[AnswerValue] = list(answers)
    return Counter(type(answer).__name__ for answer in kinds)
