"""Test what housekeeping removes, and that it spares all data of remaining builds and running processes."""

import fcntl
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.steps.receipts import make_receipt
from support.steps.warehouses import empty_warehouse

from factmill.tasks.core.batch_receipts import SUMMED_COUNTS
from factmill.tasks.core.calls.call import Call, CallResponse
from factmill.tasks.core.measures.audits import AuditMarksOfRow
from factmill.tasks.engine.runs import acquire_run_lock
from factmill.tasks.errors import WarehouseBusy, WarehouseError
from factmill.tasks.processes import is_file_locked
from factmill.tasks.storage.builds import (
    list_builds,
    load_published_table,
    load_table_digests,
    publish_build_tables,
    write_finished_stage_records,
)
from factmill.tasks.storage.housekeeping import warehouse_rewriting
from factmill.tasks.storage.housekeeping.reclaimed_space import ReclaimedSpaceOfKind, remove_paths
from factmill.tasks.storage.housekeeping.warehouse_cleanup import (
    RetentionPolicy,
    clean_files_of_dead_processes,
    clean_warehouse,
    find_process_using_warehouse,
    format_verification_folder_prefix,
)
from factmill.tasks.storage.housekeeping.warehouse_rewriting import compact_warehouse
from factmill.tasks.storage.human_judgments import save_audit_verdicts
from factmill.tasks.storage.recording.call_cache import CallCache
from factmill.tasks.storage.recording.call_records import insert_new_call_records
from factmill.tasks.storage.recording.journal import CallJournal, make_record
from factmill.tasks.storage.recording.work_folders import work_folder
from factmill.tasks.storage.shards import (
    CALL_USES_SCHEMA,
    MERGED_SCHEMA,
    REJECTS_SCHEMA,
    digest_table_as_parquet,
    write_shard_and_digest_rows_file,
)
from factmill.tasks.storage.warehouse import open_warehouse

NOW = datetime.now(UTC)
ALL = RetentionPolicy(newest_builds=1, builds_since=None, records_since=NOW + timedelta(days=1))
"""Age protects nothing."""


class House:
    """A warehouse whose builds are made as runs make them; each has one recorded call of its own and one shared call."""

    def __init__(self, folder: Path) -> None:
        self.path = empty_warehouse(folder / "w.duckdb")
        self.runs = work_folder(self.path)
        self._days = 100

    def build(self, name: str, author: str = "scripted replies", **lock: Any) -> str:
        """Publish a build, a day after the one before."""
        self._days -= 1
        self.record(f"{name}-only", f"{name}-shared")
        with open_warehouse(self.path) as db:
            self._merge(db, f"{name}-unfinished", f"{name}-only", f"{name}-shared")
            table = pa.table({"id": [name], "text": [f"row of {name}"]})
            report = {"author": author, "rejects": 0}
            record = publish_build_tables(
                db, f"{name}-unfinished", "toy", {"name": name, **lock}, {}, {"toys": table}, report, NOW
            )
            at = NOW - timedelta(days=self._days)
            db.execute("UPDATE builds SET published_at = ? WHERE build_id = ?", [at, record.build_id])
        return record.build_id

    def record(self, *ids: str) -> None:
        """Record a call under each id."""
        records = [
            replace(make_record(Call("s", "say", {"of": each}), CallResponse(each)), record_id=each) for each in ids
        ]
        with open_warehouse(self.path) as db:
            insert_new_call_records(db, records)

    def begin(self, name: str, uses: Sequence[str], begun: datetime) -> Path:
        """Leave the folder of a run that stopped after its first batch."""
        folder = self.runs / name
        write_shard_and_digest_rows_file(
            folder / "s" / "0", {"uses": pa.Table.from_pylist([use(each) for each in uses], CALL_USES_SCHEMA)}
        )
        (folder / "run.json").write_text(json.dumps({"options": {"begun": begun.isoformat()}}), "utf-8")
        (folder / "held").touch()
        return folder

    def clean(self, keeping: RetentionPolicy = ALL, remove: bool = True) -> dict[str, ReclaimedSpaceOfKind]:
        return {each.kind: each for each in clean_warehouse(self.path, keeping, remove=remove)}

    def builds(self) -> list[str]:
        return [each.build_id for each in list_builds(self.path)]

    def records(self) -> set[str]:
        with open_warehouse(self.path) as db:
            return {each for (each,) in db.execute("SELECT record_id FROM calls").fetchall()}

    def digests(self) -> dict[tuple[str, str], bool]:
        """Return (build, table) → whether its rows still have the digest of their publication."""
        with open_warehouse(self.path) as db:
            return {
                (build, name): digest_table_as_parquet(load_published_table(db, build, name)) == sha256
                for (build,) in db.execute("SELECT build_id FROM builds").fetchall()
                for name, sha256 in load_table_digests(db, build).items()
            }

    def _merge(self, db: Any, run: str, *uses: str) -> None:
        shard = self.path.parent / f"shard-{run}"
        tables = {"rejects": REJECTS_SCHEMA.empty_table(), "merged": MERGED_SCHEMA.empty_table()}
        write_shard_and_digest_rows_file(
            shard, {**tables, "uses": pa.Table.from_pylist([use(each) for each in uses], CALL_USES_SCHEMA)}
        )
        summary = {"stage": "s", "rows_out": 1, "seconds": 0.1, **dict.fromkeys(SUMMED_COUNTS, 0)}
        write_finished_stage_records(db, run, 1, [make_receipt(shard)], summary)


