"""Rows of GRANOLA-EQ, one model per stage; the last two are published tables (paper §3, Appendix B)."""

from typing import Literal

from factmill.tasks.core.rows import NO_LICENCE_STATED, Row


class SourceQuestion(Row):
    """A question with one gold answer, as read from the source."""

    relation: str
    """PID of the relation that the question asks for."""
    question: str
    answer: str
    """The one gold answer."""
    source_name: str
    """Source file, or the identity of the Wikidata that the fact was drawn from."""
    source_row: int
    """Number of the row in the source, from 1."""
    source_licence: str
    """Licence of the source file, or of the Wikidata (SPDX id, or "none stated")."""
    subject_qid: str | None = None
    """The item that the question is about, where the source names it (a Wikidata fact)."""
    value_qid: str | None = None
    """The answer's item, where the source names it."""
    stated_subject: str | None = None
    """Name of the entity that the question is about, where a table of the user's own has a column for it."""


class QuestionWithExtractedEntityName(SourceQuestion):
    """A question with its entity, extracted with the relation's template."""

    question_entity: str
    """Name at [X] in the relation's template."""


class LinkedQuestion(QuestionWithExtractedEntityName):
    """A question with a QID for both entities."""

    question_entity_qid: str
    answer_entity_qid: str
    question_entity_candidates: int
    """Number of items that bear the name of the question entity."""
    answer_entity_candidates: int
    """Number of items that bear the name of the answer."""
    answer_rivals: list[str]
    """QIDs of the other items that bear the name of the answer."""
    fact_in_graph: bool | None
    other_values: list[str]
    """Names of the graph's values where fact_in_graph is false."""


class DescribedQuestion(LinkedQuestion):
    """A question with the English descriptions of both entities, and its review decisions."""

    question_entity_description: str
    answer_entity_description: str
    question_entity_description_made: bool
    answer_entity_description_made: bool
    question_entity_title: str | None
    answer_entity_title: str | None
    question_entity_modified: str | None
    """When the item was last changed, or the date of the dump; null when the source does not say."""
    answer_entity_modified: str | None
    reviewed_by: list[str]


class QuestionWithPopularity(DescribedQuestion):
    """A question with the page views of both entities' English articles."""

    question_entity_popularity: int | None
    """Page views over the last 12 full months before the epoch; null when there is no article."""
    answer_entity_popularity: int | None


class QuestionWithLevels(QuestionWithPopularity):
    """A question with answers from fine to coarse, as the author model wrote them."""

    levels: list[str]
    author: str
    """Model that wrote the answers; `scripted replies` are no language model's."""
    author_call: str
    """Key of the recorded call."""


class QuestionWithDescriptionScores(QuestionWithLevels):
    """A question with the shares of samples that call a description inconsistent with it."""

    question_description_score: float
    answer_description_score: float
    judge: str


class GranolaRow(Row):
    """A question about an entity, with its items in Wikidata and its answers from fine to coarse, as published (§3)."""

    relation: str
    """PID of the relation that the question asks for."""
    question: str
    """The question, as in the source; of questions made from facts, from the relation's template."""
    question_entity: str
    """Name of the entity that the question is about."""
    question_entity_qid: str
    """The item that was chosen for that name."""
    question_entity_description: str
    """English description of that item."""
    question_entity_popularity: int | None
    """Page views of the English article over the last 12 full months before the epoch; null when there is none."""
    answer: str
    """The gold answer of the source."""
    answer_entity_qid: str
    """The item that was chosen for the gold answer's name."""
    answer_entity_description: str
    """English description of that item."""
    answer_entity_popularity: int | None
    """Page views of the English article over the last 12 full months before the epoch; null when there is none."""
    score_for_potential_error: float
    """The larger of the two description scores (0: surely the right items, 1: surely not)."""
    question_description_score: float
    """Share of samples that call the question entity's description inconsistent with the question."""
    answer_description_score: float
    """Share of samples that call the answer entity's description inconsistent with the question."""
    granola_answers: list[str]
    """Answers from fine to coarse; the first is the gold answer."""
    num_granola_answers: int
    """Number of answers in granola_answers."""
    author: str
    """Model that wrote the answers; `scripted replies` are no language model's."""
    judge: str
    """Model that scored the descriptions."""
    question_entity_candidates: int
    """Number of items that bear the name of the question entity; 1 where the source names the item."""
    answer_entity_candidates: int
    """Number of items that bear the name of the answer; 1 where the source names the item."""
    question_entity_modified: str | None
    """When the item was last changed, or the date of the dump; null when the source does not say."""
    answer_entity_modified: str | None
    """The same for the answer's item."""
    source_name: str
    """Source file, or the identity of the Wikidata that the fact was drawn from."""
    source_row: int
    """Number of the row in the source, from 1."""
    source_licence: str = NO_LICENCE_STATED
    """Licence of the source file, or of the Wikidata (SPDX id, or "none stated")."""
    author_call: str
    """Key of the recorded call that gave the answers."""
    fact_in_graph: bool | None
    """True where Wikidata has the relation between the two items; false where it has only other values, so that the row
    contradicts it; null where it has none."""
    question_entity_description_made: bool
    """True where the item has no English description: one was made from the labels of its classes and country."""
    answer_entity_description_made: bool
    """The same for the answer's item."""


class NameBearingItemCandidateRow(Row):
    """An item that bears the name of a question entity or of an answer, and whether it was chosen."""

    row_id: str
    """Id of the question."""
    role: Literal["question", "answer"]
    """Whose name the item bears: the question entity's or the answer's."""
    name: str
    """The name that was looked up."""
    qid: str
    """An item that bears it."""
    via: Literal["label", "alias"]
    """Whether it is the item's label or one of its aliases."""
    chosen: bool
    """True for the item that the build uses."""
    linked: bool | None
    """True when the graph has the relation between this item and a candidate for the other name; null when it has no
    value of the relation for any item with the question entity's name."""
