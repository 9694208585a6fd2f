"""What becomes of a file's row: a typed row, or a reject with a reason. Common to the readers of files.

Rows are numbered from 1 in `source_row` and from 0 in ids, as the paper counts them (its tqa_gen_38 is the 39th row of
TruthfulQA; Table 6 and Appendix I). A file in which no row can be read is of another kind, which is a SourceError.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.core.rows import Reject, Row
from tasks.errors import SourceError
from tasks.storage.source_files import SourceFile

MALFORMED = "malformed_row"


@dataclass(frozen=True, slots=True)
class ReadRow:
    """One row of a file: how it came, and what it is."""

    row_id: str
    as_it_came: str
    """The row as JSON."""
    outcome: Row | Reject


def judge_rows(
    source: SourceFile,
    prefix: str,
    rows: Iterable[tuple[int, Any]],
    judge: Callable[[str, int, Any], Row | Reject],
) -> Iterator[ReadRow]:
    """Yield what `judge` (id, number from 1, row) makes of each row; SourceError when no row is well formed."""
    first = ""
    is_of_this_kind = False
    for number, row in rows:
        row_id = f"{prefix}_{number - 1}"
        outcome = judge(row_id, number, row)
        if isinstance(outcome, Reject) and outcome.reason == MALFORMED:
            first = first or f"row {number}: {outcome.detail}"
        else:
            is_of_this_kind = True
        yield ReadRow(row_id, _dump_row(row).encode("utf-8", "backslashreplace").decode(), outcome)
    if not is_of_this_kind:
        raise SourceError(f"{source.path}: {first or 'no rows'}" + (", and no other row is better" if first else ""))


def find_problem(row: Any, texts: Sequence[str]) -> str:
    """Return what is wrong with a row that must hold these columns as texts, none of them blank; "" when nothing is."""
    if not isinstance(row, Mapping):
        return "the row is no object"
    for column in texts:
        if column not in row:
            return f"the column {column} is missing (found: {', '.join(map(str, row))[:300] or 'none'})"
        if not isinstance(row[column], str) or not row[column].strip():
            return f"the column {column} is no text"
    return "the text holds half a surrogate pair" if _has_half_surrogate(row) else ""


def split_answers(text: str) -> list[str]:
    """Return the parts of a text between semicolons, none twice."""
    return unique(part.strip() for part in text.split(";"))


def unique(texts: Iterable[str]) -> list[str]:
    """Return the texts that are not empty, each once, in order."""
    return list(dict.fromkeys(filter(None, texts)))


def _dump_row(row: Any) -> str:
    return json.dumps(row, ensure_ascii=False, default=str)


def _has_half_surrogate(row: Any) -> bool:
    try:
        _dump_row(row).encode()
    except UnicodeEncodeError:
        return True
    return False
