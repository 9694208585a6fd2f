"""Test comparison of releases row by row, their changelogs, and the releases that rebuilds make when gates pass."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.builds.published import publish_rows
from support.builds.released import Rows, fanout_tables, multihal_tables
from support.commands.command import Factmill

from factmill.flows.commands.release import compare_release_folders_or_builds, make_release, release_if_gates_pass
from factmill.tasks.diff.core.changes import BuildDiff
from factmill.tasks.engine.benchmark import Benchmark, load_named_object
from factmill.tasks.errors import ReleaseGateFailed, SourceError, UsageError
from factmill.tasks.fanoutqa.benchmark import FANOUTQA
from factmill.tasks.multihal.benchmark import MULTIHAL
from factmill.tasks.release.assembly import verify_and_assemble_release
from factmill.tasks.release.contents import ReleaseOptions
from factmill.tasks.release.core.selection_and_gates import ReleaseGates
from factmill.tasks.release.write import write_release
from factmill.tasks.storage.warehouse import open_warehouse

SCRIPTED: dict[str, Any] = {
    "scripted": {"fanoutqa/word": "1"},
    "services": {"wikidata": "embedded-0/wikidata", "wikipedia": "embedded-0/wikipedia"},
}

OPEN = ReleaseOptions(allowed_licences=("CC-BY-NC-SA-4.0", "CC-BY-NC-2.0"))


class Maker:
    """Publishes rows into one warehouse and releases them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.warehouse = folder, folder / "w.duckdb"

    def release(
        self,
        name: str,
        benchmark: Benchmark,
        tables: dict[str, Rows],
        choices: ReleaseOptions = OPEN,
        rejected: str = "",
        **lock: Any,
    ) -> str:
        """Return the folder; `rejected` is a row that a stage rejects."""
        build = publish_rows(self.warehouse, benchmark, tables, **lock)
        if rejected:
            with open_warehouse(self.warehouse) as db:
                db.execute(
                    "INSERT INTO rejects VALUES (?, 'flag_duplicates', ?, 'duplicate', 'of q0', NULL)",
                    [build.build_id, rejected],
                )
        read = verify_and_assemble_release(
            self.warehouse, benchmark, load_named_object(benchmark.release), build, choices
        )
        return str(write_release(read, self.folder / name).folder)

    def compare(self, before: str, after: str) -> BuildDiff:
        return compare_release_folders_or_builds(self.warehouse, before, after)


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path)


def ask_otherwise(tables: dict[str, Rows]) -> dict[str, Rows]:
    first, *others = tables["fanoutqa"]
    return {**tables, "fanoutqa": [{**first, "question": f"{first['question']} Today?"}, *others]}


def tell(diff: BuildDiff) -> list[tuple[str, str, str]]:
    return [(row.kind, row.id, " + ".join(cause.label for cause in row.causes)) for row in diff.rows]


def test_only_changed_input_is_cause_for_scripted_builds(maker: Maker) -> None:
    tables = fanout_tables()
    old = maker.release("old", FANOUTQA, tables, **SCRIPTED)
    new = maker.release("new", FANOUTQA, ask_otherwise(tables), **SCRIPTED, prompts={"fanoutqa/word": "2"})
    found = maker.compare(old, new)
    assert tell(found) == [("changed", "q0", "prompt: fanoutqa/word")]
    assert found.same == 2


def test_reply_is_possible_cause_for_live_services(maker: Maker) -> None:
    tables = fanout_tables()
    old = maker.release("old", FANOUTQA, tables)
    new = maker.release("new", FANOUTQA, ask_otherwise(tables), code="1")
    assert tell(maker.compare(old, new)) == [("changed", "q0", "one of: code: steps, reply")]


def test_identical_manifests_leave_cause_undetermined(maker: Maker) -> None:
    tables = fanout_tables()
    old = maker.release("old", FANOUTQA, tables)
    new = maker.release("new", FANOUTQA, ask_otherwise(tables))
    ((cause,),) = (row.causes for row in maker.compare(old, new).rows)
    assert cause.kind == "not told"
    assert "releases contain no replies" in cause.change_description


def test_rejected_row_is_listed_with_stage_and_reason(maker: Maker) -> None:
    tables = fanout_tables(("dev", "dev", "dev"))
    fewer = {name: [row for row in rows if "q1" not in row.values()] for name, rows in tables.items()}
    old = maker.release("old", FANOUTQA, tables, **SCRIPTED)
    new = maker.release("new", FANOUTQA, fewer, rejected="q1", **SCRIPTED, params={"params": {"least": 3}})
    (row,) = maker.compare(old, new).rows
    assert (row.kind, row.id, row.main_cause.label) == ("removed", "q1", "parameter: least")
    assert row.fate is not None
    assert (row.fate.stage, row.fate.reason) == ("flag_duplicates", "duplicate")


