"""Test merging of questions, refusals, and answer types."""

from typing import Any

import numpy as np
import pytest
from support.rows.questions import typed_question

from factmill.tasks.assets import load_list_entries, load_unit_qid_numbers_by_name
from factmill.tasks.core.embedding_similarity import find_duplicate_pairs
from factmill.tasks.core.rows import MergedAway
from factmill.tasks.multihal.core.preprocessing import (
    ClassifiedAnswer,
    DuplicateRule,
    classify_answer,
    filter_duplicates_by_names_and_numbers,
    have_same_names_and_numbers,
    is_refusal,
    merge_duplicate_questions,
    normalise_refusals,
)
from factmill.tasks.multihal.core.rows import AnswerType, FoundationQuestion
from factmill.tasks.text.values.wikidata_literals import PartialDate, WantedNumberWithUnit


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Where did CVPR take place in 2019?", "Where did CVPR take place in 2018?"),
        ("Where did CVPR take place in 2019?", "Where did ECCV take place in 2019?"),
        ("Who won the first World Cup?", "Who won the second World Cup?"),
        ("How many moons have the two giants?", "How many moons have the three giants?"),
        ("What is vitamin A?", "What is vitamin B?"),
        ("Who designed the Boeing 737-800?", "Who designed the Boeing 737-900?"),
        ("Which virus is H5N1?", "Which virus is H1N1?"),
        ("Who crowned Henry V?", "Who crowned Henry VI?"),
        ('Who sang "One Last Dance"?', 'Who sang "One More Dance"?'),
        ("Who wrote 'the raven'?", "Who wrote 'the river'?"),
        ("How did trade go from 1990 to 1995?", "How did trade go from 1995 to 1990?"),
        ("What happened in the 1950s?", "What happened in the 1960s?"),
        ("Who was born on 5 May 1901?", "Who was born on 6 May 1901?"),
        ("Who ruled in 44 BC?", "Who ruled in 44?"),
        ("What is the capital of Austria?", "What is the capital of Australia?"),
        ("What is the capital of Congo?", "What is the capital of East Congo?"),
    ],
)
def test_questions_with_different_names_or_numbers_are_distinct(one: str, other: str) -> None:
    assert not have_same_names_and_numbers(one, other)
    assert not have_same_names_and_numbers(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('Who actually said, "Let them eat cake"?', 'Who actually said,"Let them eat cake"?'),
        ("Where is Walt Disney's body?", "where is walt disney's body"),
        ("When was the treaty signed?", "On what day was the treaty signed?"),
        ("Who won in 1,000 metres?", "Who won in 1000 metres?"),
        ("Who led the two largest parties?", "Who led the 2 largest parties?"),
    ],
)
def test_questions_that_differ_only_in_spelling_are_same(one: str, other: str) -> None:
    assert have_same_names_and_numbers(one, other)
    assert have_same_names_and_numbers(other, one)


def test_pairs_of_distinct_questions_are_filtered_out() -> None:
    texts = ("Where was it in 2018?", "Where was it in 2019?", "Where was it, in 2018?")
    rows = [typed_question(f"q{at}", text) for at, text in enumerate(texts)]
    found = filter_duplicates_by_names_and_numbers(rows, find_duplicate_pairs(np.ones((3, 2), np.float32)))
    assert list(zip(found.first.tolist(), found.second.tolist(), strict=True)) == [(0, 2)]
    assert found.list_group_leaders() == [0, 1, 0]
    alone = filter_duplicates_by_names_and_numbers(rows[:1], find_duplicate_pairs(np.ones((1, 2), np.float32)))
    assert len(alone.first) == 0


FIRST, SECOND = "Kim scored two goals in the first half.", "Lee scored four goals in the first half."


def asked(row_id: str, answer: str = "Ada", **more: Any) -> FoundationQuestion:
    return typed_question(row_id, "Who scored?", answer, **more).narrow_to(FoundationQuestion)


def unite(*rows: FoundationQuestion, union: DuplicateRule = "ours") -> list[FoundationQuestion | MergedAway]:
    return list(merge_duplicate_questions(rows, find_duplicate_pairs(np.ones((len(rows), 2), np.float32)), union))


def test_questions_based_on_different_passages_are_not_merged() -> None:
    rows = [asked("a", context=[FIRST]), asked("b", context=[SECOND])]
    assert unite(*rows) == rows
    assert unite(*rows, union="paper")[1] == MergedAway("b", "a")


def test_question_without_passage_joins_one_group_and_links_no_two_groups() -> None:
    links = ["https://a.example/x", "indexical"]
    rows = [asked("a", context=[FIRST]), asked("b", context=links), asked("c", context=[SECOND]), asked("d")]
    united = unite(*rows)
    assert united == [rows[0].replace(context=[FIRST, *links]), MergedAway("b", "a"), rows[2], MergedAway("d", "a")]


def test_spaces_and_case_do_not_distinguish_passages() -> None:
    assert unite(asked("a", context=[FIRST]), asked("b", context=[f" {FIRST.upper()} "]))[1] == MergedAway("b", "a")


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ("He was cremated after his death", "He is interred at Forest Lawn in Glendale"),
        ("1930", "1934"),
        ("Yes", "No"),
        ("Paris", "London"),
    ],
)
def test_disjoint_answers_to_same_question_are_disputed_and_not_accepted(first: str, other: str) -> None:
    united, merged = unite(asked("a", first, incorrect_answers=[other, "Bob"]), asked("b", other))
    assert merged == MergedAway("b", "a")
    assert isinstance(united, FoundationQuestion)
    assert (united.optional_output, united.disputed_answers) == ([], [other])
    assert united.incorrect_answers == ["Bob"]


