"""Rows of FanOutQA's evaluation: a question in a setting, what a model answered and looked up, grades and scores (paper §3.2, §4.1)."""

from typing import Literal

from factmill.tasks.core.evaluation.rows import Answer, Asked, Unscored
from factmill.tasks.core.rows import Row, StrictModel
from factmill.tasks.fanoutqa.core.rows import Split

CLOSED_BOOK, OPEN_BOOK, EVIDENCE_PROVIDED = "closed_book", "open_book", "evidence_provided"
Kind = Literal["dict", "list", "primitive"]


class FanOutEvidence(StrictModel):
    """An article that a question needs."""

    title: str
    """As the question's source names it."""
    revid: int


class FanOutGold(Row):
    """A question of the measured build, with its answer and its articles; the id is the question's."""

    question: str
    gold: str
    """JSON of the answer: a dict, list or primitive."""
    kind: Kind
    split: Split
    categories: list[str]
    articles: list[str]
    """Titles of the articles that answer it."""
    evidence: list[FanOutEvidence]
    """Those as they were pinned, each once."""
    epoch: str
    """Moment as of which articles are shown (ISO 8601, UTC)."""


class FanOutAsked(Asked):
    """A question in one setting."""

    gold: str
    """JSON of the answer: a dict, list or primitive."""
    kind: Kind
    """Kind of the gold answer."""
    split: Split
    """Part that the question belongs to: dev or test."""
    categories: list[str]
    """Topics of the question."""
    articles: list[str]
    """Titles of the articles that answer it."""
    evidence: list[FanOutEvidence]
    """Articles that the question needs, as they were pinned, each once."""
    epoch: str
    """Moment as of which articles are shown (ISO 8601, UTC)."""


class FanOutSearch(StrictModel):
    """One search of a model."""

    round: int
    """Turn in which it searched, from 1."""
    title: str
    """As it asked for it."""
    found: str
    """Article that it was shown; empty where there is none."""
    revid: int | None
    chunks: int
    """Chunks of it that it was shown."""
    of: int
    """Chunks that the article has."""
    similar: list[str]
    """Titles that it was offered instead: of pages that there were at the epoch, as these are called today."""
    reason: str
    """Why it was shown nothing: evidence_missing, younger_than_epoch, …; no_room, not_looked_up; empty: it was."""
    detail: str


class FanOutAnswer(FanOutAsked, Answer):
    """What the model answered, and what it had looked up."""

    searches: list[FanOutSearch]
    """Its searches in the open book, in order."""
    context: list[str]
    """Chunks that it was shown, as `title, revision #number`."""
    rounds: int
    """Turns in which it searched."""
    stopped: str
    """Why it was told to answer: rounds, tokens, time, room; empty: it answered by itself."""


class JudgedFanOut(FanOutAnswer):
    """With a judge's grade."""

    grade: str
    """A to F (paper Appendix F.3); B, C and E are right. Empty where there is none."""
    judge: str
    """What judged; `exact` is a program, and no model."""
    judge_call: str
    """Key of the judge's recorded call; empty where it was not asked."""
    judge_unscored: Unscored
    """Why there is no grade where the judge was asked: judge_unreadable, judge_failed."""
    judge_detail: str
    """One sentence about that."""


class ScoredFanOut(JudgedFanOut):
    """A row of the published table `fanoutqa_answers`: scores are null where there is none."""

    loose: float | None
    """Share of the gold answer's strings that the answer says."""
    strict: float | None
    """1 where it says all of them, else 0."""
    upstream_loose: float | None
    """As the public scorer has it, quirks included."""
    upstream_strict: float | None
    """Likewise: 1 where the public scorer finds all of them, else 0."""
    rouge1: float | None
    """ROUGE-1 with the gold answer, F1."""
    rouge2: float | None
    """ROUGE-2, F1."""
    rougeL: float | None  # noqa: N815 - so the measure is written
    """ROUGE-L, F1."""
    bleurt_like: float | None
    """Score of a cross-encoder, where one was named; it stands in for BLEURT."""
    lemmatizer: str
    """By what words were brought to their dictionary form."""
