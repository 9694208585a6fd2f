"""`factmill release BUILD`: write a build as a folder to publish; gated releases of rebuilds; diffs of releases."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from factmill.flows.benchmarks import BENCHMARKS, find_benchmark
from factmill.flows.cli.options import AsJson, Warehouse, print_result
from factmill.flows.evaluate.sessions import write_lm_eval
from factmill.flows.prefect_server import send_event
from factmill.tasks import progress
from factmill.tasks.core.publishing.release_forms import ReleaseForms
from factmill.tasks.diff.compare import compare_builds, require_comparable
from factmill.tasks.diff.core.changelog import render_changelog
from factmill.tasks.diff.core.changes import Diff, Kind, count_unexplained
from factmill.tasks.diff.released import laid_out, read_side
from factmill.tasks.engine.benchmark import load_place
from factmill.tasks.errors import GateClosed, UnknownBuild, UsageError
from factmill.tasks.options import RunOptions, warehouse_of
from factmill.tasks.progress import say
from factmill.tasks.release.beside import choose_shown
from factmill.tasks.release.contents import Choices, Release
from factmill.tasks.release.core.choosing import Found, Gates, find_closed
from factmill.tasks.release.core.licences import split_licences
from factmill.tasks.release.files import write_file
from factmill.tasks.release.reading import read_release, withhold_changes
from factmill.tasks.release.write import PAGE, Written, write_release
from factmill.tasks.reports.builds.contents import render_build_html
from factmill.tasks.storage.builds import BuildRecord, find_build
from factmill.tasks.storage.released_folders import is_release, open_release
from factmill.tasks.text.whole import escape_markdown


def release(
    build_name: str = typer.Argument(
        ..., help="A build's id, the beginning of one, or latest:BENCHMARK.", metavar="BUILD"
    ),
    to: Path = typer.Option(..., help="Folder that becomes the release.", metavar="DIR"),
    without: list[str] | None = typer.Option(
        None, help="Leave out the rows of this source, or under this licence. Repeatable.", metavar="NAME"
    ),
    allowed: list[str] | None = typer.Option(
        None,
        "--allow-licence",
        help="Release rows under this licence, which you may hand on though others may not. Repeatable.",
        metavar="LICENCE",
    ),
    with_answers: bool = typer.Option(False, "--with-answers", help="Release the hidden answers of a test part too."),
    since: str = typer.Option(
        "", help="The build of the release before: CHANGELOG.md tells what changed.", metavar="BUILD"
    ),
    force: bool = typer.Option(False, "--force", help="Replace the release that lies there."),
    warehouse: Warehouse = None,
    as_json: AsJson = False,
) -> None:
    """Write a build as a dataset to publish: tables that `datasets`, DuckDB, pandas and polars load, card, licences,
    citation, digests, tasks for lm-evaluation-harness.

    Sources whose licences forbid it are refused, with what to do; hidden answers of a test part are left out. The same
    build gives the same bytes. The folder is there when all of it is written, and not before.

    \b
    Examples:
      factmill release latest:granola --to granola-eq/
      factmill release latest:multihal --to multihal/ --without felm --without halubench
      factmill release latest:fanoutqa --to fanoutqa/ --with-answers
      factmill release latest:slaq --to slaq/ --force --since slaq-33
      python -c 'import datasets; print(datasets.load_dataset("granola-eq", "granola_eq"))'
    """
    progress.show()
    choices = Choices(tuple(without or ()), tuple(allowed or ()), with_answers)
    made = make_release(warehouse_of(RunOptions(warehouse=warehouse)), build_name, to, choices, force, since)
    told = made.release
    licences = [licence.id for licence in told.licences]
    configs = {config.name: {split.name: split.rows.num_rows for split in config.splits} for config in told.configs}
    shown = {
        "build_id": told.build.build_id,
        "folder": str(made.folder),
        "notice": told.notice,
        "rows": told.rows,
        "licences": licences,
        "configs": configs,
        "left_out": [{"what": each.what, "why": each.why, "rows": each.rows} for each in told.left_out],
        "files": made.files,
    }
    lines = [
        f"{made.folder}: {told.rows} rows of {told.build.build_id}, {len(made.files)} files",
        *(
            f"  {name:16} {', '.join(f'{split} {n}' for split, n in splits.items())}"
            for name, splits in configs.items()
        ),
        f"  licences         {', '.join(licences)} (LICENSES.csv, ATTRIBUTION.csv)",
    ]
    left_out = [f"left out: {each.what} ({each.rows} rows): {each.why}" for each in told.left_out]
    print_result(as_json, shown, lines, *left_out, told.notice and f"note: {told.notice}")


HARNESS = "lm_eval"
"""Folder of the tasks for lm-evaluation-harness."""
CHANGES = "CHANGELOG.md"


def make_release(
    warehouse: Path, build_name: str, folder: Path, choices: Choices, force: bool = False, since: str = ""
) -> Written:
    """Write the release of a build into a folder; UsageError or OutputError if it cannot be written.

    `since`: the build of the previous release; CHANGELOG.md lists the changes from it.
    """
    from factmill.flows.commands.report import read_build

    build = find_build(warehouse, build_name)
    forms = find_release_forms(build)
    benchmark = find_benchmark(build.benchmark)
    say(f"{build.build_id}: reading what was published")
    release = read_release(warehouse, benchmark, forms, build, choices)
    changes = ""
    if since:  # changes of released rows only
        earlier = find_build(warehouse, since)
        require_comparable(earlier, build)
        told, names = withhold_changes(
            warehouse, release, earlier, compare_builds(warehouse, benchmark, earlier, build, False)
        )
        without = escape_markdown(", ".join(names))
        left_out = (
            f"Rows of {without} are left out of the release; what changed of them is not told.\n\n" if names else ""
        )
        changes = f"{render_changelog(told, earlier.build_id)}\n{left_out}{forms.canary_line}\n"

    def write_more(draft: Path) -> None:
        say(f"{build.build_id}: tasks for lm-evaluation-harness")
        write_lm_eval(warehouse, build, draft / HARNESS, list_answered(release), forms.canary_line)
        say(f"{build.build_id}: the report page")
        page = read_build(warehouse, build, choose_shown(release, list_answered(release)))
        write_file(draft / PAGE, render_build_html(page).encode())
        if changes:
            write_file(draft / CHANGES, changes.encode())

    say(f"{build.build_id}: writing {release.rows} rows")
    written = write_release(release, folder, force=force, more=write_more)
    about = {"build_id": build.build_id, "folder": str(written.folder), "rows": release.rows, "since": since}
    send_event("release.finished", "release", build.build_id, about)
    return written


def list_answered(release: Release) -> frozenset[str]:
    """Return the ids of the main table's rows whose answers are in the release."""
    tables = {*release.forms.configs[0].splits.values()}
    answered = "" if release.choices.with_answers else release.forms.answered
    return frozenset(
        row_id
        for config in release.configs
        for split in config.splits
        if split.table in tables and answered in ("", split.name)
        for row_id in split.rows["id"].to_pylist()
    )


