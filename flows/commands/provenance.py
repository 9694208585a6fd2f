"""`factmill explain` and `factmill diff`: where a row or a build comes from, and what changed from one build or release to
another, with the causes."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import typer

from factmill.flows.cli.options import (
    BenchmarkArgument,
    BuildOption,
    JsonOption,
    WarehouseOption,
    print_result,
    resolve_benchmark_and_build_name,
    write_text_file,
)
from factmill.flows.evaluate.evaluations import get_benchmark_or_evaluation
from factmill.tasks import progress
from factmill.tasks.core.digests import digest_json
from factmill.tasks.core.rows import MAX_SETTING_NUMBER
from factmill.tasks.diff.compare import check_same_benchmark, compare_builds
from factmill.tasks.diff.core.changes import (
    CAUSE_KIND_MEANINGS,
    ROW_CHANGE_KINDS,
    BuildDiff,
    ChangeCauseKind,
    RowChange,
    count_unexplained_rows,
    format_change_in_lines,
    format_value_in_line,
)
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.engine.naming.code_versions import PACKAGE_VERSIONS
from factmill.tasks.errors import UnknownRow, UsageError
from factmill.tasks.options import RunOptions, resolve_warehouse_path
from factmill.tasks.reports.builds.tracing import (
    format_traced_row_and_companions,
    get_call_settings_variables_reply,
    load_row_traces,
)
from factmill.tasks.storage.builds import LATEST_PREFIX, BuildRecord, resolve_build, resolve_build_id_and_reject_count
from factmill.tasks.storage.released_folders import is_release
from factmill.tasks.storage.warehouse import Connection, open_warehouse, parse_json_column, query_rows
from factmill.tasks.text.durations import format_age_in_words
from factmill.tasks.text.sanitize import escape_control_characters, format_did_you_mean


def explain(
    benchmark: BenchmarkArgument,
    row: str | None = typer.Argument(
        None, help="Row: its id or the start of its id. Default: list the inputs of the build.", metavar="[ROW]"
    ),
    build_name: BuildOption = None,
    warehouse: WarehouseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show where a row comes from: source, items, calls, verdicts.

    ROW can also be a rejected row. Without ROW, list every input of the build with its digest or version.

    \b
    Examples:
      factmill explain granola P19-3f2a
      factmill explain latest:granola
    """
    progress.set_progress_style()
    if row is not None and row.startswith(LATEST_PREFIX):
        benchmark, row = row, benchmark
    benchmark, build_name = resolve_benchmark_and_build_name(benchmark, build_name)
    known = get_benchmark_or_evaluation(benchmark)
    path = resolve_warehouse_path(RunOptions(warehouse=warehouse))
    if row is None:
        build = resolve_build(path, build_name or f"latest:{benchmark}")
        return print_result(as_json, {"build_id": build.build_id, "lock": build.lock}, _format_manifest(build))
    build_id, _ = resolve_build_id_and_reject_count(path, build_name or f"latest:{benchmark}")
    with open_warehouse(path) as db:
        trace = trace_row_by_id_prefix(db, known, build_id, row)
    return print_result(as_json, trace, format_trace(known, trace))


def format_trace(benchmark: Benchmark, trace: dict[str, Any]) -> list[str]:
    """Return the trace of a row as lines of text: the row, and each call that it rests on."""
    lines = [f"{trace['id']} in {trace['build']}", *format_traced_row_and_companions(benchmark, trace)]
    if trace["other_builds"]:
        others = ", ".join(trace["other_builds"][:_MAX_LISTED_BUILDS])
        more = trace["other_builds"][_MAX_LISTED_BUILDS:]
        lines.append(f"  also in     {others}{f' and {len(more)} more' if more else ''}: name a build to see its row")
    lines.append("  calls:" if trace["calls"] else "  calls: none")
    return [*lines, *(line for call in trace["calls"] for line in _format_call(call, trace["own_prompts"]))]


_MAX_LISTED_BUILDS = 5
"""Maximum number of other builds named for a row."""
_ASSET_KINDS = {"prompts": "prompt", "lists": "list", "queries": "query"}


