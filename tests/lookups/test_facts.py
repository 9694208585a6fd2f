"""Test facts of relations, labels of items, their popularity, and questions from templates."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.graphs.namesakes import write_item
from support.steps.evidence_work import working
from support.webs.small_wiki import SmallPage, SmallWiki
from support.webs.two_wikidatas import TwoWikidatas

from factmill.tasks.assets import load_entity_questions_relations
from factmill.tasks.core.calls.wikidata import ItemMatchedByName, Qid
from factmill.tasks.core.rows import MergedAway, Reject, Row
from factmill.tasks.engine.batches import BatchInProgress
from factmill.tasks.lookups.facts import (
    NamedFact,
    QuestionBeforeMergingEqual,
    load_named_facts_as_input_rows,
    look_up_item_facts_by_qid,
    make_fact_questions,
    make_question_id,
    merge_equal_or_reject_conflicting,
)
from factmill.tasks.lookups.labels import (
    look_up_aliases_by_qid,
    look_up_item_candidates_by_name,
    look_up_item_descriptions_by_qid,
    look_up_item_names_by_qid,
    look_up_labels_by_entity_id,
)
from factmill.tasks.lookups.popularity import look_up_page_views_by_qid, look_up_page_views_by_title

ITEMS = [
    write_item("Q1", "Ada", "P19 Q84", "P26 Q2", aliases=["Countess"]),
    write_item("Q2", "Bo", "P19 Q90", "P19 Q84"),
    write_item("Q3", None, "P19 Q84"),
    write_item("Q4", "Cy", "P19 Q90", "P19 Q99"),
    write_item("Q5", "Di", "P19 Q99", "P19 Q90"),
    write_item("Q84", "London", of=["Q515"], aliases=["Londinium", "Big Smoke", "London"]),
    write_item("Q90", "Paris", of=["Q515"]),
    "wd:Q99 wdt:P31 wd:Q515",
    'wd:Q84 skos:altLabel "LDN"@mul',
    'wd:Q84 skos:altLabel "Londra"@it',
    "enwiki:London schema:about wd:Q84",
    "enwiki:London schema:isPartOf <https://en.wikipedia.org/>",
    'enwiki:London schema:name "London"@en',
    "enwiki:Paris schema:about wd:Q90",
    "enwiki:Paris schema:isPartOf <https://en.wikipedia.org/>",
    'enwiki:Paris schema:name "Paris"@en',
]

TEMPLATES = {pid: relation.template for pid, relation in load_entity_questions_relations().items()}


@pytest.fixture(scope="module")
def wikidatas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoWikidatas]:
    both = TwoWikidatas("\n".join(ITEMS), tmp_path_factory.mktemp("wikidata"))
    yield both
    both.close()


@pytest.fixture(params=["sparql", "graph"])
def work(request: pytest.FixtureRequest, wikidatas: TwoWikidatas, tmp_path: Path) -> Iterator[BatchInProgress]:
    """Yield work on the items by SPARQL, and as a local graph, with page views of London alone."""
    wiki = SmallWiki()
    wiki.add(SmallPage(1, "London", views=(30, 12)), SmallPage(2, "Paris", views=None))
    wikidata = wikidatas.sparql() if request.param == "sparql" else wikidatas.graph
    with working(tmp_path, wikidata=wikidata, pageviews=wiki.services().pageviews) as opened:
        yield opened
    wiki.close()


def test_items_are_named_by_labels_and_aliases(work: BatchInProgress) -> None:
    asked = [("a", "Q84"), ("b", "Q3"), ("c", "Q84")]
    assert look_up_item_names_by_qid(work, asked) == ({"Q84": "London", "Q3": None}, {})
    items, failed = look_up_item_descriptions_by_qid(work, asked)
    assert ({qid: (item.label, item.title) for qid, item in items.items()}, failed) == (
        {"Q84": ("London", "London"), "Q3": (None, None)},
        {},
    )
    assert look_up_labels_by_entity_id(work, asked, "en") == ({"Q84": "London"}, {})
    assert look_up_aliases_by_qid(work, asked) == ({"Q84": ["Big Smoke", "LDN", "Londinium"], "Q3": []}, {})


def test_name_lookup_returns_items_with_that_name(work: BatchInProgress) -> None:
    found, failed = look_up_item_candidates_by_name(work, [("a", "Countess"), ("a", "Nobody")])
    assert (found, failed) == ({"Countess": [ItemMatchedByName(Qid("Q1"), "alias")], "Nobody": []}, {})


def test_neighbour_lookup_returns_items_connected_to_item(work: BatchInProgress) -> None:
    found, failed = look_up_item_facts_by_qid(work, [("a", "Q1"), ("b", "Q99")])
    assert ({qid: [(fact.pid, fact.qid) for fact in facts] for qid, facts in found.items()}, failed) == (
        {"Q1": [("P19", "Q84"), ("P26", "Q2"), ("P31", "Q5")], "Q99": [("P31", "Q515")]},
        {},
    )


def test_popularity_of_item_is_that_of_its_article(work: BatchInProgress) -> None:
    days = ("20250101", "20250102")
    assert look_up_page_views_by_title(work, [("a", "London"), ("b", "Paris")], *days) == (
        {"London": 42, "Paris": None},
        {},
    )
    asked = [("a", "Q84"), ("b", "Q90"), ("c", "Q1"), ("d", "Q84")]
    assert look_up_page_views_by_qid(work, asked, *days) == ({"Q84": 42, "Q90": None, "Q1": None}, {})


def take(work: BatchInProgress, **rules: Any) -> dict[str, NamedFact]:
    return {fact.id: fact for fact in load_named_facts_as_input_rows(work, "P19", None, **rules)}


def name_troubles(facts: dict[str, NamedFact]) -> dict[str, str]:
    """Map each dropped row to its reject's reason, or to the row into which it is merged."""
    return {
        row_id: fact.drop_outcome.reason if isinstance(fact.drop_outcome, Reject) else f"into {fact.drop_outcome.into}"
        for row_id, fact in facts.items()
        if fact.drop_outcome
    }


