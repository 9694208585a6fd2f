"""Test MultiHal in the embedded world: its rows, and the choice and scores of its paths."""

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.builds.build_rows import check_balance, read_table
from support.commands.command import Factmill, Ran
from support.models.scripted_chat import REFUSAL, Said, write_chat_world
from support.models.scripted_judge import Manners, ScriptedJudge, always, pick, pick_first_ten
from support.rows.foundation_rows import HALUEVAL, write

from factmill.flows.benchmarks import BENCHMARKS
from factmill.tasks.multihal.sources.foundations import FOUNDATIONS

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def english_build(factmill: Factmill) -> Any:
    """Build MultiHal in English alone and return the report."""
    return factmill.get_json("build", "multihal", "--languages", "eng")


@pytest.fixture(scope="module")
def rows(factmill: Factmill, english_build: Any) -> list[dict[str, Any]]:
    ran = factmill("show", "multihal", "--build", english_build["build_id"], "--limit", "1000", "--json")
    found: list[dict[str, Any]] = ran.json["rows"]
    return found


@pytest.fixture(scope="module")
def six(factmill: Factmill, embedded_builds: dict[str, Any]) -> tuple[Any, list[dict[str, Any]]]:
    """Return report and rows of the default MultiHal build, in all languages."""
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
    """Return a text's numbers without digit separators, which differ by language."""
    return re.findall("[0-9]+", re.sub("(?<=[0-9])[.,\u202f](?=[0-9])", "", text))


def test_answers_follow_format_of_each_language(six: tuple[Any, list[dict[str, Any]]]) -> None:
    result = {(row["output"], row["language"]): row for row in six[1]}
    assert result["18 août 1877", "fra"]["trip_labels"][-1] == "1877-08-18"
    assert result["8.611 Meter", "deu"]["trip_labels"][-1] == "8611 Meter"


def test_translations_keep_numbers_dates_and_path_parts(six: tuple[Any, list[dict[str, Any]]]) -> None:
    english = {row["path_id"]: row for row in six[1] if row["language"] == "eng"}
    for row in six[1]:
        source = english[row["path_id"]]
        for name in ("input", "output"):
            assert list_numbers(row[name]) == list_numbers(source[name]), row["id"]
        assert len(row["trip_labels"]) == len(source["trip_labels"]) == len(row["part_sources"])
        for part, given, origin in zip(row["trip_labels"], source["trip_labels"], row["part_sources"], strict=True):
            assert origin != "kept" or part == given, row["id"]


def test_untranslatable_rows_are_rejected_by_language(six: tuple[Any, list[dict[str, Any]]]) -> None:
    report, rows = six
    lost = report["reasons"]["translate_paths"]
    assert set(lost) == {"untranslatable"}
    # the embedded translator has no training for some words of these questions
    untaught = {"halueval_28_0", "tqa_gen_14_0", "shroom2024_trial-v1_7_0"}
    assert {(row["path_id"], row["language"]) for row in rows if row["path_id"] in untaught} == {
        (path_id, "eng") for path_id in untaught
    }
    assert sum(lost.values()) == 6 * report["facts"]["languages"]["eng"] - len(rows)


def test_explain_lists_translations_of_translated_row(
    factmill: Factmill, six: tuple[Any, list[dict[str, Any]]]
) -> None:
    row = next(row for row in six[1] if row["language"] == "por")
    result = factmill("explain", "multihal", row["id"], "--build", six[0]["build_id"], "--json").json
    assert {call["operation"] for call in result["calls"]} >= {"translate_text", "translate_path", "chat"}


def test_wikidata_labels_replace_translated_labels(factmill: Factmill) -> None:
    arguments = ("--foundations", "felm", "--languages", "deu", "--label-source", "wikidata")
    result = factmill.get_json("build", "multihal", *arguments)
    rows = factmill("show", "multihal", "--build", result["build_id"], "--json").json["rows"]
    german = [row for row in rows if row["language"] == "deu"]
    assert {origin for row in german for origin in row["part_sources"]} == {"wikidata"}
    assert "Don Quijote" in {part for row in german for part in row["trip_labels"]}


