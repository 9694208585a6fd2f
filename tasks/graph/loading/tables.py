"""Build a graph's sorted DuckDB tables (claims, dates, numbers, texts) from staged rows of a dump.

Rows are sorted by their look-up key, so DuckDB skips what cannot match and no index has to fit into memory. Duplicates
are merged in SQL, where DuckDB can spill to disk; the result depends only on the set of triples, not on their order or
files.

A direct claim does not name its statement, so edges have no statements. Table `claims` has all statements that are not
deprecated, including several that make the same claim. A whole dump has some hundred million of them, so each step
writes its own table: DuckDB spills one big join, grouping or sort to disk, but two at once can exceed the memory limit.

A number is stored in canonical spelling: SPARQL stores keep numbers by value, and both engines must return the same
text. Statements without a date or number, which most of Wikidata's are, are removed before the joins for `literals`.
"""

import hashlib
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from factmill.tasks.core.digests import digest_json
from factmill.tasks.graph.loading.staging_rows import DUMP_ITEM
from factmill.tasks.text.values.wikidata_literals import UNITLESS_QID_NUMBER

_CLAIM_STEPS = {
    "said_items": "FROM staging.item_values ANTI JOIN staging.deprecated USING (statement)",
    "said_claims": (
        "SELECT item, property, value AS object, statement"
        " FROM staging.statements JOIN staging.said_items USING (statement, property)"
    ),
    # a dump may repeat a line, and files may overlap
    "different_claims": "SELECT DISTINCT item, property, object, statement FROM staging.said_claims",
}
"""Intermediate staging tables for the claims, each made from earlier ones."""

_CREATE_CLAIMS = "CREATE TABLE claims AS FROM staging.different_claims ORDER BY item, property, object, statement"


def write_claims_table(connection: duckdb.DuckDBPyConnection) -> None:
    """Write table `claims` into the current database from `staging`; empty if the dump has no statements."""
    for name, query in _CLAIM_STEPS.items():
        connection.execute(f"CREATE OR REPLACE TABLE staging.{name} AS {query}")
    connection.execute(_CREATE_CLAIMS)
    # later steps need the disk space
    for name in _CLAIM_STEPS:
        connection.execute(f"DROP TABLE staging.{name}")


# only dates contain a T
_IS_DATE = "contains(value, 'T')"
# year, month and day are digits of one number; before year 0 only the year counts down
_DATE_DIGITS = "replace(split_part(ltrim(value, '+-'), 'T', 1), '-', '')::BIGINT"
_KEY_OF_DATE = (
    f"CASE WHEN starts_with(value, '-') THEN 2 * mod({_DATE_DIGITS}, 10000) - {_DATE_DIGITS} ELSE {_DATE_DIGITS} END"
)
_DIGITS = "ltrim(value, '+-0')"
_SHORTEST_DIGITS = f"CASE WHEN contains(value, '.') THEN rtrim(rtrim({_DIGITS}, '0'), '.') ELSE {_DIGITS} END"
_NUMBER = (
    f"CASE WHEN starts_with(value, '-') AND {_SHORTEST_DIGITS} <> '' THEN '-' ELSE '' END"
    f" || CASE WHEN {_SHORTEST_DIGITS} = '' OR starts_with({_SHORTEST_DIGITS}, '.') THEN '0' ELSE '' END || {_SHORTEST_DIGITS}"
)
CANONICAL_NUMBER_SQL = f"CASE WHEN NOT {_IS_DATE} THEN {_NUMBER} END"
"""SQL for text.values.literals.canonical_number of column `value`; null for dates."""
_VALUE = f"coalesce({CANONICAL_NUMBER_SQL}, value)"
"""SQL for column `value` in its stored spelling."""
LITERAL_KEY_SQL = (
    f"CASE WHEN {_IS_DATE} THEN {_KEY_OF_DATE}"
    " ELSE (md5_number_lower(number) & 9223372036854775807)::BIGINT END"
)  # fmt: skip
"""SQL for the literal's key: text.values.literals.date_key of column `value`, or hash_canonical_number of column `number`."""

