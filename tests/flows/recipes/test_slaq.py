"""Test SLAQ in the embedded world: topics of categories, five short questions and a long one each, and the review."""

import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.builds.build_rows import Rows, check_balance, query_build, read_table
from support.commands.command import Factmill
from support.models.scripted_chat import ScriptedChat, write_chat_world
from support.rows.csv_files import read_csv, write_csv

from factmill.tasks.assets import load_article_text_removal_rules, load_list_entries
from factmill.tasks.slaq.core.article_matching import (
    is_answer_in_article,
    make_question_check_word_lists,
    normalise_article,
)
from factmill.tasks.slaq.core.checks import check_generated_pairs
from factmill.tasks.slaq.core.pair_replies import GeneratedQuestionAnswerPairs, ShortQuestionAnswerPair
from factmill.tasks.storage.recording.call_records import decompress_body
from factmill.tasks.text.article_html import extract_article_text as read_html

LEAST_TOPICS, LEAST_CATEGORIES = 30, 15
"""Minimum numbers of topics and categories from the embedded build (issue 6)."""
LISTS = make_question_check_word_lists(
    load_list_entries("source_phrases"), load_list_entries("one_of_many"), load_list_entries("function_words")
)
EMPTY = "Unsolved problems in algebra"
"""A category of the embedded world without members."""
NEW_QUESTION = "What does the reviewer ask here?"


@dataclass(frozen=True)
class Built:
    """A build, its rows, and the main text of their articles by row id."""

    report: Any
    rows: Rows
    articles: dict[str, str]


@pytest.fixture(scope="module")
def built(embedded_builds: dict[str, Any]) -> Built:
    """Return the default SLAQ build."""
    report = embedded_builds["slaq"]
    replies = query_build(
        report,
        "SELECT b.id, c.body FROM build_calls b JOIN calls c USING (record_id) "
        "WHERE b.build_id = $1 AND c.operation = 'page_text'",
    )
    articles = {
        each["id"]: read_html(json.loads(decompress_body(each["body"]))["text"], load_article_text_removal_rules()).text
        for each in replies
    }
    return Built(report, read_table(report, "slaq"), articles)


def read_generated(row: dict[str, Any]) -> GeneratedQuestionAnswerPairs:
    pairs = [ShortQuestionAnswerPair(row[f"ShortQ{n}"], row[f"ShortA{n}"]) for n in range(1, 6)]
    return GeneratedQuestionAnswerPairs(tuple(pairs), row["LongQ"], row["LongA"])  # type: ignore[arg-type]


def test_topics_have_five_pairs_with_answers_in_their_articles(built: Built) -> None:
    assert built.report["rows"] == len(built.rows) >= LEAST_TOPICS
    for row in built.rows:
        text = built.articles[row["id"]]
        generated = read_generated(row)
        article = normalise_article(text)
        assert [pair.answer for pair in generated.short if not is_answer_in_article(pair.answer, article)] == []
        assert len({pair.question for pair in generated.short}) == 5
        assert max(len(pair.answer.split()) for pair in generated.short) < 10
        assert check_generated_pairs(generated, row["Topic"], text, LISTS) == [], row["id"]
        assert len(text) >= 1000
        assert not re.search(r"<\w+|\[\d+\]|\bedit\]", text)


def test_each_category_has_equally_many_popular_and_unpopular_topics(built: Built) -> None:
    by_category: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in built.rows:
        by_category[row["Category"]].append(row)
    assert len(by_category) >= LEAST_CATEGORIES
    assert by_category.keys() <= set(load_list_entries("slaq_categories"))
    for category, rows in by_category.items():
        views = {half: [row["Pageviews"] for row in rows if row["half"] == half] for half in ("most", "least")}
        assert len(views["most"]) == len(views["least"]), category
        assert min(views["most"]) >= max(views["least"]), category
    assert len({row["URL"] for row in built.rows}) == len(built.rows)


def test_lost_rows_have_expected_reasons(built: Built) -> None:
    assert built.report["unsettled"] == 0
    reasons = built.report["reasons"]
    assert reasons["scrape_articles"] == {"list_page": 1}
    assert reasons["split_topics_by_views"].keys() == {"odd_one_out"}
    assert reasons["write_questions"] == {
        "answer_not_in_article": 1,
        "cut_off": 1,
        "long_question_lacks": 1,
        "refused": 1,
        "reply_not_in_format": 2,
    }
    assert reasons["check_questions"] == {"dropped_in_review": 2, "reply_not_in_format": 1}
    assert reasons["balance_halves"] == {"other_half_is_short": 3}
    assert built.report["merged"] == 2, "two pages are in two categories each"


def test_report_counts_categories_halves_and_fact_types(built: Built) -> None:
    facts = built.report["facts"]
    assert facts["categories"] == Counter(row["Category"] for row in built.rows)
    assert facts["halves"] == Counter(row["half"] for row in built.rows)
    assert facts["members"].keys() == set(load_list_entries("slaq_categories"))
    kinds = Counter(kind for row in built.rows for kind in row["fact_types"])
    assert facts["fact_types"] == kinds
    entities = sum(row[f"ShortQ{n}_Entity"] for row in built.rows for n in range(1, 6))
    assert entities == kinds.total() - kinds["none"]
    assert facts["entity_answers"] == {"share": round(entities / (5 * len(built.rows)), 3), "n": 5 * len(built.rows)}
    counts = read_table(built.report, "slaq_categories")
    assert {each["id"]: each["members"] for each in counts} == facts["members"]
    assert sum(each["drawn"] for each in counts) == built.report["inputs"]


