"""Find paths for batches of pairs in a local graph: MultiHal's path mining (paper, §2.2) without an endpoint.

A batch is split into chunks that all cores search in parallel (tasks/graph/path_kernels.py); the results are combined into
Arrow tables with the schemas of core/wikidata_paths.py. The arrays suffice for dates; for numbers they hold a digest, so each
hit is compared with table `literals` before it counts.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from factmill.tasks.core.wikidata_paths import (
    ITEM_PATHS_SCHEMA,
    LITERAL_PATHS_SCHEMA,
    PAIR_STATUS_SCHEMA,
    PathSearchOptions,
    PathsFoundForPairs,
)
from factmill.tasks.graph.arrays import GraphArrays, Ints, make_empty_arrays
from factmill.tasks.graph.path_kernels import (
    ITEM_PATH_COLUMNS,
    LITERAL_PATH_COLUMNS,
    PathTable,
    SoughtLiteralKeyRangeByPair,
    WalkableEdges,
    write_item_paths,
    write_literal_paths,
)
from factmill.tasks.text.values.wikidata_literals import (
    DAY_PRECISION,
    MONTH_PRECISION,
    YEAR_PRECISION,
    PartialDate,
    WantedNumberWithUnit,
    hash_canonical_number,
)

LiteralReader = Callable[[Ints], pa.Table]
"""Ascending ids of literals → their rows of table `literals`, in that order."""

_CHUNK_PAIRS = 1024
_CHUNK_ROWS = 4096
_NO_CAP = int(np.iinfo(np.int64).max)
_DATE_KEY_STEPS, _DATE_PRECISIONS = (
    np.array([10_000, 100, 1]),
    np.array([YEAR_PRECISION, MONTH_PRECISION, DAY_PRECISION], np.uint8),
)
"""For a date given by year, by month and by day: the number of keys it covers, and its precision."""
_HIGHEST_YEAR = 10**14
_PAIR_STATUSES = pa.array(["found", "none", "capped", "identical", "unknown_subject", "unknown_object"])
_FOUND, _NONE, _CAPPED, _IDENTICAL, _UNKNOWN_SUBJECT, _UNKNOWN_OBJECT = range(6)


def find_item_paths(
    arrays: GraphArrays, subjects: Ints, objects: Ints, options: PathSearchOptions
) -> PathsFoundForPairs:
    """Find the paths between items (see core.paths.PathFinder), in about half a microsecond per pair and core."""
    _check_pair_lengths(subjects, objects)
    ground = WalkableEdges(
        arrays.out, arrays.into, _make_mask_over_graph_properties(arrays, options.ignored_properties)
    )
    cap = _get_path_cap(options)
    starts, ends = arrays.items.find_places(subjects), arrays.items.find_places(objects)
    # neighbouring rows share pages, which may have to be read from disk
    order = np.lexsort((ends, starts))
    sorted_starts, sorted_ends = starts[order], ends[order]
    totals = np.zeros(len(starts), np.int64)

    def walk(first: int, last: int, found: PathTable) -> tuple[int, int]:
        stopped, written, _ = write_item_paths(
            ground, sorted_starts, sorted_ends, first, last, options.always_two_hops, cap, found, totals
        )
        return stopped, written

    found = _search_chunks_in_parallel(walk, ITEM_PATH_COLUMNS, totals, cap)
    found, totals = _restore_pair_order(found, totals, order, cap)
    pairs, backward, middles, first, second = found.T
    is_direct = middles < 0
    columns = [
        pa.array(pairs.astype(np.int32)),
        pa.array(np.where(is_direct, 1, 2).astype(np.int8)),
        pa.array(backward.astype(np.bool_)),
        pa.array(arrays.items.numbers[middles], mask=is_direct),
        pa.array(arrays.properties[first]),
        pa.array(arrays.properties[second], mask=is_direct),
    ]
    outcomes = [(subjects == objects, _IDENTICAL), (starts < 0, _UNKNOWN_SUBJECT), (ends < 0, _UNKNOWN_OBJECT)]
    return PathsFoundForPairs(pa.table(columns, ITEM_PATHS_SCHEMA), _make_pair_statuses_table(totals, cap, outcomes))


@dataclass(frozen=True, slots=True)
class _LiteralSearchBatch:
    """A batch of literals to search for."""

    arrays: GraphArrays
    read_literals: LiteralReader
    ground: WalkableEdges
    starts: Ints
    """Place of each pair's subject."""
    sought: SoughtLiteralKeyRangeByPair
    numbers: pa.Table | None
    """`number` and `unit` of each pair; None for a batch of dates."""
    cap: int


