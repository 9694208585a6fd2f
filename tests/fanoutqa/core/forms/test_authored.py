"""Test the authoring form of fan-out questions: each rule broken once, and the round trip."""

import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from support.rows.fanout_questions import WIKI, author_question, leaf

from factmill.tasks.fanoutqa.core.forms.authored import (
    check_authored_question,
    format_authored_question,
    parse_authored_question,
)
from factmill.tasks.fanoutqa.core.questions import ArticleEvidence, FanOutQuestion, SubQuestion, list_sub_questions
from factmill.tasks.text.values.answer_search import AnswerValue

Form = dict[str, Any]
DEEP = "strategy[1].then[0]"


def at(form: Form, path: str) -> Form:
    """Return the question at a path."""
    for part in filter(None, path.split(".")):
        kind, _, number = part.rstrip("]").partition("[")
        form = form[kind][int(number)]
    return form


def put(path: str, **changed: Any) -> Callable[[Form], None]:
    return lambda form: at(form, path).update(changed)


def drop(path: str, *keys: str) -> Callable[[Form], None]:
    def change(form: Form) -> None:
        for key in keys:
            del at(form, path)[key]

    return change


def both(one: Callable[[Form], None], other: Callable[[Form], None]) -> Callable[[Form], None]:
    def change(form: Form) -> None:
        one(form)
        other(form)

    return change


