"""`factmill release BUILD`: write a build as a folder to publish; gated releases of rebuilds; diffs of releases."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from factmill.flows.benchmarks import BENCHMARKS, get_benchmark
from factmill.flows.cli.options import BuildArgument, JsonOption, WarehouseOption, print_result
from factmill.flows.evaluate.sessions import write_lm_eval_tasks
from factmill.flows.prefect_server import send_prefect_event
from factmill.tasks import progress
from factmill.tasks.core.publishing.release_spec import BenchmarkReleaseSpec
from factmill.tasks.diff.compare import check_same_benchmark, compare_builds
from factmill.tasks.diff.core.changelog import render_changelog
from factmill.tasks.diff.core.changes import BuildDiff, RowChangeKind, count_unexplained_rows
from factmill.tasks.diff.release_comparison import ReleaseOrBuild, load_release_or_build, temporary_comparison_warehouse
from factmill.tasks.engine.benchmark import load_named_object
from factmill.tasks.errors import ReleaseGateFailed, UnknownBuild, UsageError
from factmill.tasks.options import RunOptions, resolve_warehouse_path
from factmill.tasks.progress import print_and_log
from factmill.tasks.release.assembly import restrict_diff_and_list_left_out_sources, verify_and_assemble_release
from factmill.tasks.release.attachments import make_page_visibility
from factmill.tasks.release.contents import Release, ReleaseOptions
from factmill.tasks.release.core.authorship import parse_authors, parse_doi
from factmill.tasks.release.core.licences import split_licence_expression
from factmill.tasks.release.core.selection_and_gates import GateFacts, ReleaseGates, find_failed_gates
from factmill.tasks.release.files import write_release_file
from factmill.tasks.release.write import REPORT_PAGE_FILE, WrittenRelease, write_release
from factmill.tasks.reports.builds.build_page import render_build_html
from factmill.tasks.storage.builds import BuildRecord, check_latest_passes_over_no_user_source, resolve_build
from factmill.tasks.storage.released_folders import is_release, load_verified_release
from factmill.tasks.text.sanitize import escape_markdown


def release(
    build_name: BuildArgument,
    to: Path = typer.Option(..., help="Folder to create for the release.", metavar="DIR"),
    without: list[str] | None = typer.Option(
        None, help="Leave out the rows of this source or licence (repeatable).", metavar="NAME"
    ),
    allowed: list[str] | None = typer.Option(
        None,
        "--allow-licence",
        help="Also release rows under this licence (repeatable). Needed if the licence forbids redistribution, or if factmill does not know it. Use this only if you may redistribute the rows.",
        metavar="LICENCE",
    ),
    with_answers: bool = typer.Option(
        False, "--with-answers", help="Also release the hidden answers of the test split."
    ),
    author: list[str] | None = typer.Option(
        None, help="Author of the release, 'Family, Given' or the name of a group (repeatable).", metavar="NAME"
    ),
    doi: str = typer.Option(
        "", help="DOI of the release. Archives such as Zenodo can reserve one before you upload.", metavar="DOI"
    ),
    since: str = typer.Option(
        "", help="Build of the previous release; CHANGELOG.md then lists the changes since that build.", metavar="BUILD"
    ),
    force: bool = typer.Option(False, "--force", help="Replace an existing release in the folder."),
    warehouse: WarehouseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a build as a dataset folder to publish.

    The folder holds a dataset card, licences, a citation, digests, tasks for lm-evaluation-harness, and the tables,
    which `datasets`, DuckDB, pandas and polars can load. If a benchmark hides the answers of its test split, they are
    left out (see --with-answers).

    The command fails if a source's licence does not allow redistribution, and then lists the options that resolve this.
    It also fails for latest:BENCHMARK if you have made a newer build from your own source; in that case, give the id of
    the build to release. The same build always gives the same bytes. The folder appears only after all files are written.

    --author and --doi go into the card, the citation and the Croissant metadata; without authors, factmill is cited.

    \b
    Examples:
      factmill release latest:granola --to granola-eq/
      factmill release latest:multihal --to multihal/ --without felm --without halubench
      factmill release latest:fanoutqa --to fanoutqa/ --with-answers
      factmill release latest:slaq --to slaq/ --force --since slaq-33
      factmill release latest:slaq --to slaq/ --author 'Lovelace, Ada' --author 'The Engine Group' --doi 10.5281/zenodo.1
      python -c 'import datasets; print(datasets.load_dataset("granola-eq", "granola_eq"))'
    """
    progress.set_progress_style()
    choices = ReleaseOptions(
        tuple(without or ()), tuple(allowed or ()), with_answers, parse_authors(author or ()), parse_doi(doi)
    )
    made = make_release(resolve_warehouse_path(RunOptions(warehouse=warehouse)), build_name, to, choices, force, since)
    released = made.release
    licences = [licence.id for licence in released.licences]
    configs = {config.name: {split.name: split.rows.num_rows for split in config.splits} for config in released.configs}
    shown = {
        "build_id": released.build.build_id,
        "folder": str(made.folder),
        "notice": released.notice,
        "rows": released.rows,
        "licences": licences,
        "configs": configs,
        "left_out": [{"what": each.what, "why": each.why, "rows": each.rows} for each in released.left_out],
        "files": made.files,
    }
    lines = [
        f"{made.folder}: {released.rows} rows of {released.build.build_id}, {len(made.files)} files",
        *(
            f"  {name:16} {', '.join(f'{split} {n}' for split, n in splits.items())}"
            for name, splits in configs.items()
        ),
        f"  licences         {', '.join(licences)} (LICENSES.csv, ATTRIBUTION.csv)",
    ]
    left_out = [f"left out: {each.what} ({each.rows} rows): {each.why}" for each in released.left_out]
    print_result(as_json, shown, lines, *left_out, released.notice and f"note: {released.notice}")


