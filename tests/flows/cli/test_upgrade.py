"""Test `factmill upgrade`: it migrates a warehouse of an earlier factmill, whose cached calls remain usable.

`factmill build granola --limit 4` of commit e84b2b2 made `warehouse_e84b2b2.duckdb.gz` in the embedded world. Its one
large
call, the list of the world's files, was removed.
"""

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb
import pytest
from support.commands.command import ROOT, Factmill

from factmill.tasks.core.calls.call import Call, CallResponse
from factmill.tasks.core.digests import digest_bytes
from factmill.tasks.storage.recording.call_cache import CallCache
from factmill.tasks.storage.recording.call_records import load_records
from factmill.tasks.storage.recording.journal import make_record
from factmill.tasks.storage.schema import SCHEMA_VERSION
from factmill.tasks.storage.warehouse import open_warehouse

OLD = ROOT / "tests/storage/housekeeping/warehouse_e84b2b2.duckdb.gz"
SAID = {"texts": ['"finish":["error"]'], "fingerprint": None}
FAILURES: tuple[tuple[str, CallResponse, bool], ...] = (
    ("chat", CallResponse(None, "failed", "http_402: no credit"), True),
    ("chat", CallResponse(None, "failed", "http_400: credit balance is too low"), True),
    ("chat", CallResponse(None, "failed", "prompt_too_long: no"), False),
    ("chat", CallResponse(None, "failed", "refused: no"), False),
    ("describe_items", CallResponse(None, "failed", "http_404: no"), False),
    ("describe_items", CallResponse(None, "failed", "http_402: no"), True),
    ("chat", CallResponse({**SAID, "finish": ["stop"]}), False),
    ("chat", CallResponse({**SAID, "finish": ["length"]}), False),
    ("chat", CallResponse({**SAID, "finish": ["stop", "error"]}), True),
    ("chat", CallResponse({**SAID, "finish": ["function_call_filter: MALFORMED_FUNCTION_CALL"]}), True),
    ("chat", CallResponse({**SAID, "finish": ["insufficient_system_resource"]}), True),
    ("describe_items", CallResponse({**SAID, "finish": ["error"]}), False),
)
"""Operation, response that an earlier factmill treated as final, and whether the next run requests it again."""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old.duckdb"
    path.write_bytes(gzip.decompress(OLD.read_bytes()))
    return path


async def refuse(calls: Sequence[Call], take: Callable[[int, CallResponse], None]) -> None:
    raise AssertionError(f"asked again: {calls}")


def test_upgrade_migrates_usable_builds_and_calls(factmill: Factmill, old: Path, tmp_path: Path) -> None:
    records = [make_record(Call("s", name, {"at": at}), reply) for at, (name, reply, _) in enumerate(FAILURES)]
    with duckdb.connect(str(old)) as db:
        for each in records:
            names = each.__slots__
            marks = ", ".join("?" for _ in names)
            db.execute(
                f"INSERT INTO calls ({', '.join(names)}) VALUES ({marks})", [getattr(each, name) for name in names]
            )
        before = db.execute("SELECT * FROM calls ORDER BY record_id").fetchall()
        published = dict(db.execute("SELECT table_name, sha256 FROM build_tables").fetchall())
    refused = factmill("builds", "--warehouse", old)
    assert refused.code == 1 and f"run `factmill upgrade {old}`" in refused.err
    result = factmill("upgrade", old, "--json").json
    assert (result["from"], result["to"], result["tables"]["calls"], result["tables"]["granola_eq"]) == (
        13,
        SCHEMA_VERSION,
        80,
        4,
    )
    assert "has schema version" in factmill("upgrade", old).out

    with open_warehouse(old) as db:
        after = db.execute("SELECT * FROM calls ORDER BY record_id").fetchall()
        failures = load_records(db, [each.record_id for each in records])
    at = list(records[0].__slots__).index("transient")
    assert [row[:at] + row[at + 1 :] for row in after] == [row[:at] + row[at + 1 :] for row in before]
    again = {each.record_id: each.transient for each in failures}
    assert [again[each.record_id] for each in records] == [is_asked for *_, is_asked in FAILURES]
    asked = [
        Call(service, name, json.loads(parts)) for _, _, service, name, parts, *_ in before if name == "find_items"
    ]
    recorder = CallCache(old, "replay")
    try:
        found = recorder.get_or_send(asked, refuse)
        assert len(asked) == 8 and all(found.records[call.key].status == "ok" for call in asked)
    finally:
        recorder.close()

    assert factmill("export", "latest:granola", "--to", tmp_path / "out", "--warehouse", old).code == 0
    files = {path.stem: digest_bytes(path.read_bytes()) for path in (tmp_path / "out").rglob("*.parquet")}
    assert {name: files[name] for name in published} == published
    row = factmill("show", "granola", "--limit", "1", "--json", "--warehouse", old).json["rows"][0]
    explained = factmill("explain", "granola", row["id"], "--warehouse", old)
    assert explained.code == 0 and row["question"] in explained.out


def test_upgrade_leaves_unversioned_and_altered_warehouses_unchanged(factmill: Factmill, old: Path) -> None:
    with duckdb.connect(str(old)) as db:
        db.execute("DROP TABLE granola_candidates")
    content = old.read_bytes()
    assert factmill("upgrade", old).code == 1
    assert old.read_bytes() == content and [path.name for path in old.parent.glob("old.duckdb*")] == ["old.duckdb"]
    with duckdb.connect(str(old)) as db:
        db.execute("DELETE FROM schema_migrations WHERE version > 12")
    result = factmill("upgrade", old)
    assert result.code == 1 and "version 13 and later" in result.err
