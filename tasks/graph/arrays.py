"""Arrays of a graph: edges as compressed sparse rows in both directions, literals by item, and literals' texts.

Path finding uses these arrays only. DuckDB sorts once, when a graph is loaded; afterwards every file is memory-mapped,
so opening reads next to nothing and processes share one copy. An item's **place** is its position among the sorted
numbers of all items; a property's likewise. Places take half the space of ids and sort in the same order.

items int64[n]                 numbers of the QIDs, ascending; properties int32[k] those of the PIDs
item_bits uint64[w]            bit b of word i is set if Q(64 i + b) is an item; see `find_countries_and_regions_of_item`
item_ranks uint32[w]           number of items before those of each word
out_offsets int64[n + 1]       start of each item's direct claims in the next two arrays
out_items uint32[m]            place of the claim's object, ascending within a subject
out_properties uint16[m]       place of its property, ascending within an object
in_offsets, in_items, in_properties   the same for the claims that lead to an item
literal_offsets int64[n + 1]   start of each item's literals; a literal's position is its id in table `literals`
literal_properties uint16[l]   place of the property that holds the value: the qualifier's, else the statement's
literal_claims uint16[l]       place of the statement's property
literal_keys int64[l]          compute_xsd_datetime_day_key or hash_canonical_number (text/values/wikidata_literals.py)
literal_precisions uint8[l]    precision of a date, DAY if the data give none; 0 for numbers
literal_order uint32[l]        each item's literals sorted by key and id, as offsets from its first literal; empty for a
                               graph loaded by an earlier version, which lacks the file

literal_text_offsets int64[l + 1]   start of each literal's text in the next array
literal_texts uint8[b]         value, statement, unit and main, separated by NUL; missing ones are empty
literal_marks uint8[l]         sum of MARKS of the columns that are not missing (a main may be empty); a graph loaded by
                               an earlier version lacks these three and is queried through its table

The texts give direct access to any row of table `literals`: DuckDB reads some thousand rows for each row requested, so
most of a large table for a batch of pairs. Here a row costs only its own bytes.

If a graph's arrays would fill much of the memory, the kernel is advised of random access. Otherwise it reads up to some
MB around each missing page and evicts as many pages that are needed again.
"""

import mmap
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numpy.lib import format as npy_format

from factmill.tasks.errors import LocalGraphError
from factmill.tasks.graph.folders import format_reload_advice
from factmill.tasks.graph.loading.line_patterns import split_column
from factmill.tasks.text.values.wikidata_literals import DAY_PRECISION

Ints = npt.NDArray[np.int64]
Array = npt.NDArray[Any]

MAX_PROPERTIES = 65_535
_ARRAY_BATCH_ROWS = 1 << 20
_BITMAP_BATCH_WORDS = 1 << 14
_READAHEAD_MEMORY_SHARE = 0.5
"""Share of memory above which a graph's arrays are not read ahead."""
_CGROUP_LIMIT_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files with a container's memory limit."""
# a few items with huge numbers would make the bitmap huge: items beyond it are found by binary search
_MAX_BITMAP_WORDS_PER_ITEM = 4

_ARRAY_DTYPES: dict[str, type[np.integer[Any]]] = {
    "items": np.int64,
    "properties": np.int32,
    "item_bits": np.uint64,
    "item_ranks": np.uint32,
    "out_offsets": np.int64,
    "out_items": np.uint32,
    "out_properties": np.uint16,
    "in_offsets": np.int64,
    "in_items": np.uint32,
    "in_properties": np.uint16,
    "literal_offsets": np.int64,
    "literal_properties": np.uint16,
    "literal_claims": np.uint16,
    "literal_keys": np.int64,
    "literal_precisions": np.uint8,
    "literal_order": np.uint32,
    "literal_text_offsets": np.int64,
    "literal_texts": np.uint8,
    "literal_marks": np.uint8,
}
_ORDER_ARRAY = "literal_order"
_TEXT_ARRAYS = ("literal_text_offsets", "literal_texts", "literal_marks")
ARRAY_FILES = tuple(f"{name}.npy" for name in _ARRAY_DTYPES)

