"""MultiHal in the embedded world: seven foundations, four kinds of answers, and rows that can be followed back."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.sources.foundations import FOUNDATIONS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def english_build(factmill: Callable[..., Any]) -> Any:
    """Build MultiHal in English alone and return the report."""
    ran = factmill("build", "multihal", "--language", "eng", "--json")
    assert ran.code == 0, ran.err
    return ran.json


@pytest.fixture(scope="module")
def rows(factmill: Callable[..., Any], english_build: Any) -> list[dict[str, Any]]:
    ran = factmill("show", "multihal", "--build", english_build["build_id"], "--limit", "1000", "--json")
    found: list[dict[str, Any]] = ran.json["rows"]
    return found


def test_every_stage_and_the_whole_build_add_up(english_build: Any) -> None:
    came = english_build["inputs"] + english_build["opened"]
    assert came == english_build["rows"] + english_build["rejects"] + english_build["merged"]
    for stage in english_build["stages"]:
        assert stage["rows_in"] == stage["rows_out"] + stage["rejects"] + stage["merged"], stage
        assert sum(english_build["reasons"].get(stage["stage"], {}).values()) == stage["rejects"]


def test_all_foundations_and_all_kinds_of_answers_have_published_paths(rows: list[dict[str, Any]]) -> None:
    assert {row["source_dataset"] for row in rows} == set(FOUNDATIONS)
    assert {row["answer_type"] for row in rows} == {"date", "rank", "numerical", "other"}
    assert len(rows) >= 25


def test_every_published_path_joins_the_question_to_its_answer(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        ends = {row["responses_formatted"][0], row["responses_formatted"][-1]}
        assert ends & set(row["subjects"]), row["id"]
        assert row["answer_type"] != "other" or ends & set(row["objects"]), row["id"]
        assert len(row["trip_labels"]) == len(row["responses_formatted"]) == len(row["part_sources"])
        assert row["judged_score"] >= 4
        assert (row["judged_by"], row["licence"]) == ("rules-1", "Apache-2.0")


def test_what_is_dropped_says_why(english_build: Any) -> None:
    reasons = {reason for stage in english_build["reasons"].values() for reason in stage}
    assert reasons >= {"paraphrase", "refusal", "no_path", "low_score", "false_segment", "hallucinated"}
    assert english_build["merged"] == 1


def test_verify_rebuilds_the_same_bytes_from_recorded_calls(factmill: Callable[..., Any], english_build: Any) -> None:
    ran = factmill("verify", english_build["build_id"], "--json")
    assert ran.code == 0, ran.err


def test_other_batches_and_a_local_engine_give_the_same_rows(factmill: Callable[..., Any], english_build: Any) -> None:
    again = factmill("build", "multihal", "--language", "eng", "--force", "--batch-size", "7", "--json").json
    assert (again["calls_sent"], again["tables"]) == (0, english_build["tables"])


def test_all_benchmarks_are_built_by_one_command_with_a_server_of_its_own(
    factmill: Callable[..., Any], tmp_path: Path
) -> None:
    ran = factmill("build", "all", "--warehouse", tmp_path / "all.duckdb", "--json", PREFECT_API_URL="")
    assert ran.code == 0, ran.err
    made = [json.loads(line) for line in ran.out.splitlines()]
    assert [report["benchmark"] for report in made] == ["granola", "multihal"]
    assert all(report["rows"] for report in made)


def test_a_row_is_followed_back_to_its_calls(
    factmill: Callable[..., Any], english_build: Any, rows: list[dict[str, Any]]
) -> None:
    row = next(row for row in rows if row["answer_type"] == "date")
    told = factmill("explain", "multihal", row["id"], "--build", english_build["build_id"], "--json").json
    assert {call["operation"] for call in told["calls"]} >= {"date_paths", "label", "chat"}
    assert told["row"]["responses"] != told["row"]["responses_formatted"]


def test_one_foundation_alone_is_built(factmill: Callable[..., Any]) -> None:
    ran = factmill("build", "multihal", "--foundation", "felm", "--language", "eng", "--json")
    assert ran.code == 0, ran.err
    assert set(ran.json["facts"]["rows"]) == {"felm"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--foundation", "quizbowl"], "unknown foundation quizbowl; there are halueval"),
        (["--language", "nld"], "unknown language nld; there are eng, deu"),
        (["--source", "/absent"], "no such file or folder"),
    ],
)
def test_wrong_usage_of_multihal_is_told(factmill: Callable[..., Any], arguments: list[str], message: str) -> None:
    ran = factmill("build", "multihal", *arguments)
    assert (ran.code, message in ran.err) == (2, True), ran.err


def test_a_language_without_a_translator_is_refused(factmill: Callable[..., Any], tmp_path: Path) -> None:
    world = tmp_path / "mute.toml"
    text = (ROOT / "data" / "worlds" / "embedded.toml").read_text()
    world.write_text(re.sub(r"\[models\.translator\][^\[]*", "", text))
    ran = factmill("build", "multihal", "--world", world, "--language", "deu")
    assert (ran.code, "names no translator" in ran.err) == (2, True), ran.err


def test_falcon_links_as_the_labels_do(factmill: Callable[..., Any]) -> None:
    ran = factmill("build", "multihal", "--linker", "falcon", "--language", "eng", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["rows"] >= 25
    assert ran.json["facts"]["answer_types"].keys() == {"date", "rank", "numerical", "other"}


def test_an_export_joins_lists(factmill: Callable[..., Any], english_build: Any, tmp_path: Path) -> None:
    ran = factmill("export", english_build["build_id"], "--to", tmp_path)
    assert ran.code == 0, ran.err
    lines = [json.loads(line) for line in (tmp_path / "multihal.jsonl").read_text().splitlines()]
    assert len(lines) == english_build["rows"]
    assert "<SEP>" in (tmp_path / "multihal.csv").read_text()