BROKEN = [
    (drop(DEEP, "question"), DEEP, "question_missing", "under the key question"),
    (put(DEEP, question="  "), DEEP, "question_no_text", "expected a text as question, found an empty text"),
    (put(DEEP, question=5), DEEP, "question_no_text", "found 5"),
    (put("", question="\ud800"), "", "question_no_text", r'found "\ud800"'),
    (drop(DEEP, "answer"), DEEP, "answer_missing", "expected an object, a list, a text"),
    (put(DEEP, answer=None), DEEP, "answer_null", "expected an object"),
    (put("", answer=" "), "", "answer_empty", "the answer is an empty text"),
    (put("", answer=[]), "", "answer_empty", "the answer is an empty list"),
    (put("", answer={}), "", "answer_empty", "an empty object"),
    (put(DEEP, answer=(1,)), DEEP, "answer_of_wrong_kind", "found a list of 1"),
    (put(DEEP, answer=[["a"]]), DEEP, "answer_of_wrong_kind", "in the answer's list: expected texts, numbers"),
    (put(DEEP, answer=[{"a": 1}]), DEEP, "answer_of_wrong_kind", "found an object"),
    (put(DEEP, answer={"a": {"b": 1}}), DEEP, "answer_of_wrong_kind", 'the answer\'s "a": expected a text, number'),
    (put(DEEP, answer={"a": [[1]]}), DEEP, "answer_of_wrong_kind", "found a list of 1"),
    (put(DEEP, answer={"a": None}), DEEP, "answer_of_wrong_kind", "found null"),
    (put(DEEP, answer={1: "a"}), DEEP, "answer_of_wrong_kind", "expected texts as the answer's keys, found 1"),
    (put(DEEP, answer=float("nan")), DEEP, "answer_of_wrong_kind", "found NaN"),
    (put(DEEP, answer=[float("-inf")]), DEEP, "answer_of_wrong_kind", "found -Infinity"),
    (put(DEEP, answer={"a": ["\udc00"]}), DEEP, "answer_of_wrong_kind", "surrogate"),
    (drop(DEEP, "evidence"), DEEP, "no_evidence_no_strategy", "expected the URL of an article, or sub-questions"),
    (put(DEEP, strategy=[leaf("Who?", "Ada", 1)]), DEEP, "evidence_and_strategy", "expected one of the two"),
    (put("", evidence=WIKI + "Danube"), "", "evidence_at_top", "expected evidence only at sub-questions"),
    (put(DEEP, then=[leaf("Who?", "Ada", 1)]), DEEP, "then_without_strategy", "then without strategy"),
    (drop("", "strategy", "then"), "", "no_strategy", "expected a list of sub-questions"),
    (put("strategy[1]", then=leaf("Who?", "Ada", 1)), "strategy[1]", "no_list", "a list of questions as then, found an object"),
    (put("strategy[1]", strategy=[]), "strategy[1]", "empty_list", "strategy is an empty list"),
    (put("", then=[]), "", "empty_list", "then is an empty list"),
    (put("strategy[1]", then=["Who?"]), DEEP, "no_object", 'expected an object with question and answer, found "Who?"'),
    (put(DEEP, evidence=None), DEEP, "evidence_no_text", "as evidence, found null"),
    (put(DEEP, evidence=[WIKI + "Ada"]), DEEP, "evidence_no_text", "found a list of 1"),
    (put(DEEP, evidence="https://de.wikipedia.org/wiki/Donau"), DEEP, "evidence_no_article", "another Wikipedia"),
    (put(DEEP, evidence="https://example.org/wiki/Danube"), DEEP, "evidence_no_article", "example.org"),
    (put(DEEP, evidence=WIKI + "Talk:Danube"), DEEP, "evidence_no_article", "Talk"),
    (put(DEEP, evidence=WIKI + "Special:Search"), DEEP, "evidence_no_article", "Special"),
    (put(DEEP, evidence=WIKI + "File:Danube.jpg"), DEEP, "evidence_no_article", "File"),
    (put(DEEP, evidence="Danube"), DEEP, "evidence_no_article", "expected an article of the English Wikipedia"),
    (both(drop("", "then"), put(DEEP, evidence=WIKI + "danube#Sources")), "", "too_few_articles", "at least 5 different articles as evidence, found 4"),
    (put(DEEP, answr=1), DEEP, "unknown_key", 'key "answr"; expected question, strategy'),
    (put(DEEP, **{"a\n\x1b": 1}), DEEP, "unknown_key", r'key "a\n\u001b"'),
    (put(DEEP, categories=["Rivers"]), DEEP, "unknown_key", '"categories"'),
    (put("", depends_on=["a"]), "", "unknown_key", '"depends_on"'),
    (put(DEEP, id=7), DEEP, "wrong_id", "expected a text as id, found 7"),
    (both(put(DEEP, id="a"), put("strategy[0]", id="a")), DEEP, "repeated_id", 'the same id "a" as strategy[0]'),
    (put(DEEP, depends_on=[]), DEEP, "wrong_depends_on", "expected a list of ids as depends_on, found an empty list"),
    (put(DEEP, depends_on="a"), DEEP, "wrong_depends_on", 'found "a"'),
    (both(put(DEEP, depends_on=["z"]), put("strategy[0]", id="z")), DEEP, "depends_on_nobody", "(none has an id)"),
    (put(DEEP, id="a", depends_on=["a"]), DEEP, "depends_on_itself", f"{DEEP} → {DEEP}"),
    (both(put("strategy[0]", id="a"), put("strategy[1]", depends_on=["a"])), "strategy[1]", "depends_on_in_strategy", "depends_on"),
    (put(DEEP, page=5), DEEP, "wrong_page", "expected page as an object, found 5"),
    (put(DEEP, page={"pageid": True}), DEEP, "wrong_page", "expected a number above 0 or null as page.pageid, found true"),
    (put(DEEP, page={"revid": 0}), DEEP, "wrong_page", "as page.revid, found 0"),
    (put(DEEP, page={"title": ""}), DEEP, "wrong_page", "expected a text as page.title, found an empty text"),
    (put(DEEP, page={"url": "x"}), DEEP, "unknown_key", "expected pageid, revid, title"),
    (put("strategy[1]", page={"pageid": 5}), "strategy[1]", "page_without_evidence", "page without evidence"),
    (put("", categories="Rivers"), "", "wrong_categories", 'expected categories as a list of texts, found "Rivers"'),
    (put("", categories=["Rivers", 5]), "", "wrong_categories", "found a list with 5"),
    (put(DEEP, order=5), DEEP, "wrong_order", "found 5"),
    (put("", order=["a", "b"]), "", "wrong_order", "the ids of all questions under strategy and then, found a list of 2"),
    (both(both(put("strategy[1].strategy[0]", id="a"), put("strategy[1].strategy[1]", id="b")),
          both(put(DEEP, id="c"), put("strategy[1]", order=["b", "c", "a"]))), "strategy[1]", "wrong_order", "the order of the questions under strategy or then"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "path", "rule", "text"), BROKEN, ids=[f"{rule} {result[-12:]}" for _, _, rule, result in BROKEN]
)
def test_broken_rule_is_reported_with_its_path(change: Callable[[Form], None], path: str, rule: str, text: str) -> None:
    form = author_question()
    change(form)
    (found,) = check_authored_question(form)
    assert (found.path, found.rule) == (path, rule)
    assert text in found.sentence
    assert found.sentence.startswith(f"{path}: " if path else "top-level question: ")