def find_literal_paths(
    arrays: GraphArrays,
    read_literals: LiteralReader,
    subjects: Ints,
    objects: Sequence[PartialDate] | Sequence[WantedNumberWithUnit],
    properties: frozenset[int],
    options: PathSearchOptions,
) -> PathsFoundForPairs:
    """Find the paths from items to dates or to numbers (see core.paths.PathFinder)."""
    _check_pair_lengths(subjects, objects)
    numbers = _make_numbers_table_unless_dates(objects)
    counted = _make_mask_over_graph_properties(arrays, properties) & ~_make_mask_over_graph_properties(
        arrays, options.ignored_properties
    )
    search = _LiteralSearchBatch(
        arrays,
        read_literals,
        WalkableEdges(arrays.out, arrays.into, _make_mask_over_graph_properties(arrays, options.ignored_properties)),
        arrays.items.find_places(subjects),
        _make_literal_search_ranges(objects, counted),
        numbers,
        _get_path_cap(options),
    )
    # neighbouring rows share pages, which may have to be read from disk; paths are sorted by pair below
    nearby = np.argsort(search.starts, kind="stable")
    one_hop, direct = _find_literal_paths_and_totals_at_hops(search, 1, nearby)
    # decided only now: a hit may have proved to be another number, or one in another unit
    left = nearby if options.always_two_hops else nearby[direct == 0]
    two_hops, further = _find_literal_paths_and_totals_at_hops(search, 2, left)
    totals = np.zeros(len(subjects), np.int64)
    totals[nearby] = direct
    totals[left] += further
    found = pa.concat_tables([one_hop, two_hops])
    order = np.argsort(found["pair"].to_numpy(), kind="stable")
    pairs = found["pair"].to_numpy()[order]
    rank = np.arange(len(pairs)) - np.searchsorted(pairs, pairs)
    paths = found.take(pa.array(order[rank < search.cap]))
    return PathsFoundForPairs(
        paths, _make_pair_statuses_table(totals, search.cap, [(search.starts < 0, _UNKNOWN_SUBJECT)])
    )


def compile_path_kernels() -> None:
    """Compile the path kernels in advance, so that no user has to wait; takes some ten seconds the first time.

    The result is cached next to the code or, if that is not writable, in the user's cache. Until the code changes, a
    later process needs half a second.
    """
    arrays, unknown = make_empty_arrays(), np.ones(1, np.int64)
    find_item_paths(arrays, unknown, unknown, PathSearchOptions())
    find_literal_paths(arrays, _refuse_to_read_literals, unknown, [PartialDate(1)], frozenset(), PathSearchOptions())


