"""The file of pairs: which parts of two answers state the same fact, as people say it (Appendix A.4, where all were paired by hand)."""

import csv
from collections.abc import Iterable
from pathlib import Path

from tasks.errors import SourceError
from tasks.slaq.core.mechanism.rows import PairedFact
from tasks.storage.source_files import SourceFile, iterate_csv, name_source

COLUMNS = ("id", "short_text", "long_text")
_BESIDE = ("kind", "question", "gold", "short_answer", "long_answer", "unscored", "detail")
"""Columns that are written for the person who pairs, and not read."""


def read_pairs(file: Path | SourceFile) -> dict[str, tuple[str, str]]:
    """Return id → the texts that a person paired; an empty text leaves that side as it is found. SourceError otherwise."""
    source = file if isinstance(file, SourceFile) else name_source(file)
    found: dict[str, tuple[str, str]] = {}
    for number, row in iterate_csv(source, COLUMNS):
        if row["id"] in found:
            raise SourceError(f"{source.path}: row {number}: {row['id']} is paired twice; expected one row a fact")
        found[row["id"]] = row["short_text"], row["long_text"]
    return found


def write_pairs(path: Path, facts: Iterable[PairedFact]) -> int:
    """Write pairs as they are found, for people to mend, and return how many."""
    rows = list(facts)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow((*COLUMNS, *_BESIDE))
        writer.writerows([getattr(row, name) for name in (*COLUMNS, *_BESIDE)] for row in rows)
    return len(rows)
