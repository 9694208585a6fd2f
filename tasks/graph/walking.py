"""Walking the arrays of a graph, compiled by numba: the inner loops of path finding (tasks/graph/paths.py).

A kernel answers a range of pairs and holds no lock of Python's, so that several threads walk at once. It writes into a
table that is given, in the order of core/paths.py without sorting, since rows are sorted by item and property. When a
pair's paths do not fit into the table, it stops at that pair.

Two hops from a start to an end meet in an item that both the row of what leaves the start and the row of what leads to
the end hold. Rows of like length are merged. Where one is much longer, as the millions of claims that lead to a hub,
only the shorter is read and each of its items looked up; so no hub is ever read through.

A helper takes how many paths of the pair there are so far, `total`, writes each further one as row `at + total` if that
is below the `room` there is, and returns the new total.

Waiting for memory would take most of the time, so what the next pairs will need is read ahead, all at once
(`_touch_rows`). Helpers take arrays one by one: for one that is taken out of a tuple numba counts references, which costs
more than what most helpers do, and more still when threads do it at once.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from factmill.tasks.graph.arrays import Ints, Literals, Rows
from factmill.tasks.graph.loading.compiling import compile_kernel, inline

Flags = npt.NDArray[np.bool_]
Column = npt.NDArray[np.integer[Any]]
Table = npt.NDArray[np.int64]

_PAIRS_AHEAD = 32
# a step of a merge costs about a sixteenth of looking an item up in another row
_MERGED_STEPS = 16
# fewer keys lie in one or two lines of memory: reading them all is as quick
_SEARCHED_LITERALS = 16

ITEM_COLUMNS = 5
"""Of what `walk_items` writes: pair, backward, and places of the middle (-1 at one hop) and of both properties."""
LITERAL_COLUMNS = 4
"""Of what `walk_literals` writes: pair, places of the middle (-1 at one hop) and of the first property, literal."""


class Ground(NamedTuple):
    """What is walked on."""

    out: Rows
    into: Rows
    ignored: Flags
    """By place of a property: True where no path may use it."""


class Sought(NamedTuple):
    """Literals that are looked for: by pair the least and the highest key, and the least precision."""

    lowest: Ints
    highest: Ints
    precisions: npt.NDArray[np.uint8]
    properties: Flags
    """By place of a property: True where its values count."""


@inline
def _find_first(values: Column, begin: int, end: int, wanted: int) -> int:
    """Return where in the ascending values[begin:end] the first lies that is not below the wanted one."""
    while begin < end:
        middle = (begin + end) >> 1
        if values[middle] < wanted:
            begin = middle + 1
        else:
            end = middle
    return begin


@inline
def _skip_to(values: Column, begin: int, end: int, wanted: int) -> int:
    """Do as `_find_first` does, in ever longer steps: quick when what is wanted is near."""
    step = 1
    while begin + step <= end and values[begin + step - 1] < wanted:
        begin += step
        step *= 2
    return _find_first(values, begin, min(begin + step, end), wanted)


@inline
def _find_run_end(values: Column, begin: int, end: int) -> int:
    """Return where the values that equal values[begin] end."""
    value = values[begin]
    begin += 1
    while begin < end and values[begin] == value:
        begin += 1
    return begin


@inline
def _touch_rows(
    out_offsets: Ints, out_items: Column, in_offsets: Ints, in_items: Column,
    subjects: Ints, objects: Ints, first: int, last: int,
) -> int:  # fmt: skip
    """Read the beginnings of all rows of some pairs, none waiting for another; the sum only makes sure that they are."""
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


@inline
def _walk_one_hop(
    items: Column, properties: Column, edge: int, stop: int, other: int,
    ignored: Flags, found: Table, at: int, room: int, total: int,
) -> int:  # fmt: skip
    """Write the claims of a row that lead to, or come from, the other item."""
    edge = _find_first(items, edge, stop, other)
    while edge < stop and items[edge] == other:
        if not ignored[properties[edge]]:
            if total < room:
                found[at + total, 2] = -1
                found[at + total, 3] = properties[edge]
                found[at + total, 4] = 0
            total += 1
        edge += 1
    return total


@inline
def _join_hops(
    properties_1: Column, begin_1: int, end_1: int, properties_2: Column, begin_2: int, end_2: int, middle: int,
    ignored: Flags, found: Table, at: int, room: int, total: int,
) -> int:  # fmt: skip
    """Write each first hop to a middle with each second hop from it."""
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


@inline
def _merge_rows(
    items_1: Column, properties_1: Column, first: int, end_1: int,
    items_2: Column, properties_2: Column, second: int, end_2: int,
    ignored: Flags, found: Table, at: int, room: int, total: int,
) -> int:  # fmt: skip
    """Write the paths through all items that both rows hold."""
    while first < end_1 and second < end_2:
        middle, other = items_1[first], items_2[second]
        if middle < other:
            first = _skip_to(items_1, first + 1, end_1, other)
        elif other < middle:
            second = _skip_to(items_2, second + 1, end_2, middle)
        else:
            next_1, next_2 = _find_run_end(items_1, first, end_1), _find_run_end(items_2, second, end_2)
            total = _join_hops(
                properties_1, first, next_1, properties_2, second, next_2, middle, ignored, found, at, room, total
            )
            first, second = next_1, next_2
    return total


@inline
def _look_up_end(
    offsets: Column, items: Column, properties: Column, first: int, end_1: int, end: int,
    ignored: Flags, found: Table, at: int, room: int, total: int,
) -> int:  # fmt: skip
    """Write the paths from a row of first hops to an end that is a hub: it is looked for in what leaves each middle."""
    while first < end_1:
        middle = items[first]
        stop = offsets[middle + 1]
        second = _find_first(items, offsets[middle], stop, end)
        if second < stop and items[second] == end:
            next_2 = _find_run_end(items, second, stop)
            total = _join_hops(
                properties, first, first + 1, properties, second, next_2, middle, ignored, found, at, room, total
            )
        first += 1
    return total


@compile_kernel
def walk_items(
    ground: Ground, subjects: Ints, objects: Ints, first: int, last: int, all_hops: bool, most_paths: int,
    found: Table, totals: Ints,
) -> tuple[int, int, int]:  # fmt: skip
    """Find the paths between items, given by place (-1 for none), for the pairs from `first` up to `last`.

    Returns the first pair that did not fit (`last` when all did), how many rows are written, and a number without
    meaning. `totals` receives the number of paths of each pair, also of the one that did not fit.
    """
    out_offsets, out_items, out_properties = ground.out
    in_offsets, in_items, in_properties = ground.into
    ignored = ground.ignored
    written, unused = 0, 0
    for pair in range(first, last):
        if (pair - first) % _PAIRS_AHEAD == 0:
            ahead = min(pair + _PAIRS_AHEAD, last)
            unused += _touch_rows(out_offsets, out_items, in_offsets, in_items, subjects, objects, pair, ahead)
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
                    # told apart here: in a helper of helpers numba would count references again
                    if hops == 1 and end_1 - begin_1 <= end_2 - begin_2:
                        total = _walk_one_hop(
                            out_items, out_properties, begin_1, end_1, end, ignored, found, written, room, total
                        )
                    elif hops == 1:
                        total = _walk_one_hop(
                            in_items, in_properties, begin_2, end_2, start, ignored, found, written, room, total
                        )
                    elif (end_1 - begin_1) * _MERGED_STEPS < end_2 - begin_2:
                        total = _look_up_end(
                            out_offsets, out_items, out_properties, begin_1, end_1, end,
                            ignored, found, written, room, total,
                        )  # fmt: skip
                    else:
                        total = _merge_rows(
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


@inline
def _find_ordered(keys: Ints, order: Column, row: int, begin: int, end: int, wanted: int) -> int:
    """Return where in the order of a row's keys, from `begin` to `end`, the first lies that is not below the wanted one."""
    while begin < end:
        middle = (begin + end) >> 1
        if keys[row + order[middle]] < wanted:
            begin = middle + 1
        else:
            end = middle
    return begin


