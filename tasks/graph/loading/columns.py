"""Lines of N-Triples in canonical form, cut into columns by Arrow, a whole block at a time."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.graph.loading.ntriples import unescape

ITEM = rb"<http://www\.wikidata\.org/entity/Q[1-9][0-9]{0,17}>"
PID = rb"P[1-9][0-9]{0,8}"
ENTITY_START = len(b"<http://www.wikidata.org/entity/Q")
LINE_END = len(b" .\n")
# Arrow multiplies the stop by the number of rows when it makes room: an open end overflows and fails (seen in 26.0)
_END = 2**31 - 1


def spell_predicate(namespace: bytes) -> bytes:
    """Return the regular expression of a property's predicate in a namespace of Wikidata (`prop/direct`)."""
    return rb"<http://www\.wikidata\.org/" + re.escape(namespace) + rb"/" + PID + rb">"


def split_lines(data: bytes) -> pa.BinaryArray:
    """Return the lines, each with its newline, without copying them."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def split_terms(lines: pa.BinaryArray) -> list[pa.BinaryArray]:
    """Return subjects and predicates without their `>`, and objects with the end of their line; no blank subjects."""
    return split_each(lines, b"> ", 3)


def split_each(values: pa.BinaryArray, by: bytes, into: int, *, reverse: bool = False) -> list[pa.BinaryArray]:
    """Split each value into a fixed number of pieces; return the columns."""
    pieces = pc.split_pattern(values, pattern=by, max_splits=into - 1, reverse=reverse).flatten()
    return [pieces.take(np.arange(nth, len(pieces), into)) for nth in range(into)]


def slice_text(values: pa.BinaryArray, start: int, stop: int = _END) -> pa.StringArray:
    """Return the bytes from `start` to `stop` as text."""
    return pc.binary_slice(values, start, stop).cast(pa.string())


def slice_number(values: pa.BinaryArray, start: int, stop: int = _END) -> pa.Int64Array:
    """Return the digits from `start` to `stop` as numbers."""
    return slice_text(values, start, stop).cast(pa.int64())


def slice_pid(predicates: pa.BinaryArray, namespace: bytes) -> pa.Int32Array:
    """Return the numbers of the properties of predicates that are all in one namespace of Wikidata."""
    return slice_number(predicates, len(b"<http://www.wikidata.org/" + namespace + b"/P")).cast(pa.int32())


def slice_quoted(literals: pa.BinaryArray) -> pa.StringArray:
    """Return the texts of literals, whatever their language or datatype."""
    return resolve_escapes(slice_text(split_each(literals, b'"', 2, reverse=True)[0], 1))


def resolve_escapes(texts: pa.StringArray) -> pa.StringArray:
    """Return texts of quoted literals with their escapes resolved."""
    escaped = pc.match_substring(texts, pattern="\\")
    if not escaped.true_count:
        return texts
    plain = pa.array([unescape(text) for text in texts.filter(escaped).to_pylist()], pa.string())
    return pc.replace_with_mask(texts, escaped, plain)