LM_EVAL_FOLDER = "lm_eval"
"""Folder of the tasks for lm-evaluation-harness."""
CHANGELOG_FILE = "CHANGELOG.md"


def make_release(
    warehouse: Path, build_name: str, folder: Path, choices: ReleaseOptions, force: bool = False, since: str = ""
) -> WrittenRelease:
    """Write the release of a build into a folder; UsageError or OutputError if it cannot be written.

    `since`: the build of the previous release; CHANGELOG.md lists the changes from it.
    """
    from factmill.flows.commands.report import load_page_for_build

    check_latest_passes_over_no_user_source(warehouse, build_name)
    build = resolve_build(warehouse, build_name)
    forms = get_release_spec(build)
    benchmark = get_benchmark(build.benchmark)
    print_and_log(f"{build.build_id}: reading the published tables")
    release = verify_and_assemble_release(warehouse, benchmark, forms, build, choices)
    changes = ""
    if since:  # changes of released rows only
        earlier = resolve_build(warehouse, since)
        check_same_benchmark(earlier, build)
        diff, names = restrict_diff_and_list_left_out_sources(
            warehouse, release, earlier, compare_builds(warehouse, benchmark, earlier, build, False)
        )
        without = escape_markdown(", ".join(names))
        left_out = f"Rows of {without} are left out of the release; their changes are not listed.\n\n" if names else ""
        changes = f"{render_changelog(diff, earlier.build_id)}\n{left_out}{forms.canary_line}\n"

    def write_more(draft: Path) -> None:
        print_and_log(f"{build.build_id}: writing tasks for lm-evaluation-harness")
        write_lm_eval_tasks(
            warehouse, build, draft / LM_EVAL_FOLDER, list_row_ids_with_released_answers(release), forms.canary_line
        )
        print_and_log(f"{build.build_id}: writing the report page")
        page = load_page_for_build(
            warehouse, build, make_page_visibility(release, list_row_ids_with_released_answers(release))
        )
        write_release_file(draft / REPORT_PAGE_FILE, render_build_html(page).encode())
        if changes:
            write_release_file(draft / CHANGELOG_FILE, changes.encode())

    print_and_log(f"{build.build_id}: writing {release.rows} rows")
    written = write_release(release, folder, force=force, write_more=write_more)
    about = {"build_id": build.build_id, "folder": str(written.folder), "rows": release.rows, "since": since}
    send_prefect_event("release.finished", "release", build.build_id, about)
    return written


