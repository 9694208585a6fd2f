"""Test builds from users' own tables: each benchmark from a tiny table with other column names.

Models are scripted: the embedded world's replies, and minimal ones for prompts of these sources.
"""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Factmill, Ran
from support.docs.documents import list_named_files

from factmill.tasks.storage.builds import resolve_build
from factmill.tasks.storage.warehouse import open_warehouse

FILES = list_named_files("docs/rebuild/own-data.md")
COUPLES = "paragraph=text,person=one,relation=how,other=two"
Build = Callable[..., Ran]


@pytest.fixture
def build(factmill: Factmill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """Build a benchmark in a folder with the documents' files, into its own warehouse."""
    for name, content in FILES.items():
        (tmp_path / name).write_text(content, "utf-8")
    monkeypatch.chdir(tmp_path)
    return lambda *options: factmill("build", *options, "--warehouse", tmp_path / "w.duckdb", "--json")


def rows_of(ran: Ran, table: str) -> list[dict[str, Any]]:
    assert ran.code == 0, ran.err
    with open_warehouse(Path(ran.json["warehouse"])) as db:
        statement = f"SELECT * FROM {table} WHERE build_id = ? ORDER BY source_row"
        found: list[dict[str, Any]] = db.sql(statement, params=[ran.json["build_id"]]).to_arrow_table().to_pylist()
    return found


def test_granola_reads_table_and_names_file_row_source_and_licence(
    build: Build, factmill: Factmill, tmp_path: Path
) -> None:
    result = ("--source", "town-quiz.csv", "--map", "question=q,answers=gold,relation=property")
    ran = build("granola", *result, "--source-name", "Town quiz", "--source-licence", "CC-BY-4.0")
    rows = rows_of(ran, "granola_eq")
    assert [(row["source_name"], row["source_row"], row["relation"], row["answer"]) for row in rows] == [
        ("Town quiz/town-quiz.csv", 1, "P19", "Brooklyn"),
        ("Town quiz/town-quiz.csv", 2, "P19", "Chester"),
        ("Town quiz/town-quiz.csv", 3, "P127", "Meta Platforms"),
    ]
    assert "note: Town quiz/town-quiz.csv: question = q, answers = gold, relation = property" in ran.err
    warehouse = ("--warehouse", tmp_path / "w.duckdb")
    explained = factmill("explain", "granola", rows[0]["id"], *warehouse)
    assert "source      Town quiz/town-quiz.csv, row 1, relation P19 (CC-BY-4.0)" in explained.out
    assert {row["source_licence"] for row in rows} == {"CC-BY-4.0"}
    assert "identical" in factmill("verify", ran.json["build_id"], *warehouse).out
    released = factmill("release", ran.json["build_id"], "--to", tmp_path / "release", *warehouse)
    assert released.code == 0, released.err
    with (tmp_path / "release" / "LICENSES.csv").open(encoding="utf-8", newline="") as file:
        first = next(csv.DictReader(file))
    assert (first["source"], first["licence"], first["rows"]) == ("Town quiz", "CC-BY-4.0", "3")


def test_source_without_licence_builds_but_release_requires_licence(
    build: Build, factmill: Factmill, tmp_path: Path
) -> None:
    ran = build("granola", "--source", "town-quiz.csv", "--map", "question=q,answers=gold,relation=property")
    assert ran.code == 0 and "no licence of this source is stated (--source-licence)" in ran.err
    place = ("--to", tmp_path / "release", "--warehouse", tmp_path / "w.duckdb")
    refused = factmill("release", ran.json["build_id"], *place)
    assert refused.code == 2
    assert "town-quiz.csv (3 rows): no licence is stated" in refused.err and "--source-licence" in refused.err
    assert factmill("release", ran.json["build_id"], "--allow-licence", "none stated", *place).code == 0
    assert "| town-quiz.csv | none stated | 3 |" in (tmp_path / "release" / "README.md").read_text("utf-8")


def test_changed_column_map_yields_new_build_and_same_map_reuses_build(build: Build, tmp_path: Path) -> None:
    (tmp_path / "two.csv").write_text("q,gold,other,relation\nWhere was Carl Sagan born?,Brooklyn,Brooklyn,P19\n")
    ids = [
        build("granola", "--source", "two.csv", "--map", column_map).json["build_id"]
        for column_map in ("question=q,answers=gold", "question=q,answers=other", "answer=gold,question=q")
    ]
    assert ids[0] != ids[1]
    assert ids[0] == ids[2]
    manifest = resolve_build(tmp_path / "w.duckdb", ids[0]).lock
    assert manifest["params"]["own_source"]["columns"] == {"question": "q", "answers": "gold", "relation": "relation"}
    assert "map" not in manifest["params"]["params"]


def test_user_relations_use_their_own_templates(build: Build, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("pid,template\nP19,In which town did [X] come into the world?\n")
    (tmp_path / "q.csv").write_text("question,answer\nIn which town did Carl Sagan come into the world?,Brooklyn\n")
    result = ("--source", "q.csv", "--relations", "P19")
    assert build("granola", *result).code == 1  # no_template_match
    (row,) = rows_of(build("granola", *result, "--relation-file", "mine.csv"), "granola_eq")
    assert row["question_entity"] == "Carl Sagan"


def test_subject_column_replaces_template(build: Build, tmp_path: Path) -> None:
    rows = "In which town did Carl Sagan come into the world?,Brooklyn,Carl Sagan\nWho?,Brooklyn,Carl Sagan\n"
    (tmp_path / "q.csv").write_text(f"question,answer,subject\n{rows}")
    ran = build("granola", "--source", "q.csv", "--relations", "P19")
    assert [row["question_entity"] for row in rows_of(ran, "granola_eq")] == ["Carl Sagan"]
    assert ran.json["reasons"]["extract_question_entities"] == {"subject_not_in_question": 1}


def test_multihal_reads_table_as_own_foundation(build: Build) -> None:
    result = ("--map", "question=q,answer=gold,incorrect_answers=wrong", "--source-name", "hard", "--languages", "eng")
    rows = rows_of(build("multihal", "--source", "hard-questions.jsonl", *result), "multihal")
    found = {(row["source_dataset"], row["source_name"], row["source_row"], row["licence"]) for row in rows}
    assert ("hard", "hard/hard-questions.jsonl", 1, "none stated") in found
    (first, *_) = rows
    assert (first["question_id"], first["domain"], first["incorrect_answers"]) == (
        "hard_hard-questions_0", "mountains", ["8,848 metres"],
    )  # fmt: skip


def test_page_and_release_of_own_source_name_it_and_its_languages(
    build: Build, factmill: Factmill, tmp_path: Path
) -> None:
    stated = ("--source-name", "Doktorquiz", "--source-licence", "CC-BY-4.0", "--languages", "eng")
    columns = ("--map", "question=q,answer=gold,incorrect_answers=wrong")
    ran = build("multihal", "--source", "hard-questions.jsonl", *columns, *stated)
    warehouse, page, release = ("--warehouse", tmp_path / "w.duckdb"), tmp_path / "page.html", tmp_path / "release"
    assert factmill("report", ran.json["build_id"], "--to", page, *warehouse).code == 0
    made = page.read_text("utf-8")
    assert "2 rows of MultiHal made from Doktorquiz, in English<" in made
    assert "Licence of the source" in made
    assert factmill("release", ran.json["build_id"], "--to", release, *warehouse).code == 0
    card = (release / "README.md").read_text("utf-8")
    content = "Rows of MultiHal made from Doktorquiz, in English."
    assert f"\n{content} A row is a question with its answer and one Wikidata path" in card
    assert "| questions with a path | 2 | 7,095 |" in card
    cited = " ".join((release / "CITATION.cff").read_text("utf-8").split())
    assert content in cited
    assert content in (release / "croissant.json").read_text("utf-8")
    for text in (made, card, cited):
        assert "questions of seven benchmarks" not in text.lower()


def test_biokalma_reads_table_of_pairs(build: Build) -> None:
    ran = build("biokalma", "--source", "couples.csv", "--map", COUPLES, "--source-licence", "CC0-1.0")
    stages = {each["stage"]: each["rows_out"] for each in ran.json["stages"]}
    assert stages["find_pair_paragraphs"] == 2
    rows = rows_of(ran, "biokalma")
    assert rows and {(row["source_name"], row["licence"]) for row in rows} == {("couples.csv", "CC0-1.0")}


def test_slaq_reads_table_of_topics(build: Build, tmp_path: Path) -> None:
    with (tmp_path / "topics.csv").open("a") as file:
        file.write("quaternion,Mathematics\nNo such page,Sky\n,Sky\n")
    ran = build("slaq", "--source", "topics.csv", "--map", "category=field")
    assert ran.code == 0, ran.err
    assert ran.json["facts"]["categories"] == {"Mathematics": 2, "Sky": 2}
    assert ran.json["reasons"]["read_user_topics"] == {"malformed_row": 1, "page_missing": 1}
    assert ran.json["merged"] == 1
    wrong = build("slaq", "--source", "topics.csv", "--map", "category=field", "--categories", "Skye")
    assert wrong.code == 2 and "the categories are Mathematics, Sky; did you mean Sky?" in wrong.err
    drawn = build("slaq", "--source", "topics.csv", "--map", "category=field", "--depth", "2")
    assert drawn.code == 2 and "a table names its topics" in drawn.err


def test_topic_list_has_name_and_licence_in_rows_and_on_card_and_texts_keep_theirs(
    build: Build, factmill: Factmill, tmp_path: Path
) -> None:
    result = ("slaq", "--source", "topics.csv", "--map", "category=field")
    plain = build(*result)
    named = build(*result, "--source-name", "Town & list", "--source-licence", "CC BY 4.0")
    assert "note: --source-licence CC BY 4.0: no SPDX id" in named.err and "did you mean CC-BY-4.0?" in named.err
    stated = build(*result, "--source-name", "Town & list", "--source-licence", "CC-BY-4.0")
    assert "SPDX" not in stated.err
    assert len({each.json["build_id"] for each in (plain, named, stated)}) == 3
    both = [rows_of(each, "slaq") for each in (plain, stated)]
    own = ("source_name", "source_row", "source_licence")
    assert [[tuple(row.pop(name) for name in own) for row in rows] for rows in both] == [
        [("topics.csv", number, "none stated") for number in (1, 2, 3, 4)],
        [("Town & list/topics.csv", number, "CC-BY-4.0") for number in (1, 2, 3, 4)],
    ]
    assert [{**row, "build_id": ""} for row in both[0]] == [{**row, "build_id": ""} for row in both[1]]
    assert {row["licence"] for row in both[1]} == {"Apache-2.0"}
    explained = factmill("explain", "slaq", both[1][0]["id"], "--warehouse", tmp_path / "w.duckdb")
    assert "source      Town & list/topics.csv, row " in explained.out and "(CC-BY-4.0)" in explained.out
    place = ("--to", tmp_path / "release", "--author", "Lovelace, Ada", "--warehouse", tmp_path / "w.duckdb")
    released = factmill("release", stated.json["build_id"], *place)
    assert released.code == 0, released.err
    with (tmp_path / "release" / "LICENSES.csv").open(encoding="utf-8", newline="") as file:
        lines = {(each["source"], each["what"]): each["licence"] for each in csv.DictReader(file)}
    assert lines["Town & list", "titles of topics, and their categories"] == "CC-BY-4.0"
    assert lines["factmill's embedded world", "texts of pages, and facts from them"] == "Apache-2.0"
    card = (tmp_path / "release" / "README.md").read_text("utf-8")
    assert "pretty_name: SLAQ of Town & list, rebuilt by factmill" in card
    assert "# SLAQ of Town & list, rebuilt by factmill" in card
    assert r"title = {SLAQ of Town \& list, rebuilt by factmill}" in card
    citation = (tmp_path / "release" / "CITATION.cff").read_text("utf-8")
    assert "title: SLAQ of Town & list, rebuilt by factmill" in citation and "family-names: Lovelace" in citation


def test_questions_on_one_fact_form_one_cluster_and_guesser_gains_nothing(
    build: Build, factmill: Factmill, tmp_path: Path
) -> None:
    rows = [
        "Where was Carl Sagan born?,Brooklyn,Carl Sagan",
        "In which town did Carl Sagan come into the world?,Brooklyn,Carl Sagan",
        "Where was Daniel Craig born?,Chester,Daniel Craig",
    ]
    (tmp_path / "q.csv").write_text("\n".join(("question,answer,subject", *rows)))
    ran = build("granola", "--source", "q.csv", "--relations", "P19")
    assert len(rows_of(ran, "granola_eq")) == 3
    options = ("--model", "guesser", "--setting", "greedy", "--reports", tmp_path, "--warehouse", tmp_path / "w.duckdb")
    result = factmill("evaluate", "granola", *options, "--json")
    assert result.code == 0, result.err
    (accuracy,) = [each for each in result.json["metrics"] if each["id"] == "greedy/accuracy"]
    assert (accuracy["n"], accuracy["clusters"], accuracy["value"]) == (3, 2, 0.0)


def test_slaq_uses_page_views_of_table_instead_of_service(build: Build, factmill: Factmill, tmp_path: Path) -> None:
    titles = [("Quaternion", "1"), ("Boolean algebra", "3"), ("Crab Nebula", "")]
    lines = [f"{title},Mathematics,{views}" for title, views in titles]
    (tmp_path / "viewed.csv").write_text("\n".join(("topic,category,seen", *lines)))
    ran = build("slaq", "--source", "viewed.csv", "--map", "views=seen")
    assert ran.code == 0, ran.err
    shown = factmill("show", "slaq", "--json", "--warehouse", tmp_path / "w.duckdb").json["rows"]
    assert {row["Topic"]: row["Pageviews"] for row in shown} == {"Quaternion": 1, "Boolean algebra": 3}
    assert ran.json["reasons"]["split_topics_by_views"] == {"no_page_views": 1}
    (tmp_path / "viewed.csv").write_text("\n".join(("topic,category,seen", *lines)).replace(",1\n", ",2\n"))
    edited = build("slaq", "--source", "viewed.csv", "--map", "views=seen")
    ids = (ran.json["build_id"], edited.json["build_id"])
    changes = factmill("diff", *ids, "--json", "--warehouse", tmp_path / "w.duckdb").json["rows"]
    assert [[cause["kind"] for cause in each["causes"]] for each in changes] == [["source"]]


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_fanoutqa_reads_question_forms_from_table(build: Build, tmp_path: Path, kind: str) -> None:
    if kind == "csv":
        question = json.loads(FILES["rivers.jsonl"])
        with (tmp_path / "rivers.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(question)
            writer.writerow([each if isinstance(each, str) else json.dumps(each) for each in question.values()])
    result = ("--map", "question=q,strategy=steps,categories=topics", "--source-licence", "CC0-1.0")
    (row,) = rows_of(build("fanoutqa", "--source", f"rivers.{kind}", *result), "fanoutqa")
    assert (row["source"], row["source_name"], row["licence"]) == ("authored", f"rivers.{kind}", "CC0-1.0")
    assert row["sub_questions"] == 5


def test_fanoutqa_generates_questions_from_user_set_kinds(build: Build) -> None:
    result = ("--source", "wikidata", "--set-file", "sets.csv")
    without = build("fanoutqa", *result)
    assert without.code == 2 and "no line for it with members 'people' or none" in without.err
    ran = build("fanoutqa", *result, "--property-file", "properties.csv", "--sets-a-kind", "2")
    rows = rows_of(ran, "fanoutqa")
    assert rows and {" ".join(row["source_name"].split()[1:3]) for row in rows} <= {"P40 Q5", "P57 Q11424"}
