"""Test users' own question tables: answers whose number has two readings."""

import json
from pathlib import Path

import pytest

from factmill.tasks.core.rows import Reject
from factmill.tasks.multihal.core.rows import FoundationQuestion
from factmill.tasks.multihal.params import MultiHalParams
from factmill.tasks.multihal.sources.user_questions import pin_user_questions, read_user_questions


def read(path: Path) -> list[FoundationQuestion | Reject]:
    tables = pin_user_questions(MultiHalParams(source=(str(path),)))
    return [row.outcome for row in read_user_questions(tables.files[0], tables.own)]


@pytest.mark.parametrize("answer", ["8.611 Meter", "8.611", "-12.500 Einwohner", "120.000 square kilometres"])
def test_number_with_one_dot_and_three_digits_is_rejected_with_both_readings(tmp_path: Path, answer: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(f"question,answer\nHow high is K2?,{answer}\nWho?,Ada\n", "utf-8")
    rejected, read_row = read(path)
    assert isinstance(rejected, Reject) and rejected.reason == "malformed_row"
    number, _, unit = answer.lstrip("-").partition(" ")
    for reading in (number.replace(".", ""), f"the decimal number {number}"):
        assert f"{reading} {unit}".strip() in rejected.detail
    assert isinstance(read_row, FoundationQuestion)


@pytest.mark.parametrize(
    "answer",
    ["8,611 metres", "8611 Meter", "8.61 m", "0.611 m", "8.6110 m", "1.234.567", "8.611,5 m", "2024.123", "x 8.611"],
)
def test_number_with_one_reading_is_kept(tmp_path: Path, answer: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(f'question,answer\nHow high is K2?,"{answer}"\n', "utf-8")
    (kept,) = read(path)
    assert isinstance(kept, FoundationQuestion) and kept.output == answer


def test_number_of_json_file_is_decimal(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    rows = [{"question": "How much?", "answer": each} for each in (8.611, [8.611, "x"], "8.611")]
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    first, listed, text = read(path)
    assert [each.output for each in (first, listed) if isinstance(each, FoundationQuestion)] == ["8.611", "8.611"]
    assert isinstance(text, Reject)
