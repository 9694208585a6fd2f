"""The build that models are measured on: its rows in the warehouse, or in a release's folder, which needs no warehouse.

The digest of a complete release, computed from its rows, equals that of its build: an evaluation on either is the same
one and repeats no call. A release that leaves something out is a source of its own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from factmill.tasks.core.digests import digest_text
from factmill.tasks.core.evaluation.answers import EXPECTED_ANSWER_OBJECT, ParsedAnswersFile, parse_answers_file
from factmill.tasks.core.publishing.release_spec import REJECT_DETAILS_OMISSION
from factmill.tasks.core.rows import arrow_schema
from factmill.tasks.engine.batches import BatchInProgress
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.engine.incremental import find_service_differing_beyond_state
from factmill.tasks.engine.naming.identities import service_identities
from factmill.tasks.engine.naming.manifests import resolve_own_prompt_texts
from factmill.tasks.errors import BuildFormatTooOld, SourceError, UnknownBuild, UsageError
from factmill.tasks.files import resolve_absolute_path
from factmill.tasks.options import RunOptions, resolve_warehouse_path
from factmill.tasks.settings import factmill_home, load_world
from factmill.tasks.storage.builds import (
    LATEST_PREFIX,
    BuildRecord,
    format_latest_build_choice_note,
    join_described_builds,
    list_builds,
    rank_builds_for_latest,
    resolve_build,
)
from factmill.tasks.storage.released_folders import (
    INDEX_FILE,
    is_release,
    load_verified_release,
    validate_and_conform_to_row_model,
)
from factmill.tasks.storage.source_files import SourceFile, iterate_numbered_json_values, make_source_file_with_digest
from factmill.tasks.storage.table_store import TableStore
from factmill.tasks.text.sanitize import shorten_middle

if TYPE_CHECKING:
    from factmill.tasks.evaluation.definition import Evaluation, EvaluationParams

LATEST_BUILD_KEYWORD = "latest"
_DEFAULT_WORLD = RunOptions().world
"""Maximum number of builds named in one message."""


@dataclass(frozen=True, slots=True)
class MeasuredBuild:
    """The build that an evaluation measures on."""

    record: BuildRecord
    store: TableStore
    """Store from which its rows are loaded."""
    notes: Sequence[str]
    """Notes for the user on the choice of the build and on what a release lacks."""
    answers_file: SourceFile | None
    """File with the answers to score; None: a model answers."""


def resolve_measured_build(benchmark: Benchmark, params: EvaluationParams, run: RunOptions) -> MeasuredBuild:
    """Resolve the build to measure on: the named one, else the one that the file of answers refers to, else the latest.

    UsageError or UnknownBuild if there is none that fits."""
    answers = None
    if params.answers is not None:
        path = Path(os.path.realpath(params.answers))  # a loop of links is no traceback
        if not path.is_file():
            raise UsageError(
                f"{params.answers}: file of answers not found; for its format see factmill evaluate {benchmark.name} --help"
            )
        answers = make_source_file_with_digest(path)
    asked_of = load_answers_file(answers).build if answers else ""
    note = ""
    if params.release is None:
        record, note = _choose_build_to_measure(benchmark, params, asked_of, run)
        store = TableStore(resolve_warehouse_path(run), record.build_id)
    else:
        if params.build != LATEST_BUILD_KEYWORD:
            raise UsageError("--build and --release both choose what to measure on; give only one of them")
        folder = Path(params.release)
        if not folder.is_dir() or not is_release(folder):
            why = f"the folder is not a release (no {INDEX_FILE})" if folder.is_dir() else "folder not found"
            raise UsageError(f"--release {folder}: {why}; make a release with factmill release BUILD --to DIR")
        store = TableStore(resolve_absolute_path(folder))
        record = load_verified_release(store.path).record
    if record.benchmark != benchmark.name:
        what = params.release or record.build_id
        raise UsageError(
            f"{what} is a {'release' if params.release else 'build'} of {record.benchmark}; expected one of {benchmark.name}"
        )
    check_answers_match_build(asked_of, record.build_id, str(params.answers))
    if params.release is not None:
        check_release_tables_fit_row_models(benchmark, store)
        _check_release_matches_build(record, store, resolve_warehouse_path(run))
    where = (
        f"the release {params.release} of {record.build_id}"
        if params.release
        else f"{record.build_id} ({_describe_build_rows_and_world(record)})"
    )
    notes = [f"measured is {where}", *filter(None, [note]), *format_release_omissions(benchmark, store)]
    return MeasuredBuild(record, store, notes, answers)


def check_answers_match_build(answered_build: str, build_id: str, answers_name: str) -> None:
    """UsageError if `answers_name` (a file or a name for the message) refer to another build than the one measured on."""
    if answered_build and answered_build != build_id:
        raise UsageError(
            f"{answers_name}: the answers are to the questions of {answered_build}, but the evaluation measures on {build_id}; measure on "
            f'{answered_build}, or remove "build" from the answers to score them on other rows'
        )


@lru_cache(maxsize=4)
def load_answers_file(file: SourceFile) -> ParsedAnswersFile:
    """Load a file of answers, once per process; SourceError if it is malformed."""
    return parse_answers_file(iterate_numbered_json_values(file, EXPECTED_ANSWER_OBJECT), Path(file.path).name)


def format_release_omissions(benchmark: Benchmark, store: TableStore) -> list[str]:
    """List what a release lacks that would be measured on, one line each; empty for a build of the warehouse."""
    names = [each.what for each in load_verified_release(store.path).index.left_out] if is_release(store.path) else []
    hidden = [name for name in names if name in benchmark.tables and not name.endswith("_review")]
    others = [name for name in names if name not in benchmark.tables and name != REJECT_DETAILS_OMISSION]
    notes = [f"the release has no {', '.join(hidden)}: questions with hidden answers are left out"] if hidden else []
    return (
        [*notes, f"the release leaves out {', '.join(others)}: the evaluation leaves these rows out"]
        if others
        else notes
    )


def format_measured_build(evaluation: BuildRecord) -> str:
    """Format the build, and the release if there is one, that an evaluation measured on."""
    flow = evaluation.origin["flow"]
    return f"{flow['build']}, from the release in {flow['release']}" if flow.get("release") else str(flow["build"])


def find_measured_build_record(warehouse: Path, evaluation: BuildRecord) -> BuildRecord | None:
    """Find the build that an evaluation measured on; None if neither the warehouse nor its release's folder has it."""
    flow = evaluation.origin["flow"]
    with suppress(UnknownBuild):
        return resolve_build(warehouse, flow["build"])
    with suppress(SourceError, BuildFormatTooOld):
        record = load_verified_release(Path(flow["release"])).record if flow.get("release") else None
        if record and record.content_digest == evaluation.lock["params"]["source_digest"]:
            return record
    return None


