"""Schema of the warehouse: tables are created from row models, which alone define columns, types and comments.

The warehouse's own tables (the models below) and the views of `views.sql` are created with the file, a benchmark's table
when its first build is published. Columns are matched by name: a new column is added, null in the rows of older builds.
"""

import inspect
from collections.abc import Mapping
from datetime import datetime
from importlib import resources
from typing import ClassVar

import duckdb
import pyarrow as pa
from pydantic import BaseModel

from factmill.tasks.core.evaluation.human_labels import ItemToLabel
from factmill.tasks.core.rows import JsonText, StrictModel, arrow_schema, column_docs, json_columns
from factmill.tasks.errors import WarehouseError


class WarehouseTableRow(StrictModel):
    """Base of the warehouse's own tables: records of runs and builds, and human judgments, but no benchmark rows."""

    table: ClassVar[str]
    primary_key: ClassVar[tuple[str, ...]] = ()


class PublishedColumn(StrictModel):
    """A column as a build published it."""

    name: str
    kind: str
    """DuckDB's type."""


class CallRow(WarehouseTableRow):
    """A recorded call to a service, with its reply."""

    table = "calls"
    record_id: str
    """Id of the record; ids sort by the time of the reply."""
    key: str
    """Digest of the call: service, operation, parts and wire format."""
    service: str
    """Identity of the service: its address, or a digest of its content."""
    operation: str
    """Kind of call: find_items, item_facts, chat, page, …"""
    parts: JsonText
    """Arguments of the call, as canonical JSON."""
    status: str
    """ok or failed."""
    error: str | None
    """Code and sentence of a failure."""
    transient: bool
    """True for a transient failure: the next run sends the call again."""
    body: str
    """The reply as canonical JSON. From 4,096 characters on, `zlib:` and the base64 of the compressed text."""
    tokens_in: int
    """Tokens of the prompt, as counted by the server; 0 if it does not count, and for other services."""
    tokens_out: int
    """Tokens of the completion, counted likewise."""
    cost_usd: float
    """Price of the call at the world's prices, in US dollars."""
    latency_s: float
    """Seconds from the request to the reply."""
    asked_at: datetime
    """When the reply came."""


class BuildRow(WarehouseTableRow):
    """A build of a benchmark, or an evaluation of a model."""

    table, primary_key = "builds", ("build_id",)
    build_id: str
    """Benchmark and beginning of the manifest's digest."""
    benchmark: str
    """Name of the benchmark or evaluation."""
    lock_digest: str
    """Digest of the manifest."""
    lock: JsonText
    """The manifest: every input, identified by content."""
    origin: JsonText
    """Where the inputs were found (options, paths, world); not part of the manifest."""
    content_digest: str
    """Digest of the published tables' Parquet bytes."""
    report: JsonText
    """Report of the build: counts, reject reasons, costs, notes."""
    started_at: datetime
    """When it began."""
    published_at: datetime
    """When it was published."""


class PublishedTableSummaryRow(WarehouseTableRow):
    """A table that a build published."""

    table, primary_key = "build_tables", ("build_id", "table_name")
    build_id: str
    """The build."""
    table_name: str
    """The table that holds the rows, with those of other builds."""
    rows: int
    """Number of the build's rows."""
    sha256: str
    """SHA-256 of the rows' Parquet bytes, sorted by id."""
    columns: list[PublishedColumn]
    """The published columns, in order; the table may have gained others since."""


class BuildStageRow(WarehouseTableRow):
    """A stage of a build: rows in = rows out + rejects + merged."""

    table = "build_stages"
    build_id: str
    """The build, or the run that has published nothing yet."""
    position: int
    """Its place among the stages, from 1."""
    stage: str
    """Name of the step."""
    rows_in: int
    """Rows that came in."""
    rows_out: int
    """Rows that went on."""
    rejects: int
    """Rows that were dropped with a reason."""
    merged: int
    """Rows that were merged into another one."""
    calls_sent: int
    """Calls that this run sent."""
    calls_replayed: int
    """Calls answered from the call cache."""
    tokens_in: int
    """Tokens of the prompts sent."""
    tokens_out: int
    """Tokens of the completions received."""
    cost_usd: float
    """Price of the calls sent, in US dollars."""
    seconds: float
    """Seconds that the stage took."""


