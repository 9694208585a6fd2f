"""What an evaluation on MultiHal asks: its parameters, and every question in every language, alone and with its paths (paper §3.1)."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import Field

from tasks.assets import load_prompt
from tasks.core.prompts import Ask, fill_in
from tasks.core.rows import rows_from_arrow
from tasks.evaluation.record import EvaluationInputs, EvaluationParams, draw_clusters
from tasks.models.cross_encoder import CONSISTENT, CONTRADICTION, ENTAILMENT
from tasks.multihal.core.evaluation import answers
from tasks.multihal.core.evaluation.answers import MultiHalAsked, ask_alone, ask_with_path
from tasks.multihal.core.rows import MultiHalRow
from tasks.options import Option

QA, KG_RAG = "multihal/answer_qa", "multihal/answer_kg_rag"
PAIRED = {
    "nli": {"entailment": ENTAILMENT, "contradiction": CONTRADICTION},
    "consistency": {"consistency": CONSISTENT},
}
"""Option that names a cross-encoder → each metric that it gives → what the label for it may be called."""


class MultiHalEvaluationParams(EvaluationParams):
    """What an evaluation on MultiHal can be told."""

    setting: Annotated[tuple[Literal["qa", "kg_rag"], ...], Option("--setting", "NAME")] = ()
    """Only this setting (repeatable). Default: both, as in the paper."""
    languages: Annotated[tuple[Literal["eng", "deu", "fra", "ita", "spa", "por"], ...], Option("--language")] = ()
    """Only questions in this language (repeatable). Default: all that the build has."""
    nli: Annotated[str | None, Option(metavar="NAME")] = None
    """Also score entailment and contradiction (question with gold answer ⇒ answer) by this cross-encoder of `factmill models list`, which must know the languages that are asked in."""
    consistency: Annotated[str | None, Option(metavar="NAME")] = None
    """Also score how consistent answers are with the gold ones by this cross-encoder, of one score or with a label for it."""


class MultiHalEvaluationInputs(EvaluationInputs):
    """What the steps of MultiHal's evaluation read."""

    params: MultiHalEvaluationParams
    embedder: dict[str, str] = Field(default={})
    """Name and digest of the sentence encoder."""
    nli: dict[str, str] | None = None
    """Name and digest of the model of entailment; None: that is not scored."""
    consistency: dict[str, str] | None = None
    """Name and digest of the model of consistency; None: that is not scored."""


def tell_skipped(params: MultiHalEvaluationParams) -> list[str]:
    """Return a sentence on each kind of score for which no model was given."""
    return [
        f"no scores of {' and '.join(kinds)}: --{option} names no cross-encoder (factmill models add cross-encoder --help)"
        for option, kinds in PAIRED.items()
        if getattr(params, option) is None
    ]


def list_questions(rows: pa.Table, inputs: MultiHalEvaluationInputs) -> Iterator[MultiHalAsked]:
    """Yield every question in every setting and language: alone once, with each of its paths."""
    read = rows_from_arrow(MultiHalRow, rows)
    drawn = draw_clusters([row.question_id for row in read], inputs.params)
    wanted = inputs.params.languages
    kept = [row for row in read if row.question_id in drawn and (not wanted or row.language in wanted)]
    for setting in inputs.settings:
        yield from map(ask_with_path, kept) if setting == "kg_rag" else _ask_once(kept)


def _ask_once(rows: Sequence[MultiHalRow]) -> Iterator[MultiHalAsked]:
    key: Callable[[MultiHalRow], tuple[str, str]] = lambda row: (row.question_id, row.language)  # noqa: E731
    return (ask_alone(list(mine)) for _, mine in groupby(sorted(rows, key=key), key))


def guess_answers(rows: pa.Table) -> Callable[[MultiHalAsked], str]:
    """Return what the built-in guesser says to a question; `rows`: of the measured build."""
    guesses = answers.guess_answers(rows_from_arrow(MultiHalRow, rows))
    return lambda asked: guesses[asked.cluster, asked.language]


def fill_prompt(asked: MultiHalAsked, _: object = None) -> Ask:
    """Return a question as its setting's prompt (Appendix F, Listings 10 and 11)."""
    if asked.setting == "kg_rag":
        return fill_in(load_prompt(KG_RAG), question=asked.question, path=asked.path)
    return fill_in(load_prompt(QA), question=asked.question)
