"""Schemas of the staging tables that a dump's lines are sorted into, and a block's rows and counts."""

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa

DUMP_ITEM = 0
"""Number of the dump itself (wikibase:Dump) in `changes`; no item has it."""

_TEXT_SCHEMA = pa.schema({"item": pa.int64(), "language": pa.string(), "text": pa.string()})
_STATEMENT_VALUE_SCHEMA = pa.schema({"statement": pa.string(), "property": pa.int32(), "value": pa.string()})
_STATEMENT_NODE_SCHEMA = pa.schema({"statement": pa.string(), "property": pa.int32(), "node": pa.string()})

STAGING_SCHEMAS = {
    "edges": pa.schema({"subject": pa.int64(), "property": pa.int32(), "object": pa.int64()}),
    "labels": _TEXT_SCHEMA,
    "aliases": _TEXT_SCHEMA,
    "descriptions": _TEXT_SCHEMA,
    "property_labels": pa.schema({"property": pa.int64(), "language": pa.string(), "text": pa.string()}),
    "articles": pa.schema({"page": pa.string(), "item": pa.int64()}),
    "article_names": pa.schema({"page": pa.string(), "name": pa.string()}),
    "changes": pa.schema({"item": pa.int64(), "modified": pa.string()}),
    # items merged into others
    "redirects": pa.schema({"item": pa.int64(), "target": pa.int64()}),
    # dates and numbers of direct claims
    "direct_values": pa.schema({"item": pa.int64(), "property": pa.int32(), "value": pa.string()}),
    # an item's statements, and which of them are deprecated
    "statements": pa.schema({"item": pa.int64(), "property": pa.int32(), "statement": pa.string()}),
    "deprecated": pa.schema({"statement": pa.string()}),
    # dates and numbers of statements and their qualifiers; items and other values of statements
    "statement_values": _STATEMENT_VALUE_SCHEMA,
    "qualifier_values": _STATEMENT_VALUE_SCHEMA,
    "item_values": pa.schema({"statement": pa.string(), "property": pa.int32(), "value": pa.int64()}),
    "other_values": _STATEMENT_VALUE_SCHEMA,
    # value nodes of statements and qualifiers, and the nodes' contents
    "statement_nodes": _STATEMENT_NODE_SCHEMA,
    "qualifier_nodes": _STATEMENT_NODE_SCHEMA,
    "times": pa.schema({"node": pa.string(), "value": pa.string()}),
    "precisions": pa.schema({"node": pa.string(), "precision": pa.int32()}),
    "amounts": pa.schema({"node": pa.string(), "value": pa.string()}),
    "units": pa.schema({"node": pa.string(), "unit": pa.int64()}),
    "malformed": pa.schema({"file": pa.string(), "line_no": pa.int64(), "reason": pa.string(), "text": pa.string()}),
}
"""Schema of each staging table, by name."""


@dataclass(slots=True)
class StagedRowsAndCounts:
    """Rows and counts that a block's lines were sorted into."""

    lines: int = 0
    blank: int = 0
    """Blank lines and comments."""
    tables: dict[str, list[pa.Table]] = field(default_factory=dict)
    """Rows by table, in the schemas of TABLES."""
    not_kept: Counter[str] = field(default_factory=Counter)
    """Well-formed triples that a graph does not use, by kind (tasks/graph/loading/line_patterns.py, `classify_unkept_triple`)."""

    def add_rows(self, name: str, *columns: pa.Array) -> None:
        """Add rows to a table."""
        if len(columns[0]):
            self.tables.setdefault(name, []).append(pa.Table.from_arrays(columns, schema=STAGING_SCHEMAS[name]))

    def count_rows(self, name: str) -> int:
        """Count the rows of a table."""
        return sum(table.num_rows for table in self.tables.get(name, []))