def _find_literal_paths_and_totals_at_hops(
    search: _LiteralSearchBatch, hops: int, pairs: Ints
) -> tuple[pa.Table, Ints]:
    """Return some pairs' paths with `hops` hops (dates: at most the cap per pair), and each pair's total number."""
    totals, starts = np.zeros(len(pairs), np.int64), search.starts[pairs]
    cap = search.cap if search.numbers is None else _NO_CAP
    lowest, highest, precisions, properties = search.sought
    sought = SoughtLiteralKeyRangeByPair(lowest[pairs], highest[pairs], precisions[pairs], properties)

    def walk(first: int, last: int, found: PathTable) -> tuple[int, int]:
        stopped, written, _ = write_literal_paths(
            search.ground, search.arrays.literals, sought, starts, hops, first, last, cap, found, totals
        )
        return stopped, written

    found = _search_chunks_in_parallel(walk, LITERAL_PATH_COLUMNS, totals, cap)
    if not len(found):
        return LITERAL_PATHS_SCHEMA.empty_table(), totals
    ids, rows = np.unique(found[:, 3], return_inverse=True)
    literals = search.read_literals(ids).take(pa.array(rows))
    if search.numbers is not None:
        wanted = search.numbers.take(pa.array(pairs[found[:, 0]]))
        same_number = pc.equal(literals["number"], wanted["number"])
        same_unit = pc.or_kleene(pc.is_null(wanted["unit"]), pc.equal(literals["unit"], wanted["unit"]))
        fits = pc.fill_null(pc.and_kleene(same_number, same_unit), False).to_numpy(zero_copy_only=False)
        literals, found = literals.filter(pa.array(fits)), found[fits]
        totals = np.bincount(found[:, 0], minlength=len(pairs))
    return _make_literal_paths_table(search.arrays, hops, pairs[found[:, 0]], found, literals), totals


def _make_literal_paths_table(
    arrays: GraphArrays, hops: int, pairs: Ints, found: PathTable, literals: pa.Table
) -> pa.Table:
    """Return the paths as a table with the schema LITERAL_PATHS_SCHEMA."""
    own = literals["property"]
    if hops == 1:
        middle, first, second = pa.nulls(len(pairs), pa.int64()), own, pa.nulls(len(pairs), pa.int32())
    else:
        middle, first, second = arrays.items.numbers[found[:, 1]], arrays.properties[found[:, 2]], own
    columns = {
        "pair": pairs.astype(np.int32),
        "hops": np.full(len(pairs), hops, np.int8),
        "middle": middle,
        "property_1": first,
        "property_2": second,
        **{name: literals[name].cast(LITERAL_PATHS_SCHEMA.field(name).type) for name in LITERAL_PATHS_SCHEMA.names[5:]},
    }
    return pa.table(columns, LITERAL_PATHS_SCHEMA)


def _search_chunks_in_parallel(
    walk: Callable[[int, int, PathTable], tuple[int, int]], column_count: int, totals: Ints, cap: int
) -> PathTable:
    """Run `walk` over all pairs in parallel chunks; return the rows that it writes, in order.

    `walk` takes a range of pairs (first, last) and a table to write into. It returns the first pair that did not fit,
    whose number of paths is in `totals`, and the number of rows it wrote.
    """

    def walk_chunk(first: int) -> list[PathTable]:
        last, room, pieces = min(first + _CHUNK_PAIRS, len(totals)), _CHUNK_ROWS, []
        while first < last:
            table = np.empty((room, column_count), np.int64)
            first, written = walk(first, last, table)
            pieces.append(table[:written])
            if first < last:
                room = max(2 * room, min(int(totals[first]), cap))
        return pieces

    chunks = range(0, len(totals), _CHUNK_PAIRS)
    pieces = [np.empty((0, column_count), np.int64)]
    if len(chunks) > 1:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        with ThreadPoolExecutor(min(cores, len(chunks))) as pool:
            for found in pool.map(walk_chunk, chunks):
                pieces += found
    else:
        for first in chunks:
            pieces += walk_chunk(first)
    return np.concatenate(pieces)


def _restore_pair_order(found: PathTable, totals: Ints, order: Ints, cap: int) -> tuple[PathTable, Ints]:
    """Return rows and totals, found for pairs sorted by `order`, in the pairs' original order."""
    kept = np.minimum(totals, cap)
    place = np.argsort(order)
    counts, begins = kept[place], (np.cumsum(kept) - kept)[place]
    ends = np.cumsum(counts)
    rows = found[np.arange(len(found)) + np.repeat(begins - ends + counts, counts)]
    rows[:, 0] = np.repeat(np.arange(len(order)), counts)
    return rows, totals[place]