def test_graph_without_requested_labels_is_rejected(factmill: Factmill, tmp_path: Path) -> None:
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


def test_every_foundation_and_answer_type_has_published_paths(rows: list[dict[str, Any]]) -> None:
    assert {row["source_dataset"] for row in rows} == set(FOUNDATIONS)
    assert {row["answer_type"] for row in rows} == {"date", "rank", "numerical", "other"}
    assert len(rows) >= 25


def test_every_published_path_connects_question_with_answer(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        ends = {row["responses_formatted"][0], row["responses_formatted"][-1]}
        assert ends & set(row["subjects"]), row["id"]
        assert row["answer_type"] != "other" or ends & set(row["objects"]), row["id"]
        assert len(row["trip_labels"]) == len(row["responses_formatted"]) == len(row["part_sources"])
        assert row["judged_score"] >= 4
        assert (row["judged_by"], row["licence"]) == ("scripted replies", "Apache-2.0")


def test_dropped_paths_have_reason(english_build: Any) -> None:
    check_balance(english_build)
    reasons = english_build["reasons"]
    assert {stage: set(lost) for stage, lost in reasons.items()} == {
        "read_foundation": {
            "paraphrase", "other_task", "false_segment", "hallucinated", "other_domain", "part_of_halueval"
        },
        "classify_answer_types": {"refusal", "unknown_unit"},
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


def test_conflicting_answers_of_two_foundations_are_marked_disputed(rows: list[dict[str, Any]]) -> None:
    disputed = {(row["input"], row["output"], *row["disputed_answers"]) for row in rows if row["disputed_answers"]}
    assert disputed == {
        ("How high is Denali?", "6,190 m", "6,168 m"),
        ("How long is the river Nile?", "6650 kilometres", "6,695 km"),
    }


def test_judge_selects_among_many_paths_and_chance_fills_rest(english_build: Any, rows: list[dict[str, Any]]) -> None:
    assert set(english_build["facts"]["chosen_by"]) == {"all", "judge", "chance"}
    chosen = {row["responses_formatted"][0] for row in rows if row["chosen_by"] == "judge"}
    assert {"Q254", "Q255"} <= chosen  # Mozart and Beethoven, who died in one city


def test_other_batch_size_yields_same_rows(factmill: Factmill, english_build: Any) -> None:
    again = factmill("build", "multihal", "--languages", "eng", "--force", "--batch-size", "40", "--json").json
    assert (again["calls_sent"], again["tables"]) == (0, english_build["tables"])


def test_one_command_builds_every_benchmark_on_own_server(build_of_all: Ran) -> None:
    made = [json.loads(line) for line in build_of_all.out.splitlines()]
    assert [report["benchmark"] for report in made] == list(BENCHMARKS)
    assert all(report["rows"] for report in made)


def test_explain_traces_row_to_its_calls(factmill: Factmill, english_build: Any, rows: list[dict[str, Any]]) -> None:
    row = next(row for row in rows if row["answer_type"] == "date")
    result = factmill("explain", "multihal", row["id"], "--build", english_build["build_id"], "--json").json
    assert {call["operation"] for call in result["calls"]} >= {"date_paths", "label", "chat"}
    assert result["row"]["responses"] != result["row"]["responses_formatted"]


def test_single_foundation_is_built(factmill: Factmill) -> None:
    result = factmill.get_json("build", "multihal", "--foundations", "felm", "--languages", "eng")
    assert set(result["facts"]["rows"]) == {"felm"}


def test_language_without_translator_is_rejected(factmill: Factmill, tmp_path: Path) -> None:
    world = tmp_path / "mute.toml"
    text = (ROOT / "data" / "worlds" / "embedded.toml").read_text()
    world.write_text(re.sub(r"\[models\.translator\][^\[]*", "", text))
    ran = factmill("build", "multihal", "--world", world, "--languages", "deu")
    assert (ran.code, "has no translator; add [models.translator]" in ran.err) == (2, True), ran.err


def test_falcon_linker_covers_same_answer_types_as_label_linker(factmill: Factmill) -> None:
    result = factmill.get_json("build", "multihal", "--linker", "falcon", "--languages", "eng")
    assert result["rows"] >= 25
    assert result["facts"]["answer_types"].keys() == {"date", "rank", "numerical", "other"}


def test_export_joins_list_values(factmill: Factmill, english_build: Any, tmp_path: Path) -> None:
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


def by_turns(*said: Said) -> Callable[[str, bool], Said]:
    """Return manners that give each path the next of these replies, and repeat it when the path comes again."""
    result: dict[str, Said] = {}
    return lambda path, _is_again: result.setdefault(path, said[len(result) % len(said)])


def invent(paths: Sequence[str], _is_again: bool) -> Said:
    return pick(*(f"{path}; owner of; Eiffel Tower" for path in paths[:10]))


def repeat(paths: Sequence[str], _is_again: bool) -> Said:
    return pick(*[min(paths)] * 10)


PICKS = "Where in France did Marie Curie look for radium?"
REPEATS = "Marie Curie came to France to learn, but whereto?"
INVENTS = "What made France a home to Marie Curie?"
REFUSES = "Who showed Marie Curie around when she was new in France?"
CHATS = "Of all that France has to see, what did Marie Curie see daily?"
FAILS_AT_TIMES = "France or Poland: which did Marie Curie leave for good?"
FAILS = "Did Marie Curie ever own a bicycle in France?"
IS_SILENT = "Name one thing that Marie Curie and France share!"
JUDGES = {
    PICKS: Manners(pick_first_ten, by_turns("Score: 5", "Score: 4")),
    REPEATS: Manners(repeat, always("Score: 4")),
    INVENTS: Manners(invent, by_turns("Score: 5", "Score: 2")),
    REFUSES: Manners(always(REFUSAL), always(REFUSAL)),
    CHATS: Manners(always("These are all good paths."), by_turns("Score: 7", "Score: 0", "good", "5", "Score: 4.5")),
    FAILS_AT_TIMES: Manners(always(pick("none")), by_turns("", 500, "Score: 5", "Score: 1")),
    FAILS: Manners(always(500), always("Score: 5")),
    IS_SILENT: Manners(always(""), always("Score: 5")),
}
"""Maps a question to the judge's manners.

The answer is always Paris. In the embedded world more than twenty paths join Marie Curie and France to it, so there is
always a choice.
"""


@dataclass(frozen=True)
class Building:
    """The setup for repeated builds with a judge in one warehouse."""

    factmill: Factmill
    judge: ScriptedJudge
    source: Path
    world: Path
    warehouse: Path

    def build(self, *more: str) -> Ran:
        chosen = ["--world", self.world, "--source", self.source, "--languages", "eng", "--all-hops", *more]
        return self.run("build", "multihal", *chosen, "--json")

    def run(self, *arguments: str | Path) -> Ran:
        return self.factmill(*arguments, "--warehouse", self.warehouse, TEST_KEY="secret-key-1")


@pytest.fixture
def building(factmill: Factmill, tmp_path: Path) -> Iterator[Building]:
    judge = ScriptedJudge(JUDGES)
    source = write(tmp_path, "halueval", [{**HALUEVAL, "question": asked, "right_answer": "Paris"} for asked in JUDGES])
    world = write_chat_world(tmp_path, judge.url, ["judge"])
    yield Building(factmill, judge, source, world, tmp_path / "w.duckdb")
    judge.close()


def check_rows(judge: ScriptedJudge, rows: Sequence[Any]) -> None:
    """Check that every path was mined, and that the judge gave each score to that path."""
    for row in rows:
        words = "; ".join(row["trip_labels"])
        assert words in judge.shown[row["input"]]
        assert judge.scored[row["input"], words][-1] in (f"Score: {row['judged_score']}", str(row["judged_score"]))
        assert row["judged_by"] == "tester"


def test_build_survives_any_judge_reply_and_later_run_retries_failures(building: Building) -> None:
    judge = building.judge
    ran = building.build()
    assert ran.code == 0, ran.err
    report = ran.json
    check_balance(report)
    assert (report["inputs"], report["opened"], report["merged"]) == (len(JUDGES), (10 - 1) * 6, 0)
    assert report["reasons"] == {
        "select_paths": {"empty_reply": 1, "model_failed": 1},
        "score_paths": {"unscored": 8, "refused": 10, "low_score": 7, "empty_reply": 3, "model_failed": 3},
    }
    assert (report["rows"], report["unsettled"]) == (29, 2 + 6)

    rows = read_table(report, "multihal")
    check_rows(judge, rows)
    assert Counter((row["input"], row["chosen_by"]) for row in rows) == {
        (PICKS, "judge"): 10,
        (REPEATS, "judge"): 1,
        (REPEATS, "chance"): 9,
        (INVENTS, "chance"): 5,
        (CHATS, "chance"): 2,
        (FAILS_AT_TIMES, "chance"): 2,
    }
    rejects = [reject for reject in read_table(report, "rejects") if reject["stage"] == "score_paths"]
    lost = [json.loads(reject["row"]) for reject in rejects]
    assert Counter(path["chosen_by"] for path in [*rows, *lost]) == {"judge": 11, "chance": 60 - 11}
    mined = set.union(*judge.shown.values())
    assert {"; ".join(path["labels"]) for path in lost} <= mined
    details = [(reject["reason"], reject["detail"]) for reject in rejects]
    result = (("refused", REFUSAL), ("unscored", "was: Score: 7"), ("unscored", "was: good"))
    assert [sum(why == reason and said in detail for why, detail in details) for reason, said in result] == [10, 2, 2]

    left_out = read_table(report, "multihal_dropped_paths")
    assert {path["detail"] for path in left_out} <= mined
    assert len({path["id"] for path in left_out}) == len(left_out)
    chosen_from = [judge.shown[question] for question in {question for question, _ in judge.scored}]
    assert sum(path["reason"] == "not_selected" for path in left_out) == sum(len(shown) - 10 for shown in chosen_from)
    # hash seeds other than the build's
    again = building.factmill.run_process("verify", report["build_id"], "--warehouse", building.warehouse)
    assert again.code == 0, again.err

    judge.manners = dict.fromkeys(JUDGES, Manners(pick_first_ten, always("Score: 5")))
    mended = building.build().json
    check_balance(mended)
    assert (mended["rows"], mended["unsettled"]) == (29 + 6 + 2 * 10, 0)
    assert mended["reasons"] == {"score_paths": {"unscored": 8, "refused": 10, "low_score": 7}}
    assert mended["calls_sent"] == 6 + 2 * 2 + 2 * 10, "only failed calls are sent again"
    check_rows(judge, read_table(mended, "multihal"))


def test_failing_or_refusing_judge_publishes_no_row_and_no_traceback(building: Building) -> None:
    judge = building.judge
    judge.manners = dict.fromkeys(JUDGES, Manners(always(500), always(500)))
    ran = building.build("--limit", "2")
    assert (ran.code, "Traceback" in ran.err) == (1, False), ran.err
    assert "select_paths lost 2 to model_failed, first reject: http_500" in ran.err
    assert "run the same command again" in ran.err

    judge.manners = dict.fromkeys(JUDGES, Manners(always(REFUSAL), always(REFUSAL)))
    ran = building.build("--limit", "2")
    assert ran.code == 1, ran.err
    check_balance(ran.json)
    assert (ran.json["rows"], ran.json["unsettled"]) == (0, 0)
    assert ran.json["reasons"] == {"score_paths": {"refused": 20}}
    assert "score_paths lost 20 to refused, first reject: " in ran.err
    assert REFUSAL in ran.err

    judge.manners = dict.fromkeys(JUDGES, Manners(pick_first_ten, always("Score: 5")))
    mended = building.build("--limit", "2")
    assert (mended.code, mended.json["rows"]) == (0, 20), mended.err
