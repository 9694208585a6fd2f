"""MultiHal's evaluation: questions in one language, with a path or without, what a model answered, and what pairs of texts that is scored by (paper §3.1, Limitations)."""

import re
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from factmill.tasks.core.evaluation.answers import CommonestAnswers
from factmill.tasks.core.evaluation.rows import Answer, Asked
from factmill.tasks.core.replies import Form
from factmill.tasks.multihal.core.rows import MultiHalRow

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
    """Of question and path."""
    source_dataset: str
    """Foundation that the question is from."""
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
    """Return (question id, language) → the commonest answer to the other questions of its foundation in that language."""
    said = {(row.question_id, row.language): (row.source_dataset, row.output) for row in rows}
    golds = CommonestAnswers(((source, language), output) for (_, language), (source, output) in said.items())
    return {place: golds.guess((source, place[1]), output) for place, (source, output) in said.items()}


DIGITS = 2
"""Of a score. Sentence vectors of two CPUs differ by 4e-7 in a cosine, which two digits hide; the paper's tables have two."""


def score_answers(
    answers: Sequence[str], accepted: Sequence[Sequence[str]], vectors: Sequence[str], encoded: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.float64], list[str]]:
    """Return the score of each answer, NaN where it or all that is accepted is empty, and the accepted one it is nearest to.

    `vectors`: texts, of which `encoded` has the vectors of length 1 (len(vectors) × dimensions); every text is among them.
    """
    row = {text: position for position, text in enumerate(vectors)}
    scores = np.full(len(answers), np.nan)
    nearest = [""] * len(answers)
    wide = encoded.astype(np.float64)
    for at, (answer, golds) in enumerate(zip(answers, accepted, strict=True)):
        known = [gold for gold in golds if gold.strip()]
        if not answer.strip() or not known:
            continue
        cosines = np.round(wide[[row[gold] for gold in known]] @ wide[row[answer]], DIGITS)
        best = int(np.argmax(cosines))
        scores[at], nearest[at] = cosines[best] + 0.0, known[best]
    return scores, nearest


Floats = npt.NDArray[np.float64]
Pair = tuple[str, str]


def pair_answers(
    questions: Sequence[str], answers: Sequence[str], accepted: Sequence[Sequence[str]]
) -> list[list[Pair]]:
    """Return the pairs of each answer: the question with one accepted answer, and what was answered.

    There are none where nothing was said, or nothing is accepted.
    """
    return [
        [(f"{question} {gold}", answer) for gold in golds if gold.strip() and answer.strip()]
        for question, answer, golds in zip(questions, answers, accepted, strict=True)
    ]


def keep_best(pairs: Sequence[Sequence[Pair]], scores: Floats) -> Floats:
    """Return the scores of each answer, NaN where it has no pairs: those of the pair whose first score is highest.

    `scores`: a row a pair, in the order of `pairs` (pairs × kinds of scores); the first such pair counts among equals.
    """
    kept = np.full((len(pairs), scores.shape[1]), np.nan)
    rounded, start = np.round(scores, DIGITS), 0
    for at, mine in enumerate(pairs):
        if mine:
            found = rounded[start : start + len(mine)]
            kept[at] = found[int(np.argmax(found[:, 0]))] + 0.0
            start += len(mine)
    return kept