# each distinct date or number of a statement, with its property: the statement's own or a qualifier's
_STATEMENT_LITERALS_QUERY = f"""
    SELECT DISTINCT statement, property AS says, false AS qualifies, {_VALUE} AS value FROM staging.statement_values
    UNION ALL SELECT DISTINCT statement, property, true, {_VALUE} FROM staging.qualifier_values
"""
_LITERAL_STEPS = {
    "valid": f"SELECT * FROM ({_STATEMENT_LITERALS_QUERY}) ANTI JOIN staging.deprecated USING (statement)",
    "owners": (
        "SELECT DISTINCT item, property, statement FROM staging.statements SEMI JOIN staging.valid USING (statement)"
    ),
    # a dump repeats a node wherever it mentions it: deduplicate before joining
    "meanings": (
        "SELECT node, value, precision, NULL::BIGINT AS unit FROM (SELECT DISTINCT * FROM staging.times)"
        " LEFT JOIN (SELECT DISTINCT * FROM staging.precisions) USING (node)"
        f" UNION ALL SELECT node, {_VALUE}, NULL, NULLIF(unit, {UNITLESS_QID_NUMBER}) FROM (SELECT DISTINCT * FROM staging.amounts)"
        " LEFT JOIN (SELECT DISTINCT * FROM staging.units) USING (node)"
    ),
    "meant": (
        "SELECT DISTINCT statement, says, qualifies, value, precision::UTINYINT AS precision, unit FROM ("
        " SELECT DISTINCT statement, property AS says, false AS qualifies, node FROM staging.statement_nodes"
        " UNION ALL SELECT DISTINCT statement, property, true, node FROM staging.qualifier_nodes"
        ") JOIN staging.meanings USING (node) SEMI JOIN staging.valid USING (statement, says, qualifies, value)"
    ),
    "mains": (
        "SELECT DISTINCT statement, property, main FROM ("
        f" SELECT statement, property, {_VALUE} AS main FROM staging.statement_values"
        " UNION ALL SELECT statement, property, 'Q' || value FROM staging.item_values"
        " UNION ALL SELECT statement, property, value FROM staging.other_values"
        ") SEMI JOIN (FROM staging.valid WHERE qualifies) USING (statement)"
    ),
    "direct": f"SELECT DISTINCT item, property, {_VALUE} AS value FROM staging.direct_values",
    # only statements of properties with direct values matter
    "stands": ("SELECT DISTINCT item, property FROM staging.statements SEMI JOIN staging.direct USING (property)"),
    # one join per step: DuckDB spills one to disk, but several at once, or one and a sort, exceed the memory limit
    "owned": (
        "SELECT item, property, statement, says, qualifies, value"
        " FROM staging.valid JOIN staging.owners USING (statement)"
    ),
    "explained": "FROM staging.owned LEFT JOIN staging.meant USING (statement, says, qualifies, value)",
    "qualified": (
        "SELECT item, property, says, statement, value, precision, unit, main"
        " FROM (FROM staging.explained WHERE qualifies) LEFT JOIN staging.mains USING (statement, property)"
    ),
}
"""Intermediate staging tables for the literals, each made from earlier ones."""

# a truthy dump has no statements, so its rows need no copy
_DIRECT_ONLY_QUERY = "FROM staging.direct ANTI JOIN staging.stands USING (item, property)"

# columns are computed before the sort, which runs on several threads; only the numbering runs on one
_SORTED_LITERALS_QUERY = f"""
    SELECT row_number() OVER () - 1 AS id, * FROM (
        SELECT *, {LITERAL_KEY_SQL} AS key FROM (
            SELECT *, {CANONICAL_NUMBER_SQL} AS number FROM (
                SELECT item, property, NULL::INTEGER AS qualifier, statement, value, precision, unit, NULL AS main
                FROM staging.explained WHERE NOT qualifies AND says = property
                UNION ALL SELECT * FROM staging.qualified
                UNION ALL SELECT item, property, NULL, NULL, value, NULL, NULL, NULL FROM standing
            )
        ) ORDER BY item, property, qualifier NULLS FIRST, statement NULLS FIRST, value,
            precision NULLS FIRST, unit NULLS FIRST, main NULLS FIRST
    )
"""

_LEFT_OUT_COUNT_QUERIES = {
    "deprecated": f"SELECT count(*) FROM ({_STATEMENT_LITERALS_QUERY}) SEMI JOIN staging.deprecated USING (statement)",
    "unlinked": (
        "SELECT count(*) FROM ("
        " SELECT statement FROM staging.valid ANTI JOIN staging.owners USING (statement) WHERE qualifies UNION ALL"
        " SELECT v.statement FROM staging.valid v ANTI JOIN staging.owners o"
        " ON o.statement = v.statement AND o.property = v.says WHERE NOT qualifies)"
    ),
    "direct": "SELECT count(*) FROM staging.direct SEMI JOIN staging.stands USING (item, property)",
}