class RejectRow(WarehouseTableRow):
    """A row that a stage dropped, with its reason."""

    table = "rejects"
    build_id: str
    """The build, or the run that has published nothing yet."""
    stage: str
    """The step that dropped it."""
    id: str
    """Id of the row in that stage."""
    reason: str
    """Short code of the reason."""
    detail: str
    """What was found, and what was expected."""
    row: str | None
    """The row as the stage received it, mostly JSON; a malformed source row as in its file."""


class MergedDuplicateRow(WarehouseTableRow):
    """A duplicate row that was merged into another one."""

    table = "merged_rows"
    build_id: str
    """The build, or the run that has published nothing yet."""
    stage: str
    """The step that merged them."""
    id: str
    """Id of the removed row."""
    into_id: str
    """Id of the remaining row."""


class BuildCallUseRow(WarehouseTableRow):
    """A recorded call that a row uses."""

    table = "build_calls"
    build_id: str
    """The build, or the run that has published nothing yet."""
    stage: str
    """The step that made the call."""
    id: str
    """Id of the row that needed the call; empty in the stage `since`."""
    key: str
    """Key of the call."""
    record_id: str
    """Record of the reply (table calls)."""
    taken_off: str | None
    """Wrappers stripped from the reply before it was parsed (thoughts, fences, remarks), separated by commas; null if none."""


class RevalidatedCallRow(WarehouseTableRow):
    """An expired reply that an incremental rebuild (--since) kept, since its underlying data has not changed."""

    table = "kept_calls"
    build_id: str
    """The build, or the run that has published nothing yet."""
    record_id: str
    """Record of the reply."""
    why: str
    """Why the service would give the same reply again."""
    checks: list[str]
    """Records of the calls that checked this."""


class ReviewDecisionRow(WarehouseTableRow):
    """A reviewer's decision on a flagged row; the newest decision counts."""

    table, primary_key = "review_decisions", ("id",)
    id: str
    """Digest of the data that the decision depends on."""
    benchmark: str
    """The benchmark that flagged it."""
    item: JsonText
    """The flag and the decision."""
    imported_at: datetime
    """When it was imported."""


class AuditVerdictRow(WarehouseTableRow):
    """A human reader's verdict on a row of a build (factmill audit); the newest verdict counts."""

    table, primary_key = "audit_verdicts", ("build_id", "row_id")
    build_id: str
    """The build."""
    row_id: str
    """The row."""
    marks: JsonText
    """Kind of fault → faulty parts, or a mark."""
    reviewer: str
    """Who gave the verdict."""
    note: str
    """The reader's own words."""
    given_at: datetime
    """When it was imported."""


class LabelItemRow(WarehouseTableRow, ItemToLabel):
    """An item drawn for people to label, with the data hidden from them (factmill label)."""

    table, primary_key = "label_items", ("id",)


class HumanLabelRow(WarehouseTableRow):
    """A person's label of an item; each person's newest label counts."""

    table, primary_key = "labels", ("item", "labeller")
    item: str
    """Id in label_items."""
    labeller: str
    """Who gave the label."""
    label: str
    """The label."""
    note: str
    """The labeller's own words."""
    file_digest: str
    """SHA-256 of the imported file."""
    imported_at: datetime
    """When it was imported; not used in any computation."""


class JudgeCardRow(WarehouseTableRow):
    """Agreement of a judge with human labels, on one benchmark and one set of labels."""

    table, primary_key = "judge_cards", ("id",)
    id: str
    """Digest of judge and labels."""
    benchmark: str
    """The benchmark."""
    judge: str
    """The judging model or program."""
    prompt_digest: str
    """Digest of the judge's prompts or code."""
    labels_digest: str
    """Digest of the labels."""
    card: JsonText
    """The figures."""


class ForecastRow(WarehouseTableRow):
    """Cost forecast of a build (factmill forecast), to compare with its actual cost."""

    table = "forecasts"
    lock_digest: str
    """Digest of the manifest of the forecast build."""
    benchmark: str
    """The benchmark."""
    made_at: datetime
    """When it was made."""
    told: JsonText
    """The figures."""


WAREHOUSE_TABLES: tuple[type[WarehouseTableRow], ...] = (
    *(
        CallRow,
        BuildRow,
        PublishedTableSummaryRow,
        BuildStageRow,
        RejectRow,
        MergedDuplicateRow,
        BuildCallUseRow,
        RevalidatedCallRow,
    ),
    *(ReviewDecisionRow, AuditVerdictRow, LabelItemRow, HumanLabelRow, JudgeCardRow, ForecastRow),
)


