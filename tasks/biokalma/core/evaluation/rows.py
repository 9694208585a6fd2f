"""Rows of BioKaLMA's evaluation: a question with the graphs shown, its answer, ratings and scores (paper §2.1, §4).

A judge rates texts by four criteria (§4.1). The last rating of a reply counts, since a judge may think aloud before it.
A reply without a rating is Unreadable, and the text stays unscored: the paper's public script counts such replies as 3.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from factmill.tasks.biokalma.core.citations import AnswerCitation
from factmill.tasks.core.authoring.knowledge_pieces import PersonKnowledgePiece
from factmill.tasks.core.completions import CompletionFormat as ReplyForm
from factmill.tasks.core.completions import UnreadableCompletion
from factmill.tasks.core.evaluation.human_labels import AnswerPartWithJudgeVerdict
from factmill.tasks.core.evaluation.rows import EvaluationPrediction, EvaluationQuestion
from factmill.tasks.core.rows import StrictModel
from factmill.tasks.text.reply_wrappers import fold_punctuation_and_digits

BiokalmaQuestionForm = Literal["general", "specific"]
CitationScorer = Literal["fixed", "upstream"]


class BiokalmaQuestion(EvaluationQuestion):
    """One of a row's two questions, with the knowledge that the model is shown."""

    form: BiokalmaQuestionForm
    """Which of the two questions: general or specific."""
    people: list[str]
    """QIDs of the two people that the question is about."""
    names: list[str]
    """Their names."""
    relation: str
    """Label of the relation that joins them."""
    retrieved: list[str]
    """QIDs of the items whose graphs are shown: the two people, their replacements, or items found by names in the
    question."""
    retrieved_names: list[str]
    """Names under which the model sees these items."""
    given: list[PersonKnowledgePiece]
    """Pieces of the graphs shown, against which citations are checked."""
    minimum: list[PersonKnowledgePiece]
    """The minimum knowledge set, including pieces that the graphs lack."""
    removed: list[PersonKnowledgePiece]
    """Pieces of the minimum set that the graphs lack: the answer must mark them with [NA] (§4.4)."""
    lookup_failure: str
    """Why looking up the question's names failed; then no model is asked. Empty where it succeeded or was not
    needed."""


class BiokalmaPrediction(BiokalmaQuestion, EvaluationPrediction):
    """A question with the model's answer."""


class RatedBiokalmaPrediction(BiokalmaPrediction):
    """An answer with the ratings of its text (G-Eval, §4.1): 1 to 5, null where there is none."""

    coherence: int | None
    """Do its sentences form a coherent whole?"""
    consistency: int | None
    """Does it say only what the knowledge shown says?"""
    fluency: int | None
    """Is its English correct and fluent?"""
    relevance: int | None
    """Does it say what matters for the question?"""
    unrated: list[str]
    """`criterion: reason: detail` of each rating that was requested but failed."""
    judge: str
    """Model that rated; empty where no rating was requested."""
    judge_calls: list[str]
    """Keys of the judge's recorded calls."""


class CheckedCitation(AnswerCitation):
    """A citation, checked against the graphs shown."""

    is_correct: bool | None
    """The triple is in the graphs shown; null where the citation is no triple."""
    is_needed: bool | None
    """The triple is correct and in the minimum set."""
    is_aligned: bool | None
    """The triple follows from its sentence; for a [NA] mark, a piece that the graphs lack does."""


class CitationCounts(StrictModel):
    """Counts of one answer's citations."""

    scorer: CitationScorer
    """Counting rule: fixed (the paper's definition) or upstream (the public script)."""
    cited: int
    """Citations: triples and malformed brackets."""
    malformed: int
    correct: int
    """Triples that are in the graphs shown."""
    near: int
    """Triples that miss the graph only by case, accents, punctuation or the format of a date."""
    needed: int
    """Citations that count for precision: correct ones of the minimum set."""
    minimum: int
    """Pieces of the minimum set."""
    found: int
    """Pieces of the minimum set that are cited."""
    triples: int
    """Citations that were checked against their sentence."""
    aligned: int
    """Triples that follow from their sentence."""
    marked: int
    """Sentences with [NA]."""
    marked_right: int
    """Sentences with [NA] that are about a removed piece."""
    removed: int
    """Pieces that were removed from the graph."""
    removed_found: int
    """Removed pieces that a sentence with [NA] is about."""
    is_left_out: bool
    """True where the public script skips the answer: its graph or its text is empty."""


