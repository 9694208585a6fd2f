"""Row models of FanOutQA's evaluation: questions in a setting, predictions, searches, grades, scores (§3.2, §4.1)."""

from typing import Literal

from factmill.tasks.core.evaluation.rows import EvaluationPrediction, EvaluationQuestion, UnscoredReason
from factmill.tasks.core.rows import Row, StrictModel
from factmill.tasks.fanoutqa.core.rows import Split

CLOSED_BOOK, OPEN_BOOK, EVIDENCE_PROVIDED = "closed_book", "open_book", "evidence_provided"
GoldKind = Literal["dict", "list", "primitive"]


class FanOutPinnedArticle(StrictModel):
    """An article that a question needs."""

    title: str
    """Title in the question's source."""
    revid: int


class FanOutGoldQuestion(Row):
    """A question of the measured build, with its answer and its articles; the id is that of the question."""

    question: str
    gold: str
    """JSON of the answer: a dict, list or primitive."""
    kind: GoldKind
    split: Split
    categories: list[str]
    articles: list[str]
    """Titles of the articles that answer it."""
    evidence: list[FanOutPinnedArticle]
    """The same articles as pinned, each once."""
    epoch: str
    """Moment as of which articles are shown (ISO 8601, UTC)."""


class FanOutEvaluationQuestion(EvaluationQuestion):
    """A question in one setting."""

    gold: str
    """JSON of the answer: a dict, list or primitive."""
    kind: GoldKind
    """Kind of the gold answer."""
    split: Split
    """Part that the question belongs to: dev or test."""
    categories: list[str]
    """Topics of the question."""
    articles: list[str]
    """Titles of the articles that answer it."""
    evidence: list[FanOutPinnedArticle]
    """Articles that the question needs, as pinned, each once."""
    epoch: str
    """Moment as of which articles are shown (ISO 8601, UTC)."""


class FanOutSearchRecord(StrictModel):
    """One search of a model."""

    round: int
    """Turn of the search, from 1."""
    title: str
    """Title as the model wrote it."""
    found: str
    """Article shown to the model; empty if there is none."""
    revid: int | None
    chunks: int
    """Number of its chunks shown to the model."""
    of: int
    """Number of chunks of the article."""
    similar: list[str]
    """Titles offered instead: of pages that existed at the epoch, under their names of today."""
    reason: str
    """Why nothing was shown: evidence_missing, younger_than_epoch, …; no_room, not_looked_up; empty after a hit."""
    detail: str


class FanOutPrediction(FanOutEvaluationQuestion, EvaluationPrediction):
    """A model's answer with its searches."""

    searches: list[FanOutSearchRecord]
    """The model's searches in the open book, in order."""
    context: list[str]
    """Chunks shown to the model, as `title, revision #number`."""
    rounds: int
    """Number of turns with searches."""
    stopped: str
    """Limit that ended the searches: rounds, tokens, time, room; empty if the model answered by itself."""


class FanOutJudgedPrediction(FanOutPrediction):
    """A model's answer with a judge's grade."""

    grade: str
    """A to F (paper Appendix F.3); B, C and E are right. Empty if there is none."""
    judge: str
    """Judge model; `exact` is a program, not a model."""
    judge_call: str
    """Key of the judge's recorded call; empty if there was none."""
    judge_unscored: UnscoredReason
    """Why a call to the judge gave no grade: judge_unreadable, judge_failed."""
    judge_detail: str
    """The same in one sentence."""


class FanOutScoredPrediction(FanOutJudgedPrediction):
    """A model's answer to a question of FanOutQA, with its scores and the judge's grade; a missing score is null."""

    loose: float | None
    """Share of the gold answer's strings that the answer says."""
    strict: float | None
    """1 if the answer says all of them, else 0."""
    upstream_loose: float | None
    """The same share by the public scorer, quirks included."""
    upstream_strict: float | None
    """1 if the public scorer finds all strings, else 0."""
    rouge1: float | None
    """ROUGE-1 with the gold answer, F1."""
    rouge2: float | None
    """ROUGE-2, F1."""
    rougeL: float | None  # noqa: N815 - so the measure is written
    """ROUGE-L, F1."""
    bleurt_like: float | None
    """Score of a cross-encoder that stands in for BLEURT, if one was given."""
    lemmatizer: str
    """What turned words into their dictionary forms."""
