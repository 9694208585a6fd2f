"""Path-finding kernels over a graph's arrays, compiled by numba: the inner loops of tasks/graph/paths.py.

A kernel handles a range of pairs and releases Python's global lock, so threads run in parallel. It writes into a given
table, in the order of core/wikidata_paths.py without sorting, since the arrays' rows are sorted by item and property. If a
pair's paths do not fit into the table, the kernel stops at that pair.

A two-hop path passes through an item that is both in the start's outgoing row and in the end's incoming row. Rows of
similar length are merged. If one is much longer, as the millions of claims that lead to a hub, only the shorter is read
and each of its items searched for; so a hub's row is never read through.

A helper takes the pair's number of paths so far, `total`, writes each further one as row `at + total` if `total` is
below `room`, and returns the new total.

Waiting for memory would take most of the time, so the rows of the next pairs are prefetched together (`_prefetch_rows`).
Helpers take arrays one by one: numba counts references to an array taken from a tuple, which costs more than most
helpers' work, and even more across threads.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from factmill.tasks.graph.arrays import EdgesByItem, Ints, LiteralsByItem
from factmill.tasks.graph.loading.compiling import compile_inline, compile_kernel

Flags = npt.NDArray[np.bool_]
Column = npt.NDArray[np.integer[Any]]
PathTable = npt.NDArray[np.int64]

_PREFETCHED_PAIRS = 32
# a merge step costs about a sixteenth of searching for an item in another row
_MERGE_STEPS_PER_SEARCH = 16
# fewer keys fit into one or two cache lines: reading them all is as fast
_MIN_SEARCHED_LITERALS = 16

ITEM_PATH_COLUMNS = 5
"""Columns that `write_item_paths` writes: pair, backward, and places of the middle (-1 at one hop) and of both properties."""
LITERAL_PATH_COLUMNS = 4
"""Columns that `write_literal_paths` writes: pair, places of middle (-1 at one hop) and first property, literal."""


class WalkableEdges(NamedTuple):
    """Edges in both directions, and the properties to ignore."""

    out: EdgesByItem
    into: EdgesByItem
    ignored: Flags
    """By property place: True if no path may use the property."""


class SoughtLiteralKeyRangeByPair(NamedTuple):
    """Literals to search for: each pair's lowest and highest key, and lowest precision."""

    lowest: Ints
    highest: Ints
    precisions: npt.NDArray[np.uint8]
    properties: Flags
    """By property place: True if the property's values count."""


@compile_inline
def _find_lower_bound(values: Column, begin: int, end: int, wanted: int) -> int:
    """Return the position of the first value in ascending values[begin:end] that is not below `wanted`."""
    while begin < end:
        middle = (begin + end) >> 1
        if values[middle] < wanted:
            begin = middle + 1
        else:
            end = middle
    return begin


@compile_inline
def _gallop_to_lower_bound(values: Column, begin: int, end: int, wanted: int) -> int:
    """Return the same as `_find_lower_bound`, by steps of growing length: fast if the position is near `begin`."""
    step = 1
    while begin + step <= end and values[begin + step - 1] < wanted:
        begin += step
        step *= 2
    return _find_lower_bound(values, begin, min(begin + step, end), wanted)


@compile_inline
def _find_run_end(values: Column, begin: int, end: int) -> int:
    """Return the end of the run of values that equal values[begin]."""
    value = values[begin]
    begin += 1
    while begin < end and values[begin] == value:
        begin += 1
    return begin


@compile_inline
def _prefetch_rows(
    out_offsets: Ints, out_items: Column, in_offsets: Ints, in_items: Column,
    subjects: Ints, objects: Ints, first: int, last: int,
) -> int:  # fmt: skip
    """Prefetch the starts of some pairs' rows by independent reads; the returned sum keeps numba from dropping them."""
    total, end = 0, len(out_items) - 1
    if end < 0:
        return 0
    for pair in range(first, last):
        subject, target = subjects[pair], objects[pair]
        if subject >= 0 and target >= 0:
            total += out_offsets[subject] + in_offsets[target] + out_offsets[target] + in_offsets[subject]
    for pair in range(first, last):
        subject, target = subjects[pair], objects[pair]
        if subject >= 0 and target >= 0:
            total += out_items[min(out_offsets[subject], end)] + in_items[min(in_offsets[target], end)]
            total += out_items[min(out_offsets[target], end)] + in_items[min(in_offsets[subject], end)]
    return total


@compile_inline
def _write_one_hop_paths(
    items: Column, properties: Column, edge: int, stop: int, other: int,
    ignored: Flags, found: PathTable, at: int, room: int, total: int,
) -> int:  # fmt: skip
    """Write a row's claims to, or from, the item `other`."""
    edge = _find_lower_bound(items, edge, stop, other)
    while edge < stop and items[edge] == other:
        if not ignored[properties[edge]]:
            if total < room:
                found[at + total, 2] = -1
                found[at + total, 3] = properties[edge]
                found[at + total, 4] = 0
            total += 1
        edge += 1
    return total


