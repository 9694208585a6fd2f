"""Test FanOutQA in the embedded world: questions, evidence, flags, and planted faults."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from copy import deepcopy
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from support.builds.build_rows import Rows, read_table
from support.commands.command import Factmill
from support.rows.csv_files import read_csv, write_csv
from support.worlds.replies import find_text, replying

from factmill.tasks.assets import load_evidence_text_removal_rules
from factmill.tasks.core.service_settings import SCRIPTED_MODEL_NAME
from factmill.tasks.fanoutqa.core.flags import FLAGS
from factmill.tasks.fanoutqa.core.forms.authored import parse_authored_question
from factmill.tasks.fanoutqa.core.questions import list_leaf_sub_questions, parse_released_decomposition
from factmill.tasks.storage.warehouse import open_warehouse
from factmill.tasks.text.article_html import extract_article_text
from factmill.tasks.text.values.answer_search import find_answer_and_missing_parts, index_text
from factmill.tasks.world.data import WORLD_FOLDER
from factmill.tasks.world.files import load_world_data

LEAST_AUTHORED, LEAST_GENERATED = 35, 20
"""Minimum numbers of questions from the embedded build."""

LEAST_ARTICLES, MOST_QUESTIONS = 150, 6
"""Minimum number of articles in its evidence, and maximum number of questions for one article."""

EPOCH, LATER = "2023-11-20T00:00:00Z", "2026-01-01T00:00:00Z"

OWN = WORLD_FOLDER / "sources" / "fanoutqa"
RELEASED = ["id", "question", "decomposition", "answer", "categories"]
RELEASED_SUB = ["id", "question", "decomposition", "answer", "depends_on", "evidence"]
RELEASED_TEST = ["id", "question", "necessary_evidence", "categories"]
EVIDENCE = ["pageid", "revid", "title", "url"]


def read_rejects(report: Any) -> dict[str, tuple[str, str]]:
    return {row["id"]: (row["reason"], row["detail"]) for row in read_table(report, "rejects")}


@pytest.fixture(scope="module")
def built(embedded_builds: dict[str, Any]) -> Any:
    """Return the default FanOutQA build."""
    return embedded_builds["fanoutqa"]


@pytest.fixture(scope="module")
def answers(built: Any) -> dict[str, dict[str, Any]]:
    """Map question ids to answer and decomposition, for both splits."""
    rows = [*read_table(built, "fanoutqa_dev"), *read_table(built, "fanoutqa_test_answers")]
    return {row["id"]: {name: json.loads(row[name]) for name in ("answer", "decomposition")} for row in rows}


def test_authored_and_generated_questions_are_published(built: Any, answers: dict[str, Any]) -> None:
    rows = read_table(built, "fanoutqa")
    sources = Counter(row["source"] for row in rows)
    assert sources["authored"] >= LEAST_AUTHORED
    assert sources["generated"] >= LEAST_GENERATED
    assert built["rows"] == len(rows) == len({row["question"] for row in rows}) == len(answers)
    assert {type(each["answer"]) for each in answers.values()} == {dict, list, str, int, float, bool}
    assert {row["author"] for row in rows if row["source"] == "generated"} == {SCRIPTED_MODEL_NAME}
    assert {row["author"] for row in rows if row["source"] == "authored"} == {None}


def test_questions_use_many_articles_and_none_too_often(built: Any) -> None:
    articles = read_table(built, "fanoutqa_articles")
    assert len(articles) >= LEAST_ARTICLES
    assert [each["title"] for each in articles if each["questions"] > MOST_QUESTIONS] == []


def test_every_question_uses_five_articles_stating_its_sub_answers(built: Any, answers: dict[str, Any]) -> None:
    wiki = load_world_data(WORLD_FOLDER)
    texts = {each.revid: read_evidence(each.text) for article in wiki.articles.values() for each in article.revisions}
    for row in read_table(built, "fanoutqa"):
        assert len(row["articles"]) == len(set(row["articles"])) >= 5, row["question"]
    for reference in read_table(built, "fanoutqa_references"):
        if reference["question_id"] in answers:
            assert reference["problem"] is None
            assert reference["timestamp"] <= EPOCH
            assert reference["found"] is not False, reference
            said = find_answer_and_missing_parts(json.loads(reference["answer"]), index_text(texts[reference["revid"]]))
            assert said.found is not False, reference


def test_build_raises_every_flag(built: Any) -> None:
    assert built["unsettled"] == 0
    assert built["facts"]["flags"].keys() <= FLAGS.keys()
    assert built["facts"]["flags"].keys() >= {
        "answer_not_composed", "same_article", "answer_not_found", "one_article_has_all", "not_objective", "wording",
        "cannot_be_mended", "duplicate", "unproven_unit", "unscored",
    }  # fmt: skip
    assert built["reasons"]["phrase_generated_questions"].keys() == {"reply_not_in_format", "cut_off", "refused"}
    assert built["reasons"]["pin_evidence"].keys() == {"evidence_missing", "younger_than_epoch"}
    assert built["reasons"]["review_questions"].keys() == {"dropped_in_review", "not_reviewed"}
    assert built["reasons"]["gather_questions"]["invalid_question"] >= 2


def test_rejected_reference_names_path_and_article(built: Any) -> None:
    lost = {row["id"]: row for row in read_table(built, "fanoutqa_references") if row["problem"]}
    assert built["facts"]["references_without_article"] == len(lost) >= 2
    rejects = read_rejects(built)
    for row in lost.values():
        reason, detail = rejects[row["question_id"]]
        assert row["path"] in detail
        assert row["revid"] is None
        assert row["problem"].startswith(reason)
        assert row["title_asked"] in row["problem"]


def test_suggested_wording_is_applied_and_flag_is_kept(built: Any) -> None:
    edited = [row for row in read_table(built, "fanoutqa_review") if row["decision"] == "edit"]
    rows = {row["id"]: row for row in read_table(built, "fanoutqa")}
    taken = [item for item in edited if item["row_id"] in rows]
    assert taken
    for item in taken:
        row = rows[item["row_id"]]
        assert row["question"] == item["edited"][0]["text"]
        assert any(flag.startswith("wording") for flag in row["flags"])
        assert row["reviewed_by"] == ["policy auto"]


def test_similar_questions_share_split_and_exports_have_released_form(
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
    """Check the keys of every sub-question, and that it depends on an article or on other sub-questions."""
    for sub in decomposition:
        assert list(sub) == RELEASED_SUB
        assert (sub["evidence"] is None) == bool(sub["decomposition"])
        if sub["evidence"]:
            assert list(sub["evidence"]) == EVIDENCE
            assert isinstance(sub["evidence"]["pageid"], int)
            assert isinstance(sub["evidence"]["revid"], int)
        assert set(sub["depends_on"]) <= {each["id"] for each in decomposition}
        check_released_form(sub["decomposition"])


def test_split_answers_are_exported_only_on_request(factmill: Factmill, built: Any, tmp_path: Path) -> None:
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


def test_adding_ten_questions_moves_none_between_splits(factmill: Factmill, built: Any, tmp_path: Path) -> None:
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
    """Return the id of an authored question, or None if it breaks the rules."""
    try:
        return parse_authored_question(row).id
    except (KeyError, TypeError, ValueError):
        return ""


def test_reviewers_decide_on_flagged_questions(factmill: Factmill, built: Any, tmp_path: Path) -> None:
    first = factmill("build", "fanoutqa", "--source", OWN, "--review", "manual", "--json").json
    published = {row["id"] for row in read_table(first, "fanoutqa")}
    queue = read_table(first, "fanoutqa_review")
    assert {item["decision"] for item in queue} == {"open"}
    assert not published & {item["row_id"] for item in queue}
    assert first["reasons"]["review_questions"] == {"not_reviewed": len({item["row_id"] for item in queue})}
    file = tmp_path / "queue.csv"
    assert factmill("review", first["build_id"], "--to", file).code == 0
    lines = read_csv(file)
    counts = Counter(line["row_id"] for line in lines)
    kept = next(line for line in lines if line["flag"] == "answer_not_found" and counts[line["row_id"]] == 1)
    edited = next(line for line in lines if line["flag"] == "wording" and counts[line["row_id"]] == 1)
    kept |= {"decision": "keep", "reviewer": "A. Reader", "note": "the article says it in a picture"}
    wording = "Which wording does the reviewer prefer here?"
    edited |= {"decision": "edit", "edited": f"question: {wording}", "reviewer": "A. Reader"}
    write_csv(file, lines)
    assert factmill("review", "--from", file).code == 0
    second = factmill("build", "fanoutqa", "--source", OWN, "--review", "manual", "--json").json
    assert second["build_id"] != first["build_id"]
    rows = {row["id"]: row for row in read_table(second, "fanoutqa")}
    assert rows.keys() == published | {kept["row_id"], edited["row_id"]}
    assert rows[edited["row_id"]]["question"] == wording
    assert rows[kept["row_id"]]["reviewed_by"] == ["A. Reader"]
    # the flag without its sentence, which contains the answer
    path = kept["detail"].partition(":")[0]
    assert rows[kept["row_id"]]["flags"] == [f"answer_not_found {path}"]
    # hash seeds other than the build's
    assert factmill.run_process("verify", second["build_id"]).code == 0


def test_drift_finds_exactly_changed_answers(factmill: Factmill, built: Any) -> None:
    result = factmill.get_json("fanoutqa", "validate", "--drift", "--epoch", LATER, "--build", built["build_id"])
    found = {(each["question_id"], each["path"]) for each in result["drift"]}
    assert found == find_changes(built)
    assert len(found) >= 6
    again = factmill("fanoutqa", "validate", "--drift", "--epoch", EPOCH, "--build", built["build_id"], "--json")
    assert again.json["drift"] == []


def read_evidence(html: str) -> str:
    return extract_article_text(html, load_evidence_text_removal_rules()).text


def find_changes(built: Any) -> set[tuple[str, str]]:
    """Return references of published questions whose answer is in only one of the two states of the world's files."""
    articles = load_world_data(WORLD_FOLDER).articles
    published = {row["id"] for row in read_table(built, "fanoutqa")}
    changed = set()
    for row in read_table(built, "fanoutqa_references"):
        if row["question_id"] in published:
            newest = [each for each in articles[row["title"]].revisions if each.at <= LATER][-1]
            later = find_answer_and_missing_parts(
                json.loads(row["answer"]), index_text(read_evidence(newest.text))
            ).found
            if later != row["found"]:
                changed.add((row["question_id"], row["path"]))
    return changed


