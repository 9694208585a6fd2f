"""The columns of scores that answers get: string accuracy by both scorers, and ROUGE.

An empty answer and a refusal say none of the gold answer and count 0, as in the paper (§4.2); what else is unscored has no
number. The public scorer reads answers as they were given, a part of one too, and counts a question without one as 0: the
upstream columns do so, and have no number only where the model failed, or what it looked up.
"""

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tasks.core.evaluation.scoring import Floats
from tasks.fanoutqa.core.evaluation.rouge import rouge
from tasks.fanoutqa.core.evaluation.strings.lemmas import Lemmatizer
from tasks.fanoutqa.core.evaluation.strings.matching import loose

COUNTED_WRONG = frozenset({"no_answer", "refused"})
"""Why there is an answer of nothing, which counts as one."""


def score_answers(answers: pa.Table, lemmatize: Lemmatizer) -> pa.Table:
    """Return answers (rows of `FanOutAnswer`) with columns loose, strict, upstream_…, rouge1, rouge2, rougeL and lemmatizer."""
    golds = [json.loads(gold) for gold in answers["gold"].to_pylist()]
    unscored: list[str] = answers["unscored"].to_pylist()
    read: list[str] = answers["answer_read"].to_pylist()
    given: list[str] = answers["answer"].to_pylist()
    counted = np.array([not why or why in COUNTED_WRONG for why in unscored], bool)
    share, whole = loose(read, golds, lemmatize)
    found = {"loose": share, "strict": whole, **rouge(read, golds)}
    columns = {name: np.where(counted, values, np.nan) for name, values in found.items()}
    for name, values in zip(("loose", "strict"), loose(given, golds, lemmatize, "upstream"), strict=True):
        columns[f"upstream_{name}"] = _count_unanswered(values, unscored)
    for name, values in columns.items():
        answers = answers.append_column(name, pa.array(values, pa.float64(), from_pandas=True))
    return answers.append_column("lemmatizer", pa.array([lemmatize.name] * answers.num_rows))


def _count_unanswered(values: Floats, unscored: Sequence[str]) -> Floats:
    missing = np.array([why == "missing" for why in unscored], bool)
    failed = np.array([why in ("model_failed", "lookup_failed") for why in unscored], bool)
    return np.where(missing, 0.0, np.where(failed, np.nan, values))
