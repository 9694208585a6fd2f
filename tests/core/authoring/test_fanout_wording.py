"""Test the input of a generated question's wording, and which wordings of a model are accepted."""

from dataclasses import replace

import pytest
from support.rows.fanout_wordings import HEIGHTS, ISLANDS_QUESTION, LISTED, NAMED, PEOPLE, TOWERS_QUESTION
from support.steps.replies import make_reader

from factmill.tasks.core.authoring.question_wording import (
    WORDED_QUESTION_FORMAT,
    PiecesToWordQuestionFrom,
    add_definite_article_where_needed,
    insert_moment,
    read_and_check_worded_question,
)
from factmill.tasks.core.completions import UnreadableCompletion
from factmill.tasks.text.values.answer_search import AnswerValue


def parse_wording_reply(reply: str, wording: PiecesToWordQuestionFrom, answer: dict[str, AnswerValue]) -> object:
    return make_reader(WORDED_QUESTION_FORMAT, read_and_check_worded_question, wording, answer)(reply)


def test_question_pieces_round_trip_through_json() -> None:
    assert PiecesToWordQuestionFrom.from_json(NAMED.to_json()) == NAMED


def test_choice_is_formatted_with_its_number() -> None:
    assert LISTED.format_choice() == "the five that have the largest areas"
    assert NAMED.format_choice() == "those that are higher than 1,200 metres"
    assert replace(NAMED, choice="").format_choice() == "all of them"


@pytest.mark.parametrize(
    ("wording", "answer", "text"),
    [
        (LISTED, PEOPLE, ISLANDS_QUESTION),
        (LISTED, PEOPLE, f"Here it is:\n{ISLANDS_QUESTION}"),
        (LISTED, PEOPLE, f"**Question:** {ISLANDS_QUESTION}"),
        (LISTED, PEOPLE, f'- "{ISLANDS_QUESTION}"'),
        (LISTED, PEOPLE, f"{ISLANDS_QUESTION.replace('?', '？')}\n\nI hope this helps!"),
        (NAMED, HEIGHTS, TOWERS_QUESTION),
        (NAMED, HEIGHTS, TOWERS_QUESTION.replace("Red", "the Red")),
    ],
)
def test_wording_with_every_piece_is_accepted(
    wording: PiecesToWordQuestionFrom, answer: dict[str, AnswerValue], text: str
) -> None:
    assert parse_wording_reply(f" {text}\n", wording, answer) == (ISLANDS_QUESTION if wording is LISTED else text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{ISLANDS_QUESTION}\nOr: {ISLANDS_QUESTION}", "one line"),
        (f"I cannot help with that. {ISLANDS_QUESTION}", "the model refuses"),
        (ISLANDS_QUESTION.replace("?", "."), "question mark"),
        ("Which five of Vogtland November 2023?", "6 words, expected 8 to 80"),
        (ISLANDS_QUESTION.replace("?", " now" * 70 + "?"), "expected 8 to 80"),
        (ISLANDS_QUESTION.replace("Vogtland", "that country"), "does not say Vogtland"),
        (ISLANDS_QUESTION.replace("five ", ""), "does not say five"),
        (ISLANDS_QUESTION.replace("As of November 2023, w", "W"), "does not say November 2023"),
        (ISLANDS_QUESTION.replace("?", ", such as on Norde?"), "gives away Norde"),
        (ISLANDS_QUESTION.replace("?", ", 4,810 or more?"), "gives away 4810"),
        (TOWERS_QUESTION.replace("Red Tower", "the red one"), "does not say Red Tower"),
        (TOWERS_QUESTION.replace("1200 meters", "a thousand"), "does not say 1,200 metres"),
        (TOWERS_QUESTION.replace("these,", "these (1310, 1250),"), "gives away 1310, 1250"),
    ],
)
def test_wording_that_loses_piece_or_reveals_answer_is_rejected(text: str, reason: str) -> None:
    found = parse_wording_reply(text, *((NAMED, HEIGHTS) if "ower" in text else (LISTED, PEOPLE)))
    assert isinstance(found, UnreadableCompletion)
    assert reason in found.reason


def test_answer_names_present_in_question_pieces_do_not_count_as_revealed() -> None:
    assert NAMED.find_revealed_answers(HEIGHTS) == []
    assert NAMED.find_revealed_answers({"Blue Tower": "St. Ann's Tower"}) == ["St. Ann's Tower"]
    assert LISTED.find_revealed_answers({"Vogtland": 5}) == ["Vogtland"]


def test_insert_moment_puts_moment_before_question_mark() -> None:
    assert insert_moment("How many live there?", "as of May 2020") == "How many live there as of May 2020?"
    assert insert_moment("How many live there?", "") == "How many live there?"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("France", "France"),
        ("Netherlands", "the Netherlands"),
        ("Czech Republic", "the Czech Republic"),
        ("Republic of Ireland", "the Republic of Ireland"),
        ("United States of America", "the United States of America"),
        ("Sun", "the Sun"),
        ("The Bronx", "the Bronx"),
        ("Bronx", "the Bronx"),
        ("The Beatles", "the Beatles"),
        ("The Hague", "The Hague"),
        ("Holy See", "the Holy See"),
        ("Outer Hebrides", "the Outer Hebrides"),
        ("Matterhorn", "the Matterhorn"),
        ("Zugspitze", "the Zugspitze"),
        ("Eiger", "the Eiger"),
        ("Mont Blanc", "Mont Blanc"),
        ("Cape Horn", "Cape Horn"),
        ("New York City", "New York City"),
        ("Queens", "Queens"),
    ],
)
def test_definite_article_is_added_to_names_that_need_it(name: str, text: str) -> None:
    assert add_definite_article_where_needed(name) == text
