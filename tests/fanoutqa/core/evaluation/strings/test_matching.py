"""Test loose and strict string accuracy: tables worked by hand, both scorers, and properties of any gold answer."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmill.tasks.fanoutqa.core.evaluation.scoring import score_loose_and_strict
from factmill.tasks.fanoutqa.core.evaluation.strings.gold_answers import format_gold_answer, list_gold_string_spellings
from factmill.tasks.fanoutqa.core.evaluation.strings.upstream_scorer import fix_encoding
from factmill.tasks.fanoutqa.evaluation.lemmatizers import load_lemmatizer, resolve_lemmatizer_name

LEMMAS = load_lemmatizer(resolve_lemmatizer_name())


def fixed(answer: str, gold: Any) -> float:
    return float(score_loose_and_strict([answer], [gold], LEMMAS)[0][0])


def upstream(answer: str, gold: Any) -> float:
    return float(score_loose_and_strict([answer], [gold], LEMMAS, "upstream")[0][0])


@pytest.mark.parametrize(
    ("gold", "answer", "expected", "public"),
    [
        # both scorers agree
        ("Paris", "It is Paris.", 1, 1),
        ("Paris", "Parisian life", 0, 0),
        (True, "Yes, it does.", 1, 1),
        (False, "Yes, it does.", 0, 0),
        (1970358, "There were 1,970,358 people", 1, 1),
        ({"a": "one", "b": "two"}, "a is one", 0.5, 0.5),
        (["Right", "Right", "Left"], "right", 2 / 3, 2 / 3),
        ("movies", "a movie that won", 1, 1),
        ("five cities", "of the five largest city", 0, 0),
        ("wins", "the team won", 1, 1),
        ("3:58", "it lasts 3:58.", 1, 1),
        ("Apple Inc.", "Apple Inc. was founded", 1, 1),
        # signs at either end
        ("$87 billion", "about $87 billion in 2022", 1, 0),
        ("$87 billion", "87 billion", 0, 0),
        ("87 billion", "$87 billion", 1, 1),
        ("35%", "35% of it", 1, 0),
        ("35%", "35", 0, 0),
        ("€5", "€5", 1, 0),
        ("#1", "it is #1", 1, 0),
        ("25°", "25° C", 1, 0),
        ("U.S.", "in the US", 1, 0),
        ("He won.", "he won", 1, 0),
        ("C++", "C++", 1, 0),
        ("(born 1950)", "born 1950", 1, 0),
        ('"Stay"', "the song “Stay”", 1, 0),
        # numbers as written
        (5.2, "52 points", 0, 1),
        (52, "5.2 points", 0, 1),
        (5.2, "5.2 points.", 1, 1),
        (5, "5.2", 0, 0),
        (2, "5.2", 0, 0),
        ("358", "3:58", 0, 1),
        (-5, "-5 degrees", 1, 0),
        (-5, "−5 degrees", 1, 0),
        (5, "-5 degrees", 0, 1),
        (5, "from 3-5", 1, 1),
        (-5, "from 3-5", 0, 0),
        ("-$5 million", "$-5 million", 1, 0),
        (0.5, "it is .5 of it", 1, 0),
        (5.0, "5 points", 1, 0),
        (5.0, "5.0 points", 1, 1),
        (1e6, "1,000,000", 1, 0),
        (1e22, "1e+22", 1, 1),
        (1e-7, "0.0000001", 1, 0),
        ("1,5", "1,5", 1, 1),
        ("15", "1,5", 0, 1),
        ("1234", "1,234 and more", 1, 1),
        ("1,234", "1234", 1, 1),
        ("234", "1,234", 0, 0),
        ("1234567", "1\u202f234\u202f567", 1, 0),
        ("1234567", "1'234'567", 1, 0),
        (1991, "1990,1991,1992", 1, 0),
        (12, "10,11,12", 1, 0),
        ("1990-01-02", "on 1990-01-02", 1, 1),
        ("5 km", "5km", 1, 1),
        (123, "١٢٣", 1, 0),
        (1234, "１，２３４", 1, 1),
        # marks, markdown, other scripts
        ("New York", "**New York**", 1, 1),
        ("Paris", "_Paris_", 1, 0),
        ("Spider-Man", "spider man", 1, 0),
        ("a.*b", "axxb", 0, 0),
        ("[x](y)", "[x](y)", 1, 0),
        ("東京", "東京は日本の首都です", 1, 0),
        ("iPhone", "これはiPhoneです", 1, 0),
        ("Zürich", "ZÜRICH", 1, 1),
        ("Zürich", "Zu\u0308rich", 1, 1),
        ("café", "cafÃ©", 1, 0),  # lower-casing makes the mojibake irreparable
        ("Rock & Roll", "rock &amp; roll", 1, 1),
        ("—", "nothing — at all", 1, 0),
        ("—", "nothing", 0, 0),
        # nested answers: {1: {2: 3}} requires three strings
        ({"a": {"b": "c"}}, "a", 1 / 3, 0),
        ([["x", "y", "z"]], "", 0, -2),
        ([["x", "y"], "z"], "x y z", 1, 1),
        ({"a": [1, 2, 3]}, "a, 1", 0.5, 0),
        ([True, "x"], "x", 0.5, 0.5),
        # null and empty texts contain nothing to find
        ({"a": None}, "a", 1, 0.5),
        ({"": "x"}, "x", 1, 1),
        (["x", " "], "x", 1, 0.5),
    ],
)  # fmt: skip
def test_both_scorers_return_expected_loose_score(gold: Any, answer: str, expected: float, public: float) -> None:
    assert fixed(answer, gold) == pytest.approx(expected)
    assert upstream(answer, gold) == pytest.approx(public)


@pytest.mark.parametrize("gold", [None, "", " ", [], {}, [[]], {"": None}, [None, ""]])
def test_score_is_nan_when_gold_answer_has_no_strings(gold: Any) -> None:
    share, whole = score_loose_and_strict(["x"], [gold], LEMMAS)
    assert math.isnan(share[0])
    assert math.isnan(whole[0])


@pytest.mark.parametrize("gold", [[], {}, ["x", []], {"x": {}}])
def test_upstream_scorer_returns_nan_where_it_divides_by_zero(gold: Any) -> None:
    assert math.isnan(upstream("x", gold))


def test_upstream_scorer_matches_none_literally_and_empty_gold_to_any_word() -> None:
    assert upstream("there is none", None) == 1
    assert upstream("any", "") == 1
    assert upstream("...", "") == 0


def test_strict_score_is_1_only_when_all_gold_strings_are_found() -> None:
    share, whole = score_loose_and_strict(["a b", "a", "a"], [["a", "b"], ["a", "b"], ["a", ["b", "c"]]], LEMMAS)
    assert share.tolist() == [1, 0.5, pytest.approx(1 / 3)]
    assert whole.tolist() == [1, 0, 0]
    assert score_loose_and_strict([], [], LEMMAS)[0].shape == (0,)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
written = st.sampled_from(
    [
        "$5",
        "5%",
        "-5",
        "1,234",
        "1,5",
        "3:58",
        ".5",
        "5.",
        "1e6",
        "U.S.",
        "a.",
        "'n'",
        "O'Neal",
        "&",
        "+",
        "#",
        "1\xa0234",
        "１",
        "٣",
        "½",
        "é",
        "é",
        "́",
        "Ã©",
        "&amp;",
        "ﬁ",
        "’",
        "_",
        "-",
        "—",
        "(",
        "東京",
        "กา",
    ]
)
primitives = st.one_of(
    texts, written, st.tuples(written, texts).map("".join), st.booleans(), st.none(), st.integers(), st.floats()
)
golds = st.recursive(
    primitives,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.one_of(texts, written), inner, max_size=4)),
    max_leaves=12,
)


@given(golds)
def test_gold_answer_as_prediction_scores_1(gold: Any) -> None:
    share, whole = score_loose_and_strict([format_gold_answer(gold)], [gold], LEMMAS)
    if list(list_gold_string_spellings(gold)):
        assert (share[0], whole[0]) == (1, 1)
    else:
        assert math.isnan(share[0])


@given(golds, texts, texts)
def test_appending_lines_never_lowers_loose_score(gold: Any, answer: str, more: str) -> None:
    before, after = score_loose_and_strict([answer, f"{answer}\n{more}"], [gold, gold], LEMMAS)[0]
    assert math.isnan(before) or 0 <= before <= after <= 1


@given(st.lists(st.tuples(golds, texts), max_size=5))
def test_answer_scores_same_alone_and_in_batch(pairs: list[tuple[Any, str]]) -> None:
    for scorer in ("fixed", "upstream"):
        together = score_loose_and_strict([answer for _, answer in pairs], [gold for gold, _ in pairs], LEMMAS, scorer)
        alone = [score_loose_and_strict([answer], [gold], LEMMAS, scorer) for gold, answer in pairs]
        for at, (share, whole) in enumerate(alone):
            np.testing.assert_equal((together[0][at], together[1][at]), (share[0], whole[0]))


@given(st.text(max_size=40))
def test_fix_encoding_leaves_unfixable_text_as_ftfy_does(text: str) -> None:
    import ftfy

    assert fix_encoding(text) == ftfy.fix_text(text)


@given(st.text(st.characters(max_codepoint=127), max_size=60))
def test_fix_encoding_fixes_plain_text_as_ftfy_does(text: str) -> None:
    import ftfy

    assert fix_encoding(text) == ftfy.fix_text(text)


@pytest.mark.parametrize(
    ("file", "share", "whole", "lost"),
    [("fanout-final-dev.json", 0.977171, 0.909677, 28), ("fanout-final-dev-nov23.json", 0.978382, 0.919355, 25)],
)
def test_released_gold_answers_score_1_except_with_upstream_scorer(
    shared_data: Path, file: str, share: float, whole: float, lost: int
) -> None:
    questions = [each["answer"] for each in json.loads((shared_data / "fanoutqa" / file).read_text())]
    answers = [format_gold_answer(gold) for gold in questions]
    assert [set(each.tolist()) for each in score_loose_and_strict(answers, questions, LEMMAS)] == [{1.0}, {1.0}]
    if LEMMAS.name != "rules":
        pytest.skip(f"the public scorer's losses are stated for rules; lemmas are those of {LEMMAS.name}")
    found = score_loose_and_strict(answers, questions, LEMMAS, "upstream")
    assert [round(float(each.mean()), 6) for each in found] == [share, whole]
    assert int((found[1] == 0).sum()) == lost
    # only parts that begin or end with a sign or a stop are lost
    edges = [
        all(text[0].isalnum() and text[-1].isalnum() for ways in list_gold_string_spellings(gold) for text in ways)
        for gold, all_found in zip(questions, found[1], strict=True)
        if not all_found
    ]
    assert not any(edges)


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "1",
        "1,",
        "a.",
        " ",
        "1\u00a0",
        "'",
        "<&",
        "-5",
        "é",
        "Ã©",
        "東",
        "&amp;",
        "x’t",
        "1,000",
        "%",
        "\u0301",
        "\n",
    ],
)
def test_scores_answer_of_100000_characters(unit: str) -> None:
    answer = unit * (100_000 // len(unit)) + "\nParis"
    for scorer in ("fixed", "upstream"):
        assert score_loose_and_strict([answer], [["Paris", "Rome"]], LEMMAS, scorer)[0][0] == 0.5
