"""How what is asked is cut into groups, each answered by one worker at once.

Exact batches hold texts of one length (models/exact_batches.py), so a group takes texts of lengths that lie together: its
batches then fill up nearly as those of all texts would. The longest come first, so that at the end workers wait for
short ones. Groups are small enough that a worker that dies takes little along, and that every worker has some.
"""

from collections.abc import Sequence

_GROUPS_A_WORKER = 4


def cut_groups(weights: Sequence[int], workers: int, least: int, most: int) -> list[list[int]]:
    """Return all places in groups, the heaviest first; `weights`: one a place, such as letters of a text.

    A group weighs what gives each worker some groups, but at least `least` and at most `most`, unless one place is more.
    """
    budget = min(max(sum(weights) // (max(workers, 1) * _GROUPS_A_WORKER), least), most)
    groups: list[list[int]] = []
    weight = 0
    for place in sorted(range(len(weights)), key=lambda place: (-weights[place], place)):
        if not groups or weight + weights[place] > budget:
            groups.append([])
            weight = 0
        groups[-1].append(place)
        weight += weights[place]
    return groups


def cut_ranges(count: int, workers: int, least: int, most: int) -> list[range]:
    """Return `count` places in ranges of one size, as `cut_groups` would choose it."""
    size = min(max(count // (max(workers, 1) * _GROUPS_A_WORKER), least), most)
    return [range(start, min(start + size, count)) for start in range(0, count, size)]