@pytest.mark.parametrize("found", [None, [], "text", 5, float("nan")], ids=str)
def test_non_object_form_is_reported(found: object) -> None:
    assert [(each.path, each.rule) for each in check_authored_question(found)] == [("", "no_object")]


def test_valid_question_breaks_no_rule() -> None:
    assert check_authored_question(author_question()) == []


def test_all_broken_rules_are_reported_together() -> None:
    form = author_question()
    for change in (drop("", "question"), put("strategy[0]", answer=None), put(DEEP, evidence="x"), put("then[0]", y=1)):
        change(form)
    assert [(each.path, each.rule) for each in check_authored_question(form)] == [
        ("", "question_missing"),
        ("strategy[0]", "answer_null"),
        (DEEP, "evidence_no_article"),
        ("then[0]", "unknown_key"),
    ]


def test_caller_sets_minimum_number_of_articles() -> None:
    form = author_question()
    assert check_authored_question(form, least_articles=7) == []
    assert [each.rule for each in check_authored_question(form, least_articles=8)] == ["too_few_articles"]


def test_page_title_takes_precedence_over_url() -> None:
    form = author_question()
    at(form, DEEP)["page"] = {"title": "Danube"}
    assert "found 6" in check_authored_question(form, least_articles=7)[0].sentence


@pytest.mark.parametrize("levels", [21, 1000, 50_000])
def test_too_deeply_nested_form_is_reported_without_recursion(levels: int) -> None:
    form: Form = leaf("Who?", "Ada", 1)
    for _ in range(levels):
        form = {"question": "Who?", "strategy": [form], "answer": 1}
    found = check_authored_question(form, least_articles=1)
    assert [(each.rule, each.path.count("strategy")) for each in found if each.rule == "too_deep"] == [("too_deep", 20)]
    inner: Any = 1
    for _ in range(levels):
        inner = [inner]
    form = author_question()
    at(form, DEEP)["answer"] = inner
    assert [each.rule for each in check_authored_question(form)] == ["answer_of_wrong_kind"]


def test_accepts_twenty_nesting_levels() -> None:
    form: Form = leaf("Who?", "Ada", 1)
    for _ in range(20):
        form = {"question": "Who?", "strategy": [form], "answer": 1}
    assert check_authored_question(form, least_articles=1) == []
    assert format_authored_question(parse_authored_question(form)) == form


def test_circular_dependencies_are_reported() -> None:
    form = author_question()
    form["then"] = [
        leaf("Who?", "Ada", 1, id="a", depends_on=["b"]),
        leaf("Whose?", "Bob", 1, id="b", depends_on=["c"]),
        leaf("Whom?", "Cid", 1, id="c", depends_on=["a"]),
    ]
    (found,) = check_authored_question(form)
    assert found.rule == "depends_on_itself"
    assert sorted(set(found.sentence.split(": ")[-1].split(" → "))) == ["then[0]", "then[1]", "then[2]"]


def test_empty_sub_answers_are_valid() -> None:
    form = author_question()
    for path, answer in ((DEEP, ""), ("then[0]", []), ("strategy[1]", {"Hungary": ""})):
        at(form, path)["answer"] = answer
    assert check_authored_question(form) == []


def test_parses_question_as_tree() -> None:
    question = parse_authored_question(author_question())
    subs = dict(list_sub_questions(question))
    assert list(subs) == [
        "strategy[0]", "strategy[1]", "strategy[1].strategy[0]", "strategy[1].strategy[1]", DEEP, "strategy[2]", "then[0]",
        "then[1]",
    ]  # fmt: skip
    assert subs["strategy[0]"].evidence == ArticleEvidence("Danube", WIKI + "Danube#Course")
    assert subs[DEEP].depends_on == (subs["strategy[1].strategy[0]"].id, subs["strategy[1].strategy[1]"].id)
    assert subs["then[0]"].depends_on == tuple(subs[f"strategy[{number}]"].id for number in range(3))
    assert (subs[DEEP].answer, subs["then[0]"].answer) == (True, 2850)
    assert format_authored_question(question) == author_question()


