"""The seven foundations' files: how they are placed, and what the real ones hold."""

import json
from collections import Counter
from pathlib import Path

import pytest
from support.rows.foundation_rows import DEFAN, FELM, GOOD, NAMES, SIMPLEQA, write

from tasks.errors import SourceError, UsageError
from tasks.multihal.core.rows import FoundationQuestion
from tasks.multihal.sources.foundations import FOUNDATIONS, check_foundations, find_foundation_files
from tasks.storage.source_files import name_source


def test_files_are_placed_by_their_columns(tmp_path: Path) -> None:
    for foundation, row in GOOD.items():
        write(tmp_path / foundation, foundation, [row] * 15)
    (tmp_path / "notes.txt").write_text("no rows")
    write(tmp_path, "halueval", [{"a": 1}], "other.json")
    found = find_foundation_files([tmp_path])
    assert {name: [path.name for path in paths] for name, paths in found.files.items()} == {
        name: [NAMES[name]] for name in FOUNDATIONS
    }
    renamed = write(tmp_path, "simpleqa", [SIMPLEQA], "questions.csv")
    assert find_foundation_files([renamed]).files == {"simpleqa": [renamed]}
    assert list(find_foundation_files([tmp_path / "felm", renamed], ["simpleqa", "felm"]).files) == ["felm", "simpleqa"]
    assert list(find_foundation_files([tmp_path / "felm", tmp_path / "felm" / "all.jsonl"]).files) == ["felm"]


def test_defan_math_is_left_out_with_a_message(tmp_path: Path) -> None:
    math = write(tmp_path, "defan", [DEFAN] * 2, "QA_domain_math_public.csv")
    sports = write(tmp_path, "defan", [DEFAN] * 15)
    for paths in ([tmp_path], [math, sports]):
        found = find_foundation_files(paths)
        assert found.files == {"defan": [sports]}
        assert found.left_out == [
            f"{math}: left out; DefAn's domain math is no list of questions with 14 paraphrases each"
        ]


def test_defan_is_read_under_its_authors_own_file_names(tmp_path: Path) -> None:
    rows = [{"Unnamed: 0": str(at), **DEFAN} for at in range(15)]
    files = [write(tmp_path, "defan", rows, f"QA_domain_{number}_public.csv") for number in range(1, 9)]
    (tmp_path / "QA_domain_1_public.json").write_text(json.dumps(rows))
    found = find_foundation_files([tmp_path])
    assert found.files == {"defan": files[:-1]}
    domains = [next(iter(FOUNDATIONS["defan"].read(name_source(file)))).outcome.domain for file in files[:-1]]  # type: ignore[union-attr]
    assert domains == ["sports", "census", "nobleprize", "entertainment", "worldorg", "qsranking", "conferences"]
    assert found.left_out == [
        f"{tmp_path / 'QA_domain_1_public.json'}: left out; QA_domain_1_public.csv beside it holds the same rows",
        f"{files[-1]}: left out; DefAn's domain math is no list of questions with 14 paraphrases each",
    ]


def test_files_that_cannot_be_placed_say_what_is_expected(tmp_path: Path) -> None:
    odd = write(tmp_path, "halueval", [{"a": 1}], "rows.json")
    broken = tmp_path / "TruthfulQA.csv"
    broken.write_text("Type,Category\n")
    nameless = write(tmp_path, "defan", [DEFAN] * 15, "sports.csv")
    one = write(tmp_path / "one", "felm", [FELM])
    two = write(tmp_path / "two", "felm", [FELM])
    cases = [
        ([tmp_path / "absent"], None, "absent: no such file or folder"),
        ([odd], None, r"rows\.json: belongs to no foundation by its columns; expected one of halueval: qa_data\.json"),
        (
            [broken],
            None,
            r"TruthfulQA\.csv: row 1: named like a file of truthfulqa, but its columns are Category, Type",
        ),
        ([nameless], None, r"sports\.csv: holds rows of defan, but the name does not say of what; expected QA_domain_"),
        ([one, two], None, r"two/all\.jsonl: felm has this part already, in .*one/all\.jsonl"),
        ([one], ["simpleqa"], r"is a file of felm, which is not among simpleqa"),
        (
            [tmp_path / "one"],
            ["simpleqa"],
            r"no file of simpleqa in .*; expected simpleqa: simple_qa_test_set\.csv with",
        ),
    ]
    for paths, foundations, message in cases:
        with pytest.raises(SourceError, match=message):
            find_foundation_files(paths, foundations)


def test_foundations_are_asked_for_by_name() -> None:
    assert check_foundations(None) == list(FOUNDATIONS)
    assert check_foundations(["simpleqa", "halueval"]) == ["halueval", "simpleqa"]
    with pytest.raises(UsageError, match="unknown foundation shroom; there are halueval, truthfulqa"):
        check_foundations(["shroom"])


REAL = {
    "halueval": {"kept": 250},
    "truthfulqa": {"kept": 300},
    "felm": {"kept": 46, "false_segment": 45, "malformed_row": 1},
    "shroom2024": {"kept": 224, "other_task": 357},
    "defan": {"kept": 148, "paraphrase": 2072},
    "simpleqa": {"kept": 400},
}


def test_the_real_files_are_read_whole(shared_data: Path) -> None:
    found = find_foundation_files([shared_data], list(REAL))
    ids: set[str] = set()
    for name, paths in found.files.items():
        rows = [row for path in paths for row in FOUNDATIONS[name].read(name_source(path))]
        counts = Counter("kept" if isinstance(row.outcome, FoundationQuestion) else row.outcome.reason for row in rows)
        assert counts == REAL[name], name
        assert len({row.row_id for row in rows} | ids) == len(rows) + len(ids)
        ids |= {row.row_id for row in rows}
    assert found.left_out == []


def test_ids_are_those_of_the_paper(shared_data: Path) -> None:
    path = shared_data / "truthfulqa" / "TruthfulQA.csv"
    questions = {row.row_id: row.outcome for row in FOUNDATIONS["truthfulqa"].read(name_source(path))}
    known = questions["tqa_gen_38"]
    assert isinstance(known, FoundationQuestion)
    assert known.input == "In what country was Barack Obama born?"
    assert known.domain == "conspiracies"


def test_addresses_of_simpleqa_keep_their_case(shared_data: Path) -> None:
    path = shared_data / "simpleqa" / "simple_qa_test_set.csv"
    first = next(iter(FOUNDATIONS["simpleqa"].read(name_source(path)))).outcome
    assert isinstance(first, FoundationQuestion)
    assert first.context[0] == "https://en.wikipedia.org/wiki/IEEE_Frank_Rosenblatt_Award"
    assert len(first.context) == 3