def test_every_planted_author_fault_occurs_and_none_is_published(built: Built) -> None:
    calls = query_build(
        built.report,
        "SELECT b.id, c.parts, c.body FROM build_calls b JOIN calls c USING (record_id) "
        "WHERE b.build_id = $1 AND c.operation = 'chat'",
    )
    faulty: dict[str, set[str]] = defaultdict(set)
    for each in calls:
        if "fault" in json.loads(decompress_body(each["body"])):
            faulty[json.loads(each["parts"])["prompt"]].add(each["id"])
    assert {prompt: len(rows) for prompt, rows in faulty.items()} == {
        "slaq/generate": 7,
        "slaq/check": 3,
        # two of the five wrong classes belong to one topic
        "slaq/fact_type": 4,
    }
    published = {row["id"] for row in built.rows}
    assert published.isdisjoint(faulty["slaq/generate"] | faulty["slaq/check"])
    assert faulty["slaq/fact_type"] <= published, "no check reads the class of an answer"


def test_flags_of_second_check_drop_rows_even_when_wrong(built: Built) -> None:
    items = query_build(built.report, "SELECT * FROM slaq_review WHERE build_id = $1 ORDER BY row_id, detail")
    assert [(each["row_id"], each["detail"], each["decision"]) for each in items] == [
        ("Software engineering-7000501", "ShortQ2: it does not say whose staircase diagram is meant", "drop"),
        # a judge error
        ("Statistics-7000507", "ShortQ3: it is not clear which criminals are meant", "drop"),
        ("Statistics-7000507", "ShortQ5: the article names no case", "drop"),
    ]


def test_explain_traces_row_to_its_calls(factmill: Factmill, built: Built) -> None:
    row = built.rows[0]
    result = factmill("explain", "slaq", row["id"], "--build", built.report["build_id"], "--json").json
    by_stage: dict[str, Counter[str]] = defaultdict(Counter)
    for call in result["calls"]:
        by_stage[call["stage"]][call["operation"]] += 1
    asked = by_stage.pop("write_questions")["chat"]
    assert asked in (1, 2)
    assert by_stage.pop("draw_category_pages")["category_members"] > 1
    assert by_stage == {
        "scrape_articles": {"resolve_title": 1, "page_revision_at": 1, "page_text": 1},
        "count_topic_pageviews": {"pageviews": 1},
        "check_questions": {"chat": 1},
        "classify_fact_answers": {"chat": 5},
    }
    assert result["row"]["LongQ"] == row["LongQ"]
    lines = factmill("explain", "slaq", row["id"], "--build", built.report["build_id"]).out
    for said in (row["ShortQ5"], row["LongA"], f"revision {row['revid']}", f"{row['half']} viewed half"):
        assert said in lines
    assert f"source      {row['source_name']}, row {row['source_row']}, of {row['Category']} (Apache-2.0)" in lines


def test_drawn_topic_has_name_and_licence_of_wikipedia_and_its_place_in_the_draw(built: Built) -> None:
    names = {(row["source_name"].rpartition("/")[2], row["source_licence"]) for row in built.rows}
    assert names == {("wikipedia", "Apache-2.0")}
    places = [(row["Category"], row["source_row"]) for row in built.rows]
    assert len(set(places)) == len(places) and min(number for _, number in places) == 1


def test_rows_flagged_by_second_model_are_exported_for_review_and_imported(
    factmill: Factmill, doubter: ScriptedChat, tmp_path: Path
) -> None:
    world, queue = write_chat_world(tmp_path, doubter.url, ["judge"]), tmp_path / "queue.csv"

    def run(*arguments: str | Path, code: int = 0) -> Any:
        ran = factmill(*arguments, "--warehouse", tmp_path / "w.duckdb", "--json", TEST_KEY="secret-key-1")
        assert ran.code == code, ran.err
        return ran.json

    categories = ("--categories", "Astronomy", "--categories", EMPTY)
    build = ("build", "slaq", "--world", world, *categories, "--review", "manual")
    waiting = run(*build, code=1)
    check_balance(waiting)
    assert waiting["facts"]["members"][EMPTY] == 0
    flagged = waiting["stages"][-3]["rows_in"]
    assert flagged >= 4
    assert waiting["rows"] == 0
    assert f"{flagged} rows await a decision: run factmill review latest:slaq" in waiting["nothing_published"]
    assert run(*build, code=1)["up_to_date"]
    assert waiting["reasons"]["check_questions"] == {"not_reviewed": flagged}
    assert waiting["facts"]["review"] == {"open": flagged}

    assert run("review", waiting["build_id"], "--to", queue)["open"] == flagged
    items = read_csv(queue)
    edits = {"decision": "edit", "edited": f"ShortQ2: {NEW_QUESTION}", "reviewer": "Bob"}
    for number, item in enumerate(items):
        item.update(edits if number % 2 == 0 else {"decision": "keep", "reviewer": "Ann"})
    write_csv(queue, items)
    assert run("review", "--from", queue)["decisions"] == flagged
    queue.unlink()

    reviewed = run(*build)
    check_balance(reviewed)
    rows = read_table(reviewed, "slaq")
    assert reviewed["facts"]["review"] == {"edit": len(items[::2]), "keep": len(items[1::2])}
    edited = {item["row_id"] for item in items[::2]} & {row["id"] for row in rows}
    assert 0 < len(edited) < len(rows)
    for row in rows:
        assert (row["ShortQ2"] == NEW_QUESTION) == (row["id"] in edited)
        assert row["reviewed_by"] == ["Bob" if row["id"] in edited else "Ann"]
    # hash seeds other than the build's
    again = factmill.run_process("verify", reviewed["build_id"], "--warehouse", tmp_path / "w.duckdb")
    assert again.code == 0, again.err
