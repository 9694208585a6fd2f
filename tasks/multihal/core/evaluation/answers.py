"""MultiHal's evaluation: rows of questions (with or without a path), predictions and scores (paper §3.1, Limitations)."""

import re
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from factmill.tasks.core.completions import CompletionFormat
from factmill.tasks.core.evaluation.answers import CommonestAnswerGuesser
from factmill.tasks.core.evaluation.rows import EvaluationPrediction, EvaluationQuestion
from factmill.tasks.multihal.core.rows import MultiHalRow

ANSWER_REPLY_FORM = CompletionFormat(
    label_pattern=re.compile(
        r"(?P<mark>[\"'“*_`]{0,3})(?:final )?(?:answer|antwort|réponse|risposta|respuesta|resposta)[\"'”*_`]{0,3}\s*[:：][\s*_]*",
        re.IGNORECASE,
    )
)
"""Form of a model's reply: the answer, optionally after a label such as "Answer:"."""


class MultiHalQuestion(EvaluationQuestion):
    """A question put to a model: alone (qa) or with one of its paths (kg_rag)."""

    language: str
    """Language of question and path."""
    source_dataset: str
    """Foundation of the question."""
    domain: str
    """Domain with its foundation: `defan (sports)`."""
    path: str
    """The path in words; empty without one."""
    accepted: list[str]
    """The expected answer, then other right answers."""
    judged_score: int | None
    """Score that the build's judge gave the path; null without a path."""
    paths: int
    """Number of the build's rows that this question represents: its paths in this language, or 1 with a path."""


class MultiHalPrediction(MultiHalQuestion, EvaluationPrediction):
    """A model's answer to a question."""


class MultiHalScoredPrediction(MultiHalPrediction):
    """An answer with its scores: a row of the published table `multihal_answers`."""

    semantic_score: float | None
    """Cosine with the nearest accepted answer, to two digits; null for an empty answer."""
    nearest: str
    """The accepted answer nearest to it."""
    encoder: str
    """Sentence encoder that gave the score."""
    entailment: float | None
    """Probability, to two digits, that the answer follows from the question with an accepted answer; the highest over all
    accepted answers. Null for an empty answer, or without an entailment model."""
    contradiction: float | None
    """Probability that the answer contradicts the question with that same accepted answer."""
    nli_model: str
    """Model that gave entailment and contradiction; empty without one."""
    consistency: float | None
    """Probability, to two digits, that the answer is consistent with the question and an accepted answer; the highest
    over all accepted answers. Null for an empty answer, or without a consistency model."""
    consistency_model: str
    """Model that gave `consistency`; empty without one."""


def make_question_without_path(rows: list[MultiHalRow]) -> MultiHalQuestion:
    """Make the question without a path; `rows`: all rows of the question in one language."""
    first = min(rows, key=lambda row: row.id)
    question_id = f"{first.question_id}_{first.language}"
    fields = {"id": f"qa/{question_id}", "question_id": question_id, "setting": "qa"}
    return make_kg_rag_question(first).replace(**fields, path="", judged_score=None, paths=len(rows))


def make_kg_rag_question(row: MultiHalRow) -> MultiHalQuestion:
    """Make a question with one of its paths."""
    return MultiHalQuestion(
        id=f"kg_rag/{row.id}",
        question_id=row.id,
        item=row.id,
        cluster=row.question_id,
        setting="kg_rag",
        question=row.input,
        language=row.language,
        source_dataset=row.source_dataset,
        domain=f"{row.source_dataset} ({row.domain})",
        path="; ".join(row.trip_labels),
        accepted=[row.output, *row.optional_output],
        judged_score=row.judged_score,
        paths=1,
    )


def guess_commonest_answers_by_question_id(rows: Iterable[MultiHalRow]) -> dict[tuple[str, str], str]:
    """Return (question id, language) → commonest answer to the foundation's other questions in that language."""
    sources_and_outputs = {(row.question_id, row.language): (row.source_dataset, row.output) for row in rows}
    golds = CommonestAnswerGuesser(
        ((source, language), output) for (_, language), (source, output) in sources_and_outputs.items()
    )
    return {place: golds.guess((source, place[1]), output) for place, (source, output) in sources_and_outputs.items()}


SCORE_DIGITS = 2
"""Digits of a score: cosines differ by 4e-7 between two CPUs, which two digits hide; the paper's tables have two."""


def score_semantic_similarity(
    answers: Sequence[str],
    accepted: Sequence[Sequence[str]],
    encoded_texts: Sequence[str],
    vectors: npt.NDArray[np.float32],
) -> tuple[npt.NDArray[np.float64], list[str]]:
    """Return each answer's cosine with its nearest accepted answer, and that accepted answer.

    The score is NaN if the answer or all accepted ones are empty. `encoded_texts`: all texts that occur; `vectors`: their
    unit vectors (len(encoded_texts) × dimensions).
    """
    row = {text: position for position, text in enumerate(encoded_texts)}
    scores = np.full(len(answers), np.nan)
    nearest = [""] * len(answers)
    wide = vectors.astype(np.float64)
    for at, (answer, golds) in enumerate(zip(answers, accepted, strict=True)):
        known = [gold for gold in golds if gold.strip()]
        if not answer.strip() or not known:
            continue
        cosines = np.round(wide[[row[gold] for gold in known]] @ wide[row[answer]], SCORE_DIGITS)
        best = int(np.argmax(cosines))
        scores[at], nearest[at] = cosines[best] + 0.0, known[best]
    return scores, nearest


Floats = npt.NDArray[np.float64]
PremiseAnswerPair = tuple[str, str]


def make_premise_answer_pairs(
    questions: Sequence[str], answers: Sequence[str], accepted: Sequence[Sequence[str]]
) -> list[list[PremiseAnswerPair]]:
    """Return each answer's pairs (question with one accepted answer, answer).

    An empty answer, or one without accepted answers, has no pairs.
    """
    return [
        [(f"{question} {gold}", answer) for gold in golds if gold.strip() and answer.strip()]
        for question, answer, golds in zip(questions, answers, accepted, strict=True)
    ]


def choose_best_pair_score_row_per_answer(pairs: Sequence[Sequence[PremiseAnswerPair]], scores: Floats) -> Floats:
    """Return each answer's scores (answers × kinds): those of its pair with the highest first score; NaN without pairs.

    `scores`: one row per pair, in the order of `pairs` (pairs × kinds of scores). Among equals the first pair counts.
    """
    kept = np.full((len(pairs), scores.shape[1]), np.nan)
    rounded, start = np.round(scores, SCORE_DIGITS), 0
    for at, row_pairs in enumerate(pairs):
        if row_pairs:
            found = rounded[start : start + len(row_pairs)]
            kept[at] = found[int(np.argmax(found[:, 0]))] + 0.0
            start += len(row_pairs)
    return kept
