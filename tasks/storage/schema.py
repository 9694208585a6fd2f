"""How the warehouse's tables are made: of models, which alone say their columns, kinds and meaning.

Its own tables are made with the file (the models below), with the views of `views.sql`; the table of a benchmark when a
build is first published. Columns go by name: one that a model has got since is added, null in the rows of older builds.
"""

import inspect
from collections.abc import Mapping
from datetime import datetime
from importlib import resources
from typing import ClassVar

import duckdb
import pyarrow as pa
from pydantic import BaseModel

from factmill.tasks.core.evaluation.labels import DrawnItem
from factmill.tasks.core.rows import JsonText, StrictModel, arrow_schema, column_docs, json_columns
from factmill.tasks.errors import WarehouseError


class OwnTable(StrictModel):
    """A table of the warehouse: what runs, builds and people leave there beside the rows of benchmarks."""

    table: ClassVar[str]
    primary_key: ClassVar[tuple[str, ...]] = ()


class PublishedColumn(StrictModel):
    """A column as a build published it."""

    name: str
    kind: str
    """DuckDB's type."""


class CallRow(OwnTable):
    """A recorded question to a service, with its reply."""

    table = "calls"
    record_id: str
    """Sorts by the time when the reply came."""
    key: str
    """Digest of the call: service, operation, parts and what goes on the wire."""
    service: str
    """Identity of the service: its address, or a digest of its content."""
    operation: str
    """What was asked: find_items, item_facts, chat, page, …"""
    parts: JsonText
    """What it was asked with, as canonical JSON."""
    status: str
    """ok or failed."""
    error: str | None
    """Code and sentence of a failure."""
    transient: bool
    """True where the failure may pass: the next run asks again."""
    body: str
    """The reply as canonical JSON. One of 4,096 characters or more is packed: `zlib:` and base64 of the compressed text."""
    tokens_in: int
    """Tokens of the prompt, as the server counts them; 0 where it does not, and for other services."""
    tokens_out: int
    """Tokens of the completion, likewise."""
    cost_usd: float
    """Price of the call by the world's prices, in US dollars."""
    latency_s: float
    """Seconds from the request to the reply."""
    asked_at: datetime
    """When the reply came."""


class BuildRow(OwnTable):
    """A build of a benchmark, or an evaluation of a model."""

    table, primary_key = "builds", ("build_id",)
    build_id: str
    """Benchmark and the beginning of the lock's digest."""
    benchmark: str
    """The benchmark, or the evaluation."""
    lock_digest: str
    """Digest of the lock."""
    lock: JsonText
    """Every input by content."""
    origin: JsonText
    """Where the inputs were found (options, paths, world), which is no part of the lock."""
    content_digest: str
    """Digest of the published tables' Parquet bytes."""
    report: JsonText
    """What the build reports: counts, reasons, costs, notes."""
    started_at: datetime
    """When it began."""
    published_at: datetime
    """When it was published."""


class BuildTableRow(OwnTable):
    """A table that a build published."""

    table, primary_key = "build_tables", ("build_id", "table_name")
    build_id: str
    """The build."""
    table_name: str
    """The table in which the rows lie, with those of other builds."""
    rows: int
    """Number of the build's rows."""
    sha256: str
    """SHA-256 of the rows' Parquet bytes, in the order of ids."""
    columns: list[PublishedColumn]
    """The columns that were published, in order: the table may have got others since."""


class BuildStageRow(OwnTable):
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
    """Rows that another one took in."""
    calls_sent: int
    """Calls that this run sent."""
    calls_replayed: int
    """Calls that were answered by recorded replies."""
    tokens_in: int
    """Tokens of prompts that were sent."""
    tokens_out: int
    """Tokens of completions that came."""
    cost_usd: float
    """Price of the calls sent, in US dollars."""
    seconds: float
    """Seconds that the stage took."""