def test_rows_excluded_from_release_are_reported_as_excluded(maker: Maker, factmill: Factmill) -> None:
    whole = maker.release("whole", MULTIHAL, multihal_tables())
    without = maker.release("without", MULTIHAL, multihal_tables(), ReleaseOptions(excluded=("felm", "CC-BY-NC-2.0")))
    ran = factmill("diff", whole, without, "--warehouse", maker.warehouse, "--json", "--exit-code")
    assert ran.code == 1, ran.err
    assert ran.json["counts"] == {"added": 0, "removed": 4, "changed": 0}
    assert {each["told"] for row in ran.json["rows"] for each in row["causes"]} == {
        "the later release was made without felm",
        "the later release was made without CC-BY-NC-2.0",
    }
    result = factmill("diff", without, whole, "--warehouse", maker.warehouse, "--limit", "1")
    assert "the earlier release was made without" in result.out


def test_release_equals_its_build(maker: Maker) -> None:
    folder = maker.release("out", FANOUTQA, fanout_tables())
    found = maker.compare("latest:fanoutqa", folder)
    assert (found.rows, found.tables, found.same) == ([], {}, 3)
    assert (found.before.build_id.endswith("(before)"), found.after.build_id.endswith("(after)")) == (True, True)


def test_incomparable_releases_are_reported(maker: Maker, tmp_path: Path) -> None:
    one, other = (maker.release("one", FANOUTQA, fanout_tables()), maker.release("other", MULTIHAL, multihal_tables()))
    with pytest.raises(UsageError, match="of different benchmarks"):
        maker.compare(one, other)
    with pytest.raises(UsageError, match=r"no release\.json"):
        maker.compare(one, str(tmp_path))
    index = json.loads((tmp_path / "one" / "release.json").read_text())
    (tmp_path / "one" / "release.json").write_text(json.dumps(index | {"rows": 99}))
    with pytest.raises(SourceError, match=r"one: files differ from the released ones: 'release\.json' \(sha256sum"):
        maker.compare(one, one)


def test_changelog_quotes_no_row_excluded_from_release(tmp_path: Path) -> None:
    warehouse, tables = tmp_path / "w.duckdb", multihal_tables()
    old = publish_rows(warehouse, MULTIHAL, tables)
    first, *others = (row for row in tables["multihal"] if row["source_dataset"] != "felm")
    changed = [first, *({**row, "input": f"{row['input']} Today?"} for row in others)]
    new = publish_rows(warehouse, MULTIHAL, {**tables, "multihal": changed}, code="1")
    made = make_release(
        warehouse, new.build_id, tmp_path / "out", ReleaseOptions(excluded=("CC-BY-NC-2.0",)), since=old.build_id
    )
    result = (tmp_path / "out" / "CHANGELOG.md").read_text("utf-8")
    assert "simpleqa" in result
    assert made.release.rows == 2
    assert ", 2 rows): 1 the same, 0 added, 0 removed, 1 changed." in result
    assert "felm\\_" not in result and "felm_" not in result, "its licence forbids release, and it was released before"
    assert "halueval" not in result
    assert "Rows of CC-BY-NC-2.0, CC-BY-NC-SA-4.0 are left out of the release" in result.replace("\\", "")
    assert result.endswith(f"{made.release.forms.canary_line}\n")


OPEN_GATES = ReleaseGates(
    max_row_change=0.5, max_reject_share=0.5, requires_judge_card=False, requires_explained_changes=False
)


def test_release_replaces_previous_release_when_gates_pass(tmp_path: Path) -> None:
    warehouse, place = tmp_path / "w.duckdb", tmp_path / "out" / "fanoutqa"
    tables = fanout_tables()
    first = publish_rows(warehouse, FANOUTQA, tables)
    with pytest.raises(ReleaseGateFailed, match=r"judge: mine .*factmill judge-card"):
        release_if_gates_pass(
            warehouse,
            first.build_id,
            place.parent,
            ReleaseGates(
                max_row_change=0, max_reject_share=1, requires_judge_card=True, requires_explained_changes=True
            ),
        )
    assert not place.exists()

    assert "rows released" in release_if_gates_pass(warehouse, first.build_id, place.parent, OPEN_GATES)
    assert "already" in release_if_gates_pass(warehouse, first.build_id, place.parent, OPEN_GATES)
    assert not (place / "CHANGELOG.md").exists()

    changed = [{**row, "question": f"{row['question']} Today?"} for row in tables["fanoutqa"]]
    second = publish_rows(warehouse, FANOUTQA, {**tables, "fanoutqa": changed}, code="1")
    release_if_gates_pass(warehouse, second.build_id, place.parent, OPEN_GATES)
    assert json.loads((place / "release.json").read_text())["build_id"] == second.build_id
    assert first.build_id in (place / "CHANGELOG.md").read_text()

    fewer = {**tables, "fanoutqa_dev": tables["fanoutqa_dev"][:1], "fanoutqa_test": []}
    third = publish_rows(warehouse, FANOUTQA, fewer, code="2")
    with pytest.raises(ReleaseGateFailed, match=r"rows: 1, "):
        release_if_gates_pass(warehouse, third.build_id, place.parent, OPEN_GATES)
    assert json.loads((place / "release.json").read_text())["build_id"] == second.build_id
