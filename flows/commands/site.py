"""`factmill site`: write a static site of releases and evaluations, each benchmark over time and models side by side."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import typer

from factmill.flows.benchmarks import BENCHMARKS
from factmill.flows.cli.options import JsonOption, WarehouseOption, print_result
from factmill.flows.commands.release import compare_loaded_releases
from factmill.flows.commands.report import load_evaluation_for_report
from factmill.flows.evaluate.evaluations import EVALUATIONS
from factmill.tasks import progress
from factmill.tasks.core.digests import digest_bytes
from factmill.tasks.core.publishing.release_spec import BenchmarkReleaseSpec
from factmill.tasks.core.rows import MAX_SETTING_NUMBER
from factmill.tasks.diff.compare import compare_builds
from factmill.tasks.diff.core.changes import BuildDiff, RowChange
from factmill.tasks.diff.release_comparison import load_release_or_build
from factmill.tasks.engine.benchmark import Benchmark, load_named_object
from factmill.tasks.errors import BuildFormatTooOld, UnknownBuild, UsageError
from factmill.tasks.evaluation.definition import Evaluation
from factmill.tasks.files import resolve_absolute_path
from factmill.tasks.options import RunOptions, resolve_warehouse_path
from factmill.tasks.progress import print_and_log
from factmill.tasks.release.assembly import list_source_and_licence_of_each_row
from factmill.tasks.release.core.licences import list_licences_refused_unless_allowed
from factmill.tasks.release.site_folder import check_site_folder, write_site_folder
from factmill.tasks.reports.builds.build_page import format_caution_or_scripted_notice
from factmill.tasks.reports.diff_page import render_changes_html
from factmill.tasks.reports.evaluation_report import (
    EvaluationReport,
    LoadedEvaluation,
    is_built_in_model,
    list_input_differences,
    make_evaluation_report,
)
from factmill.tasks.reports.formatting import MAX_NAME_CHARACTERS, shorten_line
from factmill.tasks.reports.rendering import render_report_html
from factmill.tasks.reports.site_pages import (
    INDEX_PAGE,
    BenchmarkPage,
    MeasuredBuildLeaderboard,
    OtherEvaluationOfLeaderboardModel,
    SiteBuild,
    list_breadcrumbs_of_benchmark_subpage,
    make_build_change_summary,
    make_leaderboard,
    render_benchmark_page,
    render_site_index,
)
from factmill.tasks.storage.builds import BuildRecord, list_builds, load_published_table
from factmill.tasks.storage.released_folders import INDEX_FILE, is_release, load_verified_release
from factmill.tasks.storage.warehouse import open_warehouse, warehouse_exists
from factmill.tasks.text.sanitize import escape_control_characters

_WITHHELD_NOTE = (
    "Items that a release withholds (answers of a test part, licences that forbid redistribution) are not shown on this "
    "page; the figures include them."
)


def site(
    names: list[str] | None = typer.Argument(
        None,
        help="Folder of a release, or file of a warehouse, to show. Default: factmill.duckdb in FACTMILL_HOME.",
        metavar="RELEASE | WAREHOUSE…",
    ),
    to: Path = typer.Option(..., help="Folder to write the site to. An earlier site in this folder is replaced."),
    limit: int = typer.Option(
        12, min=1, max=MAX_SETTING_NUMBER, help="Number of newest builds to show for each benchmark."
    ),
    warehouse: WarehouseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a static site: benchmarks over time, models side by side.

    Each benchmark has a page. It shows the builds over time with the causes of changes, and compares the models that
    were measured on the same rows, with intervals, ranks and ties. Each figure links to its evaluation. The pages
    need no server and load nothing from elsewhere. The same inputs give the same bytes.

    The pages omit what a release withholds: test answers, and rows whose licence forbids redistribution. Evaluations
    come from warehouses, since a release holds only rows.

    \b
    Examples:
      factmill site --to gallery/
      factmill site --to gallery/ releases/2026-10/ releases/2026-11/ data/factmill.duckdb
      factmill site --to gallery/ mine.duckdb theirs.duckdb --limit 6 --json
    """
    progress.set_progress_style()
    check_site_folder(resolve_absolute_path(to))  # before the work, and again at its end
    warehouses, releases = _resolve_warehouses_and_releases(names or [], warehouse)
    builds = [_FoundBuildOrEvaluation(each, path) for path in warehouses for each in list_builds(path)]
    for name in releases:
        released = _FoundBuildOrEvaluation(load_verified_release(Path(name)).record, release=name)
        # a build of a warehouse that has all rows of the release is that build, and its calls explain more
        same = [each for each in builds if _is_same_build(each, released)]
        builds = [replace(each, is_released=each.is_released or each in same) for each in builds]
        builds += [] if same else [released]
    if not builds:
        where = ", ".join(map(str, [*warehouses, *releases]))
        raise UnknownBuild(f"no build in {where}; make one: `factmill build granola`")
    files: dict[str, str] = {}
    pages = [page for name in BENCHMARKS if (page := _make_benchmark_page(name, builds, limit, files))]
    known = {*BENCHMARKS, *(each.name for each in EVALUATIONS.values())}
    left_out = sorted({each.record.benchmark for each in builds} - known)
    for page in pages:
        files[page.file] = render_benchmark_page(page)
    files[INDEX_PAGE] = render_site_index(pages)
    folder = write_site_folder(to, files)
    shown = {
        "folder": str(folder),
        "benchmarks": {
            page.name: {
                "builds": [each.build_id for each in page.builds],
                "older_builds": page.older_builds,
                "leaderboards": [
                    {
                        "measured": board.measured_id,
                        "models": board.models,
                        "may_be_first": list(board.main[0].leaders) if board.main else [],
                    }
                    for board in page.leaderboards
                ],
                "unreadable": list(page.unreadable),
            }
            for page in pages
        },
        "left_out": left_out,
        "files": sorted(files),
    }
    lines = [f"{folder / INDEX_PAGE}: {len(files)} files"]
    for page in pages:
        models = sum(board.models for board in page.leaderboards)
        lines.append(f"  {page.name:16} {len(page.builds)} builds, {models} models")
    notes = [f"note: not shown: builds of {', '.join(left_out)}"] if left_out else []
    print_result(as_json, shown, lines, *notes, *(f"note: {each}" for page in pages for each in page.unreadable))


