"""MultiHal's evaluation as commands know it."""

from collections.abc import Iterator

from tasks.core.evaluation.rows import EvaluationMetric, Score
from tasks.engine.benchmark import Assets, Locked
from tasks.engine.naming.identities import embedder_identity
from tasks.evaluation.record import Evaluation, lock_evaluation, tell_answer
from tasks.models.cross_encoder import identify_cross_encoder
from tasks.multihal.benchmark import MULTIHAL
from tasks.multihal.core.evaluation.answers import ANSWER, MultiHalAnswer, MultiHalAsked, ScoredMultiHal
from tasks.multihal.evaluation.ask import (
    KG_RAG,
    PAIRED,
    QA,
    MultiHalEvaluationInputs,
    MultiHalEvaluationParams,
    fill_prompt,
    guess_answers,
    list_questions,
)
from tasks.multihal.evaluation.measure import DELTA, PAPER, RANKS, SCORE, draw_figures, list_items, measure_multihal
from tasks.multihal.evaluation.score import score_multihal
from tasks.options import RunOptions
from tasks.settings import home, load_world


def lock_inputs(params: MultiHalEvaluationParams, run: RunOptions) -> Locked[MultiHalEvaluationInputs]:
    """Return what an evaluation depends on; UsageError says what was expected."""
    encoder = embedder_identity(load_world(run.world, run.graph), home())
    known = {
        option: identify_cross_encoder(model, home(), list(kinds.values()))
        for option, kinds in PAIRED.items()
        if (model := getattr(params, option)) is not None
    }
    return lock_evaluation(MULTIHAL_EVALUATION, params, run, MultiHalEvaluationInputs, embedder=encoder, **known)


def explain_answer(row: ScoredMultiHal) -> Iterator[str]:
    """Yield what an answer's row says, as lines to read."""
    yield f"  question    {row.question}   ({row.setting}, {row.language}; factmill explain multihal {row.item})"
    yield from [f"  path        {row.path}"] if row.path else []
    yield f"  expected    {' | '.join(row.accepted)}"
    yield tell_answer(row.answer, row)
    if row.semantic_score is None:
        yield f"  unscored    {row.unscored or 'no_gold'}: {row.detail or 'nothing to compare with'}"
    else:
        yield f"  score       {row.semantic_score:.2f} with {row.nearest!r} (encoder {row.encoder})"
    if row.entailment is not None:
        told = f"entailment {row.entailment:.2f}, contradiction {row.contradiction:.2f}"
        yield f"  nli         {told} (question with an accepted answer ⇒ answer, by {row.nli_model})"
    if row.consistency is not None:
        yield f"  consistency {row.consistency:.2f} (by {row.consistency_model})"


MULTIHAL_EVALUATION: Evaluation = Evaluation(
    name="multihal_evaluation",
    title="Measure a model on MultiHal: semantic score with and without a path, in every language",
    examples=(
        "factmill evaluate multihal --model oracle",
        "factmill evaluate multihal --world my-world.toml --model mine --language eng --limit 100",
        "factmill evaluate multihal --answers answers.jsonl --nli my-nli-model",
    ),
    params=MultiHalEvaluationParams,
    lock_inputs=lock_inputs,
    recipe="flows.evaluate.multihal:evaluate_multihal",
    tables={"multihal_answers": ScoredMultiHal, "multihal_scores": Score, "evaluation_metrics": EvaluationMetric},
    main_table="multihal_answers",
    part="language",
    shown={"id": "id", "question": "question", "answer": "answer", "semantic_score": "score", "nearest": "nearest"},
    explain=explain_answer,
    assets=Assets(prompts=(QA, KG_RAG)),
    of=MULTIHAL,
    settings={"qa": "the question alone", "kg_rag": "the question with one of its paths"},
    usual=("qa", "kg_rag"),
    plain=("qa", "kg_rag"),
    headline=(SCORE, DELTA, RANKS, *(kind for kinds in PAIRED.values() for kind in kinds)),
    main=SCORE,
    meaning="How near the model's answers are in meaning to an accepted one, by a sentence encoder (1: the same), when it "
    "is asked alone (qa) and when it is given a path of facts that leads to the answer (kg_rag).",
    questions=list_questions,
    fill=fill_prompt,
    inputs=MultiHalEvaluationInputs,
    asked=MultiHalAsked,
    answers=MultiHalAnswer,
    form=ANSWER,
    oracle=lambda _: lambda asked: asked.accepted[0],
    guess=guess_answers,
    score=score_multihal,
    measure=lambda answers, inputs: measure_multihal(answers, inputs.params.seed),
    figures=draw_figures,
    items=list_items,
    paper=PAPER,
)
