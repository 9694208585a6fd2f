"""Tables of paths between a subject and an object in Wikidata: their schemas, their order, and the search interface.

MultiHal mines paths of one and two hops between the entities of a question and of its answer (paper, §2.2 and Appendix C).
Both engines, the local graph and SPARQL, return these forms:

- A path to an **item** follows direct claims (wdt:), from subject to object or, if `backward`, from object to subject.
  It may visit an item twice, as in SPARQL.
- A path to a **date or number** ends in the value of a statement or of one of its qualifiers; a hop before it is a
  direct claim to an item. Deprecated statements do not count. Where a subject has no statements of a property, as in a
  truthy dump, its direct claims replace them.

Ids are numbers here (64 is Q64 or P64, depending on the column), since there are millions of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from factmill.tasks.text.values.wikidata_literals import PartialDate, WantedNumberWithUnit

ITEM_PATHS_SCHEMA = pa.schema(
    {
        "pair": pa.int32(),  # position of the pair in the batch
        "hops": pa.int8(),
        "backward": pa.bool_(),  # from object to subject
        "middle": pa.int64(),  # QID number of the item between two hops; null at one hop
        "property_1": pa.int32(),
        "property_2": pa.int32(),  # null at one hop
    }
)
"""Paths to items, sorted by these columns, null first."""

LITERAL_PATHS_SCHEMA = pa.schema(
    {
        "pair": pa.int32(),
        "hops": pa.int8(),
        "middle": pa.int64(),  # item that holds the statement; null at one hop, where it is the subject
        "property_1": pa.int32(),
        "property_2": pa.int32(),  # property of the statement at two hops, null at one, where property_1 is it
        "qualifier": pa.int32(),  # property of the qualifier that holds the value; null when it is the statement's own
        "statement": pa.string(),  # its id as in the RDF (Q42-…); null for a direct claim
        "value": pa.string(),  # a date as written in the RDF, a number in canonical spelling
        "precision": pa.int8(),  # of a date, where the data say it
        "unit": pa.int64(),  # QID number of a number's unit; null for none
        "main": pa.string(),  # value of the statement whose qualifier holds the value: a QID or text; null if unknown
    }
)
"""Paths to dates and numbers, sorted by these columns (property_2, qualifier, statement… with null first)."""

PAIR_STATUS_SCHEMA = pa.schema({"pair": pa.int32(), "status": pa.string(), "total": pa.int64(), "kept": pa.int64()})
"""Result of each pair of a batch: its Status, the number of paths found, and the number returned."""

PairStatus = Literal["found", "none", "capped", "identical", "unknown_subject", "unknown_object", "failed"]
"""`capped`: more paths than the cap, of which the first in order are kept; `identical`: subject and object are one item;
`unknown_*`: the local graph lacks the item; `failed`: the endpoint gave no response (SPARQL only)."""

MAX_PATHS_PER_PAIR = 1_000
"""Default maximum number of paths for one pair; the judge sees ten."""

UNKNOWN_VALUE_LABEL = "unknown value"
"""Placeholder in a path for the value of a statement with no value or an unknown one."""


@dataclass(frozen=True, slots=True)
class PathSearchOptions:
    """Options of a search for paths."""

    always_two_hops: bool = False
    """Search two hops even where one hop, in either direction, has found a path."""
    ignored_properties: frozenset[int] = field(default_factory=frozenset)
    """Numbers of properties that no path may use."""
    max_paths: int | None = MAX_PATHS_PER_PAIR
    """Maximum number of paths kept per pair, the first in order; None keeps all."""


@dataclass(frozen=True, slots=True)
class PathsFoundForPairs:
    """Paths found for a batch of pairs."""

    paths: pa.Table
    """ITEM_PATHS_SCHEMA or LITERAL_PATHS_SCHEMA."""
    pairs: pa.Table
    """PAIRS, one row per pair, in order."""
    failures: dict[int, str] = field(default_factory=dict)
    """Pair → reason for its failure."""


class PathFinder(Protocol):
    """An engine that finds paths: a local graph, or a SPARQL endpoint."""

    def find_item_paths(
        self, subjects: npt.NDArray[np.int64], objects: npt.NDArray[np.int64], options: PathSearchOptions
    ) -> PathsFoundForPairs:
        """Find the paths between items, given by number: one pair per position of two arrays of equal length."""
        ...

    def find_literal_paths(
        self,
        subjects: npt.NDArray[np.int64],
        objects: Sequence[PartialDate] | Sequence[WantedNumberWithUnit],
        properties: frozenset[int],
        options: PathSearchOptions,
    ) -> PathsFoundForPairs:
        """Find the paths from items to dates or to numbers (all objects of one kind) in values of some properties.

        `properties`: properties whose values count, in a statement or a qualifier (time properties for dates; number
        properties, or P1352 alone for ranks).
        """
        ...


def make_start_to_end_id_lists(
    paths: pa.Table, subjects: npt.NDArray[np.int64], objects: npt.NDArray[np.int64] | None = None
) -> pa.ListArray:
    """Return each path as the list of its ids from start to end (Q42, P69, Q691283, …), with values as written.

    `subjects` and, for ITEM_PATHS_SCHEMA, `objects` are those of the batch. The value of the statement precedes a qualifier,
    "unknown value" where the statement has none (the paper omits statement nodes too, Table 6).
    """
    pairs = paths["pair"].to_numpy()
    start, first, last = (
        subjects[pairs],
        _format_entity_ids("P", paths["property_1"]),
        _format_entity_ids("P", paths["property_2"]),
    )
    middle = _format_entity_ids("Q", paths["middle"])
    if objects is not None:
        backward = paths["backward"].to_numpy(zero_copy_only=False)
        start, end = np.where(backward, objects[pairs], start), np.where(backward, start, objects[pairs])
        return _interleave_columns_without_nulls(
            [_format_entity_ids("Q", start), first, middle, last, _format_entity_ids("Q", end)]
        )
    qualifier = _format_entity_ids("P", paths["qualifier"])
    main = pc.if_else(
        pc.is_valid(qualifier), pc.fill_null(paths["main"], UNKNOWN_VALUE_LABEL), pa.scalar(None, pa.string())
    )
    return _interleave_columns_without_nulls(
        [_format_entity_ids("Q", start), first, middle, last, main, qualifier, paths["value"]]
    )


def _format_entity_ids(letter: str, numbers: pa.ChunkedArray | npt.NDArray[np.int64]) -> pa.Array:
    return pc.binary_join_element_wise(letter, pc.cast(pa.array(numbers), pa.string()), "")


def _interleave_columns_without_nulls(parts: Sequence[pa.Array | pa.ChunkedArray]) -> pa.ListArray:
    """Return for each row the list of its cells across the columns, without nulls."""
    columns = [part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part for part in parts]
    rows = len(columns[0])
    by_row = np.arange(rows * len(columns)).reshape(len(columns), rows).T.ravel()
    values = pa.concat_arrays(columns).take(pa.array(by_row))
    held = np.asarray(values.is_valid()).reshape(rows, len(columns)).sum(axis=1)
    offsets = np.concatenate([[0], np.cumsum(held)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values.drop_null())