def trace_row_by_id_prefix(db: Connection, benchmark: Benchmark, build_id: str, id_prefix: str) -> dict[str, Any]:
    """Return the trace of a row: the row or its reject, its rows in companion tables, and the calls that it rests on.

    `build_id`: a build, or a run that published nothing, which has only rejects.

    `row_id` may be the beginning of an id if only one fits; UnknownRow if none or several do.
    """
    is_build = bool(query_rows(db, "SELECT 1 FROM builds WHERE build_id = ?", build_id))
    id_prefix = _resolve_row_id(db, benchmark, benchmark.main_table if is_build else "rejects", build_id, id_prefix)
    (trace,) = load_row_traces(db, benchmark, build_id, [id_prefix])
    for call in trace["calls"]:
        call["age_s"] = int((datetime.now(UTC) - call["asked_at"]).total_seconds())
        call["asked_at"] = call["asked_at"].isoformat()
    own = _describe_own_prompt_files_and_digests(db, build_id)
    asked = {call["parts"].get("prompt") for call in trace["calls"]}
    trace["own_prompts"] = {name: text for name, text in own.items() if name in asked}
    # the main table is missing while no build of the benchmark has published a row
    tables = db.execute(
        "SELECT table_name FROM duckdb_tables() WHERE table_name IN ($1, 'rejects') ORDER BY 1", [benchmark.main_table]
    ).fetchall()
    places = " UNION ALL ".join(f"SELECT build_id FROM {table} WHERE id = $1" for (table,) in tables)
    trace["other_builds"] = [
        each
        for (each,) in db.execute(
            f"SELECT DISTINCT build_id FROM ({places}) JOIN builds USING (build_id) "
            "WHERE build_id <> $2 AND benchmark = $3 ORDER BY 1",
            [id_prefix, build_id, benchmark.name],
        ).fetchall()
    ]
    return trace


def _describe_own_prompt_files_and_digests(db: Connection, build_id: str) -> dict[str, str]:
    """Return id → file and digest, as text, of the prompts of the user's own that a build used."""
    found = query_rows(db, "SELECT origin, lock FROM builds WHERE build_id = ?", build_id)
    if not found:
        return {}
    origin, lock = (
        parse_json_column(found[0][name], f"builds.{name} of {build_id}", dict) for name in ("origin", "lock")
    )
    files: dict[str, str] = origin.get("prompt_files", {})
    return {
        name: ", ".join([*([files[name]] if name in files else []), f"SHA-256 {lock['prompts'][name]}"])
        for name in origin.get("prompts") or {}
    }


def _format_manifest(build: BuildRecord) -> list[str]:
    lock = build.lock
    world, code = lock["world"], lock["code"]
    files = [pair for found in lock["sources"]["files"].values() for pair in found]
    pairs = [
        *(("source", name, digest) for name, digest in files),
        *([("source", "wikidata", lock["sources"]["wikidata"])] if lock["sources"]["wikidata"] else []),
        ("world", world["name"], f"{world['digest']} (settings), epoch {world['epoch']}"),
        *(("service", name, identity) for name, identity in lock["services"].items()),
        *(("model", role, name) for role, name in lock["models"].items()),
        *(
            (singular, name, f"{digest}{' (own)' if kind == 'prompts' and name in build.own_prompts else ''}")
            for kind, singular in _ASSET_KINDS.items()
            for name, digest in lock[kind].items()
        ),
        *(
            ("parameter", name, json.dumps(value, ensure_ascii=False))
            for name, value in (lock["params"]["params"] | lock["params"]).items()
            if name != "params" and value not in (None, [], {})
        ),
    ]
    if isinstance(code, str):
        pairs.append(("code", "all modules that the recipe imports, as text", code))
    else:
        for package, number in code["rooms"].items():
            is_todays = package in PACKAGE_VERSIONS and PACKAGE_VERSIONS[package].number == number
            since = PACKAGE_VERSIONS[package].since if is_todays else "not the current version"
            pairs.append(("version", package, f"{number}: {since}"))
        pairs += [("library", name, number) for name, number in code["libraries"].items()]
        count = sum(map(len, code["definitions"].values()))
        pairs.append(
            (
                "code",
                "definitions",
                f"{count:,} in {len(code['definitions']):,} modules, each with its digest (--json lists them)",
            )
        )
    width = max(len(name) for _, name, _ in pairs)
    lines = [f"  {kind:9} {name:{width}}  {value}" for kind, name, value in pairs]
    return [f"{build.build_id}, lock {digest_json(lock)}, has these inputs:", *lines]


