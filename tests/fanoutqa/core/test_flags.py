"""Test which oddities of a fan-out question its tree alone reveals."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from factmill.tasks.fanoutqa.core.flags import FLAGS, find_composition_and_article_flags, find_questions_sharing_facts
from factmill.tasks.fanoutqa.core.questions import (
    ArticleEvidence,
    FanOutQuestion,
    SubQuestion,
    parse_released_decomposition,
)
from factmill.tasks.text.values.answer_search import AnswerValue

LAKES = ("Alder Lake", "Birch Lake", "Cedar Lake", "Dogwood Lake", "Elm Lake")


def make_evidence(title: str) -> ArticleEvidence:
    return ArticleEvidence(title, f"https://en.wikipedia.org/wiki/{title.replace(' ', '_')}")


def make_leaf(
    number: int, question: str, answer: AnswerValue, title: str, depends_on: tuple[str, ...] = ()
) -> SubQuestion:
    return SubQuestion(str(number), question, answer, make_evidence(title), depends_on=depends_on)


def make_question(answer: AnswerValue | None, *answers: AnswerValue, ask: str = "How deep is {}?") -> FanOutQuestion:
    """Return a question about five lakes, with one answered sub-question each."""
    subs = [make_leaf(0, "Which are the five lakes of Arland?", list(LAKES), "List of lakes of Arland")]
    for number, (lake, each) in enumerate(zip(LAKES, answers, strict=True), 1):
        subs.append(make_leaf(number, ask.format(lake), each, lake, ("0",)))
    return FanOutQuestion("q", "What of the five lakes of Arland, from 1990 to 1995?", tuple(subs), answer)


DEPTHS = (12, 30, 45, 7, 26)
TOWNS = ("Norwick, Arland", "Sund", "Marby", "Elmstead", "Vik")


@pytest.mark.parametrize(
    "question",
    [
        # one of each
        make_question(dict(zip(LAKES, DEPTHS, strict=True)), *DEPTHS),
        make_question({"Alder Lake": "12 metres", "Birch Lake": "30 m"}, *DEPTHS),
        make_question({"Alder Lake": 1200000}, "1.2 million", "30", "45", "7", "26"),
        make_question({"alder lake": "$1.2bn"}, "US$1.2 billion", "30", "45", "7", "26"),
        make_question({"Alder Lake": "1 May 1990"}, "May 1, 1990", "1991", "1992", "1993", "1994"),
        make_question({"Alder Lake": "Norwick"}, *TOWNS),
        make_question(["Sund", "Vik"], *TOWNS),
        make_question("Cedar Lake", *DEPTHS),
        make_question({"Norwick": "Alder Lake"}, *TOWNS),
        make_question({"1990": "Norwick", "1992": "Sund", "1995": "Vik"}, *TOWNS),
        # conclusions from numbers
        make_question(120, *DEPTHS),
        make_question(24, *DEPTHS),
        make_question("24 metres", *DEPTHS),
        make_question(38, *DEPTHS),
        make_question(3, True, True, True, False, False),
        make_question("60%", True, True, True, False, False),
        make_question({"Arland": 2}, "Sund", "Sund", "Vik", "Vik", "Sund"),
        # a word of the sub-question with its answer
        make_question({"Alder Lake": "brown trout"}, "brown", "sea", "lake", "grey", "red", ask="What trout is in {}?"),
        # undecidable cases
        make_question(True, *DEPTHS),
        make_question("Yes", *DEPTHS),
    ],
)
def test_answer_composed_of_sub_answers_has_no_flag(question: FanOutQuestion) -> None:
    assert find_composition_and_article_flags(question) == []


@pytest.mark.parametrize(
    ("question", "named"),
    [
        (make_question({"Alder Lake": 12, "Fir Lake": 30}, *DEPTHS), ["Fir Lake"]),
        (make_question({"Alder Laek": 12}, *DEPTHS), ["Alder Laek"]),
        (make_question(121, *DEPTHS), ["121"]),
        (make_question(["Sund", "Oby"], *TOWNS), ["Oby"]),
        (make_question({"Alder Lake": "Norwick, Bergia"}, *TOWNS), ["Bergia"]),
        (make_question({"1989": "Sund", "1996": "Vik"}, *TOWNS), ["1989", "1996"]),
        (make_question({"Alder Lake": "2 May 1990"}, "May 1, 1990", "1991", "1992", "1993", "1994"), ["2 May 1990"]),
        (make_question({"Alder Lake": 1200000}, "1.2 billion", "30", "45", "7", "26"), ["1200000"]),
        (make_question(9, True, True, True, False, False), ["9"]),
    ],
)
def test_flag_names_answer_part_not_found_in_sub_answers(question: FanOutQuestion, named: list[str]) -> None:
    [flag] = find_composition_and_article_flags(question)
    assert (flag.code, flag.path) == ("answer_not_composed", "")
    assert all(repr(part) in flag.detail for part in named)


def test_swapped_numbers_are_flagged() -> None:
    swapped = make_question({"Alder Lake": 30, "Birch Lake": 12, "Cedar Lake": 45}, *DEPTHS)
    first, second = find_composition_and_article_flags(swapped)
    assert first.code == second.code == "answer_not_composed"
    assert "'30' for 'Alder Lake'" in first.detail and "expected '12'" in first.detail
    assert "'12' for 'Birch Lake'" in second.detail and "expected '30'" in second.detail


def test_number_for_name_may_combine_several_sub_answers_about_it() -> None:
    base = make_question({"Alder Lake": 18}, *DEPTHS)
    assert len(find_composition_and_article_flags(base)) == 1
    more = make_leaf(6, "How deep is Alder Lake in winter?", 30, "Winters of Arland")
    assert find_composition_and_article_flags(replace(base, decomposition=(*base.decomposition, more))) == []


def test_article_shared_by_two_sub_questions_is_flagged_at_later_one() -> None:
    nested = SubQuestion(
        "7",
        "Who owns the lakes?",
        "Ada Vogt",
        decomposition=(
            make_leaf(8, "Who owns Elm Lake?", "Ada Vogt", "elm Lake"),
            make_leaf(9, "Who owns Fir Lake?", "Ada Vogt", "Fir Lake"),
        ),
    )
    base = make_question("Ada Vogt", *DEPTHS)
    [flag] = find_composition_and_article_flags(replace(base, decomposition=(*base.decomposition, nested)))
    assert (flag.code, flag.path) == ("same_article", "strategy[1].strategy[0]")
    assert "then[4]" in flag.detail and "'Elm Lake'" in flag.detail


def test_too_few_different_articles_are_flagged() -> None:
    question = make_question("Cedar Lake", *DEPTHS)
    [flag] = find_composition_and_article_flags(replace(question, decomposition=question.decomposition[:4]))
    assert (flag.code, flag.path) == ("too_few_articles", "")
    assert "4 different articles" in flag.detail
    assert find_composition_and_article_flags(replace(question, decomposition=question.decomposition[:5])) == []


def test_question_without_decomposition_is_checked_only_for_article_count() -> None:
    evidence = tuple(map(make_evidence, LAKES))
    assert (
        find_composition_and_article_flags(FanOutQuestion("q", "How deep are they?", necessary_evidence=evidence)) == []
    )
    [flag] = find_composition_and_article_flags(
        FanOutQuestion("q", "How deep are they?", necessary_evidence=(*evidence[:4], evidence[0]))
    )
    assert flag.code == "too_few_articles"


def test_every_flag_has_one_line_description() -> None:
    assert all(code.isidentifier() and meaning.endswith(".") and "\n" not in meaning for code, meaning in FLAGS.items())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("fanout-final-dev-nov23.json", {"answer_not_composed": 10, "same_article": 4, "too_few_articles": 1}),
        ("fanout-final-dev.json", {"answer_not_composed": 6, "same_article": 7, "too_few_articles": 2}),
    ],
)
def test_released_questions_have_expected_flag_counts(shared_data: Path, name: str, counts: dict[str, int]) -> None:
    released = json.loads((shared_data / "fanoutqa" / name).read_text(encoding="utf-8"))
    flagged: Counter[str] = Counter()
    for found in released:
        tree = parse_released_decomposition(found["decomposition"])
        flags = find_composition_and_article_flags(
            FanOutQuestion(found["id"], found["question"], tree, found["answer"])
        )
        flagged.update({flag.code for flag in flags})
    assert flagged == counts


def test_questions_sharing_facts_are_paired_by_share_of_smaller_question() -> None:
    asked = make_question(dict(zip(LAKES, TOWNS, strict=True)), *TOWNS)
    # fewer lakes, one with another spelling, and one that the other question lacks
    fewer = replace(
        asked,
        decomposition=(
            *asked.decomposition[1:4],
            make_leaf(4, "And?", ["elmstead"], "Dogwood Lake"),
            make_leaf(5, "And?", "Tuft", "Fir Lake"),
        ),
    )
    other = make_question(None, *DEPTHS)
    part = replace(asked, decomposition=asked.decomposition[:3])
    assert list(find_questions_sharing_facts([asked, fewer, other, part])) == [(0, 1, 4 / 5), (0, 3, 1), (1, 3, 2 / 3)]
