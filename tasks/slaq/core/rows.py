"""Rows of SLAQ, one model a stage; the last one is the published table (paper §3.2, Appendix A.1, Figure 6)."""

from typing import Literal

from factmill.tasks.core.rows import Row

Half = Literal["most", "least"]
"""Of a category's topics, those with the most and those with the least page views."""


class CategoryPage(Row):
    """A page drawn from a category; the id is the category's name with the page id."""

    category: str
    """The topics' category, by default one of the paper's fifteen."""
    subcategory: str
    """The category that lists the page: the topic's own, or one below it."""
    pageid: int
    title: str


class CategoryCount(Row):
    """What a category held, and how many of its pages were drawn; the id is its name."""

    members: int
    """Pages listed by it and the categories below it, those listed twice counted twice."""
    subcategories: int
    """Categories right below it."""
    drawn: int
    """Pages that were drawn by seed."""


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
    """The category that the topic was drawn from, by default one of the paper's fifteen."""
    Topic: str
    """Title of the article."""
    URL: str
    """Address of the article."""
    revid: int
    """Revision of the article that the facts are from."""
    ShortQ1: str
    """The first short question."""
    ShortA1: str
    """Its answer, of fewer than ten words, as the article has it."""
    ShortQ2: str
    """The second short question."""
    ShortA2: str
    """Its answer, of fewer than ten words, as the article has it."""
    ShortQ3: str
    """The third short question."""
    ShortA3: str
    """Its answer, of fewer than ten words, as the article has it."""
    ShortQ4: str
    """The fourth short question."""
    ShortA4: str
    """Its answer, of fewer than ten words, as the article has it."""
    ShortQ5: str
    """The fifth short question."""
    ShortA5: str
    """Its answer, of fewer than ten words, as the article has it."""
    LongQ: str
    """One question that asks for the same five facts."""
    LongA: str
    """One paragraph made of the five answers."""
    Pageviews: int
    """Views of the article over the days before the world's epoch."""
    half: Half
    """Most or least viewed of its category."""
    ShortQ1_Entity: int
    """1 when the first short answer is of an OntoNotes class, else 0."""
    ShortQ2_Entity: int
    """1 when the second short answer is of an OntoNotes class, else 0."""
    ShortQ3_Entity: int
    """1 when the third short answer is of an OntoNotes class, else 0."""
    ShortQ4_Entity: int
    """1 when the fourth short answer is of an OntoNotes class, else 0."""
    ShortQ5_Entity: int
    """1 when the fifth short answer is of an OntoNotes class, else 0."""
    fact_types: list[str]
    """The classes of the five answers, "none" for one that is of no class."""
    fact_types_by: str
    """Model that told them, or `scripted replies`."""
    author: str
    """Model that wrote questions and answers, or `scripted replies`."""
    judge: str
    """Model that looked at phrasing and grounding."""
    reviewed_by: list[str]
    """Who decided about what was flagged; empty where nothing was."""
    licence: str
    """Licence of the article (SPDX id)."""