def test_explain_shows_articles_and_answers(factmill: Factmill, built: Any, answers: dict[str, Any]) -> None:
    row = read_table(built, "fanoutqa")[0]
    result = factmill("explain", "fanoutqa", row["id"]).out
    assert row["question"] in result
    for path, sub in list_leaves_of(answers[row["id"]]["decomposition"]):
        assert f"{path:11} {sub.question}" in result
        assert f"{sub.evidence.title}, revision {sub.evidence.revid} of " in result
    assert "pin_evidence: " in result


def list_leaves_of(decomposition: Rows) -> list[tuple[str, Any]]:
    from factmill.tasks.fanoutqa.core.questions import FanOutQuestion

    return list(list_leaf_sub_questions(FanOutQuestion("x", "x", parse_released_decomposition(decomposition))))


def test_epoch_before_all_pages_rejects_every_row_with_reason(factmill: Factmill) -> None:
    ran = factmill("build", "fanoutqa", "--source", OWN, "--epoch", "2001-01-01", "--json")
    assert ran.code == 1, ran.err
    assert ran.json["rows"] == 0
    assert ran.json["reasons"]["pin_evidence"]["younger_than_epoch"] >= LEAST_AUTHORED
    assert "pin_evidence lost " in ran.err
    assert "these are verdicts on the rows" in ran.err
    assert ran.json["build_id"] not in factmill("builds").out


