"""Rows of FanOutQA, one model a stage, and its published tables (paper §3.1, Appendix B; the released files).

Trees and answers stand in rows as JSON text (fanoutqa/core/questions.py), and exports to JSON write them out as what
they say.
"""

import json
from typing import Literal, Self

from factmill.tasks.core.rows import JsonText, Row, StrictModel
from factmill.tasks.fanoutqa.core.questions import (
    FanOutQuestion,
    dump_json,
    evidence_to_released,
    read_decomposition,
    read_evidence,
    to_released,
)

SourceKind = Literal["authored", "released", "generated"]
Split = Literal["dev", "test"]


class Flag(StrictModel):
    """What a check found about a question or one of its sub-questions."""

    code: str
    """Short snake_case code: one of FLAGS (fanoutqa/core/flags.py)."""
    path: str
    """Path of the sub-question; empty: the question itself."""
    detail: str
    """One sentence: what was found, what was expected."""
    proposed: str = ""
    """A wording of the question that would mend it, where the check proposes one."""


class FanOutRow(Row):
    """A question as it came; the id is the released one, or digests source and question or set."""

    source: SourceKind
    source_name: str
    """File, or Wikidata with the set that it was generated from."""
    source_row: int
    """Place in the source, from 1."""
    licence: str
    question: str
    """Empty until a generated question is worded."""
    answer: str | None
    """JSON; null where it is held back."""
    decomposition: str
    """JSON list in the released form."""
    necessary_evidence: str | None
    """JSON list of articles, where there is no decomposition (released test part)."""
    categories: list[str]
    published_split: Split | None
    """The part it stands in, in a released file."""
    wording: str | None
    """JSON: what a generated question's wording is made of; null for the others."""
    statements: list[str]
    """Ids of the statements that a generated question was made from."""
    author: str | None
    """Model that worded a generated question; null before that, and for the others."""

    def tree(self) -> FanOutQuestion:
        """Return the question as a tree."""
        return FanOutQuestion(
            id=self.id,
            question=self.question,
            decomposition=read_decomposition(json.loads(self.decomposition)),
            answer=None if self.answer is None else json.loads(self.answer),
            categories=tuple(self.categories),
            necessary_evidence=tuple(
                each for found in json.loads(self.necessary_evidence or "[]") if (each := read_evidence(found))
            ),
            is_released=self.source == "released",
        )

    def with_tree(self, tree: FanOutQuestion) -> Self:
        """Return this row with a question's tree in the place of its own."""
        evidence = [evidence_to_released(each) for each in tree.necessary_evidence]
        return self.replace(
            question=tree.question,
            answer=None if tree.answer is None else dump_json(tree.answer),
            decomposition=dump_json(to_released(tree.decomposition)),
            necessary_evidence=dump_json(evidence) if evidence else None,
        )


class Reference(Row):
    """An article that a sub-question rests on, as of the epoch; the id is the question's with the path."""

    question_id: str
    """Id of the question."""
    path: str
    """Path of the sub-question, in a released file's own words where it is from one; necessary_evidence[i] where there is none."""
    sub_question: str
    """What it is asked for."""
    answer: JsonText | None
    """JSON of the sub-answer."""
    title_asked: str
    """The title in the source."""
    title: str | None
    """The page's title now, to which redirects and moves lead; null where there is none."""
    pageid: int | None
    """The page's number; null where there is none."""
    revid: int | None
    """The newest revision at or before the epoch."""
    timestamp: str | None
    """When it was made (ISO 8601, UTC)."""
    url: str
    """As it was written in the source."""
    problem: str | None
    """Why the article cannot be pinned, as `reason: sentence`."""
    found: bool | None
    """Whether the article says the sub-answer; null where that cannot be told, such as for yes or no."""
    missing: list[str]
    """The parts of the sub-answer that it does not say."""


class ReferenceFinding(Row):
    """Whether an article says the sub-answer; the id is the reference's."""

    found: bool | None
    missing: list[str]
    problem: str | None
    """Why the text of the revision cannot be had, as `reason: sentence`."""


class PinnedQuestion(FanOutRow):
    """With every article pinned to a revision."""

    epoch: str


class FlaggedQuestion(PinnedQuestion):
    """With what checks found so far."""

    flags: list[Flag]
    near_articles: list[str]
    """Titles of the articles nearest to the question by embedding, the nearest first; empty before they are looked for."""
    judge: str | None
    """Model that judged objectivity and grammar; null before that."""
    reviewed_by: list[str]


class FanOutQuestionRow(Row):
    """A question of the build, as published: where it is from and what was found. Answers stand in the tables of its part."""

    split: Split
    """dev has everything, test holds answers apart."""
    source: SourceKind
    """Written by a person, from a released file, or generated from a Wikidata."""
    source_name: str
    """File, or Wikidata with the set that it was generated from."""
    source_row: int
    """Place in the source, from 1."""
    question: str
    """The question."""
    sub_questions: int
    """Sub-questions at all levels; 0 where they are held back."""
    articles: list[str]
    """Titles of the articles that answer it."""
    epoch: str
    """Articles are those of this moment (ISO 8601, UTC)."""
    statements: list[str]
    """Ids of the Wikidata statements that a generated question was made from."""
    flags: list[str]
    """What checks found and reviewers let pass, as code and path; the sentences stand in the review queue."""
    judge: str | None
    """Model that judged objectivity and grammar."""
    author: str | None
    """Model that worded it, if it is a generated one."""
    reviewed_by: list[str]
    """Who decided about its flags."""
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


class HeldOutQuestion(Row):
    """A question of the test part in the released form."""

    question: str
    """The top-level question."""
    necessary_evidence: JsonText
    """JSON: the articles that answer it, each with pageid, revid, title and url."""
    categories: list[str]
    """Subjects that the question is about."""


class HeldOutAnswer(Row):
    """The answer to a question of the test part, which exports leave out unless it is asked for."""

    answer: JsonText
    """JSON: the answer."""
    decomposition: JsonText
    """JSON: the sub-questions."""


class Article(Row):
    """An article that some question rests on, as of the epoch; the id is its revision's number."""

    title: str
    """The page's title."""
    pageid: int
    """The page's number."""
    revid: int
    """The newest revision at or before the epoch."""
    timestamp: str | None
    """When that revision was made (ISO 8601, UTC); null where a released file pinned it."""
    url: str
    """Address of that very revision."""
    questions: int
    """Questions of the build that rest on it."""
