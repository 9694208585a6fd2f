"""Rows of SLAQ, one model a stage; the last one is the published table (paper §3.2, Appendix A.1, Figure 6)."""

from typing import Literal

from tasks.core.rows import Row

Half = Literal["most", "least"]
"""Of a category's topics, those with the most and those with the least page views."""


class CategoryPage(Row):
    """A page drawn from a category; the id is the category's name with the page id."""

    category: str
    """One of the fifteen topics' categories."""
    subcategory: str
    """The category that lists the page: the topic's own, or one below it."""
    pageid: int
    title: str


class CategoryCount(Row):
    """What a category held, and how many of its pages were drawn; the id is its name."""

    members: int
    """Pages listed by it and the categories below it, those listed twice counted twice."""
    subcategories: int
    drawn: int


class Topic(CategoryPage):
    """With its article as of the epoch."""

    url: str
    revid: int
    text: str
    """Main text, paragraphs parted by blank lines."""


class ViewedTopic(Topic):
    """With its page views."""

    views: int | None
    """Sum over the days before the cut-off; null where nothing is known."""
    views_from: str
    """First day (YYYYMMDD)."""
    views_to: str


class ChosenTopic(ViewedTopic):
    """With the half that it stands for."""

    half: Half


class QuestionedTopic(ChosenTopic):
    """With its questions and answers."""

    questions: list[str]
    """Five short questions."""
    answers: list[str]
    """Their answers, in order."""
    long_question: str
    long_answer: str
    author: str
    author_call: str


class CheckedTopic(QuestionedTopic):
    """With what a second model said of it, and the decisions of its review."""

    judge: str
    judge_call: str
    flags: list[str]
    """What was flagged, as `code: sentence`; empty where nothing was."""
    reviewed_by: list[str]


class SlaqRow(Row):
    """One topic, as published (Figure 6)."""

    Category: str
    Topic: str
    URL: str
    revid: int
    ShortQ1: str
    ShortA1: str
    ShortQ2: str
    ShortA2: str
    ShortQ3: str
    ShortA3: str
    ShortQ4: str
    ShortA4: str
    ShortQ5: str
    ShortA5: str
    LongQ: str
    LongA: str
    Pageviews: int
    half: Half
    """Most or least viewed of its category."""
    ShortQ1_Entity: int
    """1 when the first short answer is of an OntoNotes class."""
    ShortQ2_Entity: int
    ShortQ3_Entity: int
    ShortQ4_Entity: int
    ShortQ5_Entity: int
    fact_types: list[str]
    """The classes of the five answers, "none" for one that is of no class."""
    fact_types_by: str
    """Model or rules that told them."""
    author: str
    judge: str
    reviewed_by: list[str]
    licence: str
