"""The table `literals` of a graph: dates and numbers, put together from the many triples that speak of each.

A number is stored in its canonical spelling, since stores keep numbers by value: both engines have to tell it alike.
Everything is joined in DuckDB, which spills to disk, and first cut down to the statements that have a date or number:
most of Wikidata's have none. The result depends on the set of triples alone.
"""

import duckdb

from tasks.text.values.literals import UNITLESS

# dates and numbers have no common spelling: dates alone hold a T
_IS_DATE = "contains(value, 'T')"
# year, month and day are digits of one number; before year 0 the year alone counts down
_DATE_DIGITS = "replace(split_part(ltrim(value, '+-'), 'T', 1), '-', '')::BIGINT"
_KEY_OF_DATE = (
    f"CASE WHEN starts_with(value, '-') THEN 2 * mod({_DATE_DIGITS}, 10000) - {_DATE_DIGITS} ELSE {_DATE_DIGITS} END"
)
_DIGITS = "ltrim(value, '+-0')"
_SHORTEST = f"CASE WHEN contains(value, '.') THEN rtrim(rtrim({_DIGITS}, '0'), '.') ELSE {_DIGITS} END"
_NUMBER = (
    f"CASE WHEN starts_with(value, '-') AND {_SHORTEST} <> '' THEN '-' ELSE '' END"
    f" || CASE WHEN {_SHORTEST} = '' OR starts_with({_SHORTEST}, '.') THEN '0' ELSE '' END || {_SHORTEST}"
)
NUMBER = f"CASE WHEN NOT {_IS_DATE} THEN {_NUMBER} END"
"""SQL: text.values.literals.canonical_number of a column `value`; null for dates."""
_VALUE = f"coalesce({NUMBER}, value)"
"""SQL: a column `value` in the spelling in which it is stored."""
KEY = (
    f"CASE WHEN {_IS_DATE} THEN {_KEY_OF_DATE}"
    " ELSE (md5_number_lower(number) & 9223372036854775807)::BIGINT END"
)  # fmt: skip
"""SQL: text.values.literals.date_key of a column `value`, number_key of its column `number`."""

# each date or number of a statement once, with the property that says it: the statement's own or a qualifier's
_SAID = f"""
    SELECT DISTINCT statement, property AS says, false AS qualifies, {_VALUE} AS value FROM staging.statement_values
    UNION ALL SELECT DISTINCT statement, property, true, {_VALUE} FROM staging.qualifier_values
"""
_STEPS = {
    "valid": f"SELECT * FROM ({_SAID}) ANTI JOIN staging.deprecated USING (statement)",
    "owners": (
        "SELECT DISTINCT item, property, statement FROM staging.statements SEMI JOIN staging.valid USING (statement)"
    ),
    # a node is told anew wherever a dump mentions it: once is enough before joining
    "meanings": (
        "SELECT node, value, precision, NULL::BIGINT AS unit FROM (SELECT DISTINCT * FROM staging.times)"
        " LEFT JOIN (SELECT DISTINCT * FROM staging.precisions) USING (node)"
        f" UNION ALL SELECT node, {_VALUE}, NULL, NULLIF(unit, {UNITLESS}) FROM (SELECT DISTINCT * FROM staging.amounts)"
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
    # of all statements only those that can stand for a date or number need to be kept in mind
    "stands": ("SELECT DISTINCT item, property FROM staging.statements SEMI JOIN staging.direct USING (property)"),
    # one join a step: DuckDB spills one to disk, but several at once, or one and a sort, need more memory than they get
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
"""Tables in staging on the way to the literals, each made from those before it."""

# a truthy dump has no statements, and its rows need no copy
_STANDING = "FROM staging.direct ANTI JOIN staging.stands USING (item, property)"

# all is computed before rows are sorted, which several threads do at once; numbering them takes one
_LITERALS = f"""
    SELECT row_number() OVER () - 1 AS id, * FROM (
        SELECT *, {KEY} AS key FROM (
            SELECT *, {NUMBER} AS number FROM (
                SELECT item, property, NULL::INTEGER AS qualifier, statement, value, precision, unit, NULL AS main
                FROM staging.explained WHERE NOT qualifies AND says = property
                UNION ALL SELECT * FROM staging.qualified
                UNION ALL SELECT item, property, NULL, NULL, value, NULL, NULL, NULL FROM standing
            )
        ) ORDER BY item, property, qualifier NULLS FIRST, statement NULLS FIRST, value,
            precision NULLS FIRST, unit NULLS FIRST, main NULLS FIRST
    )
"""

_LEFT_OUT = {
    "deprecated": f"SELECT count(*) FROM ({_SAID}) SEMI JOIN staging.deprecated USING (statement)",
    "unlinked": (
        "SELECT count(*) FROM ("
        " SELECT statement FROM staging.valid ANTI JOIN staging.owners USING (statement) WHERE qualifies UNION ALL"
        " SELECT v.statement FROM staging.valid v ANTI JOIN staging.owners o"
        " ON o.statement = v.statement AND o.property = v.says WHERE NOT qualifies)"
    ),
    "direct": "SELECT count(*) FROM staging.direct SEMI JOIN staging.stands USING (item, property)",
}


def store_literals(connection: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Write the table `literals` into the database in use from `staging`; return what was left out, in triples.

    `deprecated`: dates and numbers of deprecated statements and their qualifiers; `unlinked`: those of statements that
    no item has under that property; `direct`: those of direct claims that statements stand for.
    """
    for name, query in _STEPS.items():
        connection.execute(f"CREATE OR REPLACE TABLE staging.{name} AS {query}")
    standing = "staging.direct"
    if _count(connection, "SELECT count(*) FROM staging.stands"):
        standing = "staging.standing"
        connection.execute(f"CREATE OR REPLACE TABLE {standing} AS {_STANDING}")
    connection.execute(f"CREATE TABLE literals AS WITH standing AS (FROM {standing}) {_LITERALS}")
    return {kind: _count(connection, query) for kind, query in _LEFT_OUT.items()}


def _count(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    # a result that is not read to its end would block the connection
    [(count,)] = connection.execute(query).fetchall()
    return int(count)