Question = dict[str, Any]

Plant = Callable[[Question], object]

WIKI = "https://en.wikipedia.org/wiki/"
AUTHORED = {
    question["question"]: question
    for path in sorted((WORLD_FOLDER / "sources" / "fanoutqa").glob("*.json"))
    for question in json.loads(path.read_text("utf-8"))
}


def swap(answer: dict[str, Any], one: str, other: str) -> None:
    answer[one], answer[other] = answer[other], answer[one]


def rest_on(number: int, title: str) -> Plant:
    return lambda question: question["strategy"][number].update(evidence=f"{WIKI}{title}")


def ask(old: str, new: str) -> Plant:
    return lambda question: question.update(question=question["question"].replace(old, new))


def spoil_sub_answer(question: Question) -> None:
    question["strategy"][4]["answer"] = question["answer"]["Hekla"] = 1999


def judge(prompt_id: str, variables: Mapping[str, str]) -> str | None:
    """Return a careful judge's reply to the planted fault."""
    if prompt_id == "fanoutqa/objective" and "beautiful" in variables["question"]:
        return "What is beautiful is a matter of taste.\nN\nN"
    if prompt_id == "fanoutqa/wording" and "what were the heights" in variables["question"]:
        return "FLAG\nIt names no unit."
    return find_text(prompt_id, variables)


