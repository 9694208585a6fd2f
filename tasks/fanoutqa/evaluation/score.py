"""Answers as they are scored, whole columns at once: strings of the gold answer, ROUGE, and a cross-encoder (paper §4.1)."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.core.evaluation.scoring import Floats
from tasks.core.rows import arrow_schema
from tasks.evaluation.record import Tools
from tasks.fanoutqa.core.evaluation.golds import write_gold
from tasks.fanoutqa.core.evaluation.rouge import rouge
from tasks.fanoutqa.core.evaluation.rows import COUNTED_WRONG, ScoredFanOut
from tasks.fanoutqa.core.evaluation.strings import loose
from tasks.fanoutqa.evaluation.ask import FanOutEvaluationInputs
from tasks.fanoutqa.evaluation.lemmas import load_lemmatizer


def score_answers(answers: pa.Table, inputs: FanOutEvaluationInputs, tools: Tools) -> pa.Table:
    """Return judged answers (rows of `JudgedFanOut`) as rows of the main table.

    An answer that says nothing, and one that refuses, has 0 everywhere, as in the paper; what failed otherwise has null.
    """
    said = [text or "" for text in answers["answer_read"].to_pylist()]
    golds = [json.loads(gold) for gold in answers["gold"].to_pylist()]
    lemmatize = load_lemmatizer()
    columns: dict[str, Floats] = {}
    for prefix, scorer in (("", "fixed"), ("upstream_", "upstream")):
        columns[f"{prefix}loose"], columns[f"{prefix}strict"] = loose(said, golds, lemmatize, scorer)
    columns |= rouge(said, golds)
    if inputs.bleurt is not None:
        pairs = [(write_gold(gold), text) for gold, text in zip(golds, said, strict=True)]
        columns["bleurt_like"] = tools.cross_encoder(inputs.bleurt["name"]).score(pairs)[:, 0]
    counted = pc.is_in(answers["unscored"], pa.array(["", *COUNTED_WRONG])).to_numpy(zero_copy_only=False)
    for name in ("loose", "strict", "upstream_loose", "upstream_strict", "rouge1", "rouge2", "rougeL", "bleurt_like"):
        values = np.where(counted, columns[name], np.nan) if name in columns else np.full(len(said), np.nan)
        answers = answers.append_column(name, pa.array(values, from_pandas=True))
    answers = answers.append_column("lemmatizer", pa.repeat(lemmatize.name, len(said)))
    schema = arrow_schema(ScoredFanOut)
    return answers.select(schema.names).cast(schema)
