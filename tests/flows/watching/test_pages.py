"""The report page that a deployment's run leaves."""

from pathlib import Path
from typing import Any

import pytest
from support.builds.published import publish_rows
from support.builds.released import multihal_row

from flows.watching import pages
from tasks.multihal.benchmark import MULTIHAL
from tasks.options import BuildReport

_NOTHING = dict.fromkeys(
    ("merged", "calls_sent", "calls_replayed", "tokens_in", "tokens_out", "cost_usd", "seconds"), 0
)


def test_the_page_lies_among_the_reports_and_a_page_that_fails_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, Any]] = []
    monkeypatch.setenv("FACTMILL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(pages, "create_markdown_artifact", lambda **told: made.append(told))
    build = publish_rows(tmp_path / "w.duckdb", MULTIHAL, {"multihal": [multihal_row("felm_1")]})
    told = {**_NOTHING, **build.report, "benchmark": "multihal", "warehouse": str(tmp_path / "w.duckdb")}
    report = BuildReport.model_validate(told)
    pages.leave_page(report)
    path = tmp_path / "home/reports" / f"{build.build_id}.html"
    assert "Where was Kepler born?" in path.read_text("utf-8")
    assert (made[0]["key"], path.as_uri() in made[0]["markdown"]) == ("multihal-page", True)
    pages.leave_page(report.model_copy(update={"build_id": "multihal-gone"}))
    assert len(made) == 1