@compile_inline
def _write_two_hop_combinations(
    properties_1: Column, begin_1: int, end_1: int, properties_2: Column, begin_2: int, end_2: int, middle: int,
    ignored: Flags, found: PathTable, at: int, room: int, total: int,
) -> int:  # fmt: skip
    """Write every combination of a first hop to a middle item and a second hop from it."""
    for first in range(begin_1, end_1):
        if ignored[properties_1[first]]:
            continue
        for second in range(begin_2, end_2):
            if ignored[properties_2[second]]:
                continue
            if total < room:
                found[at + total, 2] = middle
                found[at + total, 3] = properties_1[first]
                found[at + total, 4] = properties_2[second]
            total += 1
    return total


@compile_inline
def _write_merged_row_paths(
    items_1: Column, properties_1: Column, first: int, end_1: int,
    items_2: Column, properties_2: Column, second: int, end_2: int,
    ignored: Flags, found: PathTable, at: int, room: int, total: int,
) -> int:  # fmt: skip
    """Write the paths through all items common to both rows, by merging them."""
    while first < end_1 and second < end_2:
        middle, other = items_1[first], items_2[second]
        if middle < other:
            first = _gallop_to_lower_bound(items_1, first + 1, end_1, other)
        elif other < middle:
            second = _gallop_to_lower_bound(items_2, second + 1, end_2, middle)
        else:
            next_1, next_2 = _find_run_end(items_1, first, end_1), _find_run_end(items_2, second, end_2)
            total = _write_two_hop_combinations(
                properties_1, first, next_1, properties_2, second, next_2, middle, ignored, found, at, room, total
            )
            first, second = next_1, next_2
    return total


@compile_inline
def _write_two_hop_paths_by_middle_row_search(
    offsets: Column, items: Column, properties: Column, first: int, end_1: int, end: int,
    ignored: Flags, found: PathTable, at: int, room: int, total: int,
) -> int:  # fmt: skip
    """Write the paths from a row of first hops to a hub, by searching each middle item's outgoing row for it."""
    while first < end_1:
        middle = items[first]
        stop = offsets[middle + 1]
        second = _find_lower_bound(items, offsets[middle], stop, end)
        if second < stop and items[second] == end:
            next_2 = _find_run_end(items, second, stop)
            total = _write_two_hop_combinations(
                properties, first, first + 1, properties, second, next_2, middle, ignored, found, at, room, total
            )
        first += 1
    return total


@compile_kernel
def write_item_paths(
    walkable_edges: WalkableEdges, subjects: Ints, objects: Ints, first: int, last: int, all_hops: bool, most_paths: int,
    found: PathTable, totals: Ints,
) -> tuple[int, int, int]:  # fmt: skip
    """Write the paths between items, given by place (-1: unknown), of the pairs from `first` up to `last`.

    Returns the first pair that did not fit (`last` if all did), the number of rows written, and a meaningless number.
    `totals` receives each pair's number of paths, including that of the pair that did not fit.
    """
    out_offsets, out_items, out_properties = walkable_edges.out
    in_offsets, in_items, in_properties = walkable_edges.into
    ignored = walkable_edges.ignored
    written, unused = 0, 0
    for pair in range(first, last):
        if (pair - first) % _PREFETCHED_PAIRS == 0:
            ahead = min(pair + _PREFETCHED_PAIRS, last)
            unused += _prefetch_rows(out_offsets, out_items, in_offsets, in_items, subjects, objects, pair, ahead)
        total, room = 0, min(most_paths, len(found) - written)
        if subjects[pair] >= 0 and objects[pair] >= 0 and subjects[pair] != objects[pair]:
            for hops in (1, 2):
                if hops == 2 and total and not all_hops:
                    break
                for backward in (0, 1):
                    start, end = (objects[pair], subjects[pair]) if backward else (subjects[pair], objects[pair])
                    begin_1, end_1 = out_offsets[start], out_offsets[start + 1]
                    begin_2, end_2 = in_offsets[end], in_offsets[end + 1]
                    row = written + min(total, room)
                    # distinguished here: numba would count references again in a helper that calls helpers
                    if hops == 1 and end_1 - begin_1 <= end_2 - begin_2:
                        total = _write_one_hop_paths(
                            out_items, out_properties, begin_1, end_1, end, ignored, found, written, room, total
                        )
                    elif hops == 1:
                        total = _write_one_hop_paths(
                            in_items, in_properties, begin_2, end_2, start, ignored, found, written, room, total
                        )
                    elif (end_1 - begin_1) * _MERGE_STEPS_PER_SEARCH < end_2 - begin_2:
                        total = _write_two_hop_paths_by_middle_row_search(
                            out_offsets, out_items, out_properties, begin_1, end_1, end,
                            ignored, found, written, room, total,
                        )  # fmt: skip
                    else:
                        total = _write_merged_row_paths(
                            out_items, out_properties, begin_1, end_1, in_items, in_properties, begin_2, end_2,
                            ignored, found, written, room, total,
                        )  # fmt: skip
                    while row < written + min(total, room):
                        found[row, 0] = pair
                        found[row, 1] = backward
                        row += 1
        totals[pair] = total
        if min(total, most_paths) > room:
            return pair, written, unused
        written += min(total, room)
    return last, written, unused


