"""Test `factmill fanoutqa validate`: its findings on question files, and its exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Factmill
from support.rows.fanout_questions import author_question, release_dev, release_test


def write(file: Path, *rows: Any) -> Path:
    file.write_text(json.dumps(rows), "utf-8")
    return file


def test_valid_questions_open_articles_and_flags_are_counted(factmill: Factmill, tmp_path: Path) -> None:
    file = write(tmp_path / "q.json", author_question(), release_dev(), release_test(), release_dev())
    ran = factmill("fanoutqa", "validate", file)
    assert ran.code == 0, ran.err
    for result in (
        f"{file}: 4 questions (3 released, 1 authored)",
        "row 4 repeats the id q-dev of row 2; a build keeps the first",
        "row 2, q-dev: What are all of these?",
        "decomposition[2].decomposition[1]: not resolved to a revision: Article b (https://en.wikipedia.org/wiki/Article_b)",
        "row 3, q-test: What are all of those?",
        "necessary_evidence[1]: not resolved to a revision: Two (https://en.wikipedia.org/wiki/Two)",
        "top-level question: too_few_articles: ",
        "valid 4, invalid 0; sub-questions 18, references 17 to 13 articles, not resolved 3",
        "  answers: 3 dict, 1 held back",
        "  flag too_few_articles: ",
    ):
        assert result in ran.out


def test_broken_rules_are_reported_by_row_and_path_with_exit_code_1(factmill: Factmill, tmp_path: Path) -> None:
    broken = author_question()
    broken["strategy"][1]["then"][0] |= {"answer": None, "evidence": "x"}
    good = write(tmp_path / "good.json", author_question())
    file = write(tmp_path / "q.json", broken, {"question": "\ud800" + "o" * 200}, 5)
    ran = factmill("fanoutqa", "validate", good, file)
    assert ran.code == 1
    lines = ran.out.splitlines()
    at = lines.index(f"{file}: 3 questions (none valid)")
    assert lines[at + 1].startswith("  row 1 is invalid: How long are the rivers")
    assert lines[at + 2].startswith("    strategy[1].then[0]: the answer is null; expected an object")
    assert lines[at + 3].startswith("    strategy[1].then[0]: evidence: 'x'")
    assert "row 3 is invalid: (no wording)" in ran.out
    assert "builds leave out invalid questions; correct them at the places given above" in lines[-1]
    result = factmill("fanoutqa", "validate", good, file, "--json")
    assert result.code == 1
    assert not result.json["valid"]
    first, second = result.json["files"]
    assert (first["counts"]["invalid"], second["counts"]["invalid"]) == (0, 3)
    assert [(each["path"], each["rule"]) for each in second["invalid"][0]["violations"]] == [
        ("strategy[1].then[0]", "answer_null"),
        ("strategy[1].then[0]", "evidence_no_article"),
    ]
    assert "duplicates" not in result.json


def test_minimum_number_of_articles_is_configurable(factmill: Factmill, tmp_path: Path) -> None:
    file = write(tmp_path / "q.json", author_question())
    assert factmill("fanoutqa", "validate", file, "--least-articles", "7").code == 0
    ran = factmill("fanoutqa", "validate", file, "--least-articles", "8")
    assert (ran.code, "expected at least 8 different articles as evidence, found 7" in ran.out) == (1, True)


def test_duplicate_questions_are_found_across_files(factmill: Factmill, tmp_path: Path) -> None:
    again = author_question()
    again["question"] = again["question"].replace("How long", "How very long")
    one = write(tmp_path / "one.json", author_question(), release_test())
    other = write(tmp_path / "other.json", again)
    ran = factmill("fanoutqa", "validate", one, other, "--duplicates", "--json")
    assert ran.code == 0, ran.err
    (pair,) = ran.json["duplicates"]["pairs"]
    assert 0.9 <= pair["cosine"] < 1
    assert (pair["one"]["row"], pair["other"]["file"], pair["other"]["row"]) == (1, str(other), 1)
    result = factmill("fanoutqa", "validate", one, other, "--duplicates")
    assert f"cosine of 0.9 or more by {ran.json['duplicates']['embedder']}: 1" in result.out
    assert f"{other} row 1, " in result.out


@pytest.mark.parametrize("text", [None, "[]", "[{"])
def test_unreadable_file_exits_with_source_error(factmill: Factmill, tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "q.json"
    if text is not None:
        file.write_text(text)
    ran = factmill("fanoutqa", "validate", file)
    assert (ran.code, ran.err.endswith(" [source]\n"), str(file) in ran.err) == (2, True, True), ran.err


def test_help_shows_examples(factmill: Factmill) -> None:
    ran = factmill("fanoutqa", "validate", "--help")
    assert "factmill fanoutqa validate questions.json" in ran.out


def test_published_questions_are_valid_and_counted(factmill: Factmill, shared_data: Path) -> None:
    folder = shared_data / "fanoutqa"
    result = factmill.get_json(
        "fanoutqa", "validate", folder / "fanout-final-dev.json", folder / "fanout-final-dev-nov23.json"
    )
    counts = [each["counts"] for each in result["files"]]
    assert [(each["questions"], each["sub_questions"], each["unresolved"]) for each in counts] == [
        (310, 2225, 83), (310, 2193, 0),
    ]  # fmt: skip
    assert [sum(each["answers"].values()) for each in counts] == [310, 310]
    assert counts[1]["sub_answers"]["empty"] == 1
    assert len(result["files"][0]["unresolved"]) == 83