class RejectRow(OwnTable):
    """A row that goes no further, and why."""

    table = "rejects"
    build_id: str
    """The build, or the run that has published nothing yet."""
    stage: str
    """The step that dropped it."""
    id: str
    """Id of the row in that stage."""
    reason: str
    """Short code."""
    detail: str
    """What was found and what was expected."""
    row: str | None
    """The row as the stage received it, mostly JSON; a source's malformed row as it stands there."""


class MergedRow(OwnTable):
    """A row that says the same as another and was united with it."""

    table = "merged_rows"
    build_id: str
    """The build, or the run that has published nothing yet."""
    stage: str
    """The step that united them."""
    id: str
    """Id of the row that went."""
    into_id: str
    """Id of the row that stayed."""


class BuildCallRow(OwnTable):
    """Which recorded call a row rests on."""

    table = "build_calls"
    build_id: str
    """The build, or the run that has published nothing yet."""
    stage: str
    """The step that asked."""
    id: str
    """Id of the row that it was asked for; empty in the stage `since`."""
    key: str
    """Key of the call."""
    record_id: str
    """The very reply."""
    taken_off: str | None
    """What was taken off the reply before it was read (thoughts, fences, remarks), parted by commas; null for nothing."""


class KeptCallRow(OwnTable):
    """A reply that a rebuild kept though it was too old, since what it rests on has not changed (--since)."""

    table = "kept_calls"
    build_id: str
    """The build, or the run that has published nothing yet."""
    record_id: str
    """The reply."""
    why: str
    """What shows that it would come again."""
    checks: list[str]
    """Records of the calls that were asked to see it."""


class ReviewDecisionRow(OwnTable):
    """What a reviewer decided about a flagged row; the newest decision counts."""

    table, primary_key = "review_decisions", ("id",)
    id: str
    """Digest of what the decision rests on."""
    benchmark: str
    """The benchmark that flagged it."""
    item: JsonText
    """The flag and the decision."""
    imported_at: datetime
    """When it was imported."""


class AuditVerdictRow(OwnTable):
    """What a reader said of a row of a build (factmill audit); the newest verdict counts."""

    table, primary_key = "audit_verdicts", ("build_id", "row_id")
    build_id: str
    """The build."""
    row_id: str
    """The row."""
    marks: JsonText
    """Kind of fault → faulty parts, or a mark."""
    reviewer: str
    """Who said it."""
    note: str
    """In the reader's words."""
    given_at: datetime
    """When it was imported."""


class LabelItemRow(OwnTable, DrawnItem):
    """What was drawn for people to label, and what they are not told of it (factmill label export)."""

    table, primary_key = "label_items", ("id",)


class LabelRow(OwnTable):
    """What a person said of an item; the newest label of one person counts."""

    table, primary_key = "labels", ("item", "labeller")
    item: str
    """Id in label_items."""
    labeller: str
    """Who said it."""
    label: str
    """The label."""
    note: str
    """In their words."""
    file_digest: str
    """SHA-256 of the imported file."""
    imported_at: datetime
    """When it was imported; nothing is computed with it."""


class JudgeCardRow(OwnTable):
    """How far a judge agrees with people, on one benchmark and one set of labels."""

    table, primary_key = "judge_cards", ("id",)
    id: str
    """Digest of judge and labels."""
    benchmark: str
    """The benchmark."""
    judge: str
    """The model, or the program."""
    prompt_digest: str
    """Digest of its prompts, or of its code."""
    labels_digest: str
    """Digest of the labels."""
    card: JsonText
    """The figures."""


class ForecastRow(OwnTable):
    """What was forecast for a build (factmill forecast), to be held against what it came to."""

    table = "forecasts"
    lock_digest: str
    """Of the build that it is for."""
    benchmark: str
    """The benchmark."""
    made_at: datetime
    """When it was made."""
    told: JsonText
    """The figures."""


OWN_TABLES: tuple[type[OwnTable], ...] = (
    *(CallRow, BuildRow, BuildTableRow, BuildStageRow, RejectRow, MergedRow, BuildCallRow, KeptCallRow),
    *(ReviewDecisionRow, AuditVerdictRow, LabelItemRow, LabelRow, JudgeCardRow, ForecastRow),
)


