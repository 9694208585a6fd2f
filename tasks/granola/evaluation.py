"""GRANOLA-EQ's evaluation as commands know it: its parameters, what it asks in which setting, its record (paper §2.2, §5)."""

from collections.abc import Iterator
from typing import Annotated, cast

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from tasks.assets import load_prompt
from tasks.core.evaluation.rows import EvaluationMetric, Score
from tasks.core.measures.audits import draw_sample
from tasks.core.prompts import Ask
from tasks.core.rows import arrow_schema, rows_from_arrow
from tasks.engine.benchmark import Assets, Locked
from tasks.engine.identities import embedder_identity
from tasks.evaluation.record import (
    Evaluation,
    EvaluationInputs,
    EvaluationParams,
    draw_clusters,
    list_roles,
    lock_evaluation,
)
from tasks.granola.benchmark import GRANOLA
from tasks.granola.core.evaluation_rows import GranolaAnswer, GranolaAsked
from tasks.granola.core.figures import draw_figures
from tasks.granola.core.scoring import MAIN
from tasks.granola.core.settings import PROMPTS, SETTINGS, USUAL, SettingName, ask_first
from tasks.granola.measure import PAPER, list_items, tell_verdict
from tasks.options import Option, RunOptions
from tasks.settings import home, load_world


class GranolaEvaluationParams(EvaluationParams):
    """What an evaluation on GRANOLA-EQ can be told."""

    setting: Annotated[tuple[SettingName, ...], Option("--setting", "NAME")] = ()
    """Only this setting (repeatable). Default: those that the paper reports, all but temperature."""
    samples: int = Field(default=5, ge=1)
    """Answers drawn to each question by self_consistency and drag, the paper's N, which it does not state."""
    temperature: float = Field(default=0.7, gt=0, le=2)
    """Temperature at which answers are drawn, the paper's T, which it does not state."""
    tau: float = Field(default=0.5, ge=0, lt=1)
    """An answer matches a level when its token F1 exceeds this, the paper's τ, which it does not state."""
    decay: Annotated[float, Option("--lambda", "NUMBER")] = Field(default=0.5, ge=0)
    """How fast informativeness falls from level to level, the paper's λ: exp(-λ (level - 1))."""
    popularity_bins: int = Field(default=5, ge=1, le=100)
    """Bins of equal size by the popularity of the question's entity."""
    similarity: int = Field(default=2000, ge=0)
    """So many questions, drawn with the seed, whose answers are also compared with the gold answer by the world's sentence encoder, as in the paper's Table 3; 0: none."""


class GranolaEvaluationInputs(EvaluationInputs):
    """What the steps of GRANOLA-EQ's evaluation read."""

    params: GranolaEvaluationParams
    embedder: dict[str, str]
    """Name and digest of the sentence encoder; empty where none is asked for."""


def lock_inputs(params: GranolaEvaluationParams, run: RunOptions) -> Locked[GranolaEvaluationInputs]:
    """Return what an evaluation depends on; UsageError says what was expected."""
    encoder = embedder_identity(load_world(run.world, run.graph), home()) if params.similarity else {}
    return lock_evaluation(GRANOLA_EVALUATION, params, run, GranolaEvaluationInputs, embedder=encoder)


def list_questions(rows: pa.Table, inputs: GranolaEvaluationInputs) -> Iterator[GranolaAsked]:
    """Yield every question (rows of `granola_eq`) in every setting, as it is asked."""
    for setting in inputs.settings:
        yield from rows_from_arrow(GranolaAsked, ask_all(rows, inputs, setting))


def ask_all(rows: pa.Table, inputs: GranolaEvaluationInputs, setting: str) -> pa.Table:
    """Return every question in one setting (rows of `GranolaAsked`)."""
    drawn = draw_clusters(rows["id"].to_pylist(), inputs.params)
    chosen = rows.filter(pc.is_in(rows["id"], pa.array(sorted(drawn), pa.string())))
    compared = draw_sample(drawn, inputs.params.similarity, inputs.params.seed)
    named = dict.fromkeys(("question_id", "item", "cluster"), chosen["id"])
    told = {
        "setting": pa.repeat(setting, chosen.num_rows),
        "id": pc.binary_join_element_wise(setting, chosen["id"], "/"),
        "is_compared": pc.is_in(chosen["id"], pa.array(compared, pa.string())),
    }
    kept = {name: chosen[name] for name in ("question", "relation", "question_entity_popularity", "granola_answers")}
    return pa.table(named | told | kept).select(arrow_schema(GranolaAsked).names)


def fill_prompt(asked: GranolaAsked, params: GranolaEvaluationParams) -> Ask:
    """Return a question as its setting's first prompt (paper Table 7)."""
    setting = SETTINGS[cast(SettingName, asked.setting)]
    return ask_first(load_prompt(setting.prompt), setting, asked.question, params.samples, params.temperature)


def explain_answer(row: GranolaAnswer) -> Iterator[str]:
    """Yield what an answer's row says, as lines to read."""
    yield f"  question    {row.question}   ({row.setting}; factmill explain granola {row.item})"
    yield from [f"  drawn       {' | '.join(row.samples)}"] if row.samples else []
    yield f"  answer      {row.answer or '(none)'}   (by {row.model}{f', ended by {row.finish}' if row.finish else ''})"
    yield from [f"  read as     {row.answer_read}"] if row.answer_read != row.answer else []
    for number, level in enumerate(row.granola_answers, 1):
        told = f"   F1 {row.level_f1[number - 1]:.2f}" if row.level_f1 else ""
        yield f"  level {number}     {level}{told}{'   (matched)' if number == row.matched_level else ''}"
    yield f"  verdict     {tell_verdict(row.matched_level, row.is_idk, row.unscored)}{f': {row.detail}' if row.detail else ''}"
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
    lock_inputs=lock_inputs,
    recipe="flows.evaluate.granola:evaluate_granola",
    tables={"granola_answers": GranolaAnswer, "granola_scores": Score, "evaluation_metrics": EvaluationMetric},
    main_table="granola_answers",
    part="relation",
    shown={
        "id": "id",
        "question": "question",
        "answer": "answer",
        "granola_answers": "answers, fine to coarse",
        "matched_level": "level",
    },
    trace=("id",),
    explain=explain_answer,
    assets=Assets(prompts=PROMPTS),
    roles=list_roles,
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
    figures=draw_figures,
    items=list_items,
    paper=PAPER,
)