def use(record_id: str) -> dict[str, str]:
    return {"id": "r", "key": "k", "record_id": record_id}


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_cleanup_removes_old_builds_with_records_that_no_other_build_uses(house: House) -> None:
    for name in "abc":
        house.build(name)
    house.record("of-nothing")
    kept = house.builds()[1:]
    found = house.clean(replace(ALL, newest_builds=2), remove=False)
    assert (found["builds"].count, found["records"].count, len(house.builds())) == (1, 3, 3)
    assert house.clean(replace(ALL, newest_builds=2)) == found, "exactly the listed data is removed"
    assert house.builds() == kept
    assert house.records() == {"b-only", "b-shared", "c-only", "c-shared"}
    assert all(house.digests().values())
    with open_warehouse(house.path) as db:
        for table in ("toys", "build_calls", "build_stages", "build_tables"):
            (names,) = db.execute(f"SELECT list(DISTINCT build_id ORDER BY build_id) FROM {table}").fetchone()
            assert names == sorted(kept), table
    assert house.clean(replace(ALL, newest_builds=2))["builds"].count == 0


def test_newest_build_of_each_author_and_recent_records_are_kept(house: House) -> None:
    for name, author in (("a", "one"), ("b", "two"), ("c", "two")):
        house.build(name, author)
    house.record("of-nothing")
    old = RetentionPolicy(newest_builds=10, builds_since=NOW, records_since=NOW - timedelta(days=1))
    younger = house.clean(replace(old, builds_since=NOW - timedelta(days=98, hours=12)), remove=False)
    assert (younger["builds"].count, younger["builds"].young, younger["records"].young) == (0, 1, 1)
    assert datetime.fromisoformat(younger["builds"].young_newest) == NOW - timedelta(days=98)
    assert house.clean(replace(old, builds_since=None), remove=False)["builds"].young == 0, "--keep retains them"
    assert house.clean(old)["builds"].count == 1
    assert [name.rpartition("-")[2] for name in house.builds()] != []
    assert "of-nothing" in house.records()
    assert len(house.builds()) == 2


def test_evaluated_or_audited_builds_are_kept_unless_policy_allows_removal(house: House) -> None:
    def digest(build: str) -> str:
        return next(each.content_digest for each in list_builds(house.path) if each.build_id == build)

    measured, audited, plain, _ = (house.build(name) for name in "abcd")
    evaluation = house.build("e", "a model", params={"source_digest": digest(measured)})
    # an analysis keeps its evaluation, even when a newer evaluation exists
    analysis = house.build("f", "folder", params={"evaluation": digest(evaluation)})
    house.build("g", "a model")
    with open_warehouse(house.path) as db:
        save_audit_verdicts(db, audited, [AuditMarksOfRow(row_id="r", marks={}, reviewer="me", note="")])
    house.clean()
    assert {measured, audited, evaluation, analysis} <= set(house.builds())
    assert plain not in house.builds()
    house.clean(replace(ALL, keep_evaluated=False))
    assert not {measured, audited} & set(house.builds())


def test_id_of_removed_build_is_never_reused(house: House) -> None:
    ids = []
    with open_warehouse(house.path) as db:
        for text in ("one", "two", "three", "four"):
            table = pa.table({"id": [text]})
            ids.append(
                publish_build_tables(db, "run", "toy", {"same": 1}, {}, {"toys": table}, {"rejects": 0}, NOW).build_id
            )
            if text == "three":
                db.execute("DELETE FROM builds WHERE build_id = ?", [ids[0]])
    assert ids == [ids[0], f"{ids[0]}.2", f"{ids[0]}.3", f"{ids[0]}.4"]


