"""Test `factmill gc` and `factmill gc --compact`: remaining builds verify, and Prefect's history is bounded."""

import fcntl
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Factmill
from support.processes.standing_prefect import ask_server
from support.webs.prepared import link_prepared

from factmill.flows.commands.housekeeping import _format_reclaimed_space
from factmill.tasks.storage.builds import list_builds
from factmill.tasks.storage.housekeeping.prefect_history import (
    clean_history,
    prefect_database_path,
    trim_history,
    vacuum_history_or_find_problem,
)
from factmill.tasks.storage.housekeeping.reclaimed_space import ReclaimedSpaceOfKind
from factmill.tasks.storage.recording.work_folders import work_folder


@pytest.fixture
def house(session_home: Path, embedded_builds: dict[str, Any], tmp_path: Path) -> Path:
    """Return a home with copies of all builds and of Prefect's history."""
    (tmp_path / "home" / "prefect").mkdir(parents=True)
    shutil.copy(session_home / "factmill.duckdb", tmp_path / "home")
    link_prepared(session_home, tmp_path / "home")
    with (
        closing(sqlite3.connect(prefect_database_path(session_home))) as there,
        closing(sqlite3.connect(prefect_database_path(tmp_path / "home"))) as here,
    ):
        there.backup(here)
    return tmp_path / "home"


def count(home: Path) -> dict[str, int]:
    """Map each of Prefect's tables to its rows of runs, and to its orphaned rows."""
    queries = {name: f"SELECT count(*) FROM {name}" for name in ("flow_run", "events", "event_resources", "artifact")}
    for name in ("task_run", "flow_run_state", "artifact", "log"):
        queries[f"lost {name}"] = (
            f"SELECT count(*) FROM {name} WHERE flow_run_id IS NOT NULL AND flow_run_id NOT IN (SELECT id FROM flow_run)"
        )
    with closing(sqlite3.connect(prefect_database_path(home))) as db:
        return {what: db.execute(query).fetchone()[0] for what, query in queries.items()}


def test_remaining_builds_verify_after_gc_and_compact(
    house: Path, prefect_api: str, embedded_builds: dict[str, Any]
) -> None:
    factmill = Factmill(house, prefect_api)
    newer = factmill("build", "granola", "--limit", "8", "--json").json
    warehouse = house / "factmill.duckdb"
    before = {each.build_id for each in list_builds(warehouse)}
    # other tests may have evaluated these builds, which would keep them
    bounds = ("--keep", "1", "--older-than", "0s", "--with-measured")
    dry = factmill("gc", *bounds, "--json").json
    freed = {each["kind"]: each for each in dry["freed"]}
    gone = set(freed["builds"]["names"])
    assert not dry["removed"] and embedded_builds["granola"]["build_id"] in gone
    assert freed["records"]["count"] > 0
    assert {each.build_id for each in list_builds(warehouse)} == before
    assert "nothing was removed" in (out := factmill("gc").out) and "--yes" in out

    done = factmill("gc", *bounds, "--yes", "--json").json
    assert {each["kind"]: each["count"] for each in done["freed"]} == {
        each["kind"]: each["count"] for each in dry["freed"]
    }
    sizes = factmill("gc", "--compact", "--json").json["compacted"]
    assert sizes["warehouse"]["after"] == warehouse.stat().st_size < sizes["warehouse"]["before"]
    kept = {each.build_id for each in list_builds(warehouse)}
    assert kept == before - gone
    assert newer["build_id"] in kept
    for name in sorted(kept & {newer["build_id"], *(each["build_id"] for each in embedded_builds.values())}):
        assert factmill("verify", name, "--json").json["agrees"], name