@compile_inline
def _find_ordered_lower_bound(keys: Ints, order: Column, row: int, begin: int, end: int, wanted: int) -> int:
    """Return the position in a row's `order`, from `begin` to `end`, of the first key that is not below `wanted`."""
    while begin < end:
        middle = (begin + end) >> 1
        if keys[row + order[middle]] < wanted:
            begin = middle + 1
        else:
            end = middle
    return begin


@compile_inline
def _write_row_literal_paths(
    keys: Ints, precisions: Column, own: Column, claims: Column, order: Column, begin: int, end: int,
    lowest: int, highest: int, precision: int, counted: Flags, ignored: Flags,
    pair: int, middle: int, first_hop: int, found: PathTable, at: int, room: int, total: int,
) -> int:  # fmt: skip
    """Write a row's matching literals; in a long row with an order, only the matching keys are read."""
    is_ordered = end - begin >= _MIN_SEARCHED_LITERALS and len(order) > 0
    first, last = begin, end
    if is_ordered:
        first = _find_ordered_lower_bound(keys, order, begin, begin, end, lowest)
        if first == end or keys[begin + order[first]] > highest:
            return total
        last = _find_ordered_lower_bound(keys, order, begin, first, end, highest + 1)
        if keys[begin + order[first]] != keys[begin + order[last - 1]]:
            # paths are in literal order, and the key order agrees with it only within one key
            is_ordered, first, last = False, begin, end
    for place in range(first, last):
        literal = begin + order[place] if is_ordered else place
        if keys[literal] < lowest or keys[literal] > highest:
            continue
        if precisions[literal] < precision or ignored[claims[literal]] or not counted[own[literal]]:
            continue
        if total < room:
            found[at + total, 0] = pair
            found[at + total, 1] = middle
            found[at + total, 2] = first_hop
            found[at + total, 3] = literal
        total += 1
    return total


@compile_inline
def _prefetch_literals(
    out_offsets: Ints, out_items: Column, starts: Ints, keys: Column, order: Column,
    subjects: Ints, hops: int, first: int, last: int,
) -> int:  # fmt: skip
    """Prefetch the starts of some pairs' literal rows, and the middles of those to search; see `_prefetch_rows`."""
    total, end = 0, len(keys) - 1
    if end < 0:
        return 0
    for pair in range(first, last):
        if subjects[pair] >= 0:
            total += starts[subjects[pair]] + out_offsets[subjects[pair]]
    for pair in range(first, last):
        subject = subjects[pair]
        if subject >= 0 and hops == 1:
            total += keys[min(starts[subject], end)]
        elif subject >= 0:
            for edge in range(out_offsets[subject], out_offsets[subject + 1]):
                total += starts[out_items[edge]]
    if hops == 2:
        for pair in range(first, last):
            subject = subjects[pair]
            if subject >= 0:
                for edge in range(out_offsets[subject], out_offsets[subject + 1]):
                    begin, stop = starts[out_items[edge]], starts[out_items[edge] + 1]
                    total += keys[min(begin, end)]
                    if stop - begin >= _MIN_SEARCHED_LITERALS and len(order):
                        total += order[(begin + stop) >> 1]
    return total


@compile_kernel
def write_literal_paths(
    walkable_edges: WalkableEdges, literals: LiteralsByItem, sought: SoughtLiteralKeyRangeByPair, subjects: Ints, hops: int, first: int, last: int,
    most_paths: int, found: PathTable, totals: Ints,
) -> tuple[int, int, int]:  # fmt: skip
    """Write the paths from items to matching literals at one hop or at two; see `write_item_paths`."""
    offsets, items, properties = walkable_edges.out
    starts, own, claims, keys, precisions, order = literals
    lowest, highest, least, counted = sought
    ignored = walkable_edges.ignored
    written, unused = 0, 0
    for pair in range(first, last):
        if (pair - first) % _PREFETCHED_PAIRS == 0:
            ahead = min(pair + _PREFETCHED_PAIRS, last)
            unused += _prefetch_literals(offsets, items, starts, keys, order, subjects, hops, pair, ahead)
        total, room, subject = 0, min(most_paths, len(found) - written), subjects[pair]
        if subject >= 0 and hops == 1:
            total = _write_row_literal_paths(
                keys, precisions, own, claims, order, starts[subject], starts[subject + 1],
                lowest[pair], highest[pair], least[pair], counted, ignored, pair, -1, 0, found, written, room, total,
            )  # fmt: skip
        elif subject >= 0:
            for edge in range(offsets[subject], offsets[subject + 1]):
                middle, place = items[edge], properties[edge]
                if not ignored[place]:
                    total = _write_row_literal_paths(
                        keys, precisions, own, claims, order, starts[middle], starts[middle + 1],
                        lowest[pair], highest[pair], least[pair], counted, ignored,
                        pair, middle, place, found, written, room, total,
                    )  # fmt: skip
        totals[pair] = total
        if min(total, most_paths) > room:
            return pair, written, unused
        written += min(total, room)
    return last, written, unused
