"""FanOutQA's grades as people give them: what is asked of each answer, and answers of somebody's own as rows."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tasks.core.evaluation.labels import Part
from tasks.fanoutqa.core.evaluation.rows import CLOSED_BOOK, FanOutAnswer
from tasks.fanoutqa.core.evaluation.strings.golds import write_gold

BY_WORTH = ("F", "D", "A", "E", "C", "B")
"""Grades, the worst first, as they are told to people."""


def list_grades(row: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the grade of a row of `fanoutqa_answers`; none where no judge was asked, or failed."""
    if row["grade"] or row["judge_unscored"] == "judge_unreadable":
        yield Part("", row["question"], write_gold(json.loads(row["gold"])), row["answer_read"], row["grade"])


def pose_answer(row_id: str, question: str, gold: str, answer: str) -> FanOutAnswer:
    """Return an answer of somebody's own, as a judge takes it; `gold`: text, or JSON of a dict or list."""
    try:
        value = json.loads(gold)
    except ValueError:
        value = gold
    ids = dict.fromkeys(("id", "question_id", "item", "cluster"), row_id)
    blank = dict.fromkeys(("finish", "unscored", "detail", "model", "call", "epoch", "stopped"), "")
    lists: dict[str, list[Any]] = {
        name: [] for name in ("categories", "articles", "evidence", "samples", "searches", "context")
    }
    kind = "dict" if isinstance(value, dict) else "list" if isinstance(value, list) else "primitive"
    return FanOutAnswer.model_validate(
        {
            **ids,
            **blank,
            **lists,
            **dict.fromkeys(("tokens_in", "tokens_out", "rounds"), 0),
            "setting": CLOSED_BOOK,
            "split": "dev",
            "kind": kind,
            "question": question,
            "gold": json.dumps(value, ensure_ascii=False),
            "answer": answer,
            "answer_read": answer,
        }
    )
