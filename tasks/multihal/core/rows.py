"""Row models of MultiHal, one per stage, and of its published tables (paper §2, Appendix A, Table 6)."""

from typing import Literal

from pydantic import Field

from factmill.tasks.core.rows import Row, StrictModel

AnswerType = Literal["date", "rank", "numerical", "other"]
"""Type of an answer: the first three are searched for as values, `other` as items."""

PathDropReason = Literal[
    "pair_failed", "part_without_label", "part_in_no_words", "ends_alike", "not_selected", "same_words"
]
"""Why a path is dropped before scoring."""

SelectionMethod = Literal["all", "judge", "chance"]
"""`all`: there were ten paths or fewer; `judge`: both passes of a round picked it; `chance`: drawn to fill up."""

LANGUAGE_TAGS = {"eng": "en", "deu": "de", "fra": "fr", "ita": "it", "spa": "es", "por": "pt"}
"""Published language code → Wikidata's language tag, which translators take too."""
LANGUAGE_NAMES = {
    "eng": "English",
    "deu": "German",
    "fra": "French",
    "ita": "Italian",
    "spa": "Spanish",
    "por": "Portuguese",
}


class _QuestionColumns(Row):
    """Columns that a question has from its foundation to the published table."""

    source_dataset: str
    """Foundation: halueval, truthfulqa, felm, halubench, shroom2024, defan, simpleqa; or the name of an own source."""
    domain: str
    """The foundation's own name of the topic; "N/A" where it has none."""
    licence: str
    """Licence of the row's file, where its content is known or the user states it (SPDX id), or "none stated"."""
    input: str
    """The question."""
    output: str
    """The expected answer."""
    optional_output: list[str] = Field(default_factory=list)
    """Other right answers; in a translated row, only those that the translator can translate."""
    incorrect_answers: list[str] = Field(default_factory=list)
    """Wrong answers; in a translated row, only those that the translator can translate."""
    context: list[str] = Field(default_factory=list)
    """Passages or addresses that the foundation gives with the question, in its own language, English."""


class FoundationQuestion(_QuestionColumns):
    """A question as read from one of the seven foundations (paper §2, Table 1)."""

    answer_type: AnswerType | None = None
    """As stated by the foundation; null if not stated."""
    disputed_answers: list[str] = Field(default_factory=list)
    """Answers of merged questions that agree with none of the right ones; they count neither as right nor as wrong."""
    source_name: str
    """File that holds the row."""
    source_row: int
    """Number of the row in its file, from 1."""


class AnswerTypedQuestion(FoundationQuestion):
    """A question with its answer's type and, where the answer is a value, the value to look for."""

    looked_for: str | None
    """The answer as a value in canonical form (1952-03-11, 1952, 1234.5); null if it is searched for as items."""
    looked_for_unit: str | None
    """QID of a number's unit; null for any unit."""


class EntityLink(StrictModel):
    """An item that a name in a question, an answer or a context may mean."""

    qid: str
    surface: str
    """The name or address as written in the text."""
    via: str
    """Linker that found it: labels, falcon, dbpedia or wikipedia."""
    rank: int
    """Rank among the candidates of the surface, from 1."""
    redirected_from: str | None = None
    """QID returned by the linker, if it redirects to this one."""


class EntityLinkedQuestion(AnswerTypedQuestion):
    """A question with the items that question and answer name (§2.2)."""

    subject_links: list[EntityLink]
    """Items named in the question or by the addresses of its context."""
    object_links: list[EntityLink]
    """Items named in the answers; may be empty where the answer is a value."""
    missed: list[str]
    """Names and addresses without an item, each with the cause."""


class WikidataPath(StrictModel):
    """A path of one or two hops between a subject and an object (core/wikidata_paths.py)."""

    subject: str
    """QID."""
    object: str
    """QID, or the value searched for."""
    hops: int
    backward: bool
    """True if it runs from object to subject."""
    ids: list[str]
    """Items and properties from start to end; a value as written in the RDF."""
    labels: list[str]
    """The same in words; empty until labels are looked up."""
    statement: str | None
    """Id of the statement that holds the value; null for direct claims."""
    precision: int | None
    unit: str | None


class QuestionWithPaths(EntityLinkedQuestion):
    """A question with its paths."""

    pairs: int
    """Number of subject-object pairs searched."""
    paths_in_all: int
    """Number of existing paths, before any cap."""
    paths: list[WikidataPath]


class PathSelectedForScoring(WikidataPath):
    """A path selected for scoring by the judge."""

    chosen_by: SelectionMethod


class QuestionWithSelectedPaths(EntityLinkedQuestion):
    """A question with at most ten selected paths (§2.3)."""

    pairs: int
    paths_in_all: int
    paths: list[PathSelectedForScoring]


class ScoredPath(AnswerTypedQuestion):
    """One path of a question, with the judge's score; the id is the question's id followed by the path's number."""

    question_id: str
    subjects: list[str]
    objects: list[str]
    responses: list[str]
    responses_formatted: list[str]
    path_statement: str | None
    """Id of the statement that holds the value at the end of the path; null for direct claims."""
    path_labels: list[str]
    chosen_by: SelectionMethod
    judged_by: str
    judged_score: int
    judge_call: str


class _PathAndQuestionIdColumns(Row):
    path_id: str
    """Id of question and path, in the paper's form (tqa_gen_3_7); `id` is this followed by the language."""
    question_id: str
    """Id of the path's question: `path_id` without the path's number."""


class MultiHalRow(_QuestionColumns, _PathAndQuestionIdColumns):
    """One path of one question in one language, as published (Appendix A, Table 6); ids are the first columns."""

    answer_type: AnswerType
    """Type of the answer: date, rank or numerical (searched for as values) or other (searched for as items)."""
    subjects: list[str]
    """QIDs found in the question."""
    objects: list[str]
    """QIDs found in the answer, or the value searched for."""
    responses: list[str]
    """All ids of the path, including the statement that holds a value."""
    responses_formatted: list[str]
    """Ids of the path's items and properties, and its value unchanged."""
    trip_labels: list[str]
    """The path in words."""
    part_sources: list[str]
    """Origin of each part of `trip_labels`: wikidata, translated, value or kept."""
    chosen_by: SelectionMethod
    """How the path became one of the ten scored: all (no more existed), judge (chosen) or chance (drawn to fill up)."""
    judged_by: str
    """Model that scored the path; `scripted replies` is not a language model."""
    judged_score: int
    """From 1 to 5: how well the path supports the answer; by default only paths with 4 or 5 are published."""
    language: str
    """eng, deu, fra, ita, spa or por. Dates and numbers in questions and answers follow CLDR, Portuguese ones as in
    Brazil; values in paths are written as in English."""
    translated_by: str | None
    """Model that translated question and answers; null for English."""
    source_name: str
    """File of the foundation."""
    source_row: int
    """Number of the row in its file, from 1."""
    disputed_answers: list[str]
    """Answers of merged questions that agree with none of this row's own; they count neither as right nor as wrong."""


class DroppedPath(Row):
    """A path dropped before scoring, or a pair whose search failed, with the reason."""

    question_id: str
    """Id of the path's question."""
    path_ids: list[str]
    """Ids of the path's items and properties."""
    reason: PathDropReason
    """Drop reason, as a code."""
    detail: str
    """Details of the reason."""


def make_dropped_path(row_id: str, place: str, ids: list[str], reason: PathDropReason, detail: str) -> DroppedPath:
    """Make the row of a dropped path; `place`: stage and number of the path within the question."""
    return DroppedPath(id=f"{row_id}/{place}", question_id=row_id, path_ids=ids, reason=reason, detail=detail)
