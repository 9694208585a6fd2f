"""Make answers to GRANOLA's questions and score them."""

from typing import Any

import pyarrow as pa

from factmill.tasks.core.rows import make_arrow_table
from factmill.tasks.granola.core.evaluation.rows import GranolaPrediction
from factmill.tasks.granola.core.evaluation.scoring import add_level_and_idk_scores

LEVELS = ["Voronezh", "Voronezh Oblast", "Russia"]


def answered(number: int, answer: str, levels: list[str], **changed: Any) -> GranolaPrediction:
    columns: dict[str, Any] = {
        "id": f"greedy/q{number}", "question_id": f"q{number}", "item": f"q{number}", "cluster": f"q{number}",
        "setting": "greedy", "question": "Where was X born?", "answer": answer, "answer_read": answer, "samples": [],
        "finish": "stop", "unscored": "" if answer else "no_answer", "detail": "", "tokens_in": 0, "tokens_out": 0,
        "model": "m", "call": "", "relation": "P19", "question_entity_popularity": number * 10,
        "granola_answers": levels, "is_compared": True,
    }  # fmt: skip
    return GranolaPrediction.model_validate(columns | changed)


ROWS = [
    answered(1, "voronezh", LEVELS),
    answered(2, "the Voronezh Oblast", LEVELS),
    answered(3, "Russia", LEVELS, relation="P20", question_entity_popularity=None),
    answered(4, "Kursk", LEVELS, relation="P20"),
    answered(5, "I don't know.", LEVELS),
    answered(6, "", LEVELS),
    answered(7, "", LEVELS, unscored="missing"),
    answered(8, "I cannot help with that", LEVELS, unscored="refused"),
]
"""Level 1 (twice; the second has F1 2/3), level 3, wrong, IDK, silent, missing, refused."""


def score(rows: list[GranolaPrediction], similarity: list[float | None] | None = None) -> pa.Table:
    """Return the rows of ScoredGranolaPrediction."""
    scored = add_level_and_idk_scores(make_arrow_table(GranolaPrediction, rows), 0.5)
    scored = scored.append_column("semantic_similarity", pa.array(similarity or [None] * len(rows), pa.float64()))
    return scored.append_column("encoder", pa.repeat("", len(rows)))
