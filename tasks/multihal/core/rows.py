"""Rows of MultiHal, one model a stage; the last is the published table (paper §2, Appendix A, Table 6)."""

from typing import Literal

from pydantic import Field

from factmill.tasks.core.rows import Row, StrictModel

AnswerType = Literal["date", "rank", "numerical", "other"]
"""What kind of thing the answer is; the first three are looked for as values, `other` as items."""

Drop = Literal["pair_failed", "part_without_label", "part_in_no_words", "ends_alike", "not_selected", "same_words"]
"""Why a path is left out before scoring."""

TAGS = {"eng": "en", "deu": "de", "fra": "fr", "ita": "it", "spa": "es", "por": "pt"}
"""Language as published → Wikidata's tag, which translators are asked for too."""


class _Question(Row):
    """What a foundation says of a question, and what is published of it."""

    source_dataset: str
    """Foundation: halueval, truthfulqa, felm, halubench, shroom2024, defan, simpleqa."""
    domain: str
    """The foundation's own name of the topic; "N/A" where it has none."""
    licence: str
    """Licence of the row's file, where its content is known (SPDX id), or "none stated"."""
    input: str
    """The question."""
    output: str
    """The expected answer."""
    optional_output: list[str] = Field(default_factory=list)
    """Other answers that are right too; in a translated row those that the translator can translate."""
    incorrect_answers: list[str] = Field(default_factory=list)
    """Answers that are wrong; in a translated row those that the translator can translate."""
    context: list[str] = Field(default_factory=list)
    """Passages or addresses that the foundation gives with the question, in its own language, English."""


class FoundationQuestion(_Question):
    """A question of one of the seven foundations, as its reader leaves it (paper §2, Table 1)."""

    answer_type: AnswerType | None = None
    """As the foundation states it; null where it does not."""
    disputed_answers: list[str] = Field(default_factory=list)
    """Answers of united questions that agree with none of the right ones: taken neither for right nor for wrong."""
    source_name: str
    """File that the row stands in."""
    source_row: int
    """Number of the row in its file, from 1."""


class TypedQuestion(FoundationQuestion):
    """With the kind of its answer, and the value to look for where it is one."""

    looked_for: str | None
    """The answer as a value in canonical form (1952-03-11, 1952, 1234.5); null when it is looked for as an item."""
    looked_for_unit: str | None
    """QID of the unit of a number; null for any."""


class Link(StrictModel):
    """An item that a name in a question, an answer or a context may mean."""

    qid: str
    surface: str
    """The name or address as it stands in the text."""
    via: str
    """Linker that found it: labels, falcon, dbpedia or wikipedia."""
    rank: int
    """Place among the candidates of the surface, from 1."""
    redirected_from: str | None = None
    """QID that the linker gave, where it redirects to this one."""


class LinkedQuestion(TypedQuestion):
    """With the items that the question and the answer name (§2.2)."""

    subject_links: list[Link]
    """Items named in the question or by the addresses of its context."""
    object_links: list[Link]
    """Items named in the answers; none is needed where the answer is a value."""
    missed: list[str]
    """Names and addresses that no item was found for, with the cause."""


class Path(StrictModel):
    """A path of one or two hops between a subject and an object (core/paths.py)."""

    subject: str
    """QID."""
    object: str
    """QID, or the value that was looked for."""
    hops: int
    backward: bool
    """True when it runs from object to subject."""
    ids: list[str]
    """Items and properties from start to end, a value as it stands in the RDF."""
    labels: list[str]
    """The same in words; empty until labels are looked up."""
    statement: str | None
    """Id of the statement that holds the value; null for direct claims."""
    precision: int | None
    unit: str | None


class MinedQuestion(LinkedQuestion):
    """With its paths."""

    pairs: int
    """Number of subject-object pairs that were searched."""
    paths_in_all: int
    """Number of paths there are, before any cap."""
    paths: list[Path]


class ChosenPath(Path):
    """A path that goes to the judge for a score."""

    chosen_by: Literal["all", "judge", "chance"]


class SelectedQuestion(LinkedQuestion):
    """With at most ten paths (§2.3)."""

    pairs: int
    paths_in_all: int
    paths: list[ChosenPath]


class ScoredPath(TypedQuestion):
    """One path of a question, with the judge's score; the id is the question's with the path's number behind it."""

    question_id: str
    subjects: list[str]
    objects: list[str]
    responses: list[str]
    responses_formatted: list[str]
    path_statement: str | None
    """Id of the statement that holds the value at the end of the path; null for direct claims."""
    path_labels: list[str]
    chosen_by: Literal["all", "judge", "chance"]
    judged_by: str
    judged_score: int
    judge_call: str


class _PathIds(Row):
    path_id: str
    """Question and path, as the paper's ids are (tqa_gen_3_7); `id` is this with the language behind it."""
    question_id: str
    """The question that the path is of; the id without its number."""


class MultiHalRow(_Question, _PathIds):
    """One path of one question in one language, as published (Appendix A, Table 6); the ids are its first columns."""

    answer_type: AnswerType
    """Kind of the answer: date, rank or numerical, which are looked for as values, or other, for which items stand."""
    subjects: list[str]
    """QIDs found in the question."""
    objects: list[str]
    """QIDs found in the answer, or the value that was looked for."""
    responses: list[str]
    """All the ids of the path, with the statement that holds a value."""
    responses_formatted: list[str]
    """The ids of the path's items and properties, values as they are."""
    trip_labels: list[str]
    """The path in words."""
    part_sources: list[str]
    """Where each part of the path's words comes from: wikidata, translated, value or kept."""
    chosen_by: Literal["all", "judge", "chance"]
    """How it came among the ten that are scored: there were no more at all, the judge chose it, or it was drawn to fill up."""
    judged_by: str
    """Model that scored it; `scripted replies` are no language model's."""
    judged_score: int
    """From 1 to 5: how well the path bears the answer out; 4 and 5 are published unless the build was told otherwise."""
    language: str
    """eng, deu, fra, ita, spa or por; dates and numbers of questions and answers are written as CLDR has it, those of
    Portuguese as in Brazil. Paths have values as in English."""
    translated_by: str | None
    """Model that translated question and answers; null for English."""
    source_name: str
    """File of the foundation."""
    source_row: int
    """Number of the row in its file, from 1."""
    disputed_answers: list[str]
    """Answers of questions united with this one that agree with none of its own: taken neither for right nor for wrong."""


class DroppedPath(Row):
    """A path that was left out before scoring, or a pair whose paths could not be searched, and why."""

    question_id: str
    """The question that the path is of."""
    path_ids: list[str]
    """The ids of the path's items and properties."""
    reason: Drop
    """Why it was left out, as a code."""
    detail: str
    """The particulars."""
