"""Reader of FELM's questions of world knowledge ("wk"), JSON Lines.

A row is kept when every segment of its response is labelled true; the response is then the answer, and the references
the context (paper §2, Table 1). Two forms are read: FELM's own (`segmented_response`, `labels`, `ref`) and that of a
mirror (`claims`, `claim_labels`, `source: "felm-wk"`). A row's domain stands in the column domain, in the mirror's
source or, where neither says it, in the name of the file.
"""

import re
from collections.abc import Iterator
from typing import Any

from tasks.core.rows import Reject
from tasks.multihal.core.rows import FoundationQuestion
from tasks.storage.source_files import SourceFile, iterate_json
from tasks.storage.source_rows import MALFORMED, ReadRow, find_problem, judge_rows, unique

COLUMNS = ("prompt", "response", "labels")
MIRROR_COLUMNS = ("prompt", "response", "claim_labels")
_DOMAIN = "wk"


def read_felm(source: SourceFile) -> Iterator[ReadRow]:
    """Yield what becomes of each row, ids felm_0, felm_1, …; SourceError for a file that cannot be read."""

    def judge(row_id: str, number: int, row: Any) -> FoundationQuestion | Reject:
        if problem := find_problem(row, ("prompt", "response")) or _problem_of_labels(row):
            return Reject(row_id, MALFORMED, problem)
        domain = _domain_of(row, source.path.stem)
        if not domain:
            return Reject(row_id, MALFORMED, "the column domain is missing, and the file's name does not say wk either")
        if domain != _DOMAIN:
            return Reject(row_id, "other_domain", f"the domain is {domain}; MultiHal takes {_DOMAIN}")
        if not all(labels := _labels_of(row)):
            return Reject(
                row_id, "false_segment", f"{labels.count(False)} of {len(labels)} segments are labelled false"
            )
        references = row.get("ref")
        return FoundationQuestion(
            id=row_id,
            source_dataset="felm",
            domain=_DOMAIN,
            licence=source.licence,
            input=row["prompt"].strip(),
            output=row["response"].strip(),
            context=unique(str(reference).strip() for reference in references) if isinstance(references, list) else [],
            source_name=source.name,
            source_row=number,
        )

    rows = iterate_json(source, f"JSON Lines with the columns {', '.join(COLUMNS)}")
    return judge_rows(source, "felm", rows, judge)


def _labels_of(row: Any) -> list[Any]:
    labels: list[Any] = row.get("labels", row.get("claim_labels"))
    return labels


def _problem_of_labels(row: Any) -> str:
    labels = _labels_of(row)
    if not isinstance(labels, list) or not labels or not all(isinstance(label, bool) for label in labels):
        return "the column labels (or claim_labels) is no list of true and false"
    segments = row.get("segmented_response", row.get("claims"))
    if isinstance(segments, list) and len(segments) != len(labels):
        return f"the column labels (or claim_labels) has {len(labels)} entries for {len(segments)} segments"
    return ""


def _domain_of(row: Any, stem: str) -> str:
    if isinstance(row.get("domain"), str):
        return str(row["domain"]).strip().lower()
    if str(row.get("source")).startswith("felm-"):
        return str(row["source"]).removeprefix("felm-")
    return _DOMAIN if _DOMAIN in re.split(r"[^a-z]+", stem.lower()) else ""
