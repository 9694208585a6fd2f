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

from factmill.tasks.core.evaluation.answers import EXPECTED, AnswersFile, read_answers
from factmill.tasks.core.publishing.release_forms import REJECT_DETAILS
from factmill.tasks.core.rows import arrow_schema
from factmill.tasks.engine.batches import Work
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.errors import OldBuild, SourceError, UnknownBuild, UsageError
from factmill.tasks.files import absolute_path
from factmill.tasks.options import RunOptions, warehouse_of
from factmill.tasks.storage.builds import LATEST_OF, BuildRecord, describe_choice, find_build, list_builds, rank_latest
from factmill.tasks.storage.released_folders import INDEX, conform_rows, is_release, open_release
from factmill.tasks.storage.source_files import SourceFile, iterate_json, lock_source
from factmill.tasks.storage.stores import Store

if TYPE_CHECKING:
    from factmill.tasks.evaluation.record import Evaluation, EvaluationParams

LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Measured:
    """The build that an evaluation measures on."""

    record: BuildRecord
    store: Store
    """Store from which its rows are loaded."""
    notes: Sequence[str]
    """Notes for the user on the choice of the build and on what a release lacks."""
    answers: SourceFile | None
    """File with the answers to score; None: a model answers."""


def find_measured(benchmark: Benchmark, params: EvaluationParams, run: RunOptions) -> Measured:
    """Resolve the build to measure on: the named one, else the one that the file of answers refers to, else the latest.

    UsageError or UnknownBuild if there is none that fits."""
    answers = None
    if params.answers is not None:
        path = Path(os.path.realpath(params.answers))  # a loop of links is no traceback
        if not path.is_file():
            raise UsageError(f"{params.answers}: no such file of answers; factmill evaluate {benchmark.name} --help")
        answers = lock_source(path)
    asked_of = load_answers(answers).build if answers else ""
    note = ""
    if params.release is None:
        record, note = _find_build(benchmark, params, asked_of, warehouse_of(run))
        store = Store(warehouse_of(run), record.build_id)
    else:
        if params.build != LATEST:
            raise UsageError("--build and --release both say what to measure on; give one of them")
        folder = Path(params.release)
        if not folder.is_dir() or not is_release(folder):
            why = f"no release lies there: it has no {INDEX}; one" if folder.is_dir() else "no such folder; a release"
            raise UsageError(f"--release {folder}: {why} is made by factmill release BUILD --to DIR")
        store = Store(absolute_path(folder))
        record = open_release(store.path).record
    if record.benchmark != benchmark.name:
        what = params.release or record.build_id
        raise UsageError(
            f"{what} is a {'release' if params.release else 'build'} of {record.benchmark}; expected one of {benchmark.name}"
        )
    check_asked_of(asked_of, record.build_id, str(params.answers))
    if params.release is not None:
        check_tables(benchmark, store)
        _require_genuine(record, store, warehouse_of(run))
    return Measured(record, store, [*filter(None, [note]), *tell_left_out(benchmark, store)], answers)


def check_asked_of(asked_of: str, build_id: str, answers: str) -> None:
    """UsageError if `answers` (a file or a name for the message) refer to another build than the one measured on."""
    if asked_of and asked_of != build_id:
        raise UsageError(
            f'{answers}: answers to the questions of {asked_of}, and {build_id} is measured on; name {asked_of}, or take "build" '
            "out of the answers to score them on other rows"
        )


@lru_cache(maxsize=4)
def load_answers(file: SourceFile) -> AnswersFile:
    """Load a file of answers, once per process; SourceError if it is malformed."""
    return read_answers(iterate_json(file, EXPECTED), Path(file.path).name)


def tell_left_out(benchmark: Benchmark, store: Store) -> list[str]:
    """List what a release lacks that would be measured on, one line each; empty for a build of the warehouse."""
    names = [each.what for each in open_release(store.path).index.left_out] if is_release(store.path) else []
    hidden = [name for name in names if name in benchmark.tables and not name.endswith("_review")]
    others = [name for name in names if name not in benchmark.tables and name != REJECT_DETAILS]
    told = [f"the release has no {', '.join(hidden)}: questions with hidden answers are not measured"] if hidden else []
    return [*told, f"the release leaves out {', '.join(others)}: these rows are not measured"] if others else told


def name_measured(evaluation: BuildRecord) -> str:
    """Format the build, and the release if there is one, that an evaluation measured on."""
    flow = evaluation.origin["flow"]
    return f"{flow['build']} as released to {flow['release']}" if flow.get("release") else str(flow["build"])


