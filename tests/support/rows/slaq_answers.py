"""Make rows of SLAQ's evaluation: answers, and matrices of verdicts as rows."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from factmill.tasks.core.rows import make_arrow_table
from factmill.tasks.slaq.core.evaluation.answers import ScoredSlaqPrediction, SlaqPrediction

ASKED: dict[str, Any] = {
    "id": "short/t/1", "question_id": "t/1", "item": "t", "cluster": "t", "setting": "short", "question": "Who built it?",
    "topic": "Pont du Gard", "category": "Bridges", "half": "most", "position": 1, "questions": ["Who built it?"],
    "golds": ["Agrippa"], "fact_types": ["PERSON"], "gold": "Agrippa",
}  # fmt: skip
SAID: dict[str, Any] = {
    "samples": [], "finish": "stop", "unscored": "", "detail": "", "tokens_in": 1, "tokens_out": 1, "model": "m", "call": "",
}  # fmt: skip


def answer_row(answer: str, **changed: Any) -> SlaqPrediction:
    """Return an answer to a short question, or to another question with its gold answers and setting."""
    return SlaqPrediction.model_validate(ASKED | SAID | {"answer": answer, "answer_read": answer} | changed)


def judged_rows(
    setting: str, matrix: Sequence[Sequence[int | None]], judge: str = "tester", **changed: Any
) -> list[ScoredSlaqPrediction]:
    """Return the answers of a setting with these verdicts, topics × facts.

    None is unscored (in a long answer, all five facts are).
    """
    rows = []
    for at, verdicts in enumerate(matrix):
        topic = {"item": f"t{at}", "cluster": f"t{at}", "half": ("most", "least")[at % 2], "category": f"C{at % 2}"}
        types = ["PERSON", "none", "DATE", "none", "none"]
        long = [("long", 0, list(verdicts), types)]
        short = [(str(n), n, [verdict], [types[n - 1]]) for n, verdict in enumerate(verdicts, 1)]
        for part, position, mine, kinds in long if setting == "long" else short:
            question_id = f"t{at}/{part}"
            result = {
                "id": f"{setting}/{question_id}", "question_id": question_id, "setting": setting, "position": position,
                "questions": ["Who built it?"] * len(mine), "golds": ["Agrippa"] * len(mine), "fact_types": kinds,
                "verdicts": [] if None in mine else mine, "judge": judge, "judge_call": "", **topic,
            }  # fmt: skip
            if None in mine:
                result |= {"unscored": "judge_unreadable", "detail": "no verdict"}
            rows.append(ScoredSlaqPrediction.model_validate(answer_row("Agrippa").model_dump() | result | changed))
    return rows


def judged_table(
    short: Sequence[Sequence[int | None]], long: Sequence[Sequence[int | None]], judge: str = "tester"
) -> pa.Table:
    """Return the answers of both settings as a table."""
    return make_arrow_table(
        ScoredSlaqPrediction, [*judged_rows("short", short, judge), *judged_rows("long", long, judge)]
    )