SCHEMA_VERSION = 16
"""Schema version of the warehouse's own tables; a file with an older one needs `factmill upgrade`."""
_DUCKDB_TYPE_NAMES = {
    pa.string(): "VARCHAR",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP WITH TIME ZONE",
}
_TABLE_COMMENT = "Rows of several builds, distinguished by build_id; latest_{} has those of the latest build."
_BUILD_ID_COMMENT = "The build that the row belongs to (table builds)."

_STATEMENT_COMMENTS = {
    "benchmark": "The benchmark of the row.",
    "build_id": "The build that published it.",
    "row_id": "Id of the row in its benchmark's main table.",
    "subject": "QID of the statement's item.",
    "property": "Property of the statement; null if a row names only the statement (FanOutQA).",
    "value": "QID or text of the statement's value; null if a row names only the statement (FanOutQA).",
    "rank": "`best` for a direct claim: no other statement of the property outranks it. Null for a named statement, which is only "
    "known not to be deprecated.",
    "statement": "Id of the statement; null for direct claims, which name none (GRANOLA-EQ, most of MultiHal).",
    "modified": "When the item was last changed, or the date of the dump; null if the row has neither.",
    "replied_at": "When the last Wikidata reply that the row uses came; null for a local graph, whose replies are not recorded.",
}


def map_duckdb_types(schema: pa.Schema) -> dict[str, str]:
    """Return column → DuckDB type of a row model's Arrow schema."""
    return {field.name: _format_duckdb_type(field.type) for field in schema}


def _format_duckdb_type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"{_format_duckdb_type(kind.value_type)}[]"
    if pa.types.is_struct(kind):
        fields = (f'"{field.name}" {_format_duckdb_type(field.type)}' for field in kind)
        return f"STRUCT({', '.join(fields)})"
    return _DUCKDB_TYPE_NAMES[kind]


def create_warehouse_tables_and_views(db: duckdb.DuckDBPyConnection) -> None:
    """Create the warehouse's own tables and views, with comments."""
    statements = []
    for model in WAREHOUSE_TABLES:
        schema = arrow_schema(model)
        kinds = map_duckdb_types(schema) | dict.fromkeys(json_columns(model), "JSON")
        columns = [f'"{field.name}" {kinds[field.name]}{"" if field.nullable else " NOT NULL"}' for field in schema]
        columns += [f"PRIMARY KEY ({', '.join(model.primary_key)})"] if model.primary_key else []
        statements.append(f"CREATE TABLE {model.table} ({', '.join(columns)})")
        statements += make_comment_statements("TABLE", model.table, inspect.getdoc(model) or "", column_docs(model))
    db.execute(";\n".join(statements))
    db.execute((resources.files("factmill.tasks.storage") / "views.sql").read_text("utf-8"))
    docs = {
        column: text for model in (RejectRow, BuildStageRow, BuildRow) for column, text in column_docs(model).items()
    }
    bare = db.execute(
        "SELECT view_name, list(column_name) FROM duckdb_columns() c JOIN duckdb_views() v ON v.view_name = c.table_name "
        "WHERE NOT c.internal AND c.comment IS NULL GROUP BY ALL"
    )
    for view, names in bare.fetchall():
        db.execute(
            ";\n".join(_make_column_comment_statements(view, {name: docs[name] for name in names if name in docs}))
        )


def make_comment_statements(what: str, name: str, doc: str, columns: Mapping[str, str]) -> list[str]:
    """Return the SQL statements that comment a table or view and its columns."""
    return [_make_comment_statement(f"{what} {name}", doc), *_make_column_comment_statements(name, columns)]


def _make_column_comment_statements(name: str, columns: Mapping[str, str]) -> list[str]:
    return [_make_comment_statement(f'COLUMN {name}."{column}"', text) for column, text in columns.items() if text]


def _make_comment_statement(target: str, text: str) -> str:
    return "COMMENT ON {} IS '{}'".format(target, " ".join(text.split()).replace("'", "''"))


