"""Fuzz receipts, journals, runs and warehouses: intact parts are used, damage is named."""

import json
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.damage import mutilate, odd_json
from support.steps.receipts import make_receipt
from support.steps.warehouses import empty_warehouse

from factmill.flows.commands.provenance import trace_row_by_id_prefix
from factmill.tasks.core.batch_receipts import BatchReceipt
from factmill.tasks.core.calls.call import Call, CallResponse
from factmill.tasks.engine.runs import RUN_FILE, load_run_description
from factmill.tasks.errors import FactmillError
from factmill.tasks.granola.benchmark import GRANOLA
from factmill.tasks.storage.builds import list_builds
from factmill.tasks.storage.export import export_build
from factmill.tasks.storage.human_judgments import load_decisions
from factmill.tasks.storage.recording.call_cache import CallCache
from factmill.tasks.storage.recording.call_records import load_newest_record_id
from factmill.tasks.storage.recording.journal import encode_line, find_damaged_lines, make_record, read_journal
from factmill.tasks.storage.recording.work_folders import work_folder
from factmill.tasks.storage.shards import find_reusable_receipt, write_receipt, write_shard_and_digest_rows_file
from factmill.tasks.storage.warehouse import open_warehouse

patient = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
few = settings(patient, max_examples=25)
RECORDS = [make_record(Call("here", "find_items", {"name": name}), CallResponse(body={"text": name})) for name in "abc"]
LINES = b"".join(map(encode_line, RECORDS))
RUN_FILE_BYTES = json.dumps({"lock": {}, "origin": {}, "options": {"mode": "record"}}).encode()


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, st.SearchStrategy[bytes]]:
    """A shard, and possible damage to its receipt."""
    path = tmp_path_factory.mktemp("shard") / "0"
    write_receipt(make_receipt(path, digest=write_shard_and_digest_rows_file(path, {"rows": pa.table({"id": ["a"]})})))
    whole = path.with_name("0.receipt.json").read_bytes()
    odd = odd_json(*BatchReceipt.model_fields).map(lambda value: json.dumps(value).encode())
    return path, mutilate(whole) | odd


@patient
@given(data=st.data())
def test_damaged_receipt_is_accepted_only_when_intact(
    shard: tuple[Path, st.SearchStrategy[bytes]], data: st.DataObject
) -> None:
    path, receipts = shard
    path.with_name("0.receipt.json").write_bytes(data.draw(receipts))
    receipt = find_reusable_receipt(path)
    assert receipt is None or receipt == make_receipt(path, digest=receipt.digest)


@patient
@given(content=mutilate(RUN_FILE_BYTES) | st.binary(max_size=20))
def test_damaged_run_description_is_complete_or_ignored(tmp_path: Path, content: bytes) -> None:
    (tmp_path / RUN_FILE).write_bytes(content)
    run = load_run_description(tmp_path)
    assert run is None or {"lock", "origin", "options"} <= run.keys()


@patient
@given(content=mutilate(LINES))
def test_intact_lines_of_damaged_journal_are_used(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "1-x.journal"
    path.write_bytes(content)
    kept = list(read_journal(path))
    assert all(record in RECORDS for record in kept)
    whole = [line for line in content.split(b"\n")[:-1] if line in LINES.split(b"\n")[:-1]]
    assert len(kept) == len(whole)
    lines = content.count(b"\n")
    assert len(find_damaged_lines(path)) == lines - len(kept)


@few
@given(content=mutilate(LINES) | st.just(LINES))
def test_recorder_imports_any_journal_and_renames_damaged_one(tmp_path: Path, content: bytes) -> None:
    warehouse = empty_warehouse(tmp_path / f"{os.urandom(6).hex()}.duckdb")
    journal = work_folder(warehouse) / "journal" / "1-x.journal"
    journal.parent.mkdir(parents=True)
    journal.write_bytes(content)
    kept, damage = list(read_journal(journal)), find_damaged_lines(journal)
    CallCache(warehouse, "record").close()
    assert load_newest_record_id(warehouse) == max((record.record_id for record in kept), default="")
    assert not journal.exists()
    aside = journal.with_suffix(".damaged")
    assert (aside.read_bytes() if aside.exists() else None) == (content if damage else None)


def look_at_all(warehouse: Path, folder: Path) -> Iterable[Callable[[], Any]]:
    """Yield the results of all commands' reads of a warehouse."""
    yield lambda: load_newest_record_id(warehouse)
    yield lambda: load_decisions(warehouse, "granola")
    yield lambda: [
        export_build(warehouse, build, folder / build.build_id, GRANOLA.forms, (), [])
        for build in list_builds(warehouse)
    ]
    yield lambda: CallCache(warehouse, "record").get_or_send([Call("here", "find_items", {"name": "a"})], None)  # type: ignore[arg-type]

    def explain() -> None:
        with open_warehouse(warehouse) as db:
            trace_row_by_id_prefix(db, GRANOLA, "granola-x", "P19")

    yield explain


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with records."""
    path = tmp_path_factory.mktemp("filled") / "w.duckdb"
    with open_warehouse(path) as db:
        rows = ", ".join(f"('{number}', 'stage', 'i{number}', 'into')" for number in range(5000))
        db.execute(f"INSERT INTO merged_rows VALUES {rows}")
        db.execute("INSERT INTO builds VALUES ('granola-x', 'granola', 'd', '{}', '{}', 'c', '{}', now(), now())")
        db.execute("INSERT INTO build_tables VALUES ('granola-x', 'granola_eq', 0, 's', [])")
    return path


@settings(patient, max_examples=60)
@given(data=st.data())
def test_damaged_warehouse_is_read_or_named(tmp_path: Path, filled: Path, data: st.DataObject) -> None:
    warehouse = tmp_path / f"{os.urandom(6).hex()}.duckdb"
    whole = bytearray(filled.read_bytes())
    for at, to in data.draw(
        st.lists(st.tuples(st.integers(0, len(whole) - 1) | st.integers(0, 20_000), st.integers(0, 255)), max_size=6)
    ):
        whole[at % len(whole)] = to
    warehouse.write_bytes(whole[: data.draw(st.none() | st.integers(0, len(whole)))])
    if data.draw(st.booleans()):
        warehouse.with_name(f"{warehouse.name}.wal").write_bytes(data.draw(st.binary(max_size=200)))
    for look in look_at_all(warehouse, tmp_path / "out"):
        try:
            look()
        except FactmillError as error:
            assert "\n" not in str(error)
        except AttributeError as error:
            assert "NoneType" in str(error)  # the service's error, which gets the request if the record is lost
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