def load_question_rows_of_measured_build(work: BatchInProgress, evaluation: Evaluation) -> pa.Table:
    """Load the rows of the measured build that the evaluation's questions are made of."""
    return evaluation.load_question_rows(
        lambda table: load_benchmark_table_with_digest(evaluation.benchmark, _open_measured_store(work), table)[0]
    )


def check_release_tables_fit_row_models(benchmark: Benchmark, store: TableStore) -> None:
    """SourceError unless the tables of a release fit the benchmark's row models; warehouse tables are not checked."""
    for name, table in load_verified_release(store.path).tables.items() if is_release(store.path) else ():
        if name in benchmark.tables:
            texts = benchmark.forms.json_columns.get(name, ())
            validate_and_conform_to_row_model(
                table, benchmark.tables[name], f"{store.path}: table {name}", json_columns=texts
            )


def is_held_out_of_release(benchmark: Benchmark, store: TableStore, table: str) -> bool:
    """Return whether a release lacks this table of hidden answers, so that only its other questions are asked."""
    return table in benchmark.held_out_tables and store.lacks_released_table(table)


def load_benchmark_table_with_digest(benchmark: Benchmark, store: TableStore, table: str) -> tuple[pa.Table, str]:
    """Load a benchmark's table, sorted by id, and the digest of its source; no rows if the table is held back.

    BuildFormatTooOld if an earlier factmill wrote it without a column.
    """
    schema = arrow_schema(benchmark.tables[table])
    if is_held_out_of_release(benchmark, store, table):
        return schema.empty_table(), ""
    try:
        rows, where, digest = store.read_with_digest(table)
    except SourceError as error:
        if table not in benchmark.held_out_tables:
            raise
        raise SourceError(
            f"{error}. An export without answers leaves this table out, and {benchmark.name} cannot be measured without it; export "
            "again with factmill export BUILD --to DIR --with-answers"
        ) from error
    if lacking := [name for name in schema.names if name not in rows.column_names]:
        raise BuildFormatTooOld(
            f"{where} was made by an earlier version of factmill: {table} lacks {', '.join(lacking)}; rebuild it with the same "
            "command (recorded replies are reused), and use the new build"
        )
    try:
        return rows.select(schema.names).cast(schema).sort_by("id"), digest
    except (KeyError, ValueError, TypeError) as error:
        raise SourceError(
            f"{where}: the columns are not those that this version of factmill builds for {benchmark.name}: {error}"
        ) from error


