"""What goes to a worker and comes back: lists, numbers, texts and bytes, none of our classes."""

from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.core.calls.call import Call, Reply
from tasks.core.paths import FoundPaths, PathOptions
from tasks.text.values.literals import Date, Number


def write_calls(calls: Sequence[Call]) -> list[Any]:
    """Return calls to one service: [operation, parts] each."""
    return [[call.operation, dict(call.parts)] for call in calls]


def read_calls(service: str, written: Sequence[Any]) -> list[Call]:
    """Return the calls that were written."""
    return [Call(service, operation, parts) for operation, parts in written]


def write_reply(reply: Reply) -> list[Any]:
    """Return a reply's fields in their order."""
    return list(astuple(reply))


def read_reply(written: Sequence[Any]) -> Reply:
    """Return the reply that was written."""
    return Reply(*written)


def write_array(array: npt.NDArray[Any]) -> list[Any]:
    """Return type, shape and bytes of an array."""
    return [array.dtype.str, list(array.shape), array.tobytes()]


def read_array(written: Sequence[Any]) -> npt.NDArray[Any]:
    """Return the array that was written."""
    kind, shape, content = written
    return np.frombuffer(content, np.dtype(kind)).reshape(shape)


def write_options(options: PathOptions) -> list[Any]:
    """Return which paths are wanted."""
    return [options.all_hops, sorted(options.ignored), options.most_paths]


def read_options(written: Sequence[Any]) -> PathOptions:
    """Return the options that were written."""
    all_hops, ignored, most_paths = written
    return PathOptions(all_hops, frozenset(ignored), most_paths)


def write_literals(objects: Sequence[Date] | Sequence[Number]) -> list[Any]:
    """Return dates or numbers, all of one kind, and which they are."""
    is_date = bool(objects) and isinstance(objects[0], Date)
    return ["date" if is_date else "number", [list(astuple(each)) for each in objects]]


def read_literals(written: Sequence[Any]) -> list[Date] | list[Number]:
    """Return the dates or numbers that were written."""
    kind, values = written
    return [Date(*each) for each in values] if kind == "date" else [Number(*each) for each in values]


def write_found(found: FoundPaths) -> list[Any]:
    """Return found paths as two Arrow tables in bytes, and the problems by pair."""
    return [_write_table(found.paths), _write_table(found.pairs), [[pair, why] for pair, why in found.problems.items()]]


def read_found(written: Sequence[Any]) -> FoundPaths:
    """Return the found paths that were written."""
    paths, pairs, problems = written
    return FoundPaths(_read_table(paths), _read_table(pairs), dict(problems))


def _write_table(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _read_table(packed: bytes) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(packed)) as reader:
        return reader.read_all()