VERSION = 16
"""Of the warehouse's own tables; another one makes `factmill upgrade` necessary."""
_KINDS = {
    pa.string(): "VARCHAR",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP WITH TIME ZONE",
}
_SEVERAL = "Holds the rows of several builds, told apart by build_id; latest_{} has those of the latest."
_BUILD_ID = "The build that the row belongs to (table builds)."

_OF_STATEMENTS = {
    "benchmark": "The benchmark of the row.",
    "build_id": "The build that published it.",
    "row_id": "Id of the row in its benchmark's main table.",
    "subject": "QID of the item that the statement is of.",
    "property": "Its property; null where a row names the statement alone (FanOutQA).",
    "value": "QID or text of its value; null where a row names the statement alone (FanOutQA).",
    "rank": "`best` for a direct claim: no other statement of the property outranks it. Null for a named statement, which is only "
    "known not to be deprecated.",
    "statement": "Id of the statement; null for direct claims, which name none (GRANOLA-EQ, most of MultiHal).",
    "modified": "When the item was last changed, or the date of the dump, where the row has it.",
    "replied_at": "When the last reply of Wikidata came that the row rests on; null for a local graph, whose answers are not recorded.",
}


def name_kinds(schema: pa.Schema) -> dict[str, str]:
    """Return column → DuckDB's type, of an Arrow schema of a row model."""
    return {field.name: _name_kind(field.type) for field in schema}