def _choose_build_to_measure(
    benchmark: Benchmark, params: EvaluationParams, answered_build: str, run: RunOptions
) -> tuple[BuildRecord, str]:
    """Return the build to measure on, and a note on the choice."""
    warehouse = resolve_warehouse_path(run)
    if params.build not in (LATEST_BUILD_KEYWORD, f"{LATEST_PREFIX}{benchmark.name}"):
        return resolve_build(warehouse, params.build), ""
    builds = list_builds(warehouse)
    if answered_build and params.build == LATEST_BUILD_KEYWORD:
        found = [build for build in builds if build.build_id == answered_build]
        if not found:
            raise UnknownBuild(
                f"{params.answers}: the answers are to the questions of {answered_build}, which is not in {warehouse}; give the warehouse "
                f"that has this build (--warehouse FILE) or a release of it (--release DIR). `factmill show` lists the builds"
            )
        return found[0], ""
    ranked = rank_builds_for_latest(build for build in builds if build.benchmark == benchmark.name)
    if not ranked:
        raise UnknownBuild(
            f"{warehouse} has no build of {benchmark.name} to measure on; make one: `factmill build {benchmark.name}`, or give "
            "a release with --release DIR"
        )
    if params.build == LATEST_BUILD_KEYWORD and (run.world != _DEFAULT_WORLD or run.prompts):
        return _choose_build_of_world(benchmark, sorted(ranked, key=lambda build: build.published_at)[::-1], run)
    return ranked[0], format_latest_build_choice_note(ranked)


def _choose_build_of_world(
    benchmark: Benchmark, newest_first: Sequence[BuildRecord], run: RunOptions
) -> tuple[BuildRecord, str]:
    """Return the newest build that was made in the run's world, and with its own prompts where these replace some of the
    build's, and a note on newer ones of other worlds; UnknownBuild if there is none.

    A world is that of a build's manifest if it has its name and asks the same services; models may have changed since.
    """
    world = load_world(run.world, run.graph)
    services = service_identities(world, factmill_home())
    prompts = {name: digest_text(text) for name, text in resolve_own_prompt_texts(benchmark.assets, run).items()}

    def is_of_world(build: BuildRecord) -> bool:
        is_same = build.lock["world"]["name"] == world.name
        return is_same and not find_service_differing_beyond_state(build.lock, {"services": services})

    found = [
        build for build in newest_first if is_of_world(build) and (not prompts or build.own_prompt_digests == prompts)
    ]
    if found:
        others = [build for build in newest_first if build != found[0]]
        named = f"; others: {join_described_builds(others, _describe_build_rows_and_world)}; name one with --build to measure on it"
        return found[0], f"it is the newest build of the world {world.name}{named}" if others else ""
    with_prompts = f" with the prompts of {run.prompts or world.prompts}" if prompts else ""
    options = " ".join(
        [
            *([f"--world {run.world}"] if run.world != _DEFAULT_WORLD else []),
            *([f"--prompts {run.prompts}"] if run.prompts else []),
        ]
    )
    raise UnknownBuild(
        f"no build of {benchmark.name} was made in the world {world.name}{with_prompts}, so its rows cannot be measured; builds of "
        f"others: {join_described_builds(newest_first, _describe_build_rows_and_world)}. Make one: `factmill build {benchmark.name} "
        f"{options}`, or name the build to measure on: --build {newest_first[0].build_id}"
    )


def _describe_build_rows_and_world(build: BuildRecord) -> str:
    """Format a build's rows, world, and the options that chose its rows."""
    rows, world = build.report.get("rows", 0), build.lock.get("world", {}).get("name", "")
    parts = [
        f"{rows:,} rows",
        f"world {world}" if world else "",
        shorten_middle(", ".join(build.narrowing_options), 120),
    ]
    return ", ".join(filter(None, parts))


def _check_release_matches_build(record: BuildRecord, store: TableStore, warehouse: Path) -> None:
    """SourceError if the warehouse has the build that a release claims to be of, with other rows."""
    with suppress(UnknownBuild):
        build = resolve_build(warehouse, record.build_id)
        claimed = load_verified_release(store.path).index.content_digest
        if build.build_id == record.build_id and build.content_digest != claimed:
            raise SourceError(
                f"{store.path}: the release claims to be of {record.build_id}, but that build has other rows in {warehouse}; download "
                "the release again from its publisher, or measure on the build with --build"
            )


def _open_measured_store(work: BatchInProgress) -> TableStore:
    """Open the store of the rows that a run measures on: a build with that content digest, else the run's release."""
    warehouse, digest = Path(work.run.options["warehouse"]), work.run.manifest["params"]["source_digest"]
    if found := [build for build in list_builds(warehouse) if build.content_digest == digest]:
        return TableStore(warehouse, found[-1].build_id)
    folder = work.run.origin["flow"].get("release")
    if folder is None:
        raise UnknownBuild(f"the measured build is no longer in {warehouse}; build it again, then evaluate again")
    store = TableStore(Path(folder))
    if load_verified_release(store.path).record.content_digest != digest:
        raise SourceError(f"{folder}: the release in this folder is not the one that was measured; evaluate again")
    return store