_PROPERTIES_QUERY = """
    SELECT DISTINCT property FROM (
        SELECT property FROM edges UNION SELECT property FROM literals
        UNION SELECT qualifier FROM literals WHERE qualifier IS NOT NULL
    ) ORDER BY property
"""
_EDGE_ARRAYS_QUERY = "SELECT {row} AS item, {neighbour} AS items, property AS properties FROM edges ORDER BY ALL"
# literals are stored by id, and DuckDB reads tables in storage order
_LITERAL_ARRAYS_QUERY = f"""
    SELECT item, coalesce(qualifier, property) AS properties, property AS claims, key AS keys,
        coalesce(precision, CASE WHEN number IS NULL THEN {DAY_PRECISION} ELSE 0 END)::UTINYINT AS precisions
    FROM literals
"""
PRESENCE_BITS = {"qualifier": 1, "precision": 2, "statement": 4, "main": 8, "number": 16}
"""Optional column → bit that is set if its value is present."""
_LITERAL_TEXT_SQL = " || chr(0) || ".join(
    f"coalesce({part}::VARCHAR, '')" for part in ("value", "statement", "unit", "main")
)
_PRESENCE_SQL = " + ".join(
    f"CASE WHEN {column} IS NULL THEN 0 ELSE {mark} END" for column, mark in PRESENCE_BITS.items()
)
_LITERAL_TEXTS_QUERY = f"SELECT {_LITERAL_TEXT_SQL} AS text, ({_PRESENCE_SQL})::UTINYINT AS marks FROM literals"


class EdgesByItem(NamedTuple):
    """Edges in one direction: those of item i are entries offsets[i] to offsets[i + 1] of the other two arrays."""

    offsets: Ints
    items: npt.NDArray[np.uint32]
    properties: npt.NDArray[np.uint16]


class LiteralsByItem(NamedTuple):
    """Literals by item, laid out as `EdgesByItem`."""

    offsets: Ints
    properties: npt.NDArray[np.uint16]
    claims: npt.NDArray[np.uint16]
    keys: Ints
    precisions: npt.NDArray[np.uint8]
    order: npt.NDArray[np.uint32]


class LiteralTexts(NamedTuple):
    """Texts of literals, by id."""

    offsets: Ints
    texts: npt.NDArray[np.uint8]
    marks: npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class ItemPlaceIndex:
    """Index of a graph's items: number ↔ place."""

    numbers: Ints
    bits: npt.NDArray[np.uint64]
    ranks: npt.NDArray[np.uint32]

    def find_places(self, numbers: Ints) -> Ints:
        """Return the place of each QID number, -1 for an unknown item.

        The place is the number of items before it: those before the number's word, and the lower bits set in that word.
        """
        words = numbers >> 6
        inside = (words >= 0) & (words < len(self.bits))
        words = np.where(inside, words, 0)
        word, bit = self.bits[words], np.uint64(1) << (numbers & 63).astype(np.uint64)
        found = (self.ranks[words] + np.bitwise_count(word & (bit - np.uint64(1)))).astype(np.int64)
        places = np.where(inside & ((word & bit) != 0), found, -1)
        beyond = np.flatnonzero(numbers >= 64 * len(self.bits))
        if len(beyond):
            places[beyond] = find_places_in_sorted(self.numbers, numbers[beyond])
        return places


@dataclass(frozen=True, slots=True)
class GraphArrays:
    """All arrays of an open graph."""

    items: ItemPlaceIndex
    properties: npt.NDArray[np.int32]
    out: EdgesByItem
    into: EdgesByItem
    literals: LiteralsByItem
    texts: LiteralTexts | None

    def read_literals(self, ids: Ints) -> pa.Table | None:
        """Return the rows of table `literals` with these ids, in their order; None if the graph has no text arrays."""
        if self.texts is None:
            return None
        offsets, texts, all_marks = self.texts
        begins, marks = offsets[ids], all_marks[ids]
        ends = np.concatenate([[0], np.cumsum(offsets[ids + 1] - begins)])
        at = np.arange(ends[-1]) + np.repeat(begins - ends[:-1], np.diff(ends))
        buffers = [None, pa.py_buffer(ends.astype(np.int64)), pa.py_buffer(texts[at])]
        gathered = pa.Array.from_buffers(pa.large_binary(), len(ids), buffers).cast(pa.binary())
        stands = {name: pa.array((marks & mark) != 0) for name, mark in PRESENCE_BITS.items()}
        value, statement, unit, main = (part.cast(pa.string()) for part in split_column(gathered, b"\0", 4))
        given = {
            "qualifier": pa.array(self.properties[self.literals.properties[ids]]),
            "statement": statement,
            "precision": pa.array(self.literals.precisions[ids]),
            "main": main,
            "number": value,
        }
        columns = {name: pc.if_else(stands[name], column, None) for name, column in given.items()}
        columns["property"] = pa.array(self.properties[self.literals.claims[ids]])
        columns["value"] = value
        columns["unit"] = pc.if_else(pc.equal(unit, ""), None, unit).cast(pa.int64())
        return pa.table(columns)


