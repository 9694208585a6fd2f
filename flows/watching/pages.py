"""The report page of a build that a deployment made: written among the reports of the home, and told in the run."""

from pathlib import Path

from prefect.artifacts import create_markdown_artifact

from tasks import progress
from tasks.errors import FactmillError
from tasks.options import BuildReport
from tasks.settings import home
from tasks.storage.builds import find_build


def leave_page(report: BuildReport) -> None:
    """Write the page of a build and tell where it is; one that cannot be written is told, and the build stays made."""
    if not report.rows:
        return
    # what draws takes a second to import, and no run needs it before
    from flows.commands.reports import read_build, write_file
    from tasks.reports.builds.pages import render_build_html

    path = home() / "reports" / f"{report.build_id}.html"
    command = f"factmill report {report.build_id} --to {report.build_id}.html"
    try:
        warehouse = Path(report.warehouse)
        write_file(render_build_html(read_build(warehouse, find_build(warehouse, report.build_id))), path, "--to")
    except FactmillError as error:
        progress.log(f"no report page of {report.build_id}: {error}; make it: {command}", "warning")
        return
    create_markdown_artifact(
        markdown=f"[{path}]({path.as_uri()})\n\nA browser opens it from that machine; anywhere else make it anew: `{command}`",
        key=f"{report.benchmark.replace('_', '-')}-page",
        description=f"Report page of {report.build_id}: funnel, rejects, cost, what its rows are like, where each comes from",
    )
