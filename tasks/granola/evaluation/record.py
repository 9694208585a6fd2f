"""GRANOLA-EQ's `Evaluation` object, its inputs and the scoring of answers (paper §2.2, §5)."""

from collections.abc import Iterator

import pyarrow as pa

from factmill.tasks.core.evaluation.answers import read_answer
from factmill.tasks.core.evaluation.rows import EvaluationMetric, Score
from factmill.tasks.core.measures.metrics import Metric
from factmill.tasks.engine.benchmark import Assets, Locked
from factmill.tasks.engine.naming.identities import embedder_identity
from factmill.tasks.evaluation.record import Evaluation, Tools, lock_evaluation, tell_answer
from factmill.tasks.granola.benchmark import GRANOLA
from factmill.tasks.granola.core.evaluation.figures import draw_figures
from factmill.tasks.granola.core.evaluation.rows import (
    PROMPTS,
    SETTINGS,
    USUAL,
    GranolaAnswer,
    GranolaAsked,
    GranolaGiven,
)
from factmill.tasks.granola.core.evaluation.scoring import MAIN, find_cosines, score_answers
from factmill.tasks.granola.evaluation.ask import (
    GranolaEvaluationInputs,
    GranolaEvaluationParams,
    converse,
    fill_prompt,
    guess_answers,
    list_questions,
)
from factmill.tasks.granola.evaluation.measure import PAPER, list_items, measure_granola, tell_verdict
from factmill.tasks.models.embed import Embedder
from factmill.tasks.options import RunOptions
from factmill.tasks.settings import home, load_world


def lock_inputs(params: GranolaEvaluationParams, run: RunOptions) -> Locked[GranolaEvaluationInputs]:
    """Resolve an evaluation's inputs; raises UsageError."""
    encoder = embedder_identity(load_world(run.world, run.graph), home()) if params.similarity else {}
    return lock_evaluation(GRANOLA_EVALUATION, params, run, GranolaEvaluationInputs, embedder=encoder)


def score_granola(answers: pa.Table, inputs: GranolaEvaluationInputs, tools: Tools) -> pa.Table:
    """Score answers (rows of `GranolaGiven`): matched level (Definition 1) and similarity to the gold answer (§5.4)."""
    answers = score_answers(answers, inputs.params.tau)
    similarity, encoder = pa.nulls(answers.num_rows, pa.float64()), ""
    if inputs.params.similarity:
        embedder = tools.embedder()
        similarity, encoder = _compare(answers, embedder), embedder.name
    answers = answers.append_column("semantic_similarity", similarity)
    return answers.append_column("encoder", pa.repeat(encoder, answers.num_rows))


def _compare(answers: pa.Table, embedder: Embedder) -> pa.Array:
    """Return each answer's cosine with its gold answer; null for answers that are empty, IDK or not compared."""
    columns = (answers[name].to_pylist() for name in ("answer_read", "granola_answers", "is_compared", "is_idk"))
    pairs = [
        (text, levels[0]) if text and is_compared and not is_idk else None
        for text, levels, is_compared, is_idk in zip(*columns, strict=True)
    ]
    texts = sorted({text for pair in pairs if pair for text in pair})
    return pa.array(find_cosines(pairs, texts, embedder.encode(texts)), from_pandas=True)


def explain_answer(row: GranolaAnswer) -> Iterator[str]:
    """Yield an answer row's contents as readable lines."""
    yield f"  question    {row.question}   ({row.setting}; factmill explain granola {row.item})"
    yield from [f"  drawn       {' | '.join(row.samples)}"] if row.samples else []
    yield tell_answer(row.answer, row)
    yield from [f"  read as     {row.answer_read}"] if row.answer_read != row.answer else []
    for number, level in enumerate(row.granola_answers, 1):
        told = f"   F1 {row.level_f1[number - 1]:.2f}" if row.level_f1 else ""
        yield f"  level {number}     {level}{told}{'   (matched)' if number == row.matched_level else ''}"
    yield f"  verdict     {tell_verdict(row.matched_level, row.is_idk, row.unscored)}{f': {row.detail}' if row.detail else ''}"
    if row.semantic_similarity is not None:
        yield f"  similarity  {row.semantic_similarity:.2f} with {row.granola_answers[0]!r} (encoder {row.encoder})"


def measure_answers(answers: pa.Table, inputs: GranolaEvaluationInputs) -> tuple[pa.Table, list[Metric]]:
    """Return the score rows and the metrics of answers (rows of `GranolaAnswer`)."""
    params = inputs.params
    return measure_granola(answers, params.tau, params.decay, params.popularity_bins, params.seed)


GRANOLA_EVALUATION: Evaluation = Evaluation(
    name="granola_evaluation",
    title="Measure a model on GRANOLA-EQ: accuracy and informativeness at all levels, in the paper's settings",
    examples=(
        "factmill evaluate granola --model oracle",
        "factmill evaluate granola --world my-world.toml --model mine --setting greedy --setting drag --limit 200",
        "factmill evaluate granola --answers answers.jsonl --tau 0.4",
    ),
    params=GranolaEvaluationParams,
    lock_inputs=lock_inputs,
    recipe="factmill.tasks.granola.evaluation.record:GRANOLA_EVALUATION",
    tables={"granola_answers": GranolaAnswer, "granola_scores": Score, "evaluation_metrics": EvaluationMetric},
    main_table="granola_answers",
    part="relation",
    pilot_sides="setting",
    pilot_unit=lambda row_id: row_id.partition("/")[2],  # settings share draws of answers to a question
    shown={
        "id": "id",
        "question": "question",
        "answer": "answer",
        "granola_answers": "answers, fine to coarse",
        "matched_level": "level",
    },
    explain=explain_answer,
    assets=Assets(prompts=PROMPTS),
    of=GRANOLA,
    settings={name: setting.told for name, setting in SETTINGS.items()},
    usual=USUAL,
    plain=("greedy",),
    headline=MAIN,
    main="granola_accuracy",
    meaning="Of the questions on single facts, the share to which the model gave an answer that is true at some level of "
    "detail: the year counts as the day does.",
    questions=list_questions,
    fill=fill_prompt,
    converse=converse,
    inputs=GranolaEvaluationInputs,
    asked=GranolaAsked,
    answers=GranolaGiven,
    read=read_answer,
    oracle=lambda _: lambda asked: asked.granola_answers[0],
    guess=guess_answers,
    score=score_granola,
    measure=measure_answers,
    figures=draw_figures,
    items=list_items,
    paper=PAPER,
)
