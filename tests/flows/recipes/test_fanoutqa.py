"""FanOutQA in the embedded world: three sources, dated evidence, flags, review, split and drift."""

import csv
import json
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Factmill

from tasks.fanoutqa.core.flags import FLAGS
from tasks.fanoutqa.core.forms.authored import read_authored
from tasks.fanoutqa.core.questions import list_leaves, read_decomposition
from tasks.storage.warehouse import open_warehouse
from tasks.text.values.answers import find_answer, read_known_text
from tasks.world.data import WORLD_FOLDER
from tasks.world.files.reading import load_world_data

LEAST_AUTHORED, LEAST_GENERATED = 12, 20
"""What the embedded build has to give at least (issue 7)."""
EPOCH, LATER = "2023-11-20T00:00:00Z", "2026-01-01T00:00:00Z"
OWN = WORLD_FOLDER / "sources" / "fanoutqa"
RELEASED = ["id", "question", "decomposition", "answer", "categories"]
RELEASED_SUB = ["id", "question", "decomposition", "answer", "depends_on", "evidence"]
RELEASED_TEST = ["id", "question", "necessary_evidence", "categories"]
EVIDENCE = ["pageid", "revid", "title", "url"]
Rows = list[dict[str, Any]]


def read_table(report: Any, table: str) -> Rows:
    """Return the rows of a published table of a build, by id."""
    with open_warehouse(Path(report["warehouse"])) as db:
        found: Rows = (
            db.sql(
                f"SELECT * EXCLUDE (build_id) FROM {table} WHERE build_id = $1 ORDER BY id", params=[report["build_id"]]
            )
            .to_arrow_table()
            .to_pylist()
        )
    return found


def read_rejects(report: Any) -> dict[str, tuple[str, str]]:
    return {row["id"]: (row["reason"], row["detail"]) for row in read_table(report, "rejects")}


@pytest.fixture(scope="module")
def built(embedded_builds: dict[str, Any]) -> Any:
    """Return the build of FanOutQA as it comes."""
    return embedded_builds["fanoutqa"]


@pytest.fixture(scope="module")
def answers(built: Any) -> dict[str, dict[str, Any]]:
    """Question id → its answer and decomposition, of both parts."""
    rows = [*read_table(built, "fanoutqa_dev"), *read_table(built, "fanoutqa_test_answers")]
    return {row["id"]: {name: json.loads(row[name]) for name in ("answer", "decomposition")} for row in rows}


def test_questions_of_people_and_of_the_graph_are_published(built: Any, answers: dict[str, Any]) -> None:
    rows = read_table(built, "fanoutqa")
    sources = Counter(row["source"] for row in rows)
    assert sources["authored"] >= LEAST_AUTHORED
    assert sources["generated"] >= LEAST_GENERATED
    assert built["rows"] == len(rows) == len({row["question"] for row in rows}) == len(answers)
    assert {type(each["answer"]) for each in answers.values()} == {dict, list, str, int, float, bool}
    assert {row["author"] for row in rows if row["source"] == "generated"} == {"scripted replies"}
    assert {row["author"] for row in rows if row["source"] == "authored"} == {None}


def test_every_question_rests_on_five_articles_that_say_its_sub_answers(built: Any, answers: dict[str, Any]) -> None:
    wiki = load_world_data(WORLD_FOLDER)
    texts = {revision.revid: revision.text for article in wiki.articles.values() for revision in article.revisions}
    for row in read_table(built, "fanoutqa"):
        assert len(row["articles"]) == len(set(row["articles"])) >= 5, row["question"]
    for reference in read_table(built, "fanoutqa_references"):
        if reference["question_id"] in answers:
            assert reference["problem"] is None
            assert reference["timestamp"] <= EPOCH
            assert reference["found"] is not False, reference
            said = find_answer(json.loads(reference["answer"]), read_known_text(texts[reference["revid"]]))
            assert said.found is not False, reference


