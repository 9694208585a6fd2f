"""What an evaluation on MultiHal asks: its parameters, and every question in every language, alone and with its paths (paper §3.1)."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Annotated, Literal

import pyarrow as pa

from tasks.assets import load_prompt
from tasks.core.prompts import Ask, fill_in
from tasks.core.rows import rows_from_arrow
from tasks.evaluation.record import EvaluationInputs, EvaluationParams, draw_clusters
from tasks.multihal.core.answers import MultiHalAsked, ask_alone, ask_with_path
from tasks.multihal.core.rows import MultiHalRow
from tasks.options import Option

QA, KG_RAG = "multihal/answer_qa", "multihal/answer_kg_rag"


class MultiHalEvaluationParams(EvaluationParams):
    """What an evaluation on MultiHal can be told."""

    setting: Annotated[tuple[Literal["qa", "kg_rag"], ...], Option("--setting", "NAME")] = ()
    """Only this setting (repeatable). Default: both, as in the paper."""
    languages: Annotated[tuple[Literal["eng", "deu", "fra", "ita", "spa", "por"], ...], Option("--language")] = ()
    """Only questions in this language (repeatable). Default: all that the build has."""


class MultiHalEvaluationInputs(EvaluationInputs):
    """What the steps of MultiHal's evaluation read."""

    params: MultiHalEvaluationParams
    embedder: dict[str, str]
    """Name and digest of the sentence encoder."""


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


def fill_prompt(asked: MultiHalAsked, _: object = None) -> Ask:
    """Return a question as its setting's prompt (Appendix F, Listings 10 and 11)."""
    if asked.setting == "kg_rag":
        return fill_in(load_prompt(KG_RAG), question=asked.question, path=asked.path)
    return fill_in(load_prompt(QA), question=asked.question)