def list_row_ids_with_released_answers(release: Release) -> frozenset[str]:
    """Return the ids of the main table's rows whose answers are in the release."""
    tables = {*release.forms.configs[0].splits.values()}
    answered = "" if release.options.includes_hidden_answers else release.forms.never_held_out_split
    return frozenset(
        row_id
        for config in release.configs
        for split in config.splits
        if split.table in tables and answered in ("", split.name)
        for row_id in split.rows["id"].to_pylist()
    )


def release_if_gates_pass(
    warehouse: Path, build_id: str, folder: Path, gates: ReleaseGates, authors: Iterable[str] = ()
) -> str:
    """Release a build to `folder`/BENCHMARK and return a message; ReleaseGateFailed names the gates that stop it.

    An existing release is the previous one: it is replaced, and CHANGELOG.md lists the changes. A release of the same
    content stays as it is.
    """
    build = resolve_build(warehouse, build_id)
    place = folder / build.benchmark
    before = load_verified_release(place) if is_release(place) else None
    if before and before.index.content_digest == build.content_digest:
        return f"{place} already is a release of these rows"
    benchmark = get_benchmark(build.benchmark)
    release = verify_and_assemble_release(warehouse, benchmark, get_release_spec(build), build, ReleaseOptions())
    unexplained = None
    with suppress(UnknownBuild):
        if before:
            earlier = resolve_build(warehouse, before.record.build_id)
            unexplained = count_unexplained_rows(compare_builds(warehouse, benchmark, earlier, build, False))
    found = GateFacts(
        rows=release.rows,
        previous_rows=before.index.rows if before else None,
        stages=release.stages,
        judge=str(build.lock["models"].get("judge", "")),
        judge_card_count=len(release.judge_cards),
        unexplained_rows=unexplained,
    )
    if closed := find_failed_gates(gates, found):
        raise ReleaseGateFailed(f"{build.build_id} is not released to {place}: {'; '.join(closed)}")
    since = before.record.build_id if before and found.unexplained_rows is not None else ""
    choices = ReleaseOptions(authors=parse_authors(authors))
    made = make_release(warehouse, build.build_id, place, choices, force=True, since=since)
    return f"{made.folder}: {made.release.rows} rows released"


def compare_release_folders_or_builds(
    warehouse: Path, before: str, after: str, with_answers: bool = False
) -> BuildDiff:
    """Return the diff between two release folders; one of the two may be a build of the warehouse.

    Raises UsageError, SourceError or UnknownBuild, which say what was expected.
    """
    return compare_loaded_releases([load_release_or_build(name, warehouse) for name in (before, after)], with_answers)


def compare_loaded_releases(sides: Sequence[ReleaseOrBuild], with_answers: bool = False) -> BuildDiff:
    """Return the diff between two loaded releases or builds, also of different warehouses; UsageError if of two benchmarks."""
    check_same_benchmark(*(each.record for each in sides))
    forms = get_release_spec(sides[0].record)
    benchmark = get_benchmark(sides[0].record.benchmark)

    def find_left_out(kind: RowChangeKind, row: Mapping[str, Any]) -> str:
        lacking, when = (sides[1], "later") if kind == "removed" else (sides[0], "earlier")
        names = {str(row[forms.source_column])} if forms.source_column else set()
        names |= {*split_licence_expression(str(row[forms.licence_column]))} if forms.licence_column else set()
        found = [name for name in lacking.left_out if name in names]
        return f"the {when} release was made without {', '.join(found)}" if found else ""

    with temporary_comparison_warehouse(benchmark, sides) as (path, records):
        return compare_builds(path, benchmark, records[0], records[1], with_answers, find_left_out)


def get_release_spec(build: BuildRecord) -> BenchmarkReleaseSpec:
    """Return the release forms of a build's benchmark; UsageError for other builds, such as an evaluation."""
    known = [name for name, benchmark in BENCHMARKS.items() if benchmark.release]
    if build.benchmark not in known:
        raise UsageError(
            f"{build.build_id} is a build of {build.benchmark}, which cannot be released; expected a build of "
            f"{', '.join(known)} (`factmill show` lists the builds)"
        )
    forms: BenchmarkReleaseSpec = load_named_object(BENCHMARKS[build.benchmark].release)
    return forms