def test_every_stage_adds_up_and_every_flag_is_met_with(built: Any) -> None:
    assert built["inputs"] == built["rows"] + built["rejects"] + built["merged"]
    for stage in built["stages"]:
        assert stage["rows_in"] == stage["rows_out"] + stage["rejects"] + stage["merged"], stage
        assert sum(built["reasons"].get(stage["stage"], {}).values()) == stage["rejects"]
    assert built["unsettled"] == 0
    assert built["facts"]["flags"].keys() <= FLAGS.keys()
    assert built["facts"]["flags"].keys() >= {
        "answer_not_composed", "same_article", "answer_not_found", "one_article_has_all", "not_objective", "wording",
        "cannot_be_mended", "duplicate",
    }  # fmt: skip
    assert built["reasons"]["pin_evidence"].keys() == {"evidence_missing", "younger_than_epoch"}
    assert built["reasons"]["review_questions"].keys() == {"dropped_in_review"}
    assert built["reasons"]["gather_questions"]["invalid_question"] >= 2


def test_a_rejected_reference_is_told_by_path_and_article(built: Any) -> None:
    lost = {row["id"]: row for row in read_table(built, "fanoutqa_references") if row["problem"]}
    assert built["facts"]["references_without_article"] == len(lost) >= 2
    rejects = read_rejects(built)
    for row in lost.values():
        reason, detail = rejects[row["question_id"]]
        assert row["path"] in detail
        assert row["revid"] is None
        assert row["problem"].startswith(reason)
        assert row["title_asked"] in row["problem"]


def test_a_proposed_wording_is_taken_and_the_flag_is_kept(built: Any) -> None:
    edited = [row for row in read_table(built, "fanoutqa_review") if row["decision"] == "edit"]
    rows = {row["id"]: row for row in read_table(built, "fanoutqa")}
    taken = [item for item in edited if item["row_id"] in rows]
    assert taken
    for item in taken:
        row = rows[item["row_id"]]
        assert row["question"] == item["edited"][0]["text"]
        assert any(flag.startswith("wording") for flag in row["flags"])
        assert row["reviewed_by"] == ["policy auto"]


def test_twins_lie_on_one_side_and_the_parts_have_the_released_form(
    factmill: Factmill, built: Any, tmp_path: Path
) -> None:
    rows = {row["id"]: row for row in read_table(built, "fanoutqa")}
    for one, other in combinations(rows.values(), 2):
        shared = len({*one["articles"]} & {*other["articles"]})
        is_twin = 2 * shared >= max(len(one["articles"]), len(other["articles"]))
        assert not is_twin or one["split"] == other["split"], (one["question"], other["question"])
    ran = factmill("export", built["build_id"], "--to", tmp_path, "--json")
    names = {Path(file).name for file in ran.json["files"]}
    assert ran.json["held_out"] == ["fanoutqa_test_answers", "fanoutqa_references", "fanoutqa_review"]
    assert not [name for name in names for table in ran.json["held_out"] if name.startswith(table)]
    dev = json.loads((tmp_path / "fanoutqa_dev.json").read_text())
    test = json.loads((tmp_path / "fanoutqa_test.json").read_text())
    assert {row["id"] for row in dev} == {each for each, row in rows.items() if row["split"] == "dev"}
    assert {row["id"] for row in test} == {each for each, row in rows.items() if row["split"] == "test"}
    for row in dev:
        assert list(row) == RELEASED
        check_released_form(row["decomposition"])
    for row in test:
        assert list(row) == RELEASED_TEST
        assert len(row["necessary_evidence"]) >= 5
        assert all(list(each) == EVIDENCE for each in row["necessary_evidence"])
    lines = [json.loads(line) for line in (tmp_path / "fanoutqa_dev.jsonl").read_text().splitlines()]
    assert lines == dev


def check_released_form(decomposition: Rows) -> None:
    """Check the keys of every sub-question, and that it rests on an article or on others."""
    for sub in decomposition:
        assert list(sub) == RELEASED_SUB
        assert (sub["evidence"] is None) == bool(sub["decomposition"])
        if sub["evidence"]:
            assert list(sub["evidence"]) == EVIDENCE
            assert isinstance(sub["evidence"]["pageid"], int)
            assert isinstance(sub["evidence"]["revid"], int)
        assert set(sub["depends_on"]) <= {each["id"] for each in decomposition}
        check_released_form(sub["decomposition"])


