"""Make generated fan-out questions of invented places, before and after wording: a listed set and a named one."""

from factmill.tasks.core.authoring.question_wording import PiecesToWordQuestionFrom
from factmill.tasks.text.values.answer_search import AnswerValue

LISTED = PiecesToWordQuestionFrom(
    group="the islands of Vogtland",
    owner="Vogtland",
    names=(),
    choice="have the largest areas",
    count=5,
    limit="",
    asked="what was the population of each of them as of November 2023",
    unit="",
    month="November 2023",
)
NAMED = PiecesToWordQuestionFrom(
    group="towers",
    owner="",
    names=("the Blue Tower", "Red Tower", "St. Ann's Tower"),
    choice="are higher than 1,200 metres",
    count=0,
    limit="1,200 metres",
    asked="how many metres high is each of them",
    unit="metres",
    month="",
)
PEOPLE: dict[str, AnswerValue] = {"Norde": 4810, "Ostra": 5230}
HEIGHTS: dict[str, AnswerValue] = {"Blue Tower": 1310, "Red Tower": 1250}
ISLANDS_QUESTION = (
    "As of November 2023, which five islands of Vogtland have the largest areas, and how many people live on each?"
)
TOWERS_QUESTION = (
    "Of Blue Tower, Red Tower and St. Ann’s Tower, which are over 1200 meters high, and how high are these, in metres?"
)
