"""Row models of SLAQ, one for each stage; the last is the published table (paper §3.2, Appendix A.1, Figure 6)."""

from typing import Literal

from factmill.tasks.core.rows import Row

PopularityHalf = Literal["most", "least"]
"""The topics of a category with the most page views, or with the least."""


class CategoryPage(Row):
    """A page of a category; the id is `category-pageid`, or `category-title` where no page id is known."""

    category: str
    """The topics' category, by default one of the paper's fifteen."""
    subcategory: str
    """The category that lists the page: the topic's own, or one below it."""
    pageid: int | None
    title: str
    source_name: str
    """The user's table, or the identity of the Wikipedia that the page was drawn from."""
    source_row: int
    """Number of the row in the table, or of the page among those drawn from its category, from 1."""
    source_licence: str
    """Licence of the table, or of that Wikipedia (SPDX id, or "none stated")."""
    stated_views: int | None = None
    """Page views that the user's table states."""


class CategoryPageCount(Row):
    """How many pages a category has, and how many were drawn; the id is its name."""

    members: int
    """Pages in the category and its subcategories; a page listed twice counts twice."""
    subcategories: int
    """Categories below it, down to the depth of the build."""
    drawn: int
    """Pages drawn by seed."""


class TopicArticle(CategoryPage):
    """A page with its article as of the epoch."""

    url: str
    revid: int
    text: str
    """Main text; blank lines separate paragraphs."""


class ViewedTopic(TopicArticle):
    """A topic with its page views."""

    views: int | None
    """Sum over the days before the epoch, or those of the user's table; null where unknown."""
    views_from: str | None
    """First day (YYYYMMDD); null if the views are those of the user's table."""
    views_to: str | None


class TopicInPopularityHalf(ViewedTopic):
    """A topic selected for the most or the least viewed half."""

    half: PopularityHalf


class QuestionedTopic(TopicInPopularityHalf):
    """A topic with its questions and answers."""

    questions: list[str]
    """Five short questions."""
    answers: list[str]
    """Their answers, in order."""
    long_question: str
    long_answer: str
    author: str
    author_call: str


class CheckedTopic(QuestionedTopic):
    """A topic with the second model's flags and the review's decisions."""

    judge: str
    judge_call: str
    flags: list[str]
    """Flags as `column: reason`; empty if nothing was flagged."""
    reviewed_by: list[str]


class SlaqTopicRow(Row):
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
    half: PopularityHalf
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
    """OntoNotes classes of the five answers, "none" for an answer of no class."""
    fact_types_by: str
    """Model that classified the answers, or `scripted replies`."""
    author: str
    """Model that wrote questions and answers, or `scripted replies`."""
    judge: str
    """Model that checked phrasing and grounding."""
    reviewed_by: list[str]
    """Reviewers who decided on the flags; empty if nothing was flagged."""
    licence: str
    """Licence of the article (SPDX id)."""
    source_name: str
    """Table that the topic is from, or the identity of the Wikipedia that it was drawn from."""
    source_row: int
    """Number of the row in the table, or of the page among those drawn from its category, from 1."""
    source_licence: str
    """Licence of the table, or of that Wikipedia (SPDX id, or "none stated"); that of the texts is `licence`."""
