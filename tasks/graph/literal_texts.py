"""What dates and numbers say, by their id: the rows of table `literals` as arrays, so that any one is read at once.

DuckDB reads a stretch of some thousand rows for each one that is asked for, and so most of a large table for a batch
of pairs. Here a row costs its own bytes.

literal_text_offsets int64[l + 1]   where the text of each literal begins in
literal_texts uint8[b]              value, statement, unit and main, a NUL between two; what is missing is empty
literal_marks uint8[l]              what is not missing, since a main may be empty: the sum of MARKS

Property, qualifier and precision stand in the arrays beside them (tasks/graph/arrays.py). A graph that was loaded by an
earlier version lacks these files; it is asked by its table.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tasks.errors import GraphError
from tasks.graph.arrays import Array, Arrays, Ints, create_array, open_array
from tasks.graph.loading.columns import split_each
from tasks.graph.manifest import format_load_advice

Bytes = npt.NDArray[np.uint8]

MARKS = {"qualifier": 1, "precision": 2, "statement": 4, "main": 8, "number": 16}
"""Columns that may be missing and the bit of each that stands."""

_ROWS_AT_ONCE = 1 << 17
_FILES: dict[str, type[np.integer[Any]]] = {
    "literal_text_offsets": np.int64,
    "literal_texts": np.uint8,
    "literal_marks": np.uint8,
}
_PARTS = ("value", "statement", "unit", "main")
_TEXT = " || chr(0) || ".join(f"coalesce({part}::VARCHAR, '')" for part in _PARTS)
_MARKED = " + ".join(f"CASE WHEN {column} IS NULL THEN 0 ELSE {mark} END" for column, mark in MARKS.items())
_SIZE = f"SELECT count(*), coalesce(sum(strlen({_TEXT})), 0)::BIGINT FROM literals"
# literals were stored by id, and tables are read in the order in which they were stored
_ROWS = f"SELECT {_TEXT} AS text, ({_MARKED})::UTINYINT AS marks FROM literals"


@dataclass(frozen=True, slots=True)
class LiteralTexts:
    """The texts of an open graph's literals."""

    offsets: Ints
    texts: Bytes
    marks: Bytes

    def read(self, arrays: Arrays, ids: Ints) -> pa.Table:
        """Return the rows of table `literals` with these ids, in their order."""
        marks, literals = self.marks[ids], arrays.literals
        stands = {name: pa.array((marks & mark) != 0) for name, mark in MARKS.items()}
        value, statement, unit, main = (part.cast(pa.string()) for part in split_each(self._gather(ids), b"\0", 4))
        given = {
            "qualifier": pa.array(arrays.properties[literals.properties[ids]]),
            "statement": statement,
            "precision": pa.array(literals.precisions[ids]),
            "main": main,
            "number": value,
        }
        columns = {name: pc.if_else(stands[name], column, None) for name, column in given.items()}
        columns["property"] = pa.array(arrays.properties[literals.claims[ids]])
        columns["value"] = value
        columns["unit"] = pc.if_else(pc.equal(unit, ""), None, unit).cast(pa.int64())
        return pa.table(columns)

    def _gather(self, ids: Ints) -> pa.BinaryArray:
        begins = self.offsets[ids]
        ends = np.concatenate([[0], np.cumsum(self.offsets[ids + 1] - begins)])
        at = np.arange(ends[-1]) + np.repeat(begins - ends[:-1], np.diff(ends))
        buffers = [None, pa.py_buffer(ends.astype(np.int64)), pa.py_buffer(self.texts[at])]
        return pa.Array.from_buffers(pa.large_binary(), len(ids), buffers).cast(pa.binary())


def write_literal_texts(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Write the texts of table `literals` of the database in use into a graph's folder; the same rows, the same bytes."""
    [(count, size)] = connection.execute(_SIZE).fetchall()
    lengths = {"literal_text_offsets": count + 1, "literal_texts": size, "literal_marks": count}
    offsets, texts, marks = (create_array(folder, name, lengths[name], dtype) for name, dtype in _FILES.items())
    with offsets as offsets_file, texts as texts_file, marks as marks_file:
        offsets_file.write(np.zeros(1, np.int64).data)
        end = 0
        for batch in connection.sql(_ROWS).to_arrow_reader(_ROWS_AT_ONCE):
            text = batch["text"].cast(pa.large_binary())
            ends = np.frombuffer(text.buffers()[1], np.int64)[text.offset :][: len(text) + 1]
            texts_file.write(memoryview(text.buffers()[2])[ends[0] : ends[-1]])
            offsets_file.write((ends[1:] - ends[0] + end).data)
            marks_file.write(batch["marks"].to_numpy().data)
            end += int(ends[-1] - ends[0])


def open_literal_texts(path: Path, literals: int) -> LiteralTexts | None:
    """Map the texts in a graph's folder, None where it has none; GraphError for files that do not fit its literals."""
    if not (path / "literal_texts.npy").exists():
        return None
    found: dict[str, Array] = {name: open_array(path / f"{name}.npy", dtype) for name, dtype in _FILES.items()}
    offsets, texts, marks = found.values()
    if (len(offsets), len(marks)) != (literals + 1, literals) or len(texts) != offsets[-1]:
        raise GraphError(
            f"{path}/literal_texts.npy: does not fit the {literals:,} literals of the other files: damaged;"
            f" {format_load_advice(path.name)}"
        )
    return LiteralTexts(offsets, texts, marks)
