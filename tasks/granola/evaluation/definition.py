"""GRANOLA-EQ's `Evaluation` object, its inputs and the scoring of answers (paper §2.2, §5)."""

from collections.abc import Iterator

import pyarrow as pa

from factmill.tasks.core.evaluation.answers import read_short_answer
from factmill.tasks.core.evaluation.rows import AnswerScore, EvaluationMetric
from factmill.tasks.engine.benchmark import BenchmarkAssetNames, BuildInputsAndSourceFiles
from factmill.tasks.engine.naming.identities import embedder_name_and_digest
from factmill.tasks.evaluation.definition import (
    Evaluation,
    LocalScoringModels,
    format_explain_answer_line,
    resolve_evaluation_inputs,
)
from factmill.tasks.granola.benchmark import GRANOLA
from factmill.tasks.granola.core.evaluation.figures import draw_granola_evaluation_figures
from factmill.tasks.granola.core.evaluation.rows import (
    DEFAULT_SETTINGS,
    EVALUATION_PROMPTS,
    SETTINGS,
    GranolaPrediction,
    GranolaQuestion,
    ScoredGranolaPrediction,
)
from factmill.tasks.granola.core.evaluation.scoring import MAIN_METRICS, add_level_and_idk_scores, compute_cosines
from factmill.tasks.granola.evaluation.measure import (
    GRANOLA_PAPER_FIGURES,
    format_verdict,
    list_granola_report_items,
    make_granola_answer_scores_and_metrics,
)
from factmill.tasks.granola.evaluation.questions import (
    GranolaEvaluationInputs,
    GranolaEvaluationParams,
    fill_granola_question_prompt,
    list_granola_setting_questions,
    make_granola_dialogue,
    make_granola_guesser,
)
from factmill.tasks.options import RunOptions
from factmill.tasks.settings import factmill_home, load_world


def resolve_granola_evaluation_inputs(
    params: GranolaEvaluationParams, run: RunOptions
) -> BuildInputsAndSourceFiles[GranolaEvaluationInputs]:
    """Resolve an evaluation's inputs; raises UsageError."""
    encoder = embedder_name_and_digest(load_world(run.world, run.graph), factmill_home()) if params.similarity else {}
    return resolve_evaluation_inputs(GRANOLA_EVALUATION, params, run, GranolaEvaluationInputs, embedder=encoder)


def score_granola(answers: pa.Table, inputs: GranolaEvaluationInputs, tools: LocalScoringModels) -> pa.Table:
    """Score answers (rows of `GranolaPrediction`): matched level (Definition 1) and similarity to the gold answer (§5.4).

    The similarity is null for answers that are empty, IDK or not compared.
    """
    answers = add_level_and_idk_scores(answers, inputs.params.tau)
    similarity, encoder = pa.nulls(answers.num_rows, pa.float64()), ""
    if inputs.params.similarity:
        columns = (answers[name].to_pylist() for name in ("answer_read", "granola_answers", "is_compared", "is_idk"))
        pairs = [
            (text, levels[0]) if text and is_compared and not is_idk else None
            for text, levels, is_compared, is_idk in zip(*columns, strict=True)
        ]
        texts = sorted({text for pair in pairs if pair for text in pair})
        embedder = tools.embedder()
        encoder = embedder.name
        similarity = pa.array(compute_cosines(pairs, texts, embedder.encode(texts)), from_pandas=True)
    answers = answers.append_column("semantic_similarity", similarity)
    return answers.append_column("encoder", pa.repeat(encoder, answers.num_rows))


def explain_granola_prediction(row: ScoredGranolaPrediction) -> Iterator[str]:
    """Yield an answer row's contents as readable lines."""
    yield f"  question    {row.question}   ({row.setting}; factmill explain granola {row.item})"
    if row.samples:
        yield f"  drawn       {' | '.join(row.samples)}"
    yield format_explain_answer_line(row.answer, row)
    if row.answer_read != row.answer:
        yield f"  read as     {row.answer_read}"
    for number, level in enumerate(row.granola_answers, 1):
        score = f"   F1 {row.level_f1[number - 1]:.2f}" if row.level_f1 else ""
        yield f"  level {number}     {level}{score}{'   (matched)' if number == row.matched_level else ''}"
    verdict = format_verdict(row.matched_level, row.is_idk, row.unscored)
    yield f"  verdict     {verdict}{f': {row.detail}' if row.detail else ''}"
    if row.semantic_similarity is not None:
        yield f"  similarity  {row.semantic_similarity:.2f} with {row.granola_answers[0]!r} (encoder {row.encoder})"


GRANOLA_EVALUATION: Evaluation = Evaluation(
    name="granola_evaluation",
    title="Measure a model on GRANOLA-EQ: accuracy and informativeness at all levels, in the paper's settings",
    examples=(
        "factmill evaluate granola --model oracle",
        "factmill evaluate granola --world my-world.toml --model mine --setting greedy --setting drag --limit 200",
        "factmill evaluate granola --answers answers.jsonl --tau 0.4",
    ),
    params=GranolaEvaluationParams,
    resolve_inputs=resolve_granola_evaluation_inputs,
    recipe="factmill.tasks.granola.evaluation.definition:GRANOLA_EVALUATION",
    tables={
        "granola_answers": ScoredGranolaPrediction,
        "granola_scores": AnswerScore,
        "evaluation_metrics": EvaluationMetric,
    },
    main_table="granola_answers",
    group_column="relation",
    pilot_balance_column="setting",
    pilot_unit=lambda row_id: row_id.partition("/")[2],  # settings share draws of answers to a question
    display_columns={
        "id": "id",
        "question": "question",
        "answer": "answer",
        "granola_answers": "answers, fine to coarse",
        "matched_level": "level",
    },
    explain=explain_granola_prediction,
    assets=BenchmarkAssetNames(prompts=EVALUATION_PROMPTS),
    benchmark=GRANOLA,
    settings={name: setting.description for name, setting in SETTINGS.items()},
    default_settings=DEFAULT_SETTINGS,
    offline_settings=("greedy",),
    headline_metrics=MAIN_METRICS,
    main_metric="granola_accuracy",
    main_metric_meaning="The share of questions on single facts to which the model gave an answer that is true at some level of detail: "
    "a year counts as much as a day.",
    make_questions=list_granola_setting_questions,
    make_prompt=fill_granola_question_prompt,
    make_dialogue=make_granola_dialogue,
    inputs_model=GranolaEvaluationInputs,
    question_model=GranolaQuestion,
    prediction_model=GranolaPrediction,
    read_answer=read_short_answer,
    make_oracle=lambda _: lambda asked: asked.granola_answers[0],
    make_guesser=make_granola_guesser,
    score_predictions=score_granola,
    compute_metrics=lambda answers, inputs: make_granola_answer_scores_and_metrics(
        answers, inputs.params.tau, inputs.params.decay, inputs.params.popularity_bins, inputs.params.seed
    ),
    draw_figures=draw_granola_evaluation_figures,
    list_report_items=list_granola_report_items,
    paper_results=GRANOLA_PAPER_FIGURES,
)
