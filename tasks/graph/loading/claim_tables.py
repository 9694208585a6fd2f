"""The table `claims` of a graph: which statements say that an item has an item as value.

A direct claim does not name its statement, so the edges that paths are walked on know none. Here are all statements
that are not deprecated, each of several that say one claim. A whole dump has some hundred million of them; so each step
is a table of its own: DuckDB spills one big join, grouping or sort to disk, but two at once can need more memory than
they get.
"""

import duckdb

_STEPS = {
    "said_items": "FROM staging.item_values ANTI JOIN staging.deprecated USING (statement)",
    "said_claims": (
        "SELECT item, property, value AS object, statement"
        " FROM staging.statements JOIN staging.said_items USING (statement, property)"
    ),
    # a dump may repeat a line, and files may overlap
    "different_claims": "SELECT DISTINCT item, property, object, statement FROM staging.said_claims",
}
"""Tables in staging on the way to the claims, each made from those before it."""

_CLAIMS = "CREATE TABLE claims AS FROM staging.different_claims ORDER BY item, property, object, statement"


def store_claims(connection: duckdb.DuckDBPyConnection) -> None:
    """Write the table `claims` into the database in use from `staging`; it stays empty where a dump has no statements."""
    for name, query in _STEPS.items():
        connection.execute(f"CREATE OR REPLACE TABLE staging.{name} AS {query}")
    connection.execute(_CLAIMS)
    # what follows needs the room on disk
    for name in _STEPS:
        connection.execute(f"DROP TABLE staging.{name}")