def _name_kind(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"{_name_kind(kind.value_type)}[]"
    if pa.types.is_struct(kind):
        fields = (f'"{field.name}" {_name_kind(field.type)}' for field in kind)
        return f"STRUCT({', '.join(fields)})"
    return _KINDS[kind]


def make_own_tables(db: duckdb.DuckDBPyConnection) -> None:
    """Make all tables and views of a new warehouse."""
    statements = []
    for model in OWN_TABLES:
        schema = arrow_schema(model)
        kinds = name_kinds(schema) | dict.fromkeys(json_columns(model), "JSON")
        columns = [f'"{field.name}" {kinds[field.name]}{"" if field.nullable else " NOT NULL"}' for field in schema]
        columns += [f"PRIMARY KEY ({', '.join(model.primary_key)})"] if model.primary_key else []
        statements.append(f"CREATE TABLE {model.table} ({', '.join(columns)})")
        statements += comment("TABLE", model.table, inspect.getdoc(model) or "", column_docs(model))
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
        db.execute(";\n".join(_comment_columns(view, {name: docs[name] for name in names if name in docs})))


def comment(what: str, name: str, doc: str, columns: Mapping[str, str]) -> list[str]:
    """Return the statements that comment on a table or view and its columns."""
    return [_comment(f"{what} {name}", doc), *_comment_columns(name, columns)]


def _comment_columns(name: str, columns: Mapping[str, str]) -> list[str]:
    return [_comment(f'COLUMN {name}."{column}"', text) for column, text in columns.items() if text]


def _comment(target: str, text: str) -> str:
    return "COMMENT ON {} IS '{}'".format(target, " ".join(text.split()).replace("'", "''"))


def make_published_table(
    db: duckdb.DuckDBPyConnection, name: str, kinds: Mapping[str, str], model: type[BaseModel] | None
) -> None:
    """Make the table of a benchmark so that it takes rows with these columns (name → DuckDB's type), and the view of the latest.

    Columns that came later are null in the rows of older builds, and those that are gone in the rows of newer ones.
    WarehouseError where a column has another kind now, and what older builds have there would not keep it.
    """
    wanted = {**kinds, **dict.fromkeys((json_columns(model) if model else frozenset()) & kinds.keys(), "JSON")}
    there = list_columns(db, name)
    columns = {"build_id": "VARCHAR", **wanted, **{each: there[each] for each in there if each not in wanted}}
    if _unquote(columns) == _unquote(there):
        return
    for column, before in there.items():
        now = columns[column]
        if now.replace('"', "") != before.replace('"', ""):
            back = f'TRY_CAST(TRY_CAST("{column}" AS {now}) AS {before})'
            lost = db.execute(f'SELECT count(*) FROM {name} WHERE {back} IS DISTINCT FROM "{column}"').fetchone()
            if lost != (0,):
                raise WarehouseError(
                    f"the table {name} of this warehouse holds rows of older builds whose column {column} is {before}; it is "
                    f"{now} now, which cannot hold what they have; name another file with --warehouse"
                )
    told = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
    db.execute(f"CREATE TABLE {name}_now ({told})")
    if there:
        db.execute(f"INSERT INTO {name}_now BY NAME FROM {name}")
        db.execute(f"DROP TABLE {name}")
    db.execute(f"ALTER TABLE {name}_now RENAME TO {name}")
    own = column_docs(model) if model else {}
    docs = {"build_id": _BUILD_ID, **{column: text for column, text in own.items() if column in columns}}
    about = (inspect.getdoc(model) or "") if model else ""
    db.execute(
        f"CREATE OR REPLACE VIEW latest_{name} AS FROM {name} WHERE build_id IN (SELECT build_id FROM latest_builds)"
    )
    statements = [
        *comment("TABLE", name, f"{about} {_SEVERAL.format(name)}", docs),
        *comment("VIEW", f"latest_{name}", f"{about} Those of the latest build (latest_builds).", docs),
    ]
    db.execute(";\n".join(statements))


def _unquote(kinds: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return columns and kinds without quotes: DuckDB quotes the fields of a struct only where it must."""
    return [(column, kind.replace('"', "")) for column, kind in kinds.items()]


def make_statement_views(db: duckdb.DuckDBPyConnection, benchmark: str, rows: str) -> None:
    """Make the view of the statements that a benchmark's rows rest on, and `statements`, which unites those of all.

    `rows`: a SELECT of build_id, row_id, subject, property, value, statement, modified, asked_for.
    """
    db.execute(f"CREATE OR REPLACE VIEW statements_of_{benchmark} AS {rows}")
    found = db.execute("SELECT view_name FROM duckdb_views() WHERE starts_with(view_name, 'statements_of_') ORDER BY 1")
    parts = " UNION ALL BY NAME ".join(f"FROM {name}" for (name,) in found.fetchall())
    statements = [
        f"CREATE OR REPLACE VIEW statements AS SELECT b.benchmark, s.build_id, s.row_id, s.subject, s.property, s.value, "
        "CASE WHEN s.statement IS NULL THEN 'best' END AS rank, s.statement, s.modified, r.replied_at "
        f"FROM ({parts}) s JOIN builds b USING (build_id) LEFT JOIN (SELECT u.build_id, u.id, max(c.asked_at) AS replied_at "
        "FROM build_calls u JOIN calls c USING (record_id) JOIN builds b USING (build_id) "
        "WHERE c.service = b.lock->>'$.services.wikidata' GROUP BY ALL) r ON r.build_id = s.build_id AND r.id = s.asked_for",
        *comment(
            "VIEW",
            f"statements_of_{benchmark}",
            f"The part of statements that is of {benchmark}.",
            {name: text for name, text in _OF_STATEMENTS.items() if name not in ("benchmark", "rank", "replied_at")}
            | {"asked_for": "Id under which the calls of the row are filed."},
        ),
        *comment("VIEW", "statements", "Which statements of Wikidata the rows of benchmarks rest on.", _OF_STATEMENTS),
    ]
    db.execute(";\n".join(statements))


def list_columns(db: duckdb.DuckDBPyConnection, name: str) -> dict[str, str]:
    """Return the columns of a table, name → DuckDB's type; none where there is no such table."""
    found = db.execute(
        "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? AND database_name = current_database() "
        "ORDER BY column_index",
        [name],
    ).fetchall()
    return dict(found)