@dataclass(frozen=True, slots=True)
class _FoundBuildOrEvaluation:
    """A build or an evaluation, and where it is."""

    record: BuildRecord
    warehouse: Path | None = None
    release: str = ""
    """Folder of its release; empty: it is in the warehouse."""
    is_released: bool = False
    """A build of the warehouse whose release is among the inputs too."""


def _resolve_warehouses_and_releases(names: Sequence[str], warehouse: Path | None) -> tuple[list[Path], list[str]]:
    """Return the warehouses and the releases to show; UsageError for a name that is neither."""
    usual = [] if names and warehouse is None else [resolve_warehouse_path(RunOptions(warehouse=warehouse))]
    warehouses, releases = dict.fromkeys(usual), dict[str, None]()
    for name in names:
        path = resolve_absolute_path(name)
        if is_release(path):
            releases[str(path)] = None
        elif path.is_dir():
            raise UsageError(
                f"{name}: the folder has no {INDEX_FILE}, so it is not a release; expected a release's folder or a warehouse's file"
            )
        elif warehouse_exists(path):
            warehouses[path] = None
        else:
            raise UsageError(f"{name}: not found; expected a release's folder or a warehouse's file")
    return [*warehouses], [*releases]


def _is_same_build(one: _FoundBuildOrEvaluation, other: _FoundBuildOrEvaluation) -> bool:
    first, second = one.record, other.record
    return (first.build_id, first.content_digest) == (second.build_id, second.content_digest)


def _make_benchmark_page(
    name: str, found: Sequence[_FoundBuildOrEvaluation], limit: int, files: dict[str, str]
) -> BenchmarkPage | None:
    """Return the page of a benchmark, and add the pages that it links to `files`; None without builds and evaluations."""
    evaluation = EVALUATIONS.get(name)
    own = sorted(
        _drop_repeated_builds(each for each in found if each.record.benchmark == name),
        key=lambda each: (each.record.published_at, each.record.build_id),
    )
    evaluated = _drop_repeated_builds(each for each in found if evaluation and each.record.benchmark == evaluation.name)
    if not own and not evaluated:
        return None
    benchmark = BENCHMARKS[name]
    print_and_log(f"{name}: {len(own)} builds, {len(evaluated)} evaluations")
    first = max(0, len(own) - limit)
    builds = [
        _make_site_entry_of_build(benchmark, own[at - 1] if at else None, own[at], at > first, files)
        for at in range(first, len(own))
    ]
    boards, unreadable = (
        _make_leaderboards_and_list_unreadable(evaluation, own, evaluated, files) if evaluation else ([], [])
    )
    return BenchmarkPage(
        name=name,
        title=benchmark.title,
        builds=tuple(reversed(builds)),
        older_builds=first,
        leaderboards=tuple(boards),
        unreadable=tuple(unreadable),
    )


def _drop_repeated_builds(found: Iterator[_FoundBuildOrEvaluation]) -> list[_FoundBuildOrEvaluation]:
    """Return builds without those that another warehouse has too."""
    kept: list[_FoundBuildOrEvaluation] = []
    for each in found:
        if not any(_is_same_build(each, other) for other in kept):
            kept.append(each)
    return kept