@pytest.mark.parametrize(
    ("first", "other"),
    [("Paris", "Paris, France"), ("5 May 1901", "May 1901"), ("2,000 metres", "2000 m"), ("the Beatles", "Beatles")],
)
def test_answers_are_both_accepted_when_one_contains_other(first: str, other: str) -> None:
    for one, two in ((first, other), (other, first)):
        united = unite(asked("a", one), asked("b", two))[0]
        assert isinstance(united, FoundationQuestion)
        assert ([two], []) == (united.optional_output, united.disputed_answers)


def test_answer_may_agree_with_optional_answer_of_later_question() -> None:
    rows = [asked("a", "Ada"), asked("b", "Countess"), asked("c", "Lady", optional_output=["ada", "Countess"])]
    united = unite(*rows)[0]
    assert isinstance(united, FoundationQuestion)
    assert (united.optional_output, united.disputed_answers) == (["Lady", "Countess"], [])


def test_union_of_paper_accepts_every_answer() -> None:
    united = unite(asked("a", "Paris"), asked("b", "London"), union="paper")[0]
    assert isinstance(united, FoundationQuestion)
    assert (united.optional_output, united.disputed_answers) == (["London"], [])


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        ("I have no comment", True),
        ("  i HAVE no  comment\n", True),
        ("I'm an AI", True),
        ("I’m an AI", True),
        ("I don‘t have", True),
        ("Nothing happens", True),
        ("I have no comment on that", False),
        ("I have no comment.", False),
        ("Nothing in particular happens", False),
        ("", False),
    ],
)
def test_only_complete_refusal_phrase_is_refusal(answer: str, refused: bool) -> None:
    assert is_refusal(answer, normalise_refusals(load_list_entries("refusals"))) is refused


def test_refusal_list_has_nine_phrases_of_paper() -> None:
    assert len(normalise_refusals(load_list_entries("refusals"))) == 9


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("11 March 1952", "date"),
        ("March 1952", "date"),
        ("1952", "date"),
        ("44 BC", "date"),
        ("2100", "date"),
        ("2101", "numerical"),
        ("62", "numerical"),
        ("1,234.5", "numerical"),
        ("1.98 m", "numerical"),
        ("4,653 °F", "numerical"),
        ("8,611 Metres", "numerical"),
        ("$12 million", "numerical"),
        ("17%", "numerical"),
        ("seven", "numerical"),
        (".500", "numerical"),
        ("5 ft 10 in", "numerical"),
        ("Third", "numerical"),
        ("In 1993.", "date"),
        ("08-1981", "date"),
        ("2000002010 BC", "other"),
        ("One Direction", "other"),
        ("two medals", "other"),
        ("16-year-old", "other"),
        ("1985 and 1987", "other"),
        ("US 60", "other"),
        ("Mary Shelley", "other"),
        ("", "other"),
    ],
)
def test_answer_without_stated_type_is_classified(answer: str, expected: AnswerType) -> None:
    assert classify_answer(answer, None, load_unit_qid_numbers_by_name(), "").answer_type == expected


@pytest.mark.parametrize(
    ("answer", "stated", "value"),
    [
        ("1900", "numerical", WantedNumberWithUnit("1900")),
        ("57th place", "numerical", WantedNumberWithUnit("57")),
        ("28 years old", "numerical", WantedNumberWithUnit("28", 577)),
        ("1.98 m", "numerical", WantedNumberWithUnit("1.98", 11573)),
        ("3/4/2012", "date", PartialDate(2012, 4, 3)),
        ("7", "rank", WantedNumberWithUnit("7")),
        ("57th", "rank", WantedNumberWithUnit("57")),
        ("1984", "other", None),
    ],
)
def test_stated_type_is_kept_when_answer_confirms_it(
    answer: str, stated: AnswerType, value: PartialDate | WantedNumberWithUnit | None
) -> None:
    settled = classify_answer(answer, stated, load_unit_qid_numbers_by_name(), "On what day, month, and year?")
    assert settled == ClassifiedAnswer(stated, value)


@pytest.mark.parametrize(
    ("answer", "stated"),
    [
        ("1962-1965", "date"),
        ("7", "date"),
        ("Episode 4", "numerical"),
        ("601-610", "rank"),
        ("1.5", "rank"),
        ("0", "rank"),
    ],
)
def test_stated_type_that_answer_contradicts_becomes_other(answer: str, stated: AnswerType) -> None:
    assert classify_answer(answer, stated, load_unit_qid_numbers_by_name(), "") == ClassifiedAnswer("other")


@pytest.mark.parametrize("stated", [None, "numerical"])
def test_number_of_counted_noun_in_question_is_numerical(stated: AnswerType | None) -> None:
    settled = classify_answer("two medals", stated, load_unit_qid_numbers_by_name(), "How many medals did she win?")
    assert settled == ClassifiedAnswer("numerical", WantedNumberWithUnit("2"))


@pytest.mark.parametrize(
    ("answer", "stated"), [("1.96 apples", None), ("1.96 apples", "numerical"), ("two medals", "numerical")]
)
def test_number_in_unknown_unit_has_no_value(answer: str, stated: AnswerType | None) -> None:
    assert classify_answer(answer, stated, load_unit_qid_numbers_by_name(), "") == ClassifiedAnswer("numerical", None)