def find_places_in_sorted(known: npt.NDArray[np.integer[Any]], numbers: Ints) -> Ints:
    """Return the position of each number in `known`, which is ascending; -1 for a number not in it."""
    if not len(known):
        return np.full(len(numbers), -1, np.int64)
    places = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
    return np.where(known[places] == numbers, places, -1)


def open_mapped_graph_arrays(path: Path) -> GraphArrays:
    """Memory-map the arrays in a graph's folder; LocalGraphError names a missing, damaged or inconsistent file."""
    optional = {_ORDER_ARRAY: (_ORDER_ARRAY,), "literal_texts": _TEXT_ARRAYS}
    lacking = [each for name, all_of in optional.items() if not (path / f"{name}.npy").exists() for each in all_of]
    found = {name: _open_mapped_array(path / f"{name}.npy") for name in _ARRAY_DTYPES if name not in lacking}
    _check_array_lengths(path, found)
    walked = [array for name, array in found.items() if name not in _TEXT_ARRAYS]
    if sum(array.nbytes for array in walked) > _READAHEAD_MEMORY_SHARE * get_machine_or_container_memory_bytes():
        for array in walked:
            pages: Any = array.base
            while isinstance(pages, np.ndarray):
                pages = pages.base
            # an empty array is not mapped, and not every system has madvise
            if isinstance(pages, mmap.mmap) and hasattr(mmap, "MADV_RANDOM"):
                pages.madvise(mmap.MADV_RANDOM)
    return _make_graph_arrays(found)


def make_empty_arrays() -> GraphArrays:
    """Return in-memory arrays of a graph without items."""
    return _make_graph_arrays({name: _make_empty_array(name) for name in _ARRAY_DTYPES if name not in _TEXT_ARRAYS})


def _make_empty_array(name: str) -> Array:
    array = np.zeros(int(name.endswith(("offsets", "bits", "ranks"))), _ARRAY_DTYPES[name])
    # like mapped arrays
    array.flags.writeable = False
    return array


def _make_graph_arrays(found: dict[str, Array]) -> GraphArrays:
    found = {_ORDER_ARRAY: _make_empty_array(_ORDER_ARRAY), **found}
    return GraphArrays(
        ItemPlaceIndex(found["items"], found["item_bits"], found["item_ranks"]),
        found["properties"],
        EdgesByItem(*(found[f"out_{name}"] for name in EdgesByItem._fields)),
        EdgesByItem(*(found[f"in_{name}"] for name in EdgesByItem._fields)),
        LiteralsByItem(*(found[f"literal_{name}"] for name in LiteralsByItem._fields)),
        LiteralTexts(*(found[name] for name in _TEXT_ARRAYS)) if _TEXT_ARRAYS[0] in found else None,
    )


def get_machine_or_container_memory_bytes() -> int:
    """Return this machine's memory, or its container's limit if lower, in bytes."""
    limits = (Path(each).read_text().strip() for each in _CGROUP_LIMIT_FILES if Path(each).exists())
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([memory_bytes, *(int(each) for each in limits if each.isdigit())])


