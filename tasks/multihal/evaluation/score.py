"""What answers to MultiHal's questions are worth: the cosine with the nearest accepted answer, and what cross-encoders say (paper §3.1)."""

from collections.abc import Sequence

import pyarrow as pa

from tasks.evaluation.record import Tools
from tasks.multihal.core.evaluation.consistency import Pair, keep_best, pair_answers
from tasks.multihal.core.evaluation.similarity import score_answers
from tasks.multihal.evaluation.ask import PAIRED, MultiHalEvaluationInputs


def score_multihal(answers: pa.Table, inputs: MultiHalEvaluationInputs, tools: Tools) -> pa.Table:
    """Return answers (rows of `MultiHalAnswer`) with their scores, as `ScoredMultiHal` has them."""
    said: list[str] = answers["answer_read"].to_pylist()
    accepted: list[list[str]] = answers["accepted"].to_pylist()
    texts = sorted({*said, *(text for each in accepted for text in each)})
    embedder = tools.embedder()
    scores, nearest = score_answers(said, accepted, texts, embedder.encode(texts))
    values = pa.array(scores, from_pandas=True)
    for name, column in (("semantic_score", values), ("nearest", nearest), ("encoder", [embedder.name] * len(said))):
        answers = answers.append_column(name, pa.array(column) if isinstance(column, list) else column)
    pairs = pair_answers(answers["question"].to_pylist(), said, accepted)
    for option in PAIRED:
        for name, column in _score_pairs(option, getattr(inputs.params, option), pairs, tools).items():
            answers = answers.append_column(name, column)
    return answers


def _score_pairs(option: str, model: str | None, pairs: Sequence[Sequence[Pair]], tools: Tools) -> dict[str, pa.Array]:
    """Return the columns of one cross-encoder: each metric's, and the model's name; nulls where it is not given."""
    kinds, named = PAIRED[option], f"{option}_model"
    if model is None:
        empty = dict.fromkeys(kinds, pa.nulls(len(pairs), pa.float64()))
        return {**empty, named: pa.repeat("", len(pairs))}
    encoder = tools.cross_encoder(model)
    scores = keep_best(pairs, encoder.score([pair for mine in pairs for pair in mine], list(kinds.values())))
    found = {kind: pa.array(scores[:, at], from_pandas=True) for at, kind in enumerate(kinds)}
    return {**found, named: pa.repeat(encoder.name, len(pairs))}
