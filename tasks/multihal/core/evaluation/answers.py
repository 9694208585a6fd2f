"""Rows of MultiHal's evaluation: a question in one language, with a path or without, and what a model answered."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from tasks.core.evaluation.rows import Answer, Asked
from tasks.core.replies import Form
from tasks.multihal.core.rows import MultiHalRow

ANSWER = Form(
    label=re.compile(
        r"(?P<mark>[\"'“*_`]{0,3})(?:final )?(?:answer|antwort|réponse|risposta|respuesta|resposta)[\"'”*_`]{0,3}\s*[:：][\s*_]*",
        re.IGNORECASE,
    )
)
"""What a model says: its answer, behind the word for it or not."""


class MultiHalAsked(Asked):
    """A question as a model is asked it: alone (qa), or with one of its paths (kg_rag)."""

    language: str
    source_dataset: str
    domain: str
    """With its foundation: `defan (sports)`."""
    path: str
    """The path in words; empty where there is none."""
    accepted: list[str]
    """The expected answer, then others that are right too."""
    judged_score: int | None
    """What the build's judge gave the path; null without one."""
    paths: int
    """Rows of the measured build that this question stands for: its paths in this language; 1 with a path."""


class MultiHalAnswer(MultiHalAsked, Answer):
    """What the model answered, with its score."""


class ScoredMultiHal(MultiHalAnswer):
    """A row of the published table `multihal_answers`."""

    semantic_score: float | None
    """Cosine with the nearest accepted answer, to two digits; null where nothing was said."""
    nearest: str
    """The accepted answer that it is nearest to."""
    encoder: str
    """Sentence encoder of the score."""
    entailment: float | None
    """Probability, to two digits, that the answer follows from the question with an accepted answer: of the accepted one
    for which it is highest; null where nothing was said, or no model of entailment was given."""
    contradiction: float | None
    """Probability that the answer contradicts the question with that accepted answer."""
    nli_model: str
    """Model of both; empty where none was given."""
    consistency: float | None
    """Probability, to two digits, that the answer is consistent with the question and an accepted answer: the highest;
    null where nothing was said, or no model of consistency was given."""
    consistency_model: str
    """Model of that; empty where none was given."""


def ask_alone(rows: list[MultiHalRow]) -> MultiHalAsked:
    """Return a question without a path; `rows`: all of it in one language."""
    first = min(rows, key=lambda row: row.id)
    question_id = f"{first.question_id}_{first.language}"
    return _ask(first, "qa", question_id, path="", judged_score=None, paths=len(rows))


def ask_with_path(row: MultiHalRow) -> MultiHalAsked:
    """Return a question with one of its paths."""
    return _ask(row, "kg_rag", row.id, path="; ".join(row.trip_labels), judged_score=row.judged_score, paths=1)


def _ask(
    row: MultiHalRow, setting: str, question_id: str, path: str, judged_score: int | None, paths: int
) -> MultiHalAsked:
    return MultiHalAsked(
        id=f"{setting}/{question_id}",
        question_id=question_id,
        item=row.id,
        cluster=row.question_id,
        setting=setting,
        question=row.input,
        language=row.language,
        source_dataset=row.source_dataset,
        domain=f"{row.source_dataset} ({row.domain})",
        path=path,
        accepted=[row.output, *row.optional_output],
        judged_score=judged_score,
        paths=paths,
    )


def guess_answers(rows: Iterable[MultiHalRow]) -> dict[tuple[str, str], str]:
    """Return (question id, language) → the commonest answer to the other questions of its foundation in that language.

    Ties by text; empty where there is none.
    """
    said = {(row.question_id, row.language): (row.source_dataset, row.output) for row in rows}
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for (_, language), (source, output) in said.items():
        counts[source, language][output] += 1
    ranked = {kind: sorted(found, key=lambda text: (-found[text], text)) for kind, found in counts.items()}
    guesses = {}
    for (question_id, language), (source, output) in said.items():
        found, texts = counts[source, language], ranked[source, language]
        foremost = next((text for text in texts if text != output), "")
        own = (-(found[output] - 1), output)
        best = min((-found[foremost], foremost), own) if foremost else own
        guesses[question_id, language] = best[1] if best[0] else ""
    return guesses