@inline
def _find_literals(
    keys: Ints, precisions: Column, own: Column, claims: Column, order: Column, begin: int, end: int,
    lowest: int, highest: int, precision: int, counted: Flags, ignored: Flags,
    pair: int, middle: int, first_hop: int, found: Table, at: int, room: int, total: int,
) -> int:  # fmt: skip
    """Write those literals of a row that are sought: of a long row with an order only those with such a key are read."""
    is_ordered = end - begin >= _SEARCHED_LITERALS and len(order) > 0
    first, last = begin, end
    if is_ordered:
        first = _find_ordered(keys, order, begin, begin, end, lowest)
        if first == end or keys[begin + order[first]] > highest:
            return total
        last = _find_ordered(keys, order, begin, first, end, highest + 1)
        if keys[begin + order[first]] != keys[begin + order[last - 1]]:
            # paths stand in the order of literals, and only those of one key do so here
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


@inline
def _touch_literals(
    out_offsets: Ints, out_items: Column, starts: Ints, keys: Column, order: Column,
    subjects: Ints, hops: int, first: int, last: int,
) -> int:  # fmt: skip
    """Do as `_touch_rows` does with the beginnings of all literals that some pairs may end in, or where a search begins."""
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
                    if stop - begin >= _SEARCHED_LITERALS and len(order):
                        total += order[(begin + stop) >> 1]
    return total


@compile_kernel
def walk_literals(
    ground: Ground, literals: Literals, sought: Sought, subjects: Ints, hops: int, first: int, last: int,
    most_paths: int, found: Table, totals: Ints,
) -> tuple[int, int, int]:  # fmt: skip
    """Find the literals that are sought at one hop from items, or at two, as `walk_items` finds items."""
    offsets, items, properties = ground.out
    starts, own, claims, keys, precisions, order = literals
    lowest, highest, least, counted = sought
    ignored = ground.ignored
    written, unused = 0, 0
    for pair in range(first, last):
        if (pair - first) % _PAIRS_AHEAD == 0:
            ahead = min(pair + _PAIRS_AHEAD, last)
            unused += _touch_literals(offsets, items, starts, keys, order, subjects, hops, pair, ahead)
        total, room, subject = 0, min(most_paths, len(found) - written), subjects[pair]
        if subject >= 0 and hops == 1:
            total = _find_literals(
                keys, precisions, own, claims, order, starts[subject], starts[subject + 1],
                lowest[pair], highest[pair], least[pair], counted, ignored, pair, -1, 0, found, written, room, total,
            )  # fmt: skip
        elif subject >= 0:
            for edge in range(offsets[subject], offsets[subject + 1]):
                middle, place = items[edge], properties[edge]
                if not ignored[place]:
                    total = _find_literals(
                        keys, precisions, own, claims, order, starts[middle], starts[middle + 1],
                        lowest[pair], highest[pair], least[pair], counted, ignored,
                        pair, middle, place, found, written, room, total,
                    )  # fmt: skip
        totals[pair] = total
        if min(total, most_paths) > room:
            return pair, written, unused
        written += min(total, room)
    return last, written, unused
