"""Rows of BioKaLMA, one model a stage; the last ones are the published tables (paper §2.2, Appendix A)."""

from typing import Literal

from factmill.tasks.core.authoring.citations import Piece
from factmill.tasks.core.rows import Row, StrictModel


class PersonPair(Row):
    """Two people and how they are related, as a file or the graph gives them (Appendix A.1)."""

    person: str
    """Name of the one whom the relation is told of."""
    relation: str
    """PID."""
    relation_label: str
    other: str
    """Name of the one who is the relation's value."""
    paragraph: str | None
    """Text about both; null where it is to be taken from their articles."""
    given: list[str]
    """QIDs of person and other, where the source knows them; else empty."""
    source_name: str
    source_row: int


class ResolvedPair(PersonPair):
    """With the items that the two names mean (Appendix A.2)."""

    person_qid: str
    other_qid: str
    person_candidates: int
    """How many items of the class bear the name."""
    other_candidates: int

    @property
    def names(self) -> dict[str, str]:
        """QID → name of the two, as the source writes it."""
        return {self.person_qid: self.person, self.other_qid: self.other}


class PooledPair(ResolvedPair):
    """With what is known of both (the "knowledge pool" of Appendix A.2)."""

    person_pool: list[Piece]
    other_pool: list[Piece]
    birth_years: list[int]
    """Negative before the common era."""
    countries: list[str]
    """QIDs of countries of citizenship; counted in the report, no knowledge of the pool."""
    cities: list[str]
    """QIDs of places of birth and death."""
    occupations: list[str]
    """QIDs."""


class DescribedPair(PooledPair):
    """With the paragraph that evolution begins with (Appendix A.3)."""

    text: str
    text_source: Literal["file", "article", "fact"]
    """fact: one sentence that tells the relation, where no article names both."""
    text_pages: list[str]
    """Title and revision of the article that the paragraph is from."""
    licence: str
    """Licence of the paragraph (SPDX id, or "none stated")."""


class RelationCount(Row):
    """In how many people's graphs a relation occurs; the id is its PID (Equation 1)."""

    property: str
    """Label of the relation."""
    graphs: int
    """Graphs that hold the relation."""
    graphs_in_all: int
    """Twice the number of pairs."""


class CountedPair(DescribedPair):
    """With the counts of its relations over the whole build."""

    relation_counts: list[RelationCount]


class Candidate(StrictModel):
    """A relation of one person that was weighed in a round, with its scores (Equation 1)."""

    qid: str
    pid: str
    value: str
    """The values of the relation that the set lacked, with semicolons between."""
    specificity: float
    """log(2N / Count of the relation)."""
    is_weighed: bool
    """True where the perplexity was asked for; it is not where it cannot change which piece is chosen."""
    perplexity: float | None
    """Of the paragraph with the piece's sentence; null where it was not asked for, or the model could not weigh the text
    or held it impossible."""
    coherence: float | None
    """1/perplexity beside that of the round's other candidates (parameter `coherence`); null unless all were weighed."""
    score: float | None
    """Null where it rests on a coherence that is not known."""


class Round(StrictModel):
    """One round of evolution."""

    number: int
    """1 annotates, the others extend."""
    chosen: list[Piece]
    """Pieces that the paragraph gained; after the first round all of one relation."""
    sentence: str
    """What was added; in round 1 the annotated paragraph."""
    candidates: list[Candidate]
    """Those that were tried, in turn, the chosen one last; then by score, or by specificity where no score is known.
    Empty in round 1."""
    refused: list[str]
    """Pieces that the model did not bring in, and why."""
    removed_citations: int
    """Citations of round 1 that are in no pool."""
    unstated_citations: int
    """Pieces cited in round 1 for a text that does not say their value."""
    call: str
    """Key of the recorded call that made the text."""


class EvolvingPair(CountedPair):
    """With the rounds so far."""

    rounds: list[Round]
    minimum_knowledge: list[Piece]
    paragraph_now: str
    """The paragraph after the last of the rounds."""


class BiographyRow(Row):
    """A pair of questions with the knowledge it takes to answer them, as published (§2.2, Table 1)."""

    people: list[str]
    """QIDs of person and other."""
    names: list[str]
    """Their names, as the source writes them."""
    relation: str
    """PID of the relation that joins them: the other is its value."""
    relation_label: str
    """Label of the relation."""
    paragraph: str
    """The text that answers both questions."""
    general_question: str
    """A short question about both."""
    specific_question: str
    """A longer question that names every matter the paragraph tells."""
    minimum_knowledge: list[Piece]
    """What the questions ask for: pieces that the paragraph was given, in order, of each property all values that the graph
    holds. Only where the value is the other of the two may the graph hold more."""
    knowledge_graph: list[Piece]
    """Everything that is known of both people."""
    text_source: Literal["file", "article", "fact"]
    """Where the first round's text is from: the source file, an article, or a sentence that tells the relation."""
    text_pages: list[str]
    """Title and revision of that article."""
    licence: str
    """Licence of that text (SPDX id, or "none stated")."""
    author: str
    """Model that wrote the paragraph and the questions."""
    scorer: str
    """Language model whose perplexities chose the pieces."""
    source_name: str
    """File that the pair stands in, or the Wikidata that it was drawn from."""
    source_row: int
    """Number of the row in its file, or of the fact among those drawn."""
    asked_share: float | None
    """Share of the minimum knowledge that the specific question asks for, as far as words tell; null in builds of before."""


class RoundRow(Round):
    """One round of one pair, with all candidates and their scores."""

    id: str
    """The pair's id with the number of the round behind it."""
    row_id: str
    """Id of the pair."""


class CandidateRow(Row):
    """An item that bears the name of a person, and whether the relation joins it."""

    row_id: str
    """Id of the pair."""
    role: Literal["person", "other"]
    """Whose name it is: the one that the relation is of, or the other, its value."""
    name: str
    """The name that was looked up."""
    qid: str
    """An item that bears it."""
    via: Literal["label", "alias"]
    """Whether it is the item's label or one of its aliases."""
    is_of_class: bool
    """True for a human (or what else the build is about)."""
    joined_to: list[str]
    """Bearers of the other name that the relation joins it to."""