def test_answers_of_the_test_part_leave_only_when_asked_for(factmill: Factmill, built: Any, tmp_path: Path) -> None:
    said = {row["id"]: row["answer"] for row in read_table(built, "fanoutqa_test_answers")}
    assert said
    factmill("export", built["build_id"], "--to", tmp_path / "bare")
    everything = "".join(
        file.read_text() for file in (tmp_path / "bare").iterdir() if file.suffix in (".csv", ".jsonl", ".json")
    )
    assert not [answer for answer in said.values() if len(answer) > 40 and answer in everything]
    ran = factmill("export", built["build_id"], "--to", tmp_path / "all", "--with-answers", "--json")
    assert ran.json["held_out"] == []
    lines = (tmp_path / "all" / "fanoutqa_test_answers.jsonl").read_text().splitlines()
    assert {row["id"]: row["answer"] for row in map(json.loads, lines)} == {
        each: json.loads(answer) for each, answer in said.items()
    }


def test_verify_rebuilds_the_same_bytes_from_recorded_calls(factmill: Factmill, built: Any) -> None:
    ran = factmill("verify", built["build_id"], "--json")
    assert (ran.code, ran.json["agrees"]) == (0, True), (ran.out, ran.err)


def test_no_question_changes_sides_when_ten_are_added(factmill: Factmill, built: Any, tmp_path: Path) -> None:
    authored = [row for file in sorted(OWN.glob("*.json")) for row in json.loads(file.read_text())]
    known = {row["id"]: row["split"] for row in read_table(built, "fanoutqa") if row["source"] == "authored"}
    asked = [row for row in authored if read_if_valid(row) in known][:10]
    assert len(asked) == 10
    more = [{**row, "question": f"Looking at articles of 2023 alone: {row['question']}"} for row in asked]
    (tmp_path / "more.json").write_text(json.dumps([*more, *authored]))
    after = factmill("build", "fanoutqa", "--source", tmp_path / "more.json", "--json")
    assert after.code == 0, after.err
    assert after.json["inputs"] == len(authored) + 10
    sides = {row["id"]: row["split"] for row in read_table(after.json, "fanoutqa")}
    shared = known.keys() & sides.keys()
    assert len(shared) >= len(known) - 10
    assert {each: sides[each] for each in shared} == {each: known[each] for each in shared}


def read_if_valid(row: dict[str, Any]) -> str:
    """Return the id of an authored question, or nothing for one that breaks the rules."""
    try:
        return read_authored(row).id
    except (KeyError, TypeError, ValueError):
        return ""


def test_reviewers_decide_on_what_was_flagged(factmill: Factmill, built: Any, tmp_path: Path) -> None:
    first = factmill("build", "fanoutqa", "--source", OWN, "--review", "manual", "--json").json
    published = {row["id"] for row in read_table(first, "fanoutqa")}
    queue = read_table(first, "fanoutqa_review")
    assert {item["decision"] for item in queue} == {"open"}
    assert not published & {item["row_id"] for item in queue}
    assert first["reasons"]["review_questions"] == {"not_reviewed": len({item["row_id"] for item in queue})}
    file = tmp_path / "queue.csv"
    assert factmill("review", "export", first["build_id"], "--to", file).code == 0
    with file.open(newline="") as opened:
        lines = list(csv.DictReader(opened))
    counts = Counter(line["row_id"] for line in lines)
    kept = next(line for line in lines if line["flag"] == "answer_not_found" and counts[line["row_id"]] == 1)
    edited = next(line for line in lines if line["flag"] == "wording" and counts[line["row_id"]] == 1)
    kept |= {"decision": "keep", "reviewer": "A. Reader", "note": "the article says it in a picture"}
    wording = "Which wording does the reviewer prefer here?"
    edited |= {"decision": "edit", "edited": f"question: {wording}", "reviewer": "A. Reader"}
    with file.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, lines[0].keys())
        writer.writeheader()
        writer.writerows(lines)
    assert factmill("review", "import", file).code == 0
    second = factmill("build", "fanoutqa", "--source", OWN, "--review", "manual", "--json").json
    assert second["build_id"] != first["build_id"]
    rows = {row["id"]: row for row in read_table(second, "fanoutqa")}
    assert rows.keys() == published | {kept["row_id"], edited["row_id"]}
    assert rows[edited["row_id"]]["question"] == wording
    assert rows[kept["row_id"]]["reviewed_by"] == ["A. Reader"]
    # the flag without its sentence, which tells the answer
    path = kept["detail"].partition(":")[0]
    assert rows[kept["row_id"]]["flags"] == [f"answer_not_found {path}"]
    # other hash seeds than those it was built with
    assert factmill.run_process("verify", second["build_id"]).code == 0


