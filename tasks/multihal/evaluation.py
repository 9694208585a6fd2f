"""MultiHal's evaluation as commands know it."""

from collections.abc import Iterator

from tasks.core.evaluation.rows import EvaluationMetric, Score
from tasks.engine.benchmark import Assets, Locked
from tasks.engine.identities import embedder_identity
from tasks.evaluation.record import Evaluation, list_roles, lock_evaluation
from tasks.multihal.ask import (
    KG_RAG,
    QA,
    MultiHalEvaluationInputs,
    MultiHalEvaluationParams,
    fill_prompt,
    list_questions,
)
from tasks.multihal.benchmark import MULTIHAL
from tasks.multihal.core.answers import ScoredMultiHal
from tasks.multihal.measure import DELTA, PAPER, RANKS, SCORE, draw_figures, list_items
from tasks.options import RunOptions
from tasks.settings import home, load_world


def lock_inputs(params: MultiHalEvaluationParams, run: RunOptions) -> Locked[MultiHalEvaluationInputs]:
    """Return what an evaluation depends on; UsageError says what was expected."""
    encoder = embedder_identity(load_world(run.world, run.graph), home())
    return lock_evaluation(MULTIHAL_EVALUATION, params, run, MultiHalEvaluationInputs, embedder=encoder)


def explain_answer(row: ScoredMultiHal) -> Iterator[str]:
    """Yield what an answer's row says, as lines to read."""
    yield f"  question    {row.question}   ({row.setting}, {row.language}; factmill explain multihal {row.item})"
    yield from [f"  path        {row.path}"] if row.path else []
    yield f"  expected    {' | '.join(row.accepted)}"
    yield f"  answer      {row.answer or '(none)'}   (by {row.model}{f', ended by {row.finish}' if row.finish else ''})"
    if row.semantic_score is None:
        yield f"  unscored    {row.unscored or 'no_gold'}: {row.detail or 'nothing to compare with'}"
    else:
        yield f"  score       {row.semantic_score:.2f} with {row.nearest!r} (encoder {row.encoder})"


MULTIHAL_EVALUATION: Evaluation = Evaluation(
    name="multihal_evaluation",
    title="Measure a model on MultiHal: semantic score with and without a path, in every language",
    examples=(
        "factmill evaluate multihal --model oracle",
        "factmill evaluate multihal --world my-world.toml --model mine --language eng --limit 100",
        "factmill evaluate multihal --answers answers.jsonl",
    ),
    params=MultiHalEvaluationParams,
    lock_inputs=lock_inputs,
    recipe="flows.evaluate.multihal:evaluate_multihal",
    tables={"multihal_answers": ScoredMultiHal, "multihal_scores": Score, "evaluation_metrics": EvaluationMetric},
    main_table="multihal_answers",
    part="language",
    shown={"id": "id", "question": "question", "answer": "answer", "semantic_score": "score", "nearest": "nearest"},
    trace=("id",),
    explain=explain_answer,
    assets=Assets(prompts=(QA, KG_RAG)),
    roles=list_roles,
    of=MULTIHAL,
    settings={"qa": "the question alone", "kg_rag": "the question with one of its paths"},
    usual=("qa", "kg_rag"),
    plain=("qa", "kg_rag"),
    headline=(SCORE, DELTA, RANKS),
    questions=list_questions,
    fill=fill_prompt,
    figures=draw_figures,
    items=list_items,
    paper=PAPER,
)