def _format_call(call: dict[str, Any], own_prompts: Mapping[str, str]) -> list[str]:
    what, asked, answer = get_call_settings_variables_reply(call)
    lines = [
        f"    {call['stage']}: {call['operation']} of {call['service']} at {call['asked_at']}, {format_age_in_words(call['age_s'])} ago (call {call['key'][:12]})",
        f"      asked   {json.dumps(what, ensure_ascii=False)}",
        *([f"      with    own prompt {own_prompts[what['prompt']]}"] if what.get("prompt") in own_prompts else []),
        *(f"              {name}: {value}" for name, value in asked.items()),
        f"      replied {answer[:400]}",
    ]
    if call["unchanged"]:
        checks = ", ".join(call["checks"]) or "none"
        lines.append(f"      reused  as unchanged: {call['unchanged']} (checked by call {checks})")
    return [*lines, *([f"              read after removing {call['taken_off']}"] if call["taken_off"] else [])]


def _resolve_row_id(db: Connection, benchmark: Benchmark, table: str, build_id: str, row_id: str) -> str:
    found = db.execute(
        f"SELECT DISTINCT id FROM (SELECT id FROM {table} WHERE build_id = $1 UNION ALL SELECT id FROM rejects WHERE build_id = $1) "
        "WHERE id = $2 OR starts_with(id, $2) ORDER BY id = $2 DESC, id LIMIT 3",
        [build_id, row_id],
    ).fetchall()
    if len(found) == 1 or (found and found[0][0] == row_id):
        return str(found[0][0])
    merged = db.execute(
        "SELECT id, into_id FROM merged_rows WHERE build_id = $1 AND starts_with(id, $2) ORDER BY id LIMIT 1",
        [build_id, row_id],
    ).fetchone()
    if not found and merged:
        raise UnknownRow(
            f"{merged[0]} was merged into {merged[1]}; see `factmill explain {benchmark.name} {merged[1]}`"
        )
    several = (
        f"several row ids begin with {row_id!r}: {', '.join(row[0] for row in found)} …"
        if found
        else f"no row {row_id!r}"
    )
    nearest = [] if found else _list_row_ids_by_ending_or_other_id(db, benchmark, table, build_id, row_id)
    hint = f"; did you mean {' or '.join(nearest)}?" if nearest else ""
    (rows,) = db.execute(f"SELECT count(*) FROM {table} WHERE build_id = $1", [build_id]).fetchone() or (0,)
    other = db.execute(
        f"SELECT min(build_id) FROM {table} WHERE build_id <> $1 AND id = $2", [build_id, row_id]
    ).fetchone()
    has_it = f"; {other[0]} has it (--build {other[0]})" if other and other[0] else ""
    raise UnknownRow(
        f"{several} among the {rows:,} rows of {build_id}{hint}{has_it}; to list their ids: "
        f"`factmill show {benchmark.name} --build {build_id} --limit {max(rows, 1)}` (with --rejects: the ids of rejected rows)"
    )


def _list_row_ids_by_ending_or_other_id(
    db: Connection, benchmark: Benchmark, table: str, build_id: str, named: str
) -> list[str]:
    """Return at most three ids of rows that end in a text, or whose question, path or measured item has it as its id."""
    columns = {*_ITEM_ID_COLUMNS, *benchmark.trace_id_columns} & benchmark.main_row_model.model_fields.keys() - {"id"}
    is_main = table == benchmark.main_table
    tests = ["ends_with(id, $2)", *(f"CAST({column} AS VARCHAR) = $2" for column in sorted(columns) if is_main)]
    found = db.execute(
        f"SELECT id FROM {table} WHERE build_id = $1 AND ({' OR '.join(tests)}) ORDER BY id LIMIT 3", [build_id, named]
    ).fetchall()
    return [str(row_id) for (row_id,) in found]


