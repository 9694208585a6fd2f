"""`factmill release BUILD`: a build as a folder to publish."""

from pathlib import Path

from flows.benchmarks import find_benchmark
from flows.commands.reports import read_build
from flows.evaluate.sessions import write_lm_eval
from flows.releases.forms import find_release_forms
from flows.watching.events import tell_release
from tasks.diff.compare import compare_builds, require_comparable
from tasks.diff.core.changelog import render_changelog
from tasks.progress import say
from tasks.release.beside import choose_shown
from tasks.release.changes import withhold_changes
from tasks.release.contents import Choices, Release
from tasks.release.files import write_file
from tasks.release.reading import read_release
from tasks.release.write import PAGE, Written, write_release
from tasks.reports.builds.pages import render_build_html
from tasks.storage.builds import BuildRecord, find_build
from tasks.text.markdown import escape_markdown

HARNESS = "lm_eval"
"""Folder with the tasks for lm-evaluation-harness."""
CHANGES = "CHANGELOG.md"


def make_release(
    warehouse: Path, build_name: str, folder: Path, choices: Choices, force: bool = False, since: str = ""
) -> Written:
    """Write the release of a build into a folder; UsageError and OutputError say why there is none.

    `since`: the build of the release before, from which CHANGELOG.md tells what changed.
    """
    build = find_build(warehouse, build_name)
    forms = find_release_forms(build)
    benchmark = find_benchmark(build.benchmark)
    say(f"{build.build_id}: reading what was published")
    release = read_release(warehouse, benchmark, forms, build, choices)
    changes = _tell_changes(warehouse, release, find_build(warehouse, since)) if since else ""

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
    tell_release(
        build.build_id,
        {"build_id": build.build_id, "folder": str(written.folder), "rows": release.rows, "since": since},
    )
    return written


def _tell_changes(warehouse: Path, release: Release, earlier: BuildRecord) -> str:
    """Return what changed since an earlier build, of the rows that are released."""
    require_comparable(earlier, release.build)
    diff = compare_builds(warehouse, release.benchmark, earlier, release.build, False)
    told, names = withhold_changes(warehouse, release, earlier, diff)
    without = escape_markdown(", ".join(names))
    left_out = f"Rows of {without} are left out of the release; what changed of them is not told.\n\n" if names else ""
    return f"{render_changelog(told, earlier.build_id)}\n{left_out}{release.forms.canary_line}\n"


def list_answered(release: Release) -> frozenset[str]:
    """Return the ids of the main table's rows whose answers the release holds."""
    tables = {*release.forms.configs[0].splits.values()}
    answered = "" if release.choices.with_answers else release.forms.answered
    return frozenset(
        row_id
        for config in release.configs
        for split in config.splits
        if split.table in tables and answered in ("", split.name)
        for row_id in split.rows["id"].to_pylist()
    )
