"""Test parsing of ratings in a judge's replies."""

import pytest
from support.steps.replies import make_reader

from factmill.tasks.biokalma.core.evaluation.rows import RATING_REPLY_FORM, read_rating
from factmill.tasks.core.completions import UnreadableCompletion

read_reply = make_reader(RATING_REPLY_FORM, read_rating)


@pytest.mark.parametrize(
    ("text", "rating"),
    [
        ("Rating: 4", 4), ("rating: 4.", 4), ("Score: 5", 5), ("Coherence: 3", 3), ("4", 4), ("4/5", 4),
        ("Rating: 4 out of 5", 4), ("Rating: 4.0", 4), ("Rating：４", 4), ("It flows.\nRating: 2", 2),
        ("Rating: 2\nNo, better.\nRating: 4", 4), ("Fluency: 1", 1),
    ],
)  # fmt: skip
def test_last_rating_in_reply_counts(text: str, rating: int) -> None:
    assert read_rating(text) == rating


@pytest.mark.parametrize(
    "text", ["", "good", "Rating: 0", "Rating: 6", "Rating: 4.5", "Rating: four", "Rating: 45", "Rating: 4\nRating: -",
             "There are 3 reasons.", "3 of 4", "Rating:"]
)  # fmt: skip
def test_reply_without_valid_rating_is_unreadable(text: str) -> None:
    assert isinstance(read_rating(text), UnreadableCompletion)


@pytest.mark.parametrize(
    "dressed",
    ["**Rating: 4**", "- Rating: 4", "`Rating: 4`", 'Rating: "4"', "<think>3?</think>Rating: 4", "Sure:\nRating: **4**",
     "**Fluency**: 4", "Relevance: 2\n\nRating: 4"],
)  # fmt: skip
def test_reply_form_strips_markup_around_rating(dressed: str) -> None:
    assert read_reply(dressed) == 4
