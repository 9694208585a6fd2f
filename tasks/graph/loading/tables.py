"""The tables of a graph in DuckDB: how the rows read from a dump become sorted tables, and their digest.

Rows are sorted by the key they are looked up by, so that DuckDB skips what cannot match and no index has to fit into
memory. Every repetition is merged in SQL, where DuckDB can spill to disk; the result depends on the set of triples
alone, not on their order or their files.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from tasks.core.fingerprints import digest_json
from tasks.graph.loading.claim_tables import store_claims
from tasks.graph.loading.literal_tables import store_literals
from tasks.graph.loading.rows import DUMP

_MEMORY_LIMIT = "512MB"
_THREADS = 2
_ROWS_AT_ONCE = 1 << 17

_TOLD = {
    # by property first: lists of facts read one stretch, and look-ups name their properties
    "edges": "SELECT DISTINCT subject, property, object FROM staging.edges ORDER BY property, subject, object",
    # of two labels in one language the smaller one stays, whatever came first
    "labels": "SELECT item, language, min(text) AS text FROM staging.labels GROUP BY ALL ORDER BY item, language",
    "descriptions": (
        "SELECT item, language, min(text) AS text FROM staging.descriptions GROUP BY ALL ORDER BY item, language"
    ),
    "aliases": "SELECT DISTINCT item, language, text FROM staging.aliases ORDER BY item, language, text",
    "property_labels": (
        "SELECT property::INTEGER AS property, language, min(text) AS text FROM staging.property_labels"
        " GROUP BY ALL ORDER BY property, language"
    ),
    "titles": (
        "SELECT item, min(name) AS title FROM staging.articles JOIN staging.article_names USING (page)"
        " GROUP BY item ORDER BY item"
    ),
    "redirects": "SELECT item, min(target) AS target FROM staging.redirects GROUP BY item ORDER BY item",
    "modified": f"SELECT item, max(modified) AS modified FROM staging.changes WHERE item <> {DUMP}"
    " GROUP BY item ORDER BY item",
}
"""What is said in the dump."""
_DIGESTED = (*_TOLD, "literals", "claims")
"""Tables that go into the digest."""

_DERIVED = {
    "names": (
        "SELECT text, language, item, CASE WHEN bool_or(is_label) THEN 'label' ELSE 'alias' END AS via FROM ("
        " SELECT item, language, text, true AS is_label FROM labels"
        " UNION ALL SELECT item, language, text, false FROM aliases"
        ") GROUP BY text, language, item ORDER BY text, language, item"
    ),
    "items": (
        "SELECT DISTINCT item FROM ("
        " SELECT subject AS item FROM edges UNION ALL SELECT object FROM edges"
        " UNION ALL SELECT item FROM labels UNION ALL SELECT item FROM aliases UNION ALL SELECT item FROM descriptions"
        " UNION ALL SELECT item FROM titles UNION ALL SELECT item FROM modified UNION ALL SELECT item FROM literals"
        ") ORDER BY item"
    ),
}
"""The same again, sorted for other look-ups."""


def connect_memory(spill: Path) -> duckdb.DuckDBPyConnection:
    """Return a connection to an empty database in memory that may use the folder `spill` when memory is short."""
    connection = duckdb.connect(
        config={
            "memory_limit": _MEMORY_LIMIT,
            "threads": _THREADS,
            "temp_directory": str(spill),
            # tables are those of the graph and those registered, never a variable of the same name
            "python_enable_replacements": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
    )
    # it is drawn on standard output, which belongs to results
    connection.execute("SET enable_progress_bar = false")
    return connection


def attach_database(connection: duckdb.DuckDBPyConnection, path: Path, name: str, *, read_only: bool = False) -> None:
    """Make a database file known to a connection under a name."""
    quoted = str(path).replace("'", "''")
    connection.execute(f"ATTACH '{quoted}' AS {name}{' (READ_ONLY)' if read_only else ''}")


@dataclass(frozen=True, slots=True)
class Stored:
    """What came of the rows that were read."""

    rows: dict[str, int]
    """Rows by table."""
    left_out: dict[str, int]
    """Dates and numbers that are not in the table `literals`, by reason (`store_literals`)."""


def store_tables(connection: duckdb.DuckDBPyConnection, database: Path) -> Stored:
    """Write the tables of a graph into a new database from `staging`, and use it."""
    attach_database(connection, database, "graph")
    connection.execute("USE graph")
    left_out = store_literals(connection)
    store_claims(connection)
    for name, query in {**_TOLD, **_DERIVED}.items():
        connection.execute(f"CREATE TABLE {name} AS {query}")
    connection.execute("CREATE TABLE malformed AS FROM staging.malformed ORDER BY file, line_no")
    # closing writes out what is left too, but keeps to itself that the disk is full
    connection.execute("CHECKPOINT graph")
    rows = {name: _read_value(connection, f"SELECT count(*) FROM {name}") for name in _DIGESTED}
    return Stored(rows, left_out)


def find_dump_date(connection: duckdb.DuckDBPyConnection) -> str | None:
    """Return the date that the dump gives for itself, else the latest change of an item; None when it says neither."""
    of_dump = _read_value(connection, f"SELECT max(modified) FROM staging.changes WHERE item = {DUMP}")
    found = of_dump or _read_value(connection, "SELECT max(modified) FROM staging.changes")
    return None if found is None else str(found)


def digest_tables(connection: duckdb.DuckDBPyConnection, **beside: Any) -> str:
    """Return the SHA-256 over all stored rows in their order and over what else shapes the answers."""
    tables = {name: _digest_table(connection, name) for name in _DIGESTED}
    return digest_json({"tables": tables, **beside})


def _digest_table(connection: duckdb.DuckDBPyConnection, name: str) -> dict[str, str]:
    """Return a digest for each column, so that it does not depend on how rows are cut into batches."""
    reader = connection.sql(f"FROM {name}").to_arrow_reader(_ROWS_AT_ONCE)
    digests = {column: [hashlib.sha256() for _ in range(3)] for column in reader.schema.names}
    for batch in reader:
        for column, values in zip(batch.schema.names, batch.columns, strict=True):
            contents, lengths, presence = digests[column]
            presence.update(values.is_valid().to_numpy(zero_copy_only=False).data)
            if pa.types.is_integer(values.type):
                contents.update(values.fill_null(0).to_numpy().astype("<i8").data)
            else:
                packed = values.fill_null("").cast(pa.large_binary())
                ends = np.frombuffer(packed.buffers()[1], np.int64)[packed.offset :][: len(packed) + 1]
                contents.update(memoryview(packed.buffers()[2] or b"")[ends[0] : ends[-1]])
                lengths.update(np.diff(ends).astype("<i8").data)
    return {column: "".join(digest.hexdigest() for digest in each) for column, each in digests.items()}


def _read_value(connection: duckdb.DuckDBPyConnection, query: str) -> Any:
    # a result that is not read to its end would block the connection
    [(value,)] = connection.execute(query).fetchall()
    return value