UNNAMED = {"P19-Q3-Q84", "P19-Q4-Q99", "P19-Q5-Q99"}
RULES: list[tuple[Any, dict[str, str]]] = [
    ("keep", {}),
    ("first", {"P19-Q2-Q90": "into P19-Q2-Q84"}),
    ("all", {"P19-Q2-Q90": "into P19-Q2-Q84"}),
    (
        "reject",
        dict.fromkeys(("P19-Q2-Q84", "P19-Q2-Q90", "P19-Q4-Q90", "P19-Q5-Q90"), "several_gold_answers"),
    ),
]


@pytest.mark.parametrize(("several", "expected"), RULES, ids=[rule for rule, _ in RULES])
def test_multiple_values_rule_decides_which_facts_of_subject_are_kept(
    work: BatchInProgress, several: Any, expected: dict[str, str]
) -> None:
    facts = take(work, multiple_values=several)
    assert name_troubles(facts) == {**dict.fromkeys(UNNAMED, "item_without_label"), **expected}
    assert work.rows_in == len(facts) == 8
    assert [fact.number for fact in facts.values()] == list(range(1, 9))
    assert work.rows_as_received["P19-Q1-Q84"] == '{"relation":"P19","subject":"Q1","value":"Q84"}'


def test_value_has_all_its_names_when_aliases_are_requested(work: BatchInProgress) -> None:
    plain, full = take(work)["P19-Q1-Q84"], take(work, aliases=True)["P19-Q1-Q84"]
    assert (plain.subject_name, plain.value_name, plain.answers) == ("Ada", "London", ("London",))
    assert full.answers == ("London", "Big Smoke", "LDN", "Londinium")
    assert take(work, name_lookup=partial(look_up_labels_by_entity_id, language="it"))["P19-Q1-Q84"].value_name is None