def _open_mapped_array(file: Path) -> Array:
    """Memory-map one array; LocalGraphError if it is missing, damaged or not one-dimensional of the expected type."""
    again = format_reload_advice(file.parent.name)
    try:
        array = np.load(file, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise LocalGraphError(f"{file}: cannot be opened ({error}); {again}") from error
    dtype = np.dtype(_ARRAY_DTYPES[file.stem])
    if array.ndim != 1 or array.dtype != dtype:
        raise LocalGraphError(
            f"{file}: has type {array.dtype} and shape {array.shape}, expected one dimension of {dtype}; {again}"
        )
    # kernels are compiled for plain arrays
    return array.view(np.ndarray)


def _check_array_lengths(path: Path, found: dict[str, Array]) -> None:
    """Check that the arrays' lengths agree, without reading their entries; LocalGraphError if not."""
    expected = {"item_ranks": len(found["item_bits"]), "in_items": len(found["out_items"])}
    for rows, columns in (
        ("out", EdgesByItem._fields),
        ("in", EdgesByItem._fields),
        ("literal", LiteralsByItem._fields),
    ):
        expected[f"{rows}_offsets"] = len(found["items"]) + 1
        end = int(found[f"{rows}_offsets"][-1]) if len(found[f"{rows}_offsets"]) else 0
        expected |= {f"{rows}_{name}": end for name in columns if name != "offsets"}
    expected |= {"literal_marks": end, "literal_text_offsets": end + 1}
    if len(found.get("literal_text_offsets", ())):
        expected["literal_texts"] = int(found["literal_text_offsets"][-1])
    for name, length in expected.items():
        if name in found and len(found[name]) != length:
            raise LocalGraphError(
                f"{path / name}.npy: has {len(found[name]):,} entries, expected {length:,} as in the other files:"
                f" damaged; {format_reload_advice(path.name)}"
            )


def write_graph_arrays(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Write all arrays into a folder, from the tables `items`, `edges` and `literals` of the current database.

    The same tables give the same bytes. Memory use does not grow with the graph. Raises LocalGraphError if the tables are
    inconsistent or use too many properties.
    """
    items, properties = _write_item_index(connection, folder), _write_property_numbers(connection, folder)
    write = partial(_write_compressed_rows, connection, folder, items, properties)
    write("out", "edges", _EDGE_ARRAYS_QUERY.format(row="subject", neighbour="object"))
    write("in", "edges", _EDGE_ARRAYS_QUERY.format(row="object", neighbour="subject"))
    write("literal", "literals", _LITERAL_ARRAYS_QUERY)
    _write_literal_order_within_items(folder)
    _write_literal_texts(connection, folder)


def _write_item_index(connection: duckdb.DuckDBPyConnection, folder: Path) -> ItemPlaceIndex:
    count = _count_rows(connection, "items")
    with _open_array_file_with_header(folder, "items", count) as file:
        for batch in _iterate_query_batches(connection, "SELECT item FROM items ORDER BY item"):
            file.write(batch["item"].data)
    items = _open_mapped_array(folder / "items.npy")
    words = min(int(items[-1]) // 64 + 1, _MAX_BITMAP_WORDS_PER_ITEM * count) if count else 1
    with (
        _open_array_file_with_header(folder, "item_bits", words) as bits_file,
        _open_array_file_with_header(folder, "item_ranks", words) as ranks_file,
    ):
        for first in range(0, words, _BITMAP_BATCH_WORDS):
            last = min(first + _BITMAP_BATCH_WORDS, words)
            begin, end = np.searchsorted(items, [64 * first, 64 * last])
            flags = np.zeros(64 * (last - first), np.uint8)
            flags[items[begin:end] - 64 * first] = 1
            bits = np.packbits(flags, bitorder="little").view(np.uint64)
            counts = np.bitwise_count(bits).astype(np.int64)
            bits_file.write(bits.data)
            ranks_file.write((begin + np.cumsum(counts) - counts).astype(np.uint32).data)
    return ItemPlaceIndex(
        items, _open_mapped_array(folder / "item_bits.npy"), _open_mapped_array(folder / "item_ranks.npy")
    )


def _write_property_numbers(connection: duckdb.DuckDBPyConnection, folder: Path) -> npt.NDArray[np.int32]:
    properties = np.array([number for (number,) in connection.execute(_PROPERTIES_QUERY).fetchall()], np.int32)
    if len(properties) > MAX_PROPERTIES:
        raise LocalGraphError(
            f"{folder}: the triples use {len(properties):,} properties; a graph can hold at most {MAX_PROPERTIES:,}"
        )
    with _open_array_file_with_header(folder, "properties", len(properties)) as file:
        file.write(properties.data)
    return properties


def _write_compressed_rows(
    connection: duckdb.DuckDBPyConnection,
    folder: Path,
    items: ItemPlaceIndex,
    properties: npt.NDArray[np.int32],
    rows: str,
    table: str,
    query: str,
) -> None:
    """Write the offsets by column `item`, and each other column of a query into the file of its name."""
    fields = [name for name in (LiteralsByItem if rows == "literal" else EdgesByItem)._fields[1:] if name != "order"]
    count = _count_rows(connection, table)
    with ExitStack() as stack:
        offsets = stack.enter_context(_open_array_file_with_header(folder, f"{rows}_offsets", len(items.numbers) + 1))
        opened = {name: _open_array_file_with_header(folder, f"{rows}_{name}", count) for name in fields}
        files = {name: stack.enter_context(file) for name, file in opened.items()}
        read = following = 0
        for batch in _iterate_query_batches(connection, query):
            places = _get_item_places(items, batch["item"], table, folder)
            _write_offsets(offsets, following, int(places[-1]) + 1, places, read)
            read, following = read + len(places), int(places[-1]) + 1
            if "items" in batch:
                batch["items"] = _get_item_places(items, batch["items"], table, folder).astype(np.uint32)
            for name in batch.keys() & {"properties", "claims"}:
                batch[name] = np.searchsorted(properties, batch[name]).astype(np.uint16)
            for name, file in files.items():
                file.write(batch[name].data)
        _write_offsets(offsets, following, len(items.numbers) + 1, np.empty(0, np.int64), read)


def _write_literal_order_within_items(folder: Path) -> None:
    """Write the order of each item's literals by key, in batches of items."""
    offsets, keys = _open_mapped_array(folder / "literal_offsets.npy"), _open_mapped_array(folder / "literal_keys.npy")
    first, items = 0, len(offsets) - 1
    with _open_array_file_with_header(folder, _ORDER_ARRAY, len(keys)) as file:
        while first < items:
            last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + _ARRAY_BATCH_ROWS, "right")) - 1)
            rows = np.arange(offsets[first], offsets[last])
            begins = offsets[np.searchsorted(offsets, rows, "right") - 1]
            order = np.lexsort((keys[rows], begins))
            file.write((rows[order] - begins).astype(np.uint32).data)
            first = last