def write_literals_table_and_count_dropped(connection: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Write table `literals` into the current database from `staging`; return reason → number of triples left out.

    `deprecated`: dates and numbers of deprecated statements and their qualifiers; `unlinked`: those of statements that
    no item has under that property; `direct`: those of direct claims that statements replace.
    """
    for name, query in _LITERAL_STEPS.items():
        connection.execute(f"CREATE OR REPLACE TABLE staging.{name} AS {query}")
    standing = "staging.direct"
    if _query_value(connection, "SELECT count(*) FROM staging.stands"):
        standing = "staging.standing"
        connection.execute(f"CREATE OR REPLACE TABLE {standing} AS {_DIRECT_ONLY_QUERY}")
    connection.execute(f"CREATE TABLE literals AS WITH standing AS (FROM {standing}) {_SORTED_LITERALS_QUERY}")
    return {kind: _query_value(connection, query) for kind, query in _LEFT_OUT_COUNT_QUERIES.items()}


_MEMORY_LIMIT = "512MB"
_THREADS = 2
_DIGEST_BATCH_ROWS = 1 << 17

_DUMP_TABLE_QUERIES = {
    # by property first: a list of facts reads one contiguous range, and look-ups name their properties
    "edges": "SELECT DISTINCT subject, property, object FROM staging.edges ORDER BY property, subject, object",
    # of two labels in one language the smaller one stays, regardless of order
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
    "modified": f"SELECT item, max(modified) AS modified FROM staging.changes WHERE item <> {DUMP_ITEM}"
    " GROUP BY item ORDER BY item",
}
"""Queries of the tables taken from the dump, by name."""
_DIGESTED_TABLES = (*_DUMP_TABLE_QUERIES, "literals", "claims")
"""Tables included in the digest."""

_DERIVED_TABLE_QUERIES = {
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
"""Queries of tables with the same content, sorted for other look-ups."""


def connect_in_memory(spill: Path) -> duckdb.DuckDBPyConnection:
    """Connect to an empty in-memory database that spills to the folder `spill` when memory is short."""
    connection = duckdb.connect(
        config={
            "memory_limit": _MEMORY_LIMIT,
            "threads": _THREADS,
            "temp_directory": str(spill),
            # tables are the graph's and the registered ones, never a Python variable of the same name
            "python_enable_replacements": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
    )
    # DuckDB draws it on standard output, which is for results
    connection.execute("SET enable_progress_bar = false")
    return connection


def attach_database(connection: duckdb.DuckDBPyConnection, path: Path, name: str, *, read_only: bool = False) -> None:
    """Attach a database file to a connection under a name."""
    quoted = str(path).replace("'", "''")
    connection.execute(f"ATTACH '{quoted}' AS {name}{' (READ_ONLY)' if read_only else ''}")


def write_tables_count_rows_and_drop_reasons(
    connection: duckdb.DuckDBPyConnection, database: Path
) -> tuple[dict[str, int], dict[str, int]]:
    """Write a graph's tables from `staging` into a new database, and make it the current one.

    Returns table → number of rows, and reason → number of dates and numbers not in `literals` (`write_literals_table_and_count_dropped`).
    """
    attach_database(connection, database, "graph")
    connection.execute("USE graph")
    left_out = write_literals_table_and_count_dropped(connection)
    write_claims_table(connection)
    for name, query in {**_DUMP_TABLE_QUERIES, **_DERIVED_TABLE_QUERIES}.items():
        connection.execute(f"CREATE TABLE {name} AS {query}")
    connection.execute("CREATE TABLE malformed AS FROM staging.malformed ORDER BY file, line_no")
    # closing would write the rest too, but does not report a full disk
    connection.execute("CHECKPOINT graph")
    return {name: _query_value(connection, f"SELECT count(*) FROM {name}") for name in _DIGESTED_TABLES}, left_out


def find_dump_date(connection: duckdb.DuckDBPyConnection) -> str | None:
    """Return the dump's own date, else the latest change of an item; None if it has neither."""
    of_dump = _query_value(connection, f"SELECT max(modified) FROM staging.changes WHERE item = {DUMP_ITEM}")
    found = of_dump or _query_value(connection, "SELECT max(modified) FROM staging.changes")
    return None if found is None else str(found)


def digest_graph_tables(connection: duckdb.DuckDBPyConnection, **extra: Any) -> str:
    """Return the SHA-256 over all stored rows in order and over `extra`: whatever else affects results."""
    tables = {name: _digest_table_columns(connection, name) for name in _DIGESTED_TABLES}
    return digest_json({"tables": tables, **extra})


def _digest_table_columns(connection: duckdb.DuckDBPyConnection, name: str) -> dict[str, str]:
    """Return a digest per column, which does not depend on how rows are split into batches."""
    reader = connection.sql(f"FROM {name}").to_arrow_reader(_DIGEST_BATCH_ROWS)
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


def _query_value(connection: duckdb.DuckDBPyConnection, query: str) -> Any:
    # a result not read to its end would block the connection
    [(value,)] = connection.execute(query).fetchall()
    return value
