"""Test the released form of fan-out questions: its rules, unresolved parts, and the round trip of published files."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.rows.fanout_questions import release_article, release_dev, release_sub, release_test, write_released

from factmill.tasks.fanoutqa.core.forms.authored import (
    check_authored_question,
    format_authored_question,
    parse_authored_question,
)
from factmill.tasks.fanoutqa.core.forms.released import (
    UnresolvedArticle,
    check_released_question,
    list_unresolved_articles,
    parse_released_question,
)
from factmill.tasks.fanoutqa.core.questions import ArticleEvidence, list_sub_questions

Form = dict[str, Any]


def _lower(form: Form) -> Form:
    found: Form = form["decomposition"][2]["decomposition"][1]
    return found


LOWER = "decomposition[2].decomposition[1]"
BROKEN: list[tuple[Callable[[Form], Any], str, str, str]] = [
    (lambda form: form.pop("id"), "", "wrong_id", "expected a text as id, found null"),
    (lambda form: form.pop("question"), "", "question_missing", "under the key question"),
    (lambda form: form.pop("answer"), "", "answer_missing", "expected an object"),
    (lambda form: form.update(answer=""), "", "answer_empty", "an empty text"),
    (lambda form: form.pop("categories"), "", "categories_missing", "expected a list of texts"),
    (lambda form: _lower(form).pop("evidence"), LOWER, "evidence_missing", "expected an article, or null"),
    (lambda form: _lower(form)["evidence"].update(title="A|B"), LOWER, "wrong_page", "evidence.title: no title holds '|'"),
    (lambda form: form.update(categories=[None]), "", "wrong_categories", "found a list with null"),
    (lambda form: form.update(necessary_evidence=[]), "", "unknown_key", 'unknown key "necessary_evidence"'),
    (lambda form: form.update(decomposition=[]), "", "empty_list", "decomposition is an empty list"),
    (lambda form: form.update(decomposition={}), "", "no_list", "as decomposition, found an empty object"),
    (lambda form: form["decomposition"].append(5), "decomposition[3]", "no_object", "found 5"),
    (lambda form: _lower(form).update(more=1), LOWER, "unknown_key", '"more"'),
    (lambda form: _lower(form).update(id=""), LOWER, "wrong_id", "found an empty text"),
    (lambda form: _lower(form).update(question=None), LOWER, "question_no_text", "found null"),
    (lambda form: _lower(form).update(answer=float("inf")), LOWER, "answer_of_wrong_kind", "found Infinity"),
    (lambda form: _lower(form).update(evidence=None), LOWER, "no_evidence_no_decomposition", "expected an article"),
    (lambda form: _lower(form).update(decomposition=[release_sub("z", 1)]), LOWER, "evidence_and_decomposition", "one"),
    (lambda form: _lower(form).update(decomposition=None), LOWER, "no_list", "found null"),
    (lambda form: _lower(form).update(evidence="x"), LOWER, "wrong_page", "expected {pageid, revid, title, url}"),
    (lambda form: _lower(form)["evidence"].update(pageid="5"), LOWER, "wrong_page", "or ###TBD### as evidence.pageid"),
    (lambda form: _lower(form)["evidence"].update(revid=None), LOWER, "wrong_page", "as evidence.revid, found null"),
    (lambda form: _lower(form)["evidence"].pop("title"), LOWER, "wrong_page", "expected a text as evidence.title"),
    (lambda form: _lower(form)["evidence"].update(url="https://fr.wikipedia.org/wiki/X"), LOWER, "evidence_no_article", "evidence.url: 'https://fr"),
    (lambda form: _lower(form).update(depends_on=["c"]), LOWER, "depends_on_nobody", 'names "c"'),
    (lambda form: _lower(form).update(depends_on=["b"]), LOWER, "depends_on_itself", f"{LOWER} → {LOWER}"),
    (lambda form: _lower(form).update(depends_on=None), LOWER, "wrong_depends_on", "found null"),
    (lambda form: _lower(form).update(id="d"), LOWER, "repeated_id", 'id "d" as decomposition[1]'),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "path", "rule", "text"), BROKEN, ids=[f"{rule} {result}" for _, _, rule, result in BROKEN]
)
def test_broken_rule_is_reported_with_its_path(change: Callable[[Form], Any], path: str, rule: str, text: str) -> None:
    form = release_dev()
    change(form)
    (found,) = check_released_question(form)
    assert (found.path, found.rule) == (path, rule)
    assert text in found.sentence


def test_question_of_test_split_requires_articles_and_rejects_answer() -> None:
    cases: list[tuple[Form, str, str]] = [
        ({"necessary_evidence": []}, "", "no_list"),
        ({"necessary_evidence": [release_article("One"), release_article("", 1)]}, "necessary_evidence[1]", "wrong_page"),
        ({"answer": 1}, "", "unknown_key"),
    ]  # fmt: skip
    for changed, path, rule in cases:
        assert (path, rule) in [(each.path, each.rule) for each in check_released_question(release_test() | changed)]
    assert check_released_question([]) != []


@pytest.mark.parametrize("levels", [21, 20_000])
def test_too_deeply_nested_decomposition_is_reported_without_recursion(levels: int) -> None:
    form = release_sub("s", 1)
    for number in range(levels):
        form = release_sub(f"s{number}", 1, decomposition=[form], evidence=None)
    found = check_released_question(release_dev() | {"decomposition": [form]})
    assert [each.rule for each in found] == ["too_deep"]


@pytest.mark.parametrize("form", [release_dev(), release_test()], ids=["dev", "test"])
def test_question_survives_parse_and_write_round_trip(form: Form) -> None:
    assert check_released_question(form) == []
    assert json.dumps(write_released(parse_released_question(form))) == json.dumps(form)


def test_unresolved_articles_are_listed_by_question_path_and_article() -> None:
    url = "https://en.wikipedia.org/wiki/"
    assert list_unresolved_articles(parse_released_question(release_dev())) == [
        UnresolvedArticle("q-dev", "decomposition[2].decomposition[1]", "Article b", f"{url}Article_b")
    ]
    held_out = parse_released_question(release_test())
    assert held_out.necessary_evidence[1] == ArticleEvidence("Two", f"{url}Two", 6, None)
    assert list_unresolved_articles(held_out) == [
        UnresolvedArticle("q-test", "necessary_evidence[1]", "Two", f"{url}Two")
    ]


@pytest.mark.parametrize(
    ("title", "url"),
    [
        ("Template:Largest cities", "https://en.wikipedia.org/wiki/Template:Largest_cities"),
        ("Wikipedia:Size of Wikipedia", "https://en.wikipedia.org/wiki/Wikipedia:Size_of_Wikipedia"),
        ("Who Framed Roger Rabbit", "https://en.wikipedia.org/wiki/Who_Framed_Roger_Rabbit?"),
    ],
)
def test_released_questions_are_exempt_from_authoring_rules(title: str, url: str) -> None:
    article = release_article(title) | {"url": url}
    held_out = release_test() | {"necessary_evidence": [article]}
    dev = release_dev()
    _lower(dev)["evidence"] = article
    assert check_released_question(held_out) == check_released_question(dev) == []
    assert ArticleEvidence(title, url, 5, 7) in parse_released_question(held_out).necessary_evidence


def test_violations_are_reported_in_file_order() -> None:
    form = release_dev()
    form["decomposition"][0]["depends_on"] = None
    form["decomposition"][2]["decomposition"][1]["id"] = "d"
    form["decomposition"] += [release_sub(f"more {at}", 1, question="") for at in range(9)]
    form["more"] = 1
    paths = [
        "",
        "decomposition[0]",
        "decomposition[2].decomposition[1]",
        *(f"decomposition[{at}]" for at in range(3, 12)),
    ]
    assert [each.path for each in check_released_question(form)] == paths


@pytest.mark.parametrize(
    ("name", "sub_questions", "unresolved", "with_five_articles"),
    [("fanout-final-dev.json", 2225, 83, 308), ("fanout-final-dev-nov23.json", 2193, 0, 309)],
)
def test_published_questions_survive_round_trip_through_authored_form(
    shared_data: Path, name: str, sub_questions: int, unresolved: int, with_five_articles: int
) -> None:
    counts: Counter[str] = Counter()
    for released in json.loads((shared_data / "fanoutqa" / name).read_text("utf-8")):
        assert check_released_question(released) == []
        question = parse_released_question(released)
        counts["questions"] += 1
        counts["sub-questions"] += len(list(list_sub_questions(question)))
        counts["unresolved"] += len(list_unresolved_articles(question))
        authored = json.loads(json.dumps(format_authored_question(question)))
        assert check_authored_question(authored, least_articles=1) == []
        counts["with five"] += not check_authored_question(authored)
        assert json.dumps(write_released(parse_authored_question(authored))) == json.dumps(released)
    assert counts == {
        "questions": 310, "sub-questions": sub_questions, "unresolved": unresolved, "with five": with_five_articles,
    }  # fmt: skip