def _make_site_entry_of_build(
    benchmark: Benchmark,
    before: _FoundBuildOrEvaluation | None,
    build: _FoundBuildOrEvaluation,
    is_compared: bool,
    files: dict[str, str],
) -> SiteBuild:
    record = build.record
    world = record.lock["world"]
    remarks = [
        f"world {world['name']} as of {world['epoch']}",
        f"author {record.lock['author']}" if record.lock.get("author") else "",
        ", ".join(record.narrowing_options),
        "release" if build.release else "released" if build.is_released else "",
    ]
    change, problem = None, ""
    if before is not None and is_compared:
        try:
            diff = _withhold_row_contents(_compare_found_builds(benchmark, before, build), benchmark, before, build)
        except BuildFormatTooOld as error:
            problem = escape_control_characters(str(error))
        else:
            link = f"changes/{_make_page_file_name(before.record.build_id, record.build_id)}"
            files[link] = render_changes_html(
                diff, list_breadcrumbs_of_benchmark_subpage(benchmark.name, benchmark.title)
            )
            change = make_build_change_summary(diff, before.record.build_id, link)
    return SiteBuild(
        build_id=shorten_line(record.build_id, MAX_NAME_CHARACTERS),
        published=record.published_at.date().isoformat(),
        rows=int(record.report["rows"]),
        remarks=tuple(shorten_line(each, MAX_NAME_CHARACTERS) for each in remarks if each),
        notice=format_caution_or_scripted_notice(
            replace(record, report={**record.report, "scripted": {}})
        ),  # its counts differ by build
        change=change,
        problem=problem,
    )


def _compare_found_builds(
    benchmark: Benchmark, before: _FoundBuildOrEvaluation, after: _FoundBuildOrEvaluation
) -> BuildDiff:
    """Return the diff of two builds; recorded calls explain it where one warehouse has both."""
    if before.warehouse is not None and before.warehouse == after.warehouse:
        return compare_builds(before.warehouse, benchmark, before.record, after.record)
    sides = [
        load_release_or_build(each.release or each.record.build_id, each.warehouse or Path())
        for each in (before, after)
    ]
    return compare_loaded_releases(sides)


def _withhold_row_contents(
    diff: BuildDiff, benchmark: Benchmark, before: _FoundBuildOrEvaluation, after: _FoundBuildOrEvaluation
) -> BuildDiff:
    """Return a diff whose rows show no content that a release withholds; ids, kinds and causes stay."""
    was_open, is_open = (_list_public_row_ids(benchmark, each) for each in (before, after))

    def withhold(row: RowChange) -> RowChange:
        if (row.kind == "added" or row.id_before in was_open) and (row.kind == "removed" or row.id in is_open):
            return row
        causes = tuple(replace(each, change_description="") for each in row.causes)
        return replace(row, columns=(), shown={}, causes=causes, fate=row.fate and replace(row.fate, detail=""))

    return replace(diff, rows=[withhold(row) for row in diff.rows])


@cache
def _list_publishable_row_ids(warehouse: Path, benchmark_name: str, build_id: str) -> frozenset[str]:
    benchmark = BENCHMARKS[benchmark_name]
    if not benchmark.release:  # nothing says what others may see of its rows
        return frozenset()
    forms: BenchmarkReleaseSpec = load_named_object(benchmark.release)
    (record,) = (each for each in list_builds(warehouse) if each.build_id == build_id)
    with open_warehouse(warehouse) as db:
        main = load_published_table(db, build_id, benchmark.main_table)
        split = forms.configs[0].splits[forms.never_held_out_split] if forms.never_held_out_split else ""
        answered = load_published_table(db, build_id, split)["id"].to_pylist() if split else main["id"].to_pylist()
    licences = [licence for _, licence in list_source_and_licence_of_each_row(main, forms, record)]
    refused = {each for each in set(licences) if list_licences_refused_unless_allowed([each], ())}
    is_open = {row_id for row_id, each in zip(main["id"].to_pylist(), licences, strict=True) if each not in refused}
    return frozenset(is_open.intersection(answered))


def _list_public_row_ids(benchmark: Benchmark, build: _FoundBuildOrEvaluation) -> Collection[str]:
    """Return the ids of rows of which others may see everything: what a release has, or would have without options."""
    if build.warehouse is not None:
        return _list_publishable_row_ids(build.warehouse, benchmark.name, build.record.build_id)
    tables = load_verified_release(Path(build.release)).tables
    return frozenset(row_id for table in tables.values() for row_id in table["id"].to_pylist())


