"""Reader of HaluEval's questions (qa_data.json: JSON Lines `{knowledge, question, right_answer, hallucinated_answer}`).

The right answer is kept as answer and the knowledge as context (paper §2, Table 1); the hallucinated answer is not.
"""

from collections.abc import Iterator
from typing import Any

from tasks.core.rows import Reject
from tasks.multihal.core.rows import FoundationQuestion
from tasks.storage.source_files import SourceFile, iterate_json
from tasks.storage.source_rows import MALFORMED, ReadRow, find_problem, judge_rows

COLUMNS = ("knowledge", "question", "right_answer", "hallucinated_answer")


def read_halueval(source: SourceFile) -> Iterator[ReadRow]:
    """Yield what becomes of each row, ids halueval_0, halueval_1, …; SourceError for a file that cannot be read."""

    def judge(row_id: str, number: int, row: Any) -> FoundationQuestion | Reject:
        if problem := find_problem(row, ("question", "right_answer")):
            return Reject(row_id, MALFORMED, problem)
        knowledge = row.get("knowledge")
        return FoundationQuestion(
            id=row_id,
            source_dataset="halueval",
            domain="qa",
            licence=source.licence,
            input=row["question"].strip(),
            output=row["right_answer"].strip(),
            context=[knowledge.strip()] if isinstance(knowledge, str) and knowledge.strip() else [],
            source_name=source.name,
            source_row=number,
        )

    rows = iterate_json(source, f"JSON Lines with the columns {', '.join(COLUMNS)}")
    return judge_rows(source, "halueval", rows, judge)