_ITEM_ID_COLUMNS = frozenset({"item", "question_id"})
"""Columns of an evaluation's rows with the ids of what was measured."""


def diff(
    before: str = typer.Argument(
        ...,
        help="Earlier build: its id, the start of its id, or latest:BENCHMARK; or the folder of a release.",
        metavar="A",
    ),
    after: str = typer.Argument(
        ...,
        help="Later build: its id, the start of its id, or latest:BENCHMARK; or the folder of a release.",
        metavar="B",
    ),
    to: list[Path] | None = typer.Option(
        None,
        help="Also write the diff to this file: .html, .md, .json or .jsonl (one row per line, complete values). Repeatable.",
        metavar="FILE",
    ),
    cause: list[str] | None = typer.Option(
        None,
        help="Show only rows with this cause (repeatable): source, world, epoch, prompt, query, list, model, parameter, decision, code, reply, 'other rows', 'one of', 'left out', 'not told', unexplained.",
        metavar="KIND",
    ),
    limit: int = typer.Option(20, min=0, max=MAX_SETTING_NUMBER, help="Maximum number of rows to print."),
    with_answers: bool = typer.Option(
        False, "--with-answers", help="Also show the hidden answers of the test split, which exports leave out."
    ),
    exit_code: bool = typer.Option(
        False, "--exit-code", help="Exit with code 1 if a row was added, removed or changed, for checks in CI."
    ),
    warehouse: WarehouseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two builds row by row, with the cause of each change.

    The help of --cause lists all causes. A release holds no recorded calls. A diff of releases shows only the causes
    that their lists of inputs (manifests) show. The exit code is 0 even if rows differ, unless --exit-code is given;
    it is 2 if A and B cannot be compared.

    \b
    Examples:
      factmill diff granola-7c571a65e7b7 latest:granola
      factmill diff slaq-33 slaq-9a --cause world --limit 5
      factmill diff old/granola/ granola-eq/
      factmill diff multihal-5a multihal-b1 --to changes.html --to CHANGELOG.md --exit-code
    """
    from factmill.flows.commands.release import compare_release_folders_or_builds
    from factmill.flows.commands.report import check_report_suffixes
    from factmill.tasks.reports.diff_page import CHANGES_RENDERERS, make_diff_json

    files = to or []
    check_report_suffixes(files, CHANGES_RENDERERS)
    causes, known = cause or [], get_args(ChangeCauseKind)
    if unknown := [kind for kind in causes if kind not in known]:
        raise UsageError(
            f"--cause {unknown[0]}: unknown cause; expected one of {', '.join(known)}{format_did_you_mean(unknown[0], known)}"
        )
    path = resolve_warehouse_path(RunOptions(warehouse=warehouse))
    if any(is_release(Path(name)) or "/" in name for name in (before, after)):  # no build has a slash in its name
        found = compare_release_folders_or_builds(path, before, after, with_answers)
    else:
        old, new = (resolve_build(path, name) for name in (before, after))
        check_same_benchmark(old, new)
        found = compare_builds(path, get_benchmark_or_evaluation(old.benchmark), old, new, with_answers)
    kept = [row for row in found.rows if not causes or any(each.kind in causes for each in row.causes)]
    shown = replace(found, rows=kept)
    written = [write_text_file(CHANGES_RENDERERS[file.suffix](shown), file, "--to") for file in files]
    files_written = list(map(str, written))
    changes = make_diff_json(shown) | ({"files": files_written} if written else {})
    print_result(as_json, changes, [*_format_diff(shown, limit, len(found.rows)), *files_written])
    if exit_code and found.has_row_changes:
        raise typer.Exit(1)


_MAX_VALUE_CHARACTERS = 70
"""Maximum characters of a value."""
_MAX_CAUSE_CHARACTERS = 160


def _format_diff(diff: BuildDiff, limit: int, differing_rows: int) -> list[str]:
    """Return a diff as lines of text, with its first `limit` rows; `differing_rows`: rows that differ, for any cause."""
    counts = diff.count_rows_by_kind()
    remade = f" ({diff.remade:,} of them from other calls or source rows)" if diff.remade else ""
    lines = [
        f"{diff.before.build_id} ({diff.before.published}) → {diff.after.build_id} ({diff.after.published})",
        f"  {diff.before.rows:,} rows before, {diff.after.rows:,} after: {diff.same:,} the same{remade}, "
        + ", ".join(f"{counts[kind]:,} {kind}" for kind in ROW_CHANGE_KINDS),
    ]
    lines += [f"  note: {each}" for each in dict.fromkeys([diff.before.caution, diff.after.caution]) if each]
    lines += ["", "inputs that differ" if diff.inputs else "inputs: the same in both manifests"]
    lines += [
        f"  {escape_control_characters(each.cause.label)}: {format_value_in_line(each.cause.change_description, _MAX_CAUSE_CHARACTERS)}"
        for each in diff.inputs
    ]
    lines += ["", "other differences"] if diff.tables or diff.new_columns else []
    for table, of_table in diff.tables.items():
        lines.append(f"  table {table}: {', '.join(f'{count:,} {kind}' for kind, count in of_table.items() if count)}")
    if diff.new_columns:
        lines.append(f"  columns in only one of the two: {', '.join(diff.new_columns)}")
    if not diff.has_row_changes:
        summary = (
            f"none of the {differing_rows:,} rows that differ has such a cause"
            if differing_rows
            else "no row was added, removed or changed"
        )
        return [*lines, "", summary]
    lines += ["", f"{'added':>9} {'removed':>9} {'changed':>9}  cause"]
    kinds = {row.main_cause.label: row.main_cause.kind for row in diff.rows}
    for label, of in diff.count_rows_by_cause().items():
        numbers = " ".join(f"{of[kind]:>9,}" for kind in ROW_CHANGE_KINDS)
        lines.append(
            f"{numbers}  {format_value_in_line(label, _MAX_CAUSE_CHARACTERS)}  ({CAUSE_KIND_MEANINGS[kinds[label]]})"
        )
    if unexplained := count_unexplained_rows(diff):
        lines.append(f"note: no recorded input or call explains the change of {unexplained:,} rows")
    for row in diff.rows[:limit]:
        lines += ["", *_format_row_change_lines(row)]
    if len(diff.rows) > limit:
        lines += [
            "",
            f"… and {len(diff.rows) - limit:,} more rows; --limit {len(diff.rows)} or --to FILE.html shows all",
        ]
    return lines


def _format_row_change_lines(row: RowChange) -> Iterator[str]:
    moved = f" (was {row.id_before})" if row.kind == "changed" and row.id_before != row.id else ""
    yield f"{row.kind} {escape_control_characters(row.id)}{escape_control_characters(moved)}"
    for cause in row.causes:
        where = f" at {cause.stage}" if cause.stage else ""
        yield f"  cause   {escape_control_characters(cause.label)}{where}: {format_value_in_line(cause.change_description, _MAX_CAUSE_CHARACTERS)}"
    if row.fate:
        when = "now    " if row.fate.build == "after" else "before "
        what = "merged" if row.fate.reason == "merged" else "rejected"
        reason = "" if row.fate.reason == "merged" else f" {row.fate.reason}:"
        yield f"  {when} {what} at {row.fate.stage}:{reason} {format_value_in_line(row.fate.detail, _MAX_CAUSE_CHARACTERS)}"
    changed = {each.name for each in row.columns}
    for name, value in row.shown.items():
        if name != "id" and name not in changed:
            yield f"  {name}: {format_value_in_line(value, 2 * _MAX_VALUE_CHARACTERS)}"
    for column in row.columns:
        name = f"{column.table}.{column.name}" if column.table else column.name
        if column.withheld:
            yield f"  {name}: changed (hidden answer; --with-answers shows it)"
        else:
            before, after = format_change_in_lines(column.before, column.after, _MAX_VALUE_CHARACTERS)
            yield f"  {name}: {before} → {after}"