PLANTED: dict[str, tuple[str, Plant, str]] = {
    "answer without evidence": ("Which of the countries that border", lambda q: q["answer"].append("Sweden"), "answer_not_composed"),
    "two values swapped": ("How many inhabitants did the census", lambda q: swap(q["answer"], "Queens", "Brooklyn"), "answer_not_composed"),
    "an article used twice": ("On which river does each", rest_on(5, "Vienna"), "same_article"),
    "answer missing from its article": ("As of 20 November 2023, in what year", spoil_sub_answer, "answer_not_found"),
    "a matter of opinion": ("What are the official languages", ask("each neighbour", "each beautiful neighbour"), "not_objective"),
    "no unit": ("As of November 2023, how many", ask("how many metres above sea level were the summits", "what were the heights of the summits"), "cannot_be_mended"),
    "asked before": ("On what date was each of the four members of the Beatles in", lambda _: None, "duplicate"),
    "one article for all": ("What is the diameter in kilometres", lambda _: None, "one_article_has_all"),
    "missing page": ("What is the average area", rest_on(4, "Yellowstone_of_tests"), "evidence_missing"),
    "page newer than the epoch": ("As of November 2023, did Berlin", rest_on(1, "Luxembourg_City"), "younger_than_epoch"),
    "too few articles": ("Which composer wrote", lambda q: q["strategy"].pop(), "at least 5 different articles"),
    "an article of another wiki": ("Is the Nile longer", lambda q: q["strategy"][0].update(evidence="https://fr.wikipedia.org/wiki/Nil"), "another Wikipedia"),
    "no decomposition": ("How many kilometres long", lambda q: q["strategy"][2].pop("strategy"), "has neither evidence nor strategy"),
    "another answer to the same": ("Of the Nintendo 64", lambda q: q.update(answer=101.63), "contradicts"),
}  # fmt: skip
"""Maps an error to the beginning of its question, the function that plants it, and the expected detail."""


def plant(kind: str) -> Question:
    begins, spoil, _ = PLANTED[kind]
    question: Question = deepcopy(next(each for wording, each in AUTHORED.items() if wording.startswith(begins)))
    spoil(question)
    return question | {"id": kind}


@pytest.fixture(scope="module")
def rejects(factmill: Factmill, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Map each question to its reject's reason and detail, after one build of good and corrupted questions."""
    folder = tmp_path_factory.mktemp("planted")
    good = [question for wording, question in AUTHORED.items() if wording.startswith(("On what date was each of the four members of the Beatles'", "Of the Nintendo 64"))]  # fmt: skip
    spoiled = [plant(kind) for kind in PLANTED]
    spoiled[-1].pop("id")
    (folder / "q.json").write_text(json.dumps([*good, *spoiled]), "utf-8")
    with replying(judge):
        ran = factmill("build", "fanoutqa", "--source", folder / "q.json", "--warehouse", folder / "w.duckdb", "--json")
    assert ran.code == 0, ran.err
    with open_warehouse(folder / "w.duckdb") as db:
        found = db.sql("SELECT coalesce(row, ''), reason || ': ' || detail FROM rejects").fetchall()
    return {json.loads(row)["question"]: result for row, result in found}


@pytest.mark.parametrize("kind", PLANTED)
def test_planted_error_is_rejected(rejects: dict[str, str], kind: str) -> None:
    assert PLANTED[kind][2] in rejects.get(plant(kind)["question"], "published")
