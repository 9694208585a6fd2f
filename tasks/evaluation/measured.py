"""What models are measured on: the rows of a build in the warehouse, or of a release's folder, which needs no warehouse.

A release that holds all that its build published has the build's own digest, computed from its rows: an evaluation on
either is the same one, and asks nothing again. One that was made without some of it is measured on as what it is.
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
    """What is measured on."""

    record: BuildRecord
    store: Store
    """Where its rows are read from."""
    notes: Sequence[str]
    """What the user should know of the choice, and of what a release lacks."""
    answers: SourceFile | None
    """The file of answers that are scored."""


def find_measured(benchmark: Benchmark, params: EvaluationParams, run: RunOptions) -> Measured:
    """Return the build that is measured on: the one that is named, else the one whose questions the file of answers says that it
    answers, else the latest. UsageError and UnknownBuild say what was expected."""
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
    """UsageError where answers (a file, or what they are called) are to questions of another build than the one measured on."""
    if asked_of and asked_of != build_id:
        raise UsageError(
            f'{answers}: answers to the questions of {asked_of}, and {build_id} is measured on; name {asked_of}, or take "build" '
            "out of the answers to score them on other rows"
        )


@lru_cache(maxsize=4)
def load_answers(file: SourceFile) -> AnswersFile:
    """Read a file of answers, once a process; SourceError says what is wrong with it."""
    return read_answers(iterate_json(file, EXPECTED), Path(file.path).name)


def tell_left_out(benchmark: Benchmark, store: Store) -> list[str]:
    """Return what a release lacks of its build that is measured on, a line each; nothing of a build."""
    names = [each.what for each in open_release(store.path).index.left_out] if is_release(store.path) else []
    hidden = [name for name in names if name in benchmark.tables and not name.endswith("_review")]
    others = [name for name in names if name not in benchmark.tables and name != REJECT_DETAILS]
    told = [f"the release has no {', '.join(hidden)}: questions with hidden answers are not measured"] if hidden else []
    return [*told, f"the release leaves out {', '.join(others)}: these rows are not measured"] if others else told


def name_measured(evaluation: BuildRecord) -> str:
    """Return what an evaluation was measured on, in words."""
    flow = evaluation.origin["flow"]
    return f"{flow['build']} as released to {flow['release']}" if flow.get("release") else str(flow["build"])


def find_measured_record(warehouse: Path, evaluation: BuildRecord) -> BuildRecord | None:
    """Return the build that an evaluation was measured on; None: it is not in the warehouse, nor where its release lay."""
    flow = evaluation.origin["flow"]
    with suppress(UnknownBuild):
        return find_build(warehouse, flow["build"])
    with suppress(SourceError, OldBuild):
        record = open_release(Path(flow["release"])).record if flow.get("release") else None
        if record and record.content_digest == evaluation.lock["params"]["source_digest"]:
            return record
    return None


def gather_measured(work: Work, evaluation: Evaluation) -> pa.Table:
    """Return the rows of what is measured on, as the evaluation's questions are made of them."""
    return evaluation.gather_rows(lambda table: read_held(evaluation.of, _open_measured(work), table)[0])


def check_tables(benchmark: Benchmark, store: Store) -> None:
    """SourceError unless the tables of a release hold rows of the benchmark; a warehouse's own are not looked at."""
    for name, table in open_release(store.path).tables.items() if is_release(store.path) else ():
        if name in benchmark.tables:
            texts = benchmark.forms.json_columns.get(name, ())
            conform_rows(table, benchmark.tables[name], f"{store.path}: table {name}", json_columns=texts)


def is_held_back(benchmark: Benchmark, store: Store, table: str) -> bool:
    """Return whether a table of hidden answers is none of a release's: its other questions are asked."""
    return table in benchmark.held_out and store.is_without(table)


def read_held(benchmark: Benchmark, store: Store, table: str) -> tuple[pa.Table, str]:
    """Return the rows of a benchmark's table and a digest of what they were read from; no rows of what is held back."""
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
    """Return the build to measure on, and what is to be said of the choice."""
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
    """SourceError where the warehouse has the build that a whole release says it is of, with other rows."""
    with suppress(UnknownBuild):
        build = find_build(warehouse, record.build_id)
        claimed = open_release(store.path).index.content_digest
        if build.build_id == record.build_id and build.content_digest != claimed:
            raise SourceError(
                f"{store.path}: says that it is a release of {record.build_id}, whose rows in {warehouse} are others; fetch the "
                "release again from its publisher, or measure on the build with --build"
            )


def _open_measured(work: Work) -> Store:
    """Return where the rows are that a run measures on: a build of that content, else the release that it was told of."""
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