def release_gated(warehouse: Path, build_id: str, folder: Path, gates: Gates) -> str:
    """Release a build to `folder`/BENCHMARK and return a message; GateClosed names the gates that stop it.

    An existing release is the previous one: it is replaced, and CHANGELOG.md lists the changes. A release of the same
    content stays as it is.
    """
    build = find_build(warehouse, build_id)
    place = folder / build.benchmark
    before = open_release(place) if is_release(place) else None
    if before and before.index.content_digest == build.content_digest:
        return f"{place} is a release of these rows already"
    benchmark = find_benchmark(build.benchmark)
    release = read_release(warehouse, benchmark, find_release_forms(build), build, Choices())
    unexplained = None
    with suppress(UnknownBuild):
        if before:
            earlier = find_build(warehouse, before.record.build_id)
            unexplained = count_unexplained(compare_builds(warehouse, benchmark, earlier, build, False))
    found = Found(
        rows=release.rows,
        rows_before=before.index.rows if before else None,
        stages=release.stages,
        judge=str(build.lock["models"].get("judge", "")),
        judge_cards=len(release.judge_cards),
        unexplained=unexplained,
    )
    if closed := find_closed(gates, found):
        raise GateClosed(f"{build.build_id} is not released to {place}: {'; '.join(closed)}")
    since = before.record.build_id if before and found.unexplained is not None else ""
    made = make_release(warehouse, build.build_id, place, Choices(), force=True, since=since)
    return f"{made.folder}: {made.release.rows} rows released"


def compare_releases(warehouse: Path, before: str, after: str, with_answers: bool = False) -> Diff:
    """Return the diff between two release folders; one of the two may be a build of the warehouse.

    Raises UsageError, SourceError or UnknownBuild, which say what was expected.
    """
    sides = [read_side(name, warehouse) for name in (before, after)]
    require_comparable(*(each.record for each in sides))
    forms = find_release_forms(sides[0].record)
    benchmark = find_benchmark(sides[0].record.benchmark)

    def find_left_out(kind: Kind, row: Mapping[str, Any]) -> str:
        lacking, when = (sides[1], "later") if kind == "removed" else (sides[0], "earlier")
        told = {str(row[forms.source])} if forms.source else set()
        told |= {*split_licences(str(row[forms.licence]))} if forms.licence else set()
        found = [name for name in lacking.left_out if name in told]
        return f"the {when} release was made without {', '.join(found)}" if found else ""

    with laid_out(benchmark, sides) as (path, records):
        return compare_builds(path, benchmark, records[0], records[1], with_answers, find_left_out)


def find_release_forms(build: BuildRecord) -> ReleaseForms:
    """Return the release forms of a build's benchmark; UsageError for other builds, such as an evaluation."""
    known = [name for name, benchmark in BENCHMARKS.items() if benchmark.release]
    if build.benchmark not in known:
        raise UsageError(
            f"{build.build_id} is a build of {build.benchmark}, which is not released; expected one of "
            f"{', '.join(known)} (see: factmill builds)"
        )
    forms: ReleaseForms = load_place(BENCHMARKS[build.benchmark].release)
    return forms