def test_ids_depend_only_on_wording_of_top_question() -> None:
    ids = _list_ids(author_question())
    assert len(set(ids)) == 9
    assert {len(each) for each in ids} == {16}
    edited = author_question()
    edited["answer"] = {"Budapest": 1}
    at(edited, DEEP)["question"] = "Do they?"
    edited["question"] = f"  {edited['question'].replace(' ', '  ').upper()}"
    assert _list_ids(edited) == ids
    edited["question"] += "!"
    assert not set(_list_ids(edited)) & set(ids)
    named = author_question()
    named["id"] = "q1"
    at(named, DEEP)["id"] = "s1"
    assert {"q1", "s1"} <= set(_list_ids(named))
    assert format_authored_question(parse_authored_question(named)) == named


def test_optional_keys_are_parsed_and_written() -> None:
    form = author_question()
    form["categories"] = ["Rivers", "Cities"]
    at(form, "strategy[0]").update(page={"pageid": 1, "revid": 2, "title": "The Danube"})
    at(form, "then[0]").update(page={"pageid": 3, "revid": None, "title": "Rivers"})
    for path, name in (
        ("strategy[0]", "a"),
        ("strategy[1]", "b"),
        ("strategy[2]", "c"),
        ("then[0]", "d"),
        ("then[1]", "e"),
    ):
        at(form, path)["id"] = name
    at(form, "then[0]")["depends_on"] = ["b"]
    assert check_authored_question(form) == []
    question = parse_authored_question(form)
    assert question.categories == ("Rivers", "Cities")
    first, last = question.decomposition[0], question.decomposition[3]
    assert first.evidence == ArticleEvidence("The Danube", WIKI + "Danube#Course", 1, 2)
    assert last.evidence == ArticleEvidence("Rivers", WIKI + "List_of_rivers_of_Europe", 3, None)
    assert last.depends_on == ("b",)
    assert format_authored_question(question) == form


@pytest.mark.parametrize("seed", range(60))
def test_random_trees_survive_write_and_parse_round_trip(seed: int) -> None:
    question = _draw_question(random.Random(seed))
    form = format_authored_question(question)
    assert check_authored_question(deepcopy(form), least_articles=1) == []
    assert parse_authored_question(form) == question
    assert repr(parse_authored_question(form)) == repr(question)  # 1 is neither True nor 1.0


def test_formatting_test_split_question_raises_value_error() -> None:
    with pytest.raises(ValueError, match=r"q9: .*expected a question of the dev part"):
        format_authored_question(FanOutQuestion("q9", "Who?"))
    with pytest.raises(ValueError, match="expected a question of the dev part"):
        format_authored_question(replace(parse_authored_question(author_question()), answer=None))


def _check_changed(change: Callable[[Form], None]) -> list[Any]:
    form = author_question()
    change(form)
    return check_authored_question(form)


def _list_ids(form: Form) -> list[str]:
    question = parse_authored_question(form)
    return [question.id, *(sub.id for _, sub in list_sub_questions(question))]


def _draw_question(draw: random.Random) -> FanOutQuestion:
    names = iter(f"s{number}" for number in range(10_000))
    answers: list[AnswerValue] = ["x", 1, 1.0, True, [1, "y", False], {"k": 1, "l": ["z", 2.5]}, "", [], {"k": ""}]

    def make(level: int, needs: tuple[str, ...], name: str) -> SubQuestion:
        evidence: ArticleEvidence | None = None
        below: tuple[SubQuestion, ...] = ()
        if level < 3 and draw.random() < 0.3:
            below = make_all(level + 1)
        else:
            title = draw.choice(["Ada", "Ada Lovelace", "C♯ 5", "Élan"])
            url = WIKI + draw.choice(["Ada", "Ada_Lovelace#Life", "%C3%89lan", "ada"])
            evidence = ArticleEvidence(title, url, draw.choice([None, 5]), draw.choice([None, 7]))
        return SubQuestion(name, f"What is {name}?", draw.choice(answers), evidence, below, needs)

    def make_all(level: int) -> tuple[SubQuestion, ...]:
        subs: list[SubQuestion] = []
        for _ in range(draw.randint(1, 5)):
            needs = tuple(draw.sample([sub.id for sub in subs], draw.randint(0, len(subs))))
            if draw.random() < 0.4:
                needs = tuple(sub.id for sub in subs if not sub.depends_on)
            subs.append(make(level, needs, next(names)))
        if draw.random() < 0.3:
            draw.shuffle(subs)
        return tuple(subs)

    return FanOutQuestion("top", "Who?", make_all(1), draw.choice(answers[:6]), draw.choice([(), ("A", "B")]))