def test_stopped_run_keeps_its_records_until_it_is_too_old(house: House) -> None:
    house.record("served", "of-nothing")
    with open_warehouse(house.path) as db:
        db.execute("UPDATE calls SET asked_at = asked_at - INTERVAL 5 DAY")
    house.record("answered-since")
    folder = house.begin("toy-1", ["served"], NOW - timedelta(days=1))
    freed = house.clean(replace(ALL, records_since=NOW - timedelta(hours=1)))
    assert (freed["run folders"].count, freed["records"].count) == (0, 1)
    assert (freed["run folders"].young, freed["records"].young) == (1, 1)
    assert house.records() == {"served", "answered-since"}
    assert house.clean()["run folders"].names == (str(folder),)
    assert not folder.exists()
    assert house.records() == set()


def hold_file(path: Path) -> int:
    fd = os.open(path, os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


def hold_run(house: House) -> int:
    return hold_file(house.begin("toy-1", [], NOW) / "held")


def hold_journal(house: House) -> int:
    return CallJournal(house.runs / "journal")._fd


@pytest.mark.parametrize("hold", [hold_run, hold_journal])
def test_cleanup_removes_nothing_while_another_process_uses_warehouse(
    house: House, hold: Callable[[House], int]
) -> None:
    for name in "ab":
        house.build(name)
    house.record("of-nothing")
    fd = hold(house)
    freed = house.clean()
    assert [freed[kind].count for kind in ("run folders", "builds", "records")] == [0, 0, 0]
    assert "is using the warehouse" in freed["builds"].left
    assert len(house.builds()) == 2
    assert "of-nothing" in house.records()
    os.close(fd)
    assert house.clean()["builds"].count == 1


def test_brief_shared_lock_does_not_prevent_run_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "held").touch()
    look = os.open(tmp_path / "held", os.O_RDONLY)
    fcntl.flock(look, fcntl.LOCK_SH)
    monkeypatch.setattr("time.sleep", lambda _: os.close(look))
    holder = acquire_run_lock(tmp_path)
    assert is_file_locked(tmp_path / "held")
    os.close(holder)
    assert not is_file_locked(tmp_path / "held")


def test_folder_shared_by_all_processes_is_not_treated_as_run_folder(house: House) -> None:
    CallCache(house.path, "record").close()
    assert house.clean()["run folders"].count == 0
    assert (house.runs / "claims" / "lock").exists()


def test_stages_of_unpublished_run_are_removed_with_its_folder(house: House) -> None:
    with open_warehouse(house.path) as db:
        house._merge(db, "toy-1-unfinished")
    house.begin("toy-1", [], NOW)
    for since, stages in ((NOW - timedelta(hours=1), 1), (ALL.records_since, 0)):
        house.clean(replace(ALL, records_since=since))
        with open_warehouse(house.path) as db:
            assert db.execute("SELECT count(*) FROM build_stages").fetchone() == (stages,)


def test_stray_files_of_dead_processes_are_removed_and_those_of_live_ones_kept(
    tmp_path: Path, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "tmp"))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    stray = [f"prefect/server-{ended.pid}.log", f"tmp/factmill-{ended.pid}/x", f"w.duckdb.compact-{ended.pid}"]
    stray += [f"w.duckdb.compact-{ended.pid}.wal", f"tmp/factmill-{ended.pid}-diff-a/x"]
    stray += ["prefect/runs/0-1", "tmp/factmill-verify-a/held", "prefect/storage/toy-1-s-0", "world-cache/store-1.log"]
    alive = [f"prefect/server-{os.getpid()}.log", f"tmp/factmill-{os.getpid()}/x", f"w.duckdb.compact-{os.getpid()}"]
    alive += [
        f"tmp/factmill-{os.getpid()}-diff-b/x",
        "tmp/factmill-verify-b/held",
        "prefect/storage/toy-2-s-0",
        "tmp/factmill-tests/x",
        "w.duckdb.runs/toy-2/x",
    ]
    for name in (*stray, *alive):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    held = hold_file(tmp_path / "tmp/factmill-verify-b/held")
    found = clean_files_of_dead_processes(tmp_path, house.path, ALL.records_since, remove=False)
    assert [each.count for each in found] == [2, 6, 1]
    assert clean_files_of_dead_processes(tmp_path, house.path, ALL.records_since, remove=True) == found
    os.close(held)
    assert [name for name in stray if (tmp_path / name).exists()] == []
    assert [name for name in alive if not (tmp_path / name).exists()] == []
    later = clean_files_of_dead_processes(tmp_path, house.path, NOW - timedelta(hours=1), remove=True)
    assert [each.count for each in later] == [0, 0, 0], "young data may belong to a run that has just started"
    assert [(each.young, each.young_bytes) for each in later] == [(0, 0), (1, 1), (0, 0)]
    assert datetime.fromisoformat(later[1].young_newest) > NOW