class ScoredBiokalmaPrediction(RatedBiokalmaPrediction):
    """A model's answer to a question of BioKaLMA, with its citations and its counts of right, needed and missing ones."""

    sentences: list[str]
    """Sentences of the answer, without brackets."""
    citations: list[CheckedCitation]
    """In the order of the text."""
    counts: CitationCounts
    """Counts from which the metrics are computed."""
    aligner: str
    """What decided whether citations follow from their sentences: a model's name, or `lexical`."""


RATING_CRITERIA = ("coherence", "consistency", "fluency", "relevance")
"""Rating criteria, one judge call each."""
MIN_RATING, MAX_RATING = 1, 5
_RATING_LABEL = (
    f"(?:(?:final|overall|my|the) )*(?:(?:{'|'.join(RATING_CRITERIA)}) )?(?:rating|score|{'|'.join(RATING_CRITERIA)})"
)
RATING_REPLY_FORM = ReplyForm(
    kind="lines", line_head=_RATING_LABEL, separator="[:=]", strips_quotes=True, last_verdict_counts=True
)
"""`Rating: 4`, or `Fluency: 4`."""
RATING_QUESTIONS = {
    "coherence": "Do the sentences form one well-ordered text?",
    "consistency": "Does it state what the knowledge shown states, and nothing else?",
    "fluency": "Is it well written, without errors in grammar and wording?",
    "relevance": "Does it answer what the question asks for, and nothing else?",
}
"""Criterion → question for human raters."""
_EXPECTED_RATING = 'expected a whole number from 1 to 5 in a line of the form "Rating: 4"'
_RATING_LINE = re.compile(rf"^{_RATING_LABEL}[ \t]*[:=](.*)$", re.IGNORECASE | re.MULTILINE)
_RATING_NUMBER = re.compile(
    r"([1-5])(?:\.0)?(?:\s*(?:/|out of)\s*5)?(?:\s*\((?:very |mostly |fairly )?(?:excellent|perfect|good|fair|fine|average|acceptable|poor|bad"
    rf"|high|low|(?:{'|'.join(RATING_CRITERIA)})|coherent|consistent|fluent|relevant)\))?[\s.]*",
    re.IGNORECASE,
)


def read_rating(text: str) -> int | UnreadableCompletion:
    """Return the rating of a judge's reply."""
    plain = fold_punctuation_and_digits(unicodedata.normalize("NFKC", text))
    found = _RATING_LINE.findall(plain) or ([plain] if _RATING_NUMBER.fullmatch(plain.strip()) else [])
    if not found:
        return UnreadableCompletion(f"there is no rating, {_EXPECTED_RATING}")
    rating_text = found[-1].strip()
    if rating := _RATING_NUMBER.fullmatch(rating_text):
        return int(rating[1])
    return UnreadableCompletion(f"the last rating is {rating_text[:40]!r}, {_EXPECTED_RATING}")


def list_answer_ratings(row: Mapping[str, Any]) -> Iterator[AnswerPartWithJudgeVerdict]:
    """Yield the ratings of a `biokalma_answers` row; none where no judge was asked, or its call failed."""
    for criterion in RATING_CRITERIA:
        is_unread = any(each.startswith(f"{criterion}: judge_unreadable:") for each in row["unrated"])
        if row[criterion] is not None or is_unread:
            asked = f"{criterion.capitalize()}: {RATING_QUESTIONS[criterion]} The question was: {row['question']}"
            yield AnswerPartWithJudgeVerdict(criterion, asked, "", row["answer_read"], str(row[criterion] or ""))
