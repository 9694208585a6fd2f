"""Releases that rebuilds make by themselves, where all gates hold (tasks/release/core/gates.py)."""

from contextlib import suppress
from pathlib import Path

from flows.benchmarks import find_benchmark
from flows.releases.forms import find_release_forms
from flows.releases.making import make_release
from tasks.core.evaluation.judge_cards import JudgeCard
from tasks.diff.compare import compare_builds
from tasks.diff.core.changes import count_unexplained
from tasks.errors import GateClosed, UnknownBuild
from tasks.release.contents import Choices
from tasks.release.core.gates import Found, Gates, find_closed
from tasks.release.reading import read_release
from tasks.storage.builds import BuildRecord, find_build
from tasks.storage.released_folders import ReleasedFolder, is_release, open_release


def release_gated(warehouse: Path, build_id: str, folder: Path, gates: Gates) -> str:
    """Release a build below a folder, under its benchmark's name, and say so; GateClosed says which gates keep it back.

    A release that is there is the one before; it is replaced, and what changed stands in CHANGELOG.md. One of this very
    build stays as it is.
    """
    build = find_build(warehouse, build_id)
    place = folder / build.benchmark
    before = open_release(place) if is_release(place) else None
    if before and before.index.content_digest == build.content_digest:
        return f"{place} is a release of these rows already"
    found = _look(warehouse, build, before)
    if closed := find_closed(gates, found):
        raise GateClosed(f"{build.build_id} is not released to {place}: {'; '.join(closed)}")
    since = before.record.build_id if before and found.unexplained is not None else ""
    made = make_release(warehouse, build.build_id, place, Choices(), force=True, since=since)
    return f"{made.folder}: {made.release.rows} rows released"


def _look(warehouse: Path, build: BuildRecord, before: ReleasedFolder | None) -> Found:
    benchmark = find_benchmark(build.benchmark)
    release = read_release(warehouse, benchmark, find_release_forms(build), build, Choices())
    cards: tuple[JudgeCard, ...] = release.judge_cards
    rows_before = unexplained = None
    if before:
        rows_before = before.index.rows
        with suppress(UnknownBuild):
            earlier = find_build(warehouse, before.record.build_id)
            unexplained = count_unexplained(compare_builds(warehouse, benchmark, earlier, build, False))
    return Found(
        rows=release.rows,
        rows_before=rows_before,
        stages=release.stages,
        judge=str(build.lock["models"].get("judge", "")),
        judge_cards=len(cards),
        unexplained=unexplained,
    )
