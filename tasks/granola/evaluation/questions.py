"""Parameters, questions, prompts and dialogues of an evaluation on GRANOLA-EQ (paper §4, §5.1)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, cast

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from factmill.tasks.assets import load_prompt
from factmill.tasks.core.evaluation.answers import ModelPrediction, read_short_answer
from factmill.tasks.core.measures.audits import draw_audit_sample_ids
from factmill.tasks.core.prompts import FilledPrompt, fill_prompt_template
from factmill.tasks.core.rows import MAX_SETTING_NUMBER, arrow_schema
from factmill.tasks.evaluation.definition import (
    DialogueGenerator,
    EvaluationInputs,
    EvaluationParams,
    sample_question_clusters,
)
from factmill.tasks.granola.core.evaluation.rows import (
    AGGREGATE_PROMPT,
    SETTINGS,
    GranolaQuestion,
    GranolaSettingName,
)
from factmill.tasks.granola.core.evaluation.scoring import (
    choose_majority_answer,
    format_samples,
    guess_fact_answers_from_other_facts,
    list_fact_ids,
)
from factmill.tasks.options import CliOption


class GranolaEvaluationParams(EvaluationParams):
    """Parameters of an evaluation on GRANOLA-EQ."""

    setting: Annotated[tuple[GranolaSettingName, ...], CliOption(metavar="NAME")] = ()
    """Only this setting (repeatable). Default: the settings that the paper reports, all but temperature."""
    samples: int = Field(default=5, ge=1, le=1000)
    """Number N of answers to sample per question in self_consistency and drag. The paper does not state its value."""
    temperature: float = Field(default=0.7, gt=0, le=2)
    """Temperature T at which answers are sampled. The paper does not state its value."""
    tau: float = Field(default=0.5, ge=0, lt=1)
    """An answer matches a level if its token F1 exceeds this value (τ). The paper does not state its value."""
    decay: float = Field(default=0.5, ge=0)
    """Decay λ of informativeness: an answer at a level counts exp(-λ (level - 1)), as in the paper."""
    popularity_bins: int = Field(default=5, ge=1, le=100)
    """Number of bins of equal size, by the popularity of the question's entity."""
    similarity: int = Field(default=2000, ge=0, le=MAX_SETTING_NUMBER)
    """Number of questions, drawn with the seed, for which the world's sentence encoder compares the answer with the gold answer (the paper's Table 3). 0: none."""

    def list_model_names(self) -> tuple[str, ...]:
        """Return the model under test, and the sentence encoder where answers are compared."""
        return (*super().list_model_names(), *(("embedder",) if self.similarity else ()))


class GranolaEvaluationInputs(EvaluationInputs):
    """Resolved inputs of GRANOLA-EQ's evaluation steps."""

    params: GranolaEvaluationParams
    embedder: dict[str, str] = Field(default={})
    """Name and digest of the sentence encoder; empty where none is needed."""


def list_granola_setting_questions(rows: pa.Table, inputs: GranolaEvaluationInputs) -> pa.Table:
    """Return every question (rows of `granola_eq`) in every setting, as rows of `GranolaQuestion`."""
    params, schema = inputs.params, arrow_schema(GranolaQuestion)
    facts = pa.array(_list_fact_ids_of_rows(rows), pa.string())
    is_drawn = pc.is_in(facts, pa.array(sorted(sample_question_clusters(facts.to_pylist(), params)), pa.string()))
    chosen = rows.filter(is_drawn)
    compared = draw_audit_sample_ids(chosen["id"].to_pylist(), params.similarity, params.seed)
    columns = {
        **dict.fromkeys(("question_id", "item"), chosen["id"]),
        "cluster": facts.filter(is_drawn),
        **{name: chosen[name] for name in ("question", "relation", "question_entity_popularity", "granola_answers")},
        "is_compared": pc.is_in(chosen["id"], pa.array(compared, pa.string())),
    }
    tables = []
    for setting in inputs.settings:
        ids = pc.binary_join_element_wise(setting, chosen["id"], "/")
        table = pa.table({**columns, "id": ids, "setting": pa.repeat(setting, chosen.num_rows)})
        tables.append(table.select(schema.names).cast(schema))
    return pa.concat_tables(tables)


def fill_granola_question_prompt(asked: GranolaQuestion, params: GranolaEvaluationParams) -> FilledPrompt:
    """Return the first prompt of a question in its setting (paper Table 7)."""
    setting = SETTINGS[cast(GranolaSettingName, asked.setting)]
    heat = 0.0 if setting.sampling == "greedy" else params.temperature
    samples = params.samples if setting.sampling == "several" else 1
    return fill_prompt_template(
        replace(load_prompt(setting.prompt), temperature=heat), samples, question=asked.question
    )


def make_granola_dialogue(asked: GranolaQuestion, params: GranolaEvaluationParams) -> DialogueGenerator:
    """Prompt a question as its setting requires; in drag the model then aggregates its own samples (§4)."""
    first: ModelPrediction = yield fill_granola_question_prompt(asked, params)
    drawn = [read_short_answer(text) for text in first.read_texts]
    if asked.setting == "drag" and len(drawn) > 1 and any(drawn):
        # it asks for the most specific answer consistent with all samples (Table 8)
        last: ModelPrediction = yield fill_prompt_template(
            load_prompt(AGGREGATE_PROMPT), question=asked.question, responses=format_samples(drawn)
        )
        return replace(
            last,
            read_texts=tuple(map(read_short_answer, last.read_texts)),
            drawn_texts=first.texts,
            tokens_in=first.tokens_in + last.tokens_in,
            tokens_out=first.tokens_out + last.tokens_out,
            seconds=first.seconds + last.seconds,
        )
    chosen = choose_majority_answer(drawn)
    answer = first.texts[drawn.index(chosen)] if chosen else "".join(first.texts[:1])
    return replace(first, texts=(answer,), read_texts=(chosen,), drawn_texts=first.texts[1:] and first.texts)


def make_granola_guesser(rows: pa.Table) -> Callable[[GranolaQuestion], str]:
    """Return the built-in guesser, question → answer; `rows`: those of the measured build."""
    guesses = guess_fact_answers_from_other_facts(
        rows["relation"].to_pylist(), _list_fact_ids_of_rows(rows), rows["granola_answers"].to_pylist()
    )
    return lambda asked: guesses[asked.cluster]


def _list_fact_ids_of_rows(rows: pa.Table) -> list[str]:
    return list_fact_ids(*(rows[name].to_pylist() for name in ("id", "relation", "question_entity_qid")))