def _write_literal_texts(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Write the texts of literals by id: the table is stored by id, and DuckDB reads in storage order."""
    size = f"SELECT count(*), coalesce(sum(strlen({_LITERAL_TEXT_SQL})), 0)::BIGINT FROM literals"
    [(count, size_bytes)] = connection.execute(size).fetchall()
    files = map(_open_array_file_with_header, [folder] * 3, _TEXT_ARRAYS, (count + 1, size_bytes, count))
    with ExitStack() as stack:
        offsets, texts, marks = map(stack.enter_context, files)
        offsets.write(np.zeros(1, np.int64).data)
        end = 0
        for batch in connection.sql(_LITERAL_TEXTS_QUERY).to_arrow_reader(_ARRAY_BATCH_ROWS >> 3):
            text = batch["text"].cast(pa.large_binary())
            ends = np.frombuffer(text.buffers()[1], np.int64)[text.offset :][: len(text) + 1]
            texts.write(memoryview(text.buffers()[2])[ends[0] : ends[-1]])
            offsets.write((ends[1:] - ends[0] + end).data)
            marks.write(batch["marks"].to_numpy().data)
            end += int(ends[-1] - ends[0])


def _write_offsets(file: BinaryIO, first_item: int, last_item: int, places: Ints, rows_before: int) -> None:
    """Write the offsets of items from `first_item` up to `last_item`; `places`: ascending items of the rows after `rows_before`."""
    for begin in range(first_item, last_item, _ARRAY_BATCH_ROWS):
        block = np.arange(begin, min(begin + _ARRAY_BATCH_ROWS, last_item))
        file.write((rows_before + np.searchsorted(places, block)).astype(np.int64).data)


def _get_item_places(items: ItemPlaceIndex, numbers: Ints, table: str, folder: Path) -> Ints:
    places = items.find_places(numbers)
    if len(places) and places.min() < 0:
        raise LocalGraphError(f"{folder}: Q{numbers[places.argmin()]} is in table {table}, but not in table items")
    return places


@contextmanager
def _open_array_file_with_header(folder: Path, name: str, length: int) -> Iterator[BinaryIO]:
    """Open a file `<name>.npy` for an array of `length` numbers, to be written piece by piece.

    The file is not mapped: on a full disk a write raises an error, while a mapped file would kill the process.
    """
    dtype = npy_format.dtype_to_descr(np.dtype(_ARRAY_DTYPES[name]))
    with (folder / f"{name}.npy").open("wb") as file:
        npy_format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": (length,)})
        yield file


def _iterate_query_batches(connection: duckdb.DuckDBPyConnection, query: str) -> Iterator[dict[str, Array]]:
    for batch in connection.sql(query).to_arrow_reader(_ARRAY_BATCH_ROWS):
        if batch.num_rows:
            yield {name: values.to_numpy() for name, values in zip(batch.schema.names, batch.columns, strict=True)}


def _count_rows(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    [(count,)] = connection.execute(f"SELECT count(*) FROM {table}").fetchall()
    return int(count)
