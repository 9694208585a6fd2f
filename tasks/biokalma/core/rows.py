"""Rows of BioKaLMA, one model per stage; the last ones are the published tables (paper §2.2, Appendix A)."""

from typing import Literal

from factmill.tasks.core.authoring.knowledge_pieces import PersonKnowledgePiece
from factmill.tasks.core.rows import Row, StrictModel


class PersonPair(Row):
    """Two people and the relation between them, as a file or the graph gives them (Appendix A.1)."""

    person: str
    """Name of the relation's subject."""
    relation: str
    """PID."""
    relation_label: str
    other: str
    """Name of the relation's value."""
    paragraph: str | None
    """Text about both people; null where it comes from their articles."""
    given: list[str]
    """QIDs of person and other, where the source knows them; else empty."""
    source_name: str
    source_row: int


class ResolvedPair(PersonPair):
    """A pair with the items that its names mean (Appendix A.2)."""

    person_qid: str
    other_qid: str
    person_candidates: int
    """Number of items of the class that bear the name."""
    other_candidates: int

    @property
    def names(self) -> dict[str, str]:
        """QID → name of the two people, as the source writes it."""
        return {self.person_qid: self.person, self.other_qid: self.other}


class PairWithKnowledgePools(ResolvedPair):
    """A pair with the knowledge about both people (the "knowledge pool" of Appendix A.2)."""

    person_pool: list[PersonKnowledgePiece]
    other_pool: list[PersonKnowledgePiece]
    birth_years: list[int]
    """Negative before the common era."""
    countries: list[str]
    """QIDs of countries of citizenship; the report counts them, the pool does not use them."""
    cities: list[str]
    """QIDs of places of birth and death."""
    occupations: list[str]
    """QIDs."""

    @property
    def pool(self) -> list[PersonKnowledgePiece]:
        """Both people's knowledge."""
        return [*self.person_pool, *self.other_pool]


class PairWithInitialParagraph(PairWithKnowledgePools):
    """A pair with the paragraph from which evolution starts (Appendix A.3)."""

    text: str
    text_source: Literal["file", "article", "fact"]
    """fact: one sentence that states the relation, where no article names both."""
    text_pages: list[str]
    """Title and revision of the paragraph's article."""
    licence: str
    """Licence of the paragraph (SPDX id, or "none stated")."""


class RelationWithPersonGraphCount(Row):
    """Number of people's graphs in which a relation occurs; the id is its PID (Equation 1)."""

    property: str
    """Label of the relation."""
    graphs: int
    """Graphs with the relation."""
    graphs_in_all: int
    """All graphs: twice the number of pairs."""


class PairWithRelationCounts(PairWithInitialParagraph):
    """A pair with the counts of its relations over the whole build."""

    relation_counts: list[RelationWithPersonGraphCount]


class ScoredRelationOfPerson(StrictModel):
    """A relation of one person as a candidate of a round, with its scores (Equation 1)."""

    qid: str
    pid: str
    value: str
    """The values of the relation that the set lacked, separated by semicolons."""
    specificity: float
    """log(2N / Count of the relation)."""
    is_weighed: bool
    """True where the perplexity was requested; it is not where it cannot change the choice."""
    perplexity: float | None
    """Perplexity of the paragraph with the piece's sentence; null where it was not requested, or the model could not
    score the text or found it impossible."""
    coherence: float | None
    """1/perplexity relative to the round's other candidates (parameter `coherence`); null unless all perplexities were
    requested."""
    score: float | None
    """Weighted sum of specificity and coherence; null where it needs an unknown coherence."""


class ParagraphEvolutionRound(StrictModel):
    """One round of evolution."""

    number: int
    """Number of the round: 1 annotates, the others extend."""
    chosen: list[PersonKnowledgePiece]
    """Pieces that the paragraph gained; after round 1 all of one relation."""
    sentence: str
    """The added sentence; in round 1 the annotated paragraph."""
    candidates: list[ScoredRelationOfPerson]
    """Candidates: those tried, in order, the chosen one last; then by score, or by specificity where no score is known.
    Empty in round 1."""
    refused: list[str]
    """Pieces that the model failed to add, and why."""
    removed_citations: int
    """Citations of round 1 that are in no pool."""
    unstated_citations: int
    """Pieces cited in round 1 whose value the text does not state."""
    call: str
    """Key of the recorded call that produced the text."""


class PairWithEvolutionRounds(PairWithRelationCounts):
    """A pair with its rounds so far."""

    rounds: list[ParagraphEvolutionRound]
    minimum_knowledge: list[PersonKnowledgePiece]
    paragraph_now: str
    """The paragraph after the last round."""


class BiokalmaRow(Row):
    """A pair of questions with the knowledge needed to answer them, as published (§2.2, Table 1)."""

    people: list[str]
    """QIDs of the two people."""
    names: list[str]
    """Names of the two people, as the source writes them."""
    relation: str
    """PID of the relation that joins them; the second person is its value."""
    relation_label: str
    """Label of the relation."""
    paragraph: str
    """The text that answers both questions."""
    general_question: str
    """A short question about both."""
    specific_question: str
    """A longer question about every matter that the paragraph covers."""
    minimum_knowledge: list[PersonKnowledgePiece]
    """Pieces that the questions ask for, in the order in which the paragraph gained them, with all values that the
    graph has of each property. The graph may have more only where the value is the other person."""
    knowledge_graph: list[PersonKnowledgePiece]
    """All knowledge about both people."""
    text_source: Literal["file", "article", "fact"]
    """Source of the first round's text: the source file, an article, or a sentence that states the relation."""
    text_pages: list[str]
    """Title and revision of that article."""
    licence: str
    """Licence of that text (SPDX id, or "none stated")."""
    author: str
    """Model that wrote the paragraph and the questions."""
    scorer: str
    """Language model whose perplexities chose the pieces."""
    source_name: str
    """File that the pair is from, or the identity of the Wikidata that it was drawn from."""
    source_row: int
    """Number of the row in its file, or of the fact among those drawn."""
    asked_share: float | None
    """Share of the minimum knowledge that the specific question asks for, estimated by words; null in older builds."""


class EvolutionRoundRow(ParagraphEvolutionRound):
    """One round of one pair, with all candidates and their scores."""

    id: str
    """The pair's id, followed by the number of the round."""
    row_id: str
    """Id of the pair."""


class NameBearingPersonCandidateRow(Row):
    """An item that bears a person's name, and whether the relation joins it to the other."""

    row_id: str
    """Id of the pair."""
    role: Literal["person", "other"]
    """Whose name it is: the relation's subject (person) or its value (other)."""
    name: str
    """The name that was looked up."""
    qid: str
    """An item that bears it."""
    via: Literal["label", "alias"]
    """Whether it is the item's label or one of its aliases."""
    is_of_class: bool
    """True for an item of the build's class, by default human."""
    joined_to: list[str]
    """Bearers of the other name to which the relation joins it."""
