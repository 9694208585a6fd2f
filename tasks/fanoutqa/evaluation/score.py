"""Answers with their scores, whole columns at once: strings of the gold answer, ROUGE, and a cross-encoder in the place of BLEURT (paper §4.1)."""

import json

import numpy as np
import pyarrow as pa

from tasks.core.rows import arrow_schema
from tasks.evaluation.record import Tools
from tasks.fanoutqa.core.evaluation.rows import ScoredFanOut
from tasks.fanoutqa.core.evaluation.scoring import score_answers
from tasks.fanoutqa.core.evaluation.similarity import METRIC, WANTED, pair_answers, place_scores
from tasks.fanoutqa.evaluation.ask import FanOutEvaluationInputs
from tasks.fanoutqa.evaluation.lemmas import load_lemmatizer, name_lemmatizer


def score_judged(answers: pa.Table, inputs: FanOutEvaluationInputs, tools: Tools) -> pa.Table:
    """Return judged answers (rows of `JudgedFanOut`) as rows of the main table."""
    scored = score_answers(answers, load_lemmatizer(inputs.lemmatizer or name_lemmatizer(inputs.params.lemmas)))
    found = np.full(answers.num_rows, np.nan)
    if inputs.params.bleurt is not None:
        golds = [json.loads(gold) for gold in answers["gold"].to_pylist()]
        pairs = pair_answers(answers["answer_read"].to_pylist(), golds)
        scores = tools.cross_encoder(inputs.params.bleurt).score([pair for pair in pairs if pair], WANTED)
        found = place_scores(pairs, scores[:, 0])
    scored = scored.append_column(METRIC, pa.array(found, from_pandas=True))
    schema = arrow_schema(ScoredFanOut)
    return scored.select(schema.names).cast(schema)
