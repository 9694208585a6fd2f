"""Rows of BioKaLMA's evaluation: a question with the graphs that the model is shown, what it answered, and what came of that (paper §2.1, §4)."""

from typing import Literal

from tasks.biokalma.core.evaluation.citations import Citation
from tasks.biokalma.core.evaluation.scoring import CitationScore
from tasks.core.authoring.pieces import Piece
from tasks.core.evaluation.rows import Answer, Asked

Form = Literal["general", "specific"]


class BioAsked(Asked):
    """One of the two questions of a row, and the knowledge that the model is shown with it."""

    form: Form
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
    consistency: int | None
    fluency: int | None
    relevance: int | None
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
