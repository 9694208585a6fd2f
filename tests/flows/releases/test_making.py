"""Releases with what changed since the one before."""

from pathlib import Path

from support.builds.published import publish_rows
from support.builds.released import multihal_tables

from flows.releases.making import make_release
from tasks.multihal.benchmark import MULTIHAL
from tasks.release.contents import Choices


def test_a_changelog_quotes_no_row_that_the_release_leaves_out(tmp_path: Path) -> None:
    warehouse, tables = tmp_path / "w.duckdb", multihal_tables()
    old = publish_rows(warehouse, MULTIHAL, tables)
    first, *others = (row for row in tables["multihal"] if row["source_dataset"] != "felm")
    changed = [first, *({**row, "input": f"{row['input']} Today?"} for row in others)]
    new = publish_rows(warehouse, MULTIHAL, {**tables, "multihal": changed}, code="1")
    made = make_release(
        warehouse, new.build_id, tmp_path / "out", Choices(without=("CC-BY-NC-2.0",)), since=old.build_id
    )
    told = (tmp_path / "out" / "CHANGELOG.md").read_text("utf-8")
    assert "simpleqa" in told
    assert made.release.rows == 2
    assert ", 2 rows): 1 the same, 0 added, 0 removed, 1 changed." in told
    assert "felm\\_" not in told and "felm_" not in told, "its licence forbids it, and it was released before"
    assert "halueval" not in told
    assert "Rows of CC-BY-NC-2.0, CC-BY-NC-SA-4.0 are left out of the release" in told.replace("\\", "")
    assert told.endswith(f"{made.release.forms.canary_line}\n")
