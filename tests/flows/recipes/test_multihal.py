"""MultiHal in the embedded world: seven foundations, four kinds of answers, and rows that can be followed back."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Factmill, Ran

from flows.benchmarks import BENCHMARKS
from tasks.multihal.sources.foundations import FOUNDATIONS

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def english_build(factmill: Factmill) -> Any:
    """Build MultiHal in English alone and return the report."""
    ran = factmill("build", "multihal", "--language", "eng", "--json")
    assert ran.code == 0, ran.err
    return ran.json


@pytest.fixture(scope="module")
def rows(factmill: Factmill, english_build: Any) -> list[dict[str, Any]]:
    ran = factmill("show", "multihal", "--build", english_build["build_id"], "--limit", "1000", "--json")
    found: list[dict[str, Any]] = ran.json["rows"]
    return found


@pytest.fixture(scope="module")
def six(factmill: Factmill, embedded_builds: dict[str, Any]) -> tuple[Any, list[dict[str, Any]]]:
    """Return report and rows of the build of MultiHal as it comes, in all languages."""
    report = embedded_builds["multihal"]
    shown = factmill("show", "multihal", "--build", report["build_id"], "--limit", "1000", "--json")
    return report, shown.json["rows"]


def test_rows_are_in_six_languages(six: tuple[Any, list[dict[str, Any]]]) -> None:
    report, rows = six
    assert report["rows"] == len(rows) >= 150
    assert set(report["facts"]["languages"]) == {"eng", "deu", "fra", "ita", "spa", "por"}
    assert min(report["facts"]["languages"].values()) >= 0.9 * report["facts"]["languages"]["eng"]
    assert {row["translated_by"] for row in rows if row["language"] == "eng"} == {None}
    assert all(row["translated_by"].startswith("embedded-nllb-1@") for row in rows if row["language"] != "eng")


def list_numbers(text: str) -> list[str]:
    """Return the numbers of a text without what parts their figures, which is another in each language."""
    return re.findall("[0-9]+", re.sub("(?<=[0-9])[.,\u202f](?=[0-9])", "", text))


def test_answers_are_written_as_each_language_writes_them(six: tuple[Any, list[dict[str, Any]]]) -> None:
    told = {(row["output"], row["language"]): row for row in six[1]}
    assert told["18 août 1877", "fra"]["trip_labels"][-1] == "1877-08-18"
    assert told["8.611 Meter", "deu"]["trip_labels"][-1] == "8611 Meter"


def test_translations_keep_numbers_dates_and_the_parts_of_paths(six: tuple[Any, list[dict[str, Any]]]) -> None:
    english = {row["path_id"]: row for row in six[1] if row["language"] == "eng"}
    for row in six[1]:
        source = english[row["path_id"]]
        for name in ("input", "output"):
            assert list_numbers(row[name]) == list_numbers(source[name]), row["id"]
        assert len(row["trip_labels"]) == len(source["trip_labels"]) == len(row["part_sources"])
        for part, given, origin in zip(row["trip_labels"], source["trip_labels"], row["part_sources"], strict=True):
            assert origin != "kept" or part == given, row["id"]


def test_what_cannot_be_translated_is_rejected_by_language(six: tuple[Any, list[dict[str, Any]]]) -> None:
    report, rows = six
    lost = report["reasons"]["translate_paths"]
    assert set(lost) == {"untranslatable"}
    # their questions have words that the embedded translator was never taught
    untaught = {"halueval_28_0", "tqa_gen_14_0", "shroom2024_trial-v1_7_0"}
    assert {(row["path_id"], row["language"]) for row in rows if row["path_id"] in untaught} == {
        (path_id, "eng") for path_id in untaught
    }
    assert sum(lost.values()) == 6 * report["facts"]["languages"]["eng"] - len(rows)


def test_six_languages_are_rebuilt_from_recorded_calls(
    factmill: Factmill, six: tuple[Any, list[dict[str, Any]]]
) -> None:
    ran = factmill("verify", six[0]["build_id"], "--json")
    assert (ran.code, ran.json["agrees"]) == (0, True), (ran.out, ran.err)


def test_a_translated_row_names_its_translations(factmill: Factmill, six: tuple[Any, list[dict[str, Any]]]) -> None:
    row = next(row for row in six[1] if row["language"] == "por")
    told = factmill("explain", "multihal", row["id"], "--build", six[0]["build_id"], "--json").json
    assert {call["operation"] for call in told["calls"]} >= {"translate_text", "translate_path", "chat"}


def test_labels_of_the_wikidata_itself_take_the_place_of_translated_ones(factmill: Factmill) -> None:
    arguments = ("--foundation", "felm", "--language", "deu", "--label-source", "wikidata")
    ran = factmill("build", "multihal", *arguments, "--json")
    assert ran.code == 0, ran.err
    rows = factmill("show", "multihal", "--build", ran.json["build_id"], "--json").json["rows"]
    german = [row for row in rows if row["language"] == "deu"]
    assert {origin for row in german for origin in row["part_sources"]} == {"wikidata"}
    assert "Don Quijote" in {part for row in german for part in row["trip_labels"]}


def test_labels_that_a_graph_does_not_have_are_not_asked_for(factmill: Factmill, tmp_path: Path) -> None:
    triples = tmp_path / "one.nt"
    triples.write_text(
        "<http://www.wikidata.org/entity/Q1> <http://www.wikidata.org/prop/direct/P31> <http://www.wikidata.org/entity/Q2> .\n"
    )
    assert factmill("graph", "load", triples, "--name", "english-only").code == 0
    ran = factmill("build", "multihal", "--graph", "english-only", "--label-source", "wikidata")
    assert (
        ran.code,
        "was loaded in en, not in de: load it again with --language en --language de" in " ".join(ran.err.split()),
    ) == (2, True), ran.err


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
        assert (row["judged_by"], row["licence"]) == ("scripted replies", "Apache-2.0")


def test_what_is_dropped_says_why(english_build: Any) -> None:
    reasons = english_build["reasons"]
    assert {stage: set(lost) for stage, lost in reasons.items()} == {
        "read_foundation": {
            "paraphrase", "other_task", "false_segment", "hallucinated", "other_domain", "part_of_halueval"
        },
        "type_answers": {"refusal", "unknown_unit"},
        "link_entities": {"no_item_in_question", "no_item_in_answer"},
        "mine_paths": {"no_path"},
        "label_paths": {"ends_alike"},
        "score_paths": {"low_score", "unscored", "cut_off", "refused"},
    }  # fmt: skip
    assert reasons["read_foundation"]["paraphrase"] < english_build["facts"]["questions_read"]["simpleqa"]
    assert set(english_build["facts"]["paths_left_out"]) == {
        "ends_alike", "not_selected", "part_in_no_words", "same_words"
    }  # fmt: skip
    assert english_build["merged"] == 4


def test_two_foundations_may_dispute_an_answer(rows: list[dict[str, Any]]) -> None:
    disputed = {(row["input"], row["output"], *row["disputed_answers"]) for row in rows if row["disputed_answers"]}
    assert disputed == {
        ("How high is Denali?", "6,190 m", "6,168 m"),
        ("How long is the river Nile?", "6650 kilometres", "6,695 km"),
    }


def test_a_judge_chooses_among_many_paths_and_chance_fills_up(english_build: Any, rows: list[dict[str, Any]]) -> None:
    assert set(english_build["facts"]["chosen_by"]) == {"all", "judge", "chance"}
    chosen = {row["responses_formatted"][0] for row in rows if row["chosen_by"] == "judge"}
    assert {"Q254", "Q255"} <= chosen  # Mozart and Beethoven, who died in one city


def test_verify_rebuilds_the_same_bytes_from_recorded_calls(factmill: Factmill, english_build: Any) -> None:
    ran = factmill("verify", english_build["build_id"], "--json")
    assert ran.code == 0, ran.err


def test_other_batches_and_a_local_engine_give_the_same_rows(factmill: Factmill, english_build: Any) -> None:
    again = factmill("build", "multihal", "--language", "eng", "--force", "--batch-size", "40", "--json").json
    assert (again["calls_sent"], again["tables"]) == (0, english_build["tables"])


def test_all_benchmarks_are_built_by_one_command_with_a_server_of_its_own(build_of_all: Ran) -> None:
    made = [json.loads(line) for line in build_of_all.out.splitlines()]
    assert [report["benchmark"] for report in made] == list(BENCHMARKS)
    assert all(report["rows"] for report in made)


def test_a_row_is_followed_back_to_its_calls(
    factmill: Factmill, english_build: Any, rows: list[dict[str, Any]]
) -> None:
    row = next(row for row in rows if row["answer_type"] == "date")
    told = factmill("explain", "multihal", row["id"], "--build", english_build["build_id"], "--json").json
    assert {call["operation"] for call in told["calls"]} >= {"date_paths", "label", "chat"}
    assert told["row"]["responses"] != told["row"]["responses_formatted"]


def test_one_foundation_alone_is_built(factmill: Factmill) -> None:
    ran = factmill("build", "multihal", "--foundation", "felm", "--language", "eng", "--json")
    assert ran.code == 0, ran.err
    assert set(ran.json["facts"]["rows"]) == {"felm"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--foundation", "quizbowl"], "'quizbowl': Input should be 'halueval', 'truthfulqa'"),
        (["--language", "nld"], "'nld': Input should be 'eng', 'deu'"),
        (["--foundation", "halueva"], "; did you mean halueval?"),
        (["--source", "/absent"], "no such file or folder"),
    ],
)
def test_wrong_usage_of_multihal_is_told(factmill: Factmill, arguments: list[str], message: str) -> None:
    ran = factmill("build", "multihal", *arguments)
    assert (ran.code, message in ran.err) == (2, True), ran.err


def test_a_language_without_a_translator_is_refused(factmill: Factmill, tmp_path: Path) -> None:
    world = tmp_path / "mute.toml"
    text = (ROOT / "data" / "worlds" / "embedded.toml").read_text()
    world.write_text(re.sub(r"\[models\.translator\][^\[]*", "", text))
    ran = factmill("build", "multihal", "--world", world, "--language", "deu")
    assert (ran.code, "names no translator" in ran.err) == (2, True), ran.err


def test_falcon_links_as_the_labels_do(factmill: Factmill) -> None:
    ran = factmill("build", "multihal", "--linker", "falcon", "--language", "eng", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["rows"] >= 25
    assert ran.json["facts"]["answer_types"].keys() == {"date", "rank", "numerical", "other"}


def test_an_export_joins_lists(factmill: Factmill, english_build: Any, tmp_path: Path) -> None:
    ran = factmill("export", english_build["build_id"], "--to", tmp_path)
    assert ran.code == 0, ran.err
    lines = [json.loads(line) for line in (tmp_path / "multihal.jsonl").read_text().splitlines()]
    assert len(lines) == english_build["rows"]
    with (tmp_path / "multihal.csv").open(encoding="utf-8", newline="") as stream:
        table = list(csv.DictReader(stream))
    assert [row["id"] for row in table] == [line["path_id"] for line in lines]
    assert [row["trip_labels"].split("; ") for row in table] == [line["trip_labels"] for line in lines]
    assert any("<SEP>" in row["responses"] for row in table)
    assert {row["language"] for row in table} == {"eng"}