def test_killed_runs_are_ended_in_prefect(tmp_path: Path, prefect_api: str) -> None:
    session = ask_server()

    def ask(path: str, **body: Any) -> Any:
        reply = session.post(f"{prefect_api}/{path}", json=body, timeout=60)
        reply.raise_for_status()
        return reply.json()

    flow = ask("flows/", name="killed")["id"]
    killed, going = (ask("flow_runs/", flow_id=flow, state={"type": "RUNNING"})["id"] for _ in range(2))
    states = lambda: {  # noqa: E731
        each["id"]: each["state"] for each in ask("flow_runs/filter", flow_runs={"id": {"any_": [killed, going]}})
    }
    marks = tmp_path / "prefect" / "runs"
    marks.mkdir(parents=True)
    elsewhere = "00000000-0000-0000-0000-000000000000"
    servers = {killed: prefect_api, going: prefect_api, elsewhere: "http://127.0.0.1:9/api"}
    for run, server in servers.items():
        (marks / run).write_text(server)
    factmill = Factmill(tmp_path, prefect_api)
    with (marks / going).open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        # in its own process, which does not own the tests' standing server
        found, done = (factmill.run_process("gc", each, "--json").json["freed"] for each in ("--dry-run", "--yes"))
        result, again = ({each["kind"]: each for each in freed}["killed runs"] for freed in (found, done))
        assert result == again
        assert (result["count"], result["left"]) == (
            1,
            "1 of the server http://127.0.0.1:9/api: set PREFECT_API_URL to it and run this command again",
        )
    after = states()
    assert (after[killed]["type"], after[going]["type"]) == ("CRASHED", "RUNNING")
    assert "process of this run was gone" in after[killed]["message"]
    assert sorted(each.name for each in marks.iterdir()) == sorted([going, elsewhere])
    session.delete(f"{prefect_api}/flow_runs/{going}", timeout=60).raise_for_status()


def test_files_too_young_for_gc_are_named_with_date_and_option(tmp_path: Path) -> None:
    alone = Factmill(tmp_path / "home")
    folder = work_folder(tmp_path / "home" / "factmill.duckdb") / "toy-1"
    folder.mkdir(parents=True)
    (folder / "held").write_bytes(b"12345")
    text = "1 more (5 B) stay only because they are younger than 30d; "
    ran = alone("gc")
    assert (ran.code, text in ran.out, "now with --older-than 0s" in ran.out) == (0, True, True), ran
    folders = alone("gc", "--json").json["freed"][0]
    assert [folders[name] for name in ("kind", "count", "young", "young_bytes")] == ["run folders", 0, 1, 5]
    assert text in ran.out and folders["young_until"] in ran.out and folders["young_option"] == "--older-than"
    assert "stay only because" not in alone("gc", "--older-than", "0s", "--yes").out
    assert not folder.exists()


@pytest.mark.parametrize(
    ("option", "value"), [("--older-than", "soon"), ("--builds-older-than", "1y"), ("--keep", "0")]
)
def test_invalid_age_limit_is_rejected(factmill: Factmill, option: str, value: str) -> None:
    refused = factmill("gc", option, value)
    assert refused.code == 2
    assert f"'{option}'" in refused.err


def test_compact_without_warehouse_is_rejected(tmp_path: Path) -> None:
    refused = Factmill(tmp_path)("gc", "--compact")
    assert (refused.code, refused.err) == (
        2,
        f"factmill: {tmp_path / 'factmill.duckdb'}: no such warehouse; give an existing one with --warehouse FILE [unknown-build]\n",
    )
    assert Factmill(tmp_path)("gc", "--yes").code == 0


def test_trim_keeps_newest_runs_and_their_records_in_prefect_history(house: Path) -> None:
    before = count(house)
    assert before["flow_run"] >= 5
    assert trim_history(house, 200) == 0
    assert count(house)["flow_run"] == before["flow_run"]
    assert trim_history(house, 2) == before["flow_run"] - 2
    after = count(house)
    assert after["flow_run"] == 2
    assert after["artifact"] > 0
    assert after["events"] < before["events"]
    assert [what for what, rows in after.items() if what.startswith("lost") and rows] == []
    size = prefect_database_path(house).stat().st_size
    assert vacuum_history_or_find_problem(house) == ""
    assert prefect_database_path(house).stat().st_size < size


def test_history_is_counted_before_removal_and_active_runs_remain(house: Path) -> None:
    before = count(house)
    now = datetime.now(UTC)
    with closing(sqlite3.connect(prefect_database_path(house))) as db, db:
        db.execute("UPDATE flow_run SET state_type = 'PAUSED' WHERE id = (SELECT min(id) FROM flow_run)")
    found = clean_history(house, now, remove=False)
    assert count(house) == before
    assert clean_history(house, now, remove=True) == found
    assert (found.count, count(house)["flow_run"]) == (before["flow_run"] - 1, 1)
    assert found.size_bytes > 0


@pytest.mark.parametrize(
    ("count", "listed", "last"), [(20, 20, "    n19"), (22, 20, "    … 2 more (--json lists all)")]
)
def test_cleanup_lists_twenty_names_and_counts_the_rest(count: int, listed: int, last: str) -> None:
    freed = ReclaimedSpaceOfKind("builds", count, names=tuple(f"n{number}" for number in range(count)))
    _, *lines = _format_reclaimed_space(freed, {})
    assert (sum(line.startswith("    n") for line in lines), lines[-1]) == (listed, last)