def _make_mask_over_graph_properties(arrays: GraphArrays, properties: frozenset[int]) -> npt.NDArray[np.bool_]:
    """Return for each property's place whether its number is among these."""
    return np.isin(arrays.properties, np.array(sorted(properties), np.int64))


def _get_path_cap(options: PathSearchOptions) -> int:
    return _NO_CAP if options.max_paths is None else options.max_paths


def _make_literal_search_ranges(
    objects: Sequence[PartialDate] | Sequence[WantedNumberWithUnit], properties: npt.NDArray[np.bool_]
) -> SoughtLiteralKeyRangeByPair:
    """Return the key ranges and precisions that match the dates or numbers; see Date.fits, Number.fits."""
    if objects and isinstance(objects[0], WantedNumberWithUnit):
        keys = np.array([hash_canonical_number(cast(WantedNumberWithUnit, each).number) for each in objects], np.int64)
        return SoughtLiteralKeyRangeByPair(keys, keys, np.zeros(len(keys), np.uint8), properties)
    dates = cast(Sequence[PartialDate], objects)
    months = np.array([-1 if each.month is None else each.month for each in dates], np.int64)
    days = np.array([-1 if each.day is None else each.day for each in dates], np.int64)
    kinds = np.where(months < 0, 0, np.where(days < 0, 1, 2))
    # no value lies beyond the highest year, and no key could
    is_near = np.array([abs(each.year) <= _HIGHEST_YEAR for each in dates], np.bool_)
    years = np.array([each.year if near else 0 for each, near in zip(dates, is_near.tolist(), strict=True)], np.int64)
    steps = _DATE_KEY_STEPS[kinds]
    lowest = (years * 10_000 + np.maximum(months, 0) * 100 + np.maximum(days, 0)) // steps * steps
    return SoughtLiteralKeyRangeByPair(
        np.where(is_near, lowest, 1), np.where(is_near, lowest + steps - 1, 0), _DATE_PRECISIONS[kinds], properties
    )


def _make_numbers_table_unless_dates(
    objects: Sequence[PartialDate] | Sequence[WantedNumberWithUnit],
) -> pa.Table | None:
    numbers = [each for each in objects if isinstance(each, WantedNumberWithUnit)]
    if len(numbers) not in (0, len(objects)):
        raise ValueError("expected only dates or only numbers in one batch, got both")
    if not numbers:
        return None
    units = pa.array([each.unit for each in numbers], pa.int64())
    return pa.table({"number": pa.array([each.number for each in numbers], pa.string()), "unit": units})


def _make_pair_statuses_table(
    totals: Ints, cap: int, outcomes: Sequence[tuple[npt.NDArray[np.bool_], int]]
) -> pa.Table:
    """Return a table with the schema PAIRS; a pair's status is its first true outcome, else follows from its total."""
    kept = np.minimum(totals, cap)
    conditions = [*(condition for condition, _ in outcomes), totals > cap, totals > 0]
    statuses = np.select(conditions, [*(status for _, status in outcomes), _CAPPED, _FOUND], _NONE)
    return pa.table(
        [pa.array(np.arange(len(totals), dtype=np.int32)), _PAIR_STATUSES.take(pa.array(statuses)), totals, kept],
        PAIR_STATUS_SCHEMA,
    )


def _check_pair_lengths(subjects: Ints, objects: Sequence[object] | Ints) -> None:
    if len(subjects) != len(objects):
        raise ValueError(f"expected as many objects as subjects, got {len(objects):,} and {len(subjects):,}")


def _refuse_to_read_literals(ids: Ints) -> pa.Table:
    raise AssertionError(f"the graph has no literals, but these ids were asked for: {ids}")
