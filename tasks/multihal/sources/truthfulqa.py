"""Reader of TruthfulQA's questions for generation (TruthfulQA.csv).

The best answer is kept as answer; the other correct and the incorrect answers, lists with semicolons, are kept beside
it, and the source, a list of addresses or a remark, as context (paper §2, Table 6).
"""

from collections.abc import Iterator
from typing import Any

from tasks.core.rows import Reject
from tasks.multihal.core.rows import FoundationQuestion
from tasks.storage.source_files import SourceFile, iterate_csv
from tasks.storage.source_rows import MALFORMED, ReadRow, find_problem, judge_rows, split_answers

COLUMNS = ("Type", "Category", "Question", "Best Answer", "Correct Answers", "Incorrect Answers", "Source")


def read_truthfulqa(source: SourceFile) -> Iterator[ReadRow]:
    """Yield what becomes of each row, ids tqa_gen_0, tqa_gen_1, …; SourceError for a file that cannot be read."""

    def judge(row_id: str, number: int, row: Any) -> FoundationQuestion | Reject:
        if problem := find_problem(row, ("Category", "Question", "Best Answer")):
            return Reject(row_id, MALFORMED, problem)
        best = row["Best Answer"].strip()
        return FoundationQuestion(
            id=row_id,
            source_dataset="truthfulqa",
            domain=row["Category"].strip().lower(),
            licence=source.licence,
            input=row["Question"].strip(),
            output=best,
            optional_output=[answer for answer in split_answers(row["Correct Answers"]) if answer != best],
            incorrect_answers=split_answers(row["Incorrect Answers"]),
            context=split_answers(row["Source"]),
            source_name=source.name,
            source_row=number,
        )

    return judge_rows(source, "tqa_gen", iterate_csv(source, COLUMNS), judge)