def test_verification_counts_only_for_its_warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    folder = tmp_path / f"{format_verification_folder_prefix(tmp_path / 'w.duckdb')}a"
    folder.mkdir()
    (folder / "held").touch()
    held = hold_file(folder / "held")
    assert find_process_using_warehouse(tmp_path / "w.duckdb") == "a verification"
    assert find_process_using_warehouse(tmp_path / "other.duckdb") == ""
    os.close(held)
    assert find_process_using_warehouse(tmp_path / "w.duckdb") == ""


def test_compaction_frees_space_and_keeps_every_digest(house: House) -> None:
    for name in "ab":
        house.build(name)
    house.record(*(f"{at}-{'x' * 400}" for at in range(20_000)))
    house.clean()
    before, digests, records = house.path.stat().st_size, house.digests(), house.records()
    was, now = compact_warehouse(house.path)
    assert was == before
    assert now == house.path.stat().st_size < before / 2
    assert digests == house.digests()
    assert all(digests.values())
    assert house.records() == records
    assert [each.name for each in house.path.parent.glob("w.duckdb*") if each.is_file()] == ["w.duckdb"]
    house.build("c")  # keys and bounds are still in place
    with open_warehouse(house.path) as db, pytest.raises(Exception, match="Duplicate key"):
        db.execute("INSERT INTO builds SELECT * FROM builds")


def test_compacted_file_keeps_its_path_link_and_permissions(house: House) -> None:
    house.build("a")
    house.path.chmod(0o660)
    link = house.path.parent / "link.duckdb"
    link.symlink_to(house.path.name)
    left = house.path.with_name(
        f"w.duckdb.compact-{os.getpid()}"
    )  # of a process with our id, such as the first in a container
    left.write_bytes(house.path.read_bytes())
    compact_warehouse(link)
    assert link.is_symlink()
    assert stat.S_IMODE(house.path.stat().st_mode) == 0o660
    assert len(house.builds()) == 1


def test_warehouse_in_use_is_not_compacted(house: House) -> None:
    house.build("a")
    before = house.path.read_bytes()
    fd = hold_journal(house)
    with pytest.raises(WarehouseBusy, match=r"a build is using the warehouse .*w\.duckdb; run"):
        compact_warehouse(house.path)
    os.close(fd)
    assert house.path.read_bytes() == before


def test_run_folders_are_removed_even_if_warehouse_is_unusable(house: House) -> None:
    house.path.write_bytes(b"no warehouse at all")
    folder = house.begin("toy-1", [], NOW)
    freed = house.clean()
    assert freed["run folders"].count == 1
    assert not folder.exists()
    assert [kind for kind, each in freed.items() if "is not a DuckDB file" in each.trouble] == ["builds", "records"]


def test_link_target_is_kept_and_files_that_cannot_be_removed_are_reported(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to("elsewhere")
    assert remove_paths("x", [tmp_path / "link"], remove=True).count == 1
    assert [each.name for each in tmp_path.iterdir()] == ["elsewhere"]
    freed = remove_paths("x", [Path("/proc/self/stat")], remove=True)
    assert (freed.count, freed.names) == (0, ())
    assert freed.left.startswith("1 cannot be removed, the first is /proc/self/stat: ")


def test_empty_journal_is_removed_unless_just_created(house: House) -> None:
    journals = house.runs / "journal"
    journals.mkdir(parents=True)
    for name, moment in (("left", NOW - timedelta(hours=1)), ("made", NOW + timedelta(hours=1))):
        (journals / f"{name}.journal").touch()
        os.utime(journals / f"{name}.journal", (moment.timestamp(),) * 2)
    clean_files_of_dead_processes(house.path.parent, house.path, ALL.records_since, remove=True)
    assert [each.stem for each in journals.iterdir()] == ["made"]


def test_copy_with_different_content_does_not_replace_file(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.build("a")
    result = iter([{"builds": (1,)}, {"builds": (2,)}])
    monkeypatch.setattr(warehouse_rewriting, "_digest_tables", lambda *_: next(result))
    before = house.path.read_bytes()
    with pytest.raises(WarehouseError, match="unchanged, because the copy differs in builds"):
        compact_warehouse(house.path)
    assert house.path.read_bytes() == before
    assert len(house.builds()) == 1
    assert list(house.path.parent.glob("*.compact-*")) == []