def _make_leaderboards_and_list_unreadable(
    evaluation: Evaluation,
    builds: Sequence[_FoundBuildOrEvaluation],
    evaluated: Sequence[_FoundBuildOrEvaluation],
    files: dict[str, str],
) -> tuple[list[MeasuredBuildLeaderboard], list[str]]:
    """Return a leaderboard for each content of rows that models were measured on, and what cannot be read."""
    groups: dict[str, list[LoadedEvaluation]] = defaultdict(list)
    unreadable = []
    for each in evaluated:
        try:
            assert each.warehouse
            loaded = load_evaluation_for_report(each.warehouse, evaluation, each.record)
        except BuildFormatTooOld as error:
            unreadable.append(escape_control_characters(f"{each.record.build_id}: {error}"))
        else:
            groups[str(each.record.lock["params"]["source_digest"])].append(loaded)
    boards = []
    for digest, members in groups.items():
        measured = next((each for each in builds if each.record.content_digest == digest), None)
        latest = max(each.record.published_at for each in members)
        board = _make_leaderboard(evaluation, measured, members, files)
        boards.append((measured.record.published_at if measured else latest, latest, digest, board))
    boards.sort(key=lambda each: each[:3], reverse=True)
    return [board for *_, board in boards], unreadable


def _make_leaderboard(
    evaluation: Evaluation,
    measured: _FoundBuildOrEvaluation | None,
    members: Sequence[LoadedEvaluation],
    files: dict[str, str],
) -> MeasuredBuildLeaderboard:
    """Return the leaderboard of evaluations on the same rows; of each model the one with the most answers, then the latest."""
    open_ids = _list_public_row_ids(evaluation.benchmark, measured) if measured else frozenset()
    by_model: dict[tuple[str, bool], list[LoadedEvaluation]] = defaultdict(list)
    for each in members:
        by_model[each.record.report["facts"]["model"], is_built_in_model(each)].append(each)
    taken: list[LoadedEvaluation] = []
    others = []
    for (model, _), found in sorted(by_model.items()):
        found.sort(key=lambda each: (each.answers.num_rows, each.record.published_at, each.record.build_id))
        taken.append(found[-1])
        for each in reversed(found[:-1]):
            differences = "; ".join(list_input_differences(found[-1].record, each.record)) or "the same inputs"
            page = _make_report_and_add_evaluation_page(evaluation, [each], open_ids, "evaluations", files)[1]
            others.append(
                OtherEvaluationOfLeaderboardModel(
                    escape_control_characters(model), each.record.build_id, page, shorten_line(differences, 500)
                )
            )
    links, baselines = dict[str, str](), []
    contenders = [each for each in taken if not is_built_in_model(each)] or taken
    for each in taken:
        single, page = _make_report_and_add_evaluation_page(evaluation, [each], open_ids, "evaluations", files)
        links[each.record.build_id] = page
        if each not in contenders:
            baselines.append(single)
    report, comparison = _make_report_and_add_evaluation_page(evaluation, contenders, open_ids, "comparisons", files)
    build_id = measured.record.build_id if measured else str(taken[0].record.report["facts"]["measured"])
    return make_leaderboard(
        evaluation,
        report,
        baselines,
        links,
        [each.record.build_id for each in taken if is_built_in_model(each)],
        shorten_line(build_id, MAX_NAME_CHARACTERS),
        measured.record.published_at.date().isoformat() if measured else "",
        others,
        comparison if len(contenders) > 1 else "",
    )


def _make_report_and_add_evaluation_page(
    evaluation: Evaluation,
    evaluated: Sequence[LoadedEvaluation],
    open_ids: Collection[str],
    folder: str,
    files: dict[str, str],
) -> tuple[EvaluationReport, str]:
    """Return the report of evaluations and the name of its page, which is added to `files`; items show open rows only."""
    list_items = evaluation.list_report_items
    open_only = replace(
        evaluation, list_report_items=lambda answers: [each for each in list_items(answers) if each.row_id in open_ids]
    )
    report = make_evaluation_report(open_only, evaluated)
    is_cut = any(item.row_id not in open_ids for each in evaluated for item in list_items(each.answers))
    shown = replace(report, warnings=(*report.warnings, _WITHHELD_NOTE)) if is_cut else report
    name = f"{folder}/{_make_page_file_name(*(each.record.build_id for each in evaluated))}"
    if folder == "evaluations" or len(evaluated) > 1:
        benchmark = evaluation.benchmark
        files[name] = render_report_html(shown, list_breadcrumbs_of_benchmark_subpage(benchmark.name, benchmark.title))
    return report, name


def _make_page_file_name(*ids: str) -> str:
    """Return a file name made of build ids; with a digest where these are long, or have characters that names should not."""
    joined = "_".join(ids)
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", joined)[:100]
    return f"{plain}.html" if plain == joined else f"{plain}-{digest_bytes(joined.encode())[:8]}.html"