def test_drift_finds_exactly_the_answers_that_changed(factmill: Factmill, built: Any) -> None:
    ran = factmill("drift", "fanoutqa", "--epoch", LATER, "--build", built["build_id"], "--json")
    assert ran.code == 0, ran.err
    found = {(each["question_id"], each["path"]) for each in ran.json["drift"]}
    assert found == find_changes(built)
    assert len(found) >= 6
    again = factmill("drift", "fanoutqa", "--epoch", EPOCH, "--build", built["build_id"], "--json")
    assert again.json["drift"] == []


def find_changes(built: Any) -> set[tuple[str, str]]:
    """Return the references of published questions whose answer is in one state of the world's files and not in the other."""
    articles = load_world_data(WORLD_FOLDER).articles
    published = {row["id"] for row in read_table(built, "fanoutqa")}
    changed = set()
    for row in read_table(built, "fanoutqa_references"):
        if row["question_id"] in published:
            newest = [each for each in articles[row["title"]].revisions if each.at <= LATER][-1]
            later = find_answer(json.loads(row["answer"]), read_known_text(newest.text)).found
            if later != row["found"]:
                changed.add((row["question_id"], row["path"]))
    return changed


def test_explain_tells_articles_and_answers(factmill: Factmill, built: Any, answers: dict[str, Any]) -> None:
    row = read_table(built, "fanoutqa")[0]
    told = factmill("explain", "fanoutqa", row["id"]).out
    assert row["question"] in told
    for path, sub in list_leaves_of(answers[row["id"]]["decomposition"]):
        assert f"{path:11} {sub.question}" in told
        assert f"{sub.evidence.title}, revision {sub.evidence.revid} of " in told
    assert "pin_evidence: " in told


def list_leaves_of(decomposition: Rows) -> list[tuple[str, Any]]:
    from tasks.fanoutqa.core.questions import FanOutQuestion

    return list(list_leaves(FanOutQuestion("x", "x", read_decomposition(decomposition))))


def test_an_epoch_before_all_pages_leaves_nothing_and_says_why(factmill: Factmill) -> None:
    ran = factmill("build", "fanoutqa", "--source", OWN, "--epoch", "2001-01-01", "--json")
    assert ran.code == 1, ran.err
    assert ran.json["rows"] == 0
    assert ran.json["reasons"]["pin_evidence"]["younger_than_epoch"] >= LEAST_AUTHORED
    assert "pin_evidence lost " in ran.err
    assert "these are verdicts about the rows" in ran.err
    assert ran.json["build_id"] not in factmill("builds").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epoch", "yesterday"], "expected a day like 2023-11-20"),
        (["--source", "nowhere.json"], "nowhere.json: no such file"),
        (["--sets", "P1", "--source", "wikidata"], "unknown kind of sets 'P1'"),
        (["--titles", "nowhere.txt"], "--titles nowhere.txt: no such file"),
    ],
)
def test_wrong_arguments_are_told(factmill: Factmill, arguments: list[str], message: str) -> None:
    ran = factmill("build", "fanoutqa", *arguments)
    assert ran.code == 2, ran.err
    assert message in " ".join(ran.err.split())