def test_first_fact_of_subject_represents_all_values_under_rule_all(work: BatchInProgress) -> None:
    first, whole = (take(work, multiple_values=rule, aliases=True)["P19-Q2-Q84"] for rule in ("first", "all"))
    assert (first.values, whole.values) == (("Q84",), ("Q84", "Q90"))
    assert whole.answers[: len(first.answers)] == first.answers
    assert "Paris" in whole.answers and "Paris" not in first.answers
    unnamed = take(work, multiple_values="all")["P19-Q4-Q90"]
    assert unnamed.values == ("Q90",), "a value without a name is not an answer"


def test_limit_counts_subjects(work: BatchInProgress) -> None:
    assert [fact.id for fact in load_named_facts_as_input_rows(work, "P19", 2)] == [
        "P19-Q1-Q84",
        "P19-Q2-Q84",
        "P19-Q2-Q90",
    ]


@pytest.mark.parametrize(("words", "aliases"), [("schema:description", False), ("skos:altLabel", True)])
def test_facts_whose_name_lookup_failed_are_retried(
    wikidatas: TwoWikidatas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, aliases: bool
) -> None:
    monkeypatch.setattr(wikidatas, "too_much", words)
    with working(tmp_path, wikidata=wikidatas.sparql()) as work:
        facts = load_named_facts_as_input_rows(work, "P19", 1, aliases=aliases)
    assert [fact.drop_outcome and (fact.drop_outcome.reason, fact.drop_outcome.retryable) for fact in facts] == [  # type: ignore[union-attr]
        ("wikidata_failed", True)
    ]


class Kept(Row):
    question: str
    came_as: str


def fact(number: int, subject: str, value: str, trouble: Reject | MergedAway | None = None) -> NamedFact:
    return NamedFact(f"f{number}", number, f"Q{number}", "P19", "Q84", subject, value, (), ("Q84",), trouble)


def keep(read: QuestionBeforeMergingEqual, row_id: str) -> Kept:
    return Kept(id=row_id, question=read.question, came_as=read.id)


def test_template_turns_fact_into_question_and_rejects_pass_through() -> None:
    lost = Reject("f2", "item_without_label", "")
    made = list(make_fact_questions([fact(1, "Ada", "Ulm"), fact(2, "Bo", "Ulm", lost)], TEMPLATES, "g"))
    first = QuestionBeforeMergingEqual(
        "f1", "P19", "Where was Ada born?", "Ulm", "g Q1 P19 Q84", 1, fact(1, "Ada", "Ulm")
    )
    assert made == [first, lost]


def unite(*facts: NamedFact) -> list[Any]:
    return list(merge_equal_or_reject_conflicting(make_fact_questions(facts, TEMPLATES, "g"), keep))


def test_identical_questions_merge_and_ambiguous_ones_are_dropped() -> None:
    lost = Reject("f6", "item_without_label", "")
    found = unite(
        fact(1, "Ada", "Ulm"),
        fact(2, "Di", "Ulm"),
        fact(3, "Di", "Ulm"),
        fact(4, "Ed", "Ulm"),
        fact(5, "Ed", "Rome"),
        fact(6, "Al", "Ulm", lost),
    )
    ada, di = (f"Where was {name} born?" for name in ("Ada", "Di"))
    ids = {each: make_question_id("P19", each, ["Ulm"]) for each in (ada, di)}
    text = "Where was Ed born? ['Rome', 'Ulm']"
    assert found == [
        lost,
        Kept(id=ids[ada], question=ada, came_as="f1"),
        Kept(id=ids[di], question=di, came_as="f2"),
        MergedAway("f3", ids[di]),
        Reject("f4", "several_gold_answers", text),
        Reject("f5", "several_gold_answers", text),
    ]


def test_question_id_depends_on_relation_question_and_answers_but_not_order() -> None:
    assert make_question_id("P19", "Where?", ["a", "b"]) == make_question_id("P19", "Where?", ["b", "a"])
    ids = {make_question_id(*each) for each in (("P19", "Where?", "a"), ("P20", "Where?", "a"), ("P19", "When?", "a"))}
    assert len(ids) == 3
