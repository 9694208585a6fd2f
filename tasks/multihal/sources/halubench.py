"""Reader of HaluBench (JSON Lines or Parquet: id, passage, question, answer, label, source_ds).

Rows labelled PASS are kept, except those that HaluBench took from HaluEval, which MultiHal reads itself; the passage is
the context (paper §2, Table 1 with its note). The part of HaluBench that a row comes from gives its domain.
"""

from collections.abc import Iterator
from typing import Any

from tasks.core.rows import Reject
from tasks.multihal.core.rows import FoundationQuestion
from tasks.storage.source_files import SourceFile, iterate_json, iterate_parquet
from tasks.storage.source_rows import MALFORMED, ReadRow, find_problem, judge_rows

COLUMNS = ("id", "passage", "question", "answer", "label", "source_ds")
_DOMAINS = {
    "drop": "general",
    "covidqa": "covid",
    "pubmedqa": "pubmed",
    "financebench": "finance",
    "ragtruth": "ragtruth",
}


def read_halubench(source: SourceFile) -> Iterator[ReadRow]:
    """Yield what becomes of each row, ids halubench_0, halubench_1, …; SourceError for a file that cannot be read."""

    def judge(row_id: str, number: int, row: Any) -> FoundationQuestion | Reject:
        if problem := find_problem(row, ("question", "answer", "label", "source_ds")):
            return Reject(row_id, MALFORMED, problem)
        part, label = row["source_ds"].strip().lower(), row["label"].strip().upper()
        if part == "halueval":
            return Reject(row_id, "part_of_halueval", "HaluBench has this row from HaluEval, which is read by itself")
        if part not in _DOMAINS:
            return Reject(row_id, MALFORMED, f"the column source_ds names no known part: {row['source_ds']!r}")
        if label != "PASS":
            reason = "hallucinated" if label == "FAIL" else MALFORMED
            return Reject(row_id, reason, f"the column label is {row['label']!r}, not PASS")
        passage = row.get("passage")
        return FoundationQuestion(
            id=row_id,
            source_dataset="halubench",
            domain=_DOMAINS[part],
            licence=source.licence,
            input=row["question"].strip(),
            output=row["answer"].strip(),
            context=[passage.strip()] if isinstance(passage, str) and passage.strip() else [],
            source_name=source.name,
            source_row=number,
        )

    if source.path.suffix.lower() == ".parquet":
        return judge_rows(source, "halubench", iterate_parquet(source, COLUMNS), judge)
    rows = iterate_json(source, f"JSON Lines with the columns {', '.join(COLUMNS)}")
    return judge_rows(source, "halubench", rows, judge)
