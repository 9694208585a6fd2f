"""Row models of FanOutQA's steps and of its published tables (paper §3.1, Appendix B; the released files).

Rows hold trees and answers as JSON text (fanoutqa/core/questions.py); exports to JSON write them as JSON values.
"""

import json
from typing import Any, Literal, Self

from factmill.tasks.core.rows import JsonText, Row, StrictModel
from factmill.tasks.fanoutqa.core.questions import (
    FanOutQuestion,
    dump_json,
    format_released_decomposition,
    format_released_evidence,
    parse_released_decomposition,
    parse_released_evidence,
)

SourceKind = Literal["authored", "released", "generated"]
Split = Literal["dev", "test"]


class QuestionFlag(StrictModel):
    """A finding of a check on a question or one of its sub-questions."""

    code: str
    """Short snake_case code: one of FLAGS (fanoutqa/core/flags.py)."""
    path: str
    """Path of the sub-question; empty: the question itself."""
    detail: str
    """One sentence: what was found, what was expected."""
    proposed: str = ""
    """A corrected wording of the question, if the check proposes one."""


class GatheredFanOutQuestion(Row):
    """A question as read or generated; its id is the released one, or a digest of the question or of its set."""

    source: SourceKind
    source_name: str
    """File, or Wikidata with the set that it was generated from."""
    source_row: int
    """Place in the source, from 1."""
    licence: str
    question: str
    """Empty until a generated question is worded."""
    answer: str | None
    """JSON; null if it is held back."""
    decomposition: str
    """JSON list in the released form."""
    necessary_evidence: str | None
    """JSON list of articles, if there is no decomposition (released test part)."""
    categories: list[str]
    published_split: Split | None
    """Its part, dev or test, in a released file."""
    wording: str | None
    """JSON: the pieces that a generated question's wording must say; null for other questions."""
    statements: list[str]
    """Ids of the statements that a generated question was made from."""
    author: str | None
    """Model that worded a generated question; null before that, and for other questions."""

    def tree(self) -> FanOutQuestion:
        """Return the question as a tree."""
        return FanOutQuestion(
            id=self.id,
            question=self.question,
            decomposition=parse_released_decomposition(json.loads(self.decomposition)),
            answer=None if self.answer is None else json.loads(self.answer),
            categories=tuple(self.categories),
            necessary_evidence=tuple(
                each
                for found in json.loads(self.necessary_evidence or "[]")
                if (each := parse_released_evidence(found))
            ),
            is_released=self.source == "released",
        )

    def with_tree(self, tree: FanOutQuestion) -> Self:
        """Return this row with its tree replaced."""
        return self.replace(**_format_tree_columns(tree))

    @classmethod
    def from_tree(cls, tree: FanOutQuestion, **columns: Any) -> Self:
        """Return the row of a question; `columns`: those that its tree does not give, by default null or empty."""
        unset: dict[str, Any] = {"published_split": None, "wording": None, "statements": [], "author": None}
        return cls.model_validate(
            {"id": tree.id, "categories": list(tree.categories), **_format_tree_columns(tree), **unset, **columns}
        )


def _format_tree_columns(tree: FanOutQuestion) -> dict[str, str | None]:
    evidence = [format_released_evidence(each) for each in tree.necessary_evidence]
    return {
        "question": tree.question,
        "answer": None if tree.answer is None else dump_json(tree.answer),
        "decomposition": dump_json(format_released_decomposition(tree.decomposition)),
        "necessary_evidence": dump_json(evidence) if evidence else None,
    }


