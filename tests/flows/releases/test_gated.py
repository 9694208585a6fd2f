"""Releases that rebuilds make: where gates hold, in the place of the one before, with what changed."""

import json
from pathlib import Path

import pytest
from support.builds.published import publish_rows
from support.builds.released import fanout_tables

from flows.releases.gated import release_gated
from tasks.errors import GateClosed
from tasks.fanoutqa.benchmark import FANOUTQA
from tasks.release.core.gates import Gates

OPEN = Gates(rows_within=0.5, most_lost=0.5, judge_card=False, explained=False)


def test_a_release_takes_the_place_of_the_one_before_where_gates_hold(tmp_path: Path) -> None:
    warehouse, place = tmp_path / "w.duckdb", tmp_path / "out" / "fanoutqa"
    tables = fanout_tables()
    first = publish_rows(warehouse, FANOUTQA, tables)
    with pytest.raises(GateClosed, match=r"judge: nobody has held mine against people"):
        release_gated(
            warehouse, first.build_id, place.parent, Gates(rows_within=0, most_lost=1, judge_card=True, explained=True)
        )
    assert not place.exists()

    assert "rows released" in release_gated(warehouse, first.build_id, place.parent, OPEN)
    assert "already" in release_gated(warehouse, first.build_id, place.parent, OPEN)
    assert not (place / "CHANGELOG.md").exists()

    changed = [{**row, "question": f"{row['question']} Today?"} for row in tables["fanoutqa"]]
    second = publish_rows(warehouse, FANOUTQA, {**tables, "fanoutqa": changed}, code="1")
    release_gated(warehouse, second.build_id, place.parent, OPEN)
    assert json.loads((place / "release.json").read_text())["build_id"] == second.build_id
    assert first.build_id in (place / "CHANGELOG.md").read_text()

    fewer = {**tables, "fanoutqa_dev": tables["fanoutqa_dev"][:1], "fanoutqa_test": []}
    third = publish_rows(warehouse, FANOUTQA, fewer, code="2")
    with pytest.raises(GateClosed, match=r"rows: 1, in the release before"):
        release_gated(warehouse, third.build_id, place.parent, OPEN)
    assert json.loads((place / "release.json").read_text())["build_id"] == second.build_id