def find_measured_record(warehouse: Path, evaluation: BuildRecord) -> BuildRecord | None:
    """Find the build that an evaluation measured on; None if neither the warehouse nor its release's folder has it."""
    flow = evaluation.origin["flow"]
    with suppress(UnknownBuild):
        return find_build(warehouse, flow["build"])
    with suppress(SourceError, OldBuild):
        record = open_release(Path(flow["release"])).record if flow.get("release") else None
        if record and record.content_digest == evaluation.lock["params"]["source_digest"]:
            return record
    return None


def gather_measured(work: Work, evaluation: Evaluation) -> pa.Table:
    """Load the rows of the measured build that the evaluation's questions are made of."""
    return evaluation.gather_rows(lambda table: read_held(evaluation.of, _open_measured(work), table)[0])


def check_tables(benchmark: Benchmark, store: Store) -> None:
    """SourceError unless the tables of a release fit the benchmark's row models; warehouse tables are not checked."""
    for name, table in open_release(store.path).tables.items() if is_release(store.path) else ():
        if name in benchmark.tables:
            texts = benchmark.forms.json_columns.get(name, ())
            conform_rows(table, benchmark.tables[name], f"{store.path}: table {name}", json_columns=texts)


def is_held_back(benchmark: Benchmark, store: Store, table: str) -> bool:
    """Return whether a release lacks this table of hidden answers, so that only its other questions are asked."""
    return table in benchmark.held_out and store.is_without(table)


def read_held(benchmark: Benchmark, store: Store, table: str) -> tuple[pa.Table, str]:
    """Load a benchmark's table, sorted by id, and the digest of its source; no rows if the table is held back."""
    schema = arrow_schema(benchmark.tables[table])
    if is_held_back(benchmark, store, table):
        return schema.empty_table(), ""
    try:
        rows, where, digest = store.read(table)
    except SourceError as error:
        if table not in benchmark.held_out:
            raise
        raise SourceError(
            f"{error}. It is held out of an export without answers, and {benchmark.name} is not measured without it; export "
            "again: factmill export BUILD --to DIR --with-answers"
        ) from error
    try:
        return rows.select(schema.names).cast(schema).sort_by("id"), digest
    except (KeyError, ValueError, TypeError) as error:
        raise SourceError(
            f"{where}: not the columns of {benchmark.name}, as this factmill builds it: {error}"
        ) from error


def _find_build(
    benchmark: Benchmark, params: EvaluationParams, asked_of: str, warehouse: Path
) -> tuple[BuildRecord, str]:
    """Return the build to measure on, and a note on the choice."""
    if params.build not in (LATEST, f"{LATEST_OF}{benchmark.name}"):
        return find_build(warehouse, params.build), ""
    builds = list_builds(warehouse)
    if asked_of and params.build == LATEST:
        found = [build for build in builds if build.build_id == asked_of]
        if not found:
            raise UnknownBuild(
                f"{params.answers}: answers to the questions of {asked_of}, which is not in {warehouse}; name the warehouse that "
                f"has it (--warehouse FILE) or a release of it (--release DIR). See `factmill builds`"
            )
        return found[0], ""
    ranked = rank_latest(build for build in builds if build.benchmark == benchmark.name)
    if not ranked:
        raise UnknownBuild(
            f"no build of {benchmark.name} to measure on; make one: factmill build {benchmark.name}, or name a release "
            "with --release DIR"
        )
    return ranked[0], describe_choice(ranked)


def _require_genuine(record: BuildRecord, store: Store, warehouse: Path) -> None:
    """SourceError if the warehouse has the build that a release claims to be of, with other rows."""
    with suppress(UnknownBuild):
        build = find_build(warehouse, record.build_id)
        claimed = open_release(store.path).index.content_digest
        if build.build_id == record.build_id and build.content_digest != claimed:
            raise SourceError(
                f"{store.path}: says that it is a release of {record.build_id}, whose rows in {warehouse} are others; fetch the "
                "release again from its publisher, or measure on the build with --build"
            )


def _open_measured(work: Work) -> Store:
    """Open the store of the rows that a run measures on: a build with that content digest, else the run's release."""
    warehouse, digest = Path(work.run.options["warehouse"]), work.run.lock["params"]["source_digest"]
    if found := [build for build in list_builds(warehouse) if build.content_digest == digest]:
        return Store(warehouse, found[-1].build_id)
    folder = work.run.origin["flow"].get("release")
    if folder is None:
        raise UnknownBuild(f"the build that was measured is not in {warehouse} any more; build it again, then evaluate")
    store = Store(Path(folder))
    if open_release(store.path).record.content_digest != digest:
        raise SourceError(f"{folder}: not the release that was measured lies there; evaluate again")
    return store