class EvidenceReference(Row):
    """An article that a sub-question rests on, as of the epoch; the id is the question's id with the path."""

    question_id: str
    """Id of the question."""
    path: str
    """Path of the sub-question, in the form of its source; necessary_evidence[i] if there is no sub-question."""
    sub_question: str
    """Text of the sub-question."""
    answer: JsonText | None
    """JSON of the sub-answer."""
    title_asked: str
    """The title in the source."""
    title: str | None
    """Current title of the page, after redirects and moves; null if there is no page."""
    pageid: int | None
    """Page id; null if there is no page."""
    revid: int | None
    """The newest revision at or before the epoch."""
    timestamp: str | None
    """Time of that revision (ISO 8601, UTC)."""
    url: str
    """Address of the article, as written in the source."""
    problem: str | None
    """Why the article cannot be pinned, as `reason: sentence`."""
    found: bool | None
    """Whether the article says the sub-answer; null if a text search cannot decide, such as for yes or no."""
    missing: list[str]
    """Parts of the sub-answer that the article does not say."""


class SubAnswerInArticleFinding(Row):
    """Whether an article says the sub-answer; the id is that of the reference."""

    found: bool | None
    missing: list[str]
    problem: str | None
    """Why the text of the revision is unavailable, as `reason: sentence`."""


class PinnedQuestion(GatheredFanOutQuestion):
    """A question with every article pinned to a revision."""

    epoch: str


class FlaggedQuestion(PinnedQuestion):
    """A question with the findings of the checks so far."""

    flags: list[QuestionFlag]
    near_articles: list[str]
    """Titles of the articles nearest to the question by embedding, the nearest first; empty before the search."""
    judge: str | None
    """Model that judged objectivity and grammar; null before that."""
    reviewed_by: list[str]


class PublishedFanOutQuestion(Row):
    """A question as published: its source and the findings. Answers are in the tables of its part."""

    split: Split
    """dev has everything; test keeps its answers in a separate table."""
    source: SourceKind
    """Written by a person, from a released file, or generated from a Wikidata."""
    source_name: str
    """File, or Wikidata with the set that it was generated from."""
    source_row: int
    """Place in the source, from 1."""
    question: str
    """The question."""
    sub_questions: int
    """Number of sub-questions at all levels; 0 if they are held back."""
    articles: list[str]
    """Titles of the articles that answer the question."""
    epoch: str
    """Moment to which articles are pinned (ISO 8601, UTC)."""
    statements: list[str]
    """Ids of the Wikidata statements that a generated question was made from."""
    flags: list[str]
    """Findings of checks that passed the review, as code and path; the review queue has the sentences."""
    judge: str | None
    """Model that judged objectivity and grammar."""
    author: str | None
    """Model that worded the question, if it is generated."""
    reviewed_by: list[str]
    """Reviewers who decided about its flags."""
    licence: str
    """Licence of the question."""


class DevQuestion(Row):
    """A question of the dev part in the released form."""

    question: str
    """The top-level question."""
    decomposition: JsonText
    """JSON: the sub-questions, each with id, question, decomposition, answer, depends_on and evidence."""
    answer: JsonText
    """JSON: the answer, a dict, list or primitive."""
    categories: list[str]
    """Subjects that the question is about."""


class HeldOutTestSplitQuestion(Row):
    """A question of the test part in the released form."""

    question: str
    """The top-level question."""
    necessary_evidence: JsonText
    """JSON: the articles that answer it, each with pageid, revid, title and url."""
    categories: list[str]
    """Subjects that the question is about."""


class HeldOutAnswer(Row):
    """The answer to a question of the test part; exports include it only on request."""

    answer: JsonText
    """JSON: the answer."""
    decomposition: JsonText
    """JSON: the sub-questions."""


class ArticleRevision(Row):
    """An article behind published questions, as of the epoch; the id is that of its revision."""

    title: str
    """Title of the page."""
    pageid: int | None
    """Page id; null if the article is from a file, which holds none."""
    revid: int
    """The newest revision at or before the epoch."""
    timestamp: str | None
    """Time of that revision (ISO 8601, UTC); null if a released file pinned it."""
    url: str
    """Address of that revision."""
    questions: int
    """Number of the build's questions that rest on it."""
