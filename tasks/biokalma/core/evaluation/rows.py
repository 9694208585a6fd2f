"""Rows of BioKaLMA's evaluation: a question with the graphs that the model is shown, what it answered, and what came of that (paper §2.1, §4).

A judge rates texts by four criteria (§4.1). The last rating of a reply counts, since a judge may think aloud before it. What
is no rating is Unreadable, and the text stays unscored: the paper's public script counts such replies as 3.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from factmill.tasks.biokalma.core.citations import Citation
from factmill.tasks.core.authoring.citations import Piece
from factmill.tasks.core.evaluation.labels import Part
from factmill.tasks.core.evaluation.rows import Answer, Asked
from factmill.tasks.core.replies import Form as ReplyForm
from factmill.tasks.core.replies import Unreadable
from factmill.tasks.core.rows import StrictModel
from factmill.tasks.text.undressing import fold_wide

Form = Literal["general", "specific"]
Scorer = Literal["fixed", "upstream"]


class BioAsked(Asked):
    """One of the two questions of a row, and the knowledge that the model is shown with it."""

    form: Form
    """Which of the two questions: general or specific."""
    people: list[str]
    """QIDs of the two people whom the question is about."""
    names: list[str]
    """Their names."""
    relation: str
    """Label of the relation that joins them."""
    retrieved: list[str]
    """QIDs of the items whose graphs are shown: the two people, others in their place, or what was found by the question's names."""
    retrieved_names: list[str]
    """What these are called to the model."""
    given: list[Piece]
    """The graphs shown, piece by piece: what a citation is held against."""
    minimum: list[Piece]
    """The minimum knowledge set, whatever the graphs lack."""
    removed: list[Piece]
    """Pieces of the minimum set that the graphs lack: what calls for [NA] (§4.4)."""
    lookup_failure: str
    """Why what the question names could not be looked up; then no model is asked. Empty where it could, or nothing had to be."""


class BioAnswer(BioAsked, Answer):
    """What the model answered."""


class RatedBio(BioAnswer):
    """With the ratings of its text (G-Eval, §4.1): 1 to 5, null where there is none."""

    coherence: int | None
    """Do its sentences make one whole?"""
    consistency: int | None
    """Does it say nothing but what the knowledge shown says?"""
    fluency: int | None
    """Is its English sound?"""
    relevance: int | None
    """Does it say what matters for the question?"""
    unrated: list[str]
    """`criterion: reason: detail` of each rating that was asked for and could not be had."""
    judge: str
    """What rated; empty where no rating was asked for."""
    judge_calls: list[str]
    """Keys of the judge's recorded calls."""


class ScoredCitation(Citation):
    """A citation, held against what the model was shown."""

    is_correct: bool | None
    """The triple is in the graphs shown; null for what is no triple."""
    is_needed: bool | None
    """It is correct and in the minimum set."""
    is_aligned: bool | None
    """The sentence bears it out; of a mark, a piece that the graphs lack."""


class CitationScore(StrictModel):
    """Counts of one answer."""

    scorer: Scorer
    """Whose count it is: the paper's definition, or the public script."""
    cited: int
    """Citations: triples, and what is malformed."""
    malformed: int
    correct: int
    """Triples of the graph that was shown."""
    near: int
    """Triples that would be but for case, accents, punctuation or the writing of a date."""
    needed: int
    """Citations that count for precision: correct ones of the minimum set."""
    minimum: int
    """Pieces of the minimum set."""
    found: int
    """Of these, how many are cited."""
    triples: int
    """Citations that were held against their sentence."""
    aligned: int
    """Of these, how many follow from it."""
    marked: int
    """Sentences with [NA]."""
    marked_right: int
    """Of these, how many are about a removed piece."""
    removed: int
    """Pieces that were removed from the graph."""
    removed_found: int
    """Of these, about how many a sentence with [NA] is."""
    is_left_out: bool
    """True where the public script passes over the answer: its graph is empty, or nothing is said."""


class ScoredBio(RatedBio):
    """A row of the published table `biokalma_answers`."""

    sentences: list[str]
    """Of the answer, without brackets."""
    citations: list[ScoredCitation]
    """In the order of the text."""
    counts: CitationScore
    """What the figures are made of."""
    aligner: str
    """What said whether sentences bear out citations: a model's name, or `lexical`."""


RATED = ("coherence", "consistency", "fluency", "relevance")
"""What is rated, a question to the judge each."""
LEAST, MOST = 1, 5
_HEAD = f"(?:(?:final|overall|my|the) )*(?:(?:{'|'.join(RATED)}) )?(?:rating|score|{'|'.join(RATED)})"
RATING = ReplyForm(kind="lines", head=_HEAD, point="[:=]", quotes=True, last_counts=True)
"""`Rating: 4`, or `Fluency: 4`."""
ASKS = {
    "coherence": "Do the sentences make one well-ordered account?",
    "consistency": "Does it say what the knowledge shown says, and nothing else?",
    "fluency": "Is it well written, without faults of grammar and wording?",
    "relevance": "Does it tell what the question asks for, and nothing beside?",
}
"""What is rated → what people who rate it are asked."""
_EXPECTED = 'expected a whole number from 1 to 5 in a line of the form "Rating: 4"'
_LINE = re.compile(rf"^{_HEAD}[ \t]*[:=](.*)$", re.IGNORECASE | re.MULTILINE)
_NUMBER = re.compile(
    r"([1-5])(?:\.0)?(?:\s*(?:/|out of)\s*5)?(?:\s*\((?:very |mostly |fairly )?(?:excellent|perfect|good|fair|fine|average|acceptable|poor|bad"
    rf"|high|low|(?:{'|'.join(RATED)})|coherent|consistent|fluent|relevant)\))?[\s.]*",
    re.IGNORECASE,
)


def read_rating(text: str) -> int | Unreadable:
    """Return the rating of a judge's reply."""
    plain = fold_wide(unicodedata.normalize("NFKC", text))
    found = _LINE.findall(plain) or ([plain] if _NUMBER.fullmatch(plain.strip()) else [])
    if not found:
        return Unreadable(f"there is no rating, {_EXPECTED}")
    said = found[-1].strip()
    rating = _NUMBER.fullmatch(said)
    return int(rating[1]) if rating else Unreadable(f"the last rating is {said[:40]!r}, {_EXPECTED}")


def list_ratings(row: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the ratings of a row of `biokalma_answers`; none where no judge was asked, or failed."""
    for criterion in RATED:
        is_unread = any(each.startswith(f"{criterion}: judge_unreadable:") for each in row["unrated"])
        if row[criterion] is not None or is_unread:
            asked = f"{criterion.capitalize()}: {ASKS[criterion]} The question was: {row['question']}"
            yield Part(criterion, asked, "", row["answer_read"], str(row[criterion] or ""))