def ensure_published_table_and_latest_view(
    db: duckdb.DuckDBPyConnection, name: str, duckdb_types: Mapping[str, str], model: type[BaseModel] | None
) -> None:
    """Create or extend a benchmark's table for rows with these columns (name → DuckDB type), and the view of its latest build.

    New columns are null in rows of older builds, dropped columns in rows of newer ones. WarehouseError if a column's type
    has changed and values of older builds would not survive the cast.
    """
    wanted = {
        **duckdb_types,
        **dict.fromkeys((json_columns(model) if model else frozenset()) & duckdb_types.keys(), "JSON"),
    }
    there = load_column_types(db, name)
    columns = {"build_id": "VARCHAR", **wanted, **{each: there[each] for each in there if each not in wanted}}
    if _strip_quotes_from_column_types(columns) == _strip_quotes_from_column_types(there):
        return
    for column, before in there.items():
        now = columns[column]
        if now.replace('"', "") != before.replace('"', ""):
            back = f'TRY_CAST(TRY_CAST("{column}" AS {now}) AS {before})'
            lost = db.execute(f'SELECT count(*) FROM {name} WHERE {back} IS DISTINCT FROM "{column}"').fetchone()
            if lost != (0,):
                raise WarehouseError(
                    f"the table {name} of this warehouse holds rows of older builds whose column {column} has type {before}; the type is now "
                    f"{now}, which cannot hold their values; name another file with --warehouse"
                )
    definitions = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
    db.execute(f"CREATE TABLE {name}_now ({definitions})")
    if there:
        db.execute(f"INSERT INTO {name}_now BY NAME FROM {name}")
        db.execute(f"DROP TABLE {name}")
    db.execute(f"ALTER TABLE {name}_now RENAME TO {name}")
    own = column_docs(model) if model else {}
    docs = {"build_id": _BUILD_ID_COMMENT, **{column: text for column, text in own.items() if column in columns}}
    about = (inspect.getdoc(model) or "") if model else ""
    db.execute(
        f"CREATE OR REPLACE VIEW latest_{name} AS FROM {name} WHERE build_id IN (SELECT build_id FROM latest_builds)"
    )
    statements = [
        *make_comment_statements("TABLE", name, f"{about} {_TABLE_COMMENT.format(name)}", docs),
        *make_comment_statements(
            "VIEW", f"latest_{name}", f"{about} Rows of the latest build only (latest_builds).", docs
        ),
    ]
    db.execute(";\n".join(statements))


def _strip_quotes_from_column_types(kinds: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return columns and types without quotes: DuckDB quotes a struct's fields only if necessary."""
    return [(column, kind.replace('"', "")) for column, kind in kinds.items()]


def create_wikidata_statement_views(db: duckdb.DuckDBPyConnection, benchmark: str, rows_sql: str) -> None:
    """Create the view of the Wikidata statements behind a benchmark's rows, and `statements`, the union for all benchmarks.

    `rows`: a SELECT of build_id, row_id, subject, property, value, statement, modified, asked_for.
    """
    db.execute(f"CREATE OR REPLACE VIEW statements_of_{benchmark} AS {rows_sql}")
    found = db.execute("SELECT view_name FROM duckdb_views() WHERE starts_with(view_name, 'statements_of_') ORDER BY 1")
    parts = " UNION ALL BY NAME ".join(f"FROM {name}" for (name,) in found.fetchall())
    statements = [
        f"CREATE OR REPLACE VIEW statements AS SELECT b.benchmark, s.build_id, s.row_id, s.subject, s.property, s.value, "
        "CASE WHEN s.statement IS NULL THEN 'best' END AS rank, s.statement, s.modified, r.replied_at "
        f"FROM ({parts}) s JOIN builds b USING (build_id) LEFT JOIN (SELECT u.build_id, u.id, max(c.asked_at) AS replied_at "
        "FROM build_calls u JOIN calls c USING (record_id) JOIN builds b USING (build_id) "
        "WHERE c.service = b.lock->>'$.services.wikidata' GROUP BY ALL) r ON r.build_id = s.build_id AND r.id = s.asked_for",
        *make_comment_statements(
            "VIEW",
            f"statements_of_{benchmark}",
            f"The rows of statements for {benchmark}.",
            {
                name: text
                for name, text in _STATEMENT_COMMENTS.items()
                if name not in ("benchmark", "rank", "replied_at")
            }
            | {"asked_for": "Id of the row in build_calls."},
        ),
        *make_comment_statements(
            "VIEW", "statements", "Wikidata statements that the rows of benchmarks are based on.", _STATEMENT_COMMENTS
        ),
    ]
    db.execute(";\n".join(statements))


def load_column_types(db: duckdb.DuckDBPyConnection, name: str) -> dict[str, str]:
    """Return column → DuckDB type of a table; empty if there is no such table."""
    found = db.execute(
        "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? AND database_name = current_database() "
        "ORDER BY column_index",
        [name],
    ).fetchall()
    return dict(found)
