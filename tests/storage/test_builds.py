"""Test builds in the warehouse: complete, named by manifest and content, found again, exported byte for byte."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.steps.receipts import make_receipt
from support.steps.warehouses import empty_warehouse

from factmill.tasks import progress
from factmill.tasks.core.publishing.release_spec import BenchmarkExportFormat
from factmill.tasks.core.rows import arrow_schema, make_arrow_table
from factmill.tasks.errors import UnknownBuild, UsageError, WarehouseError
from factmill.tasks.granola.core.rows import NameBearingItemCandidateRow
from factmill.tasks.storage.builds import (
    BuildRecord,
    check_latest_passes_over_no_user_source,
    find_build_by_manifest,
    format_faulty_scripted_reply_shares,
    format_latest_build_choice_note,
    format_scripted_rows_use_restriction,
    list_builds,
    list_failed_and_rejected_calls_to_retry,
    publish_build_tables,
    rank_builds_for_latest,
    resolve_build,
    resolve_build_id_and_reject_count,
    write_finished_stage_records,
)
from factmill.tasks.storage.export import csv_bytes, export_build, json_bytes, jsonl_bytes
from factmill.tasks.storage.shards import (
    CALL_USES_SCHEMA,
    MERGED_SCHEMA,
    REJECTS_SCHEMA,
    write_shard_and_digest_rows_file,
)
from factmill.tasks.storage.table_store import TableStore
from factmill.tasks.storage.warehouse import open_warehouse

NO_FORMS = BenchmarkExportFormat()
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SUMMARY = {"stage": "s", "rows_in": 2, "rows_out": 1, "rejects": 1, "merged": 0, "calls_sent": 0, "calls_replayed": 0,
           "tokens_in": 0, "tokens_out": 0, "cost_usd": 0.0, "seconds": 0.1}  # fmt: skip


def candidates(*names: str) -> pa.Table:
    result = {"row_id": "r", "role": "answer", "qid": "Q1", "via": "label", "chosen": True, "linked": None}
    return make_arrow_table(
        NameBearingItemCandidateRow, [NameBearingItemCandidateRow(id=name, name=name, **result) for name in names]
    )


EMBEDDED = {"wikidata": "embedded-1/wikidata", "wikipedia": "embedded-1/wikipedia"}
REAL = EMBEDDED | {"wikidata": "https://query.wikidata.org/sparql"}


def make(warehouse: Path, lock: str = "a", *names: str, flow: dict[str, Any] | None = None, **more: Any) -> BuildRecord:
    """Merge one stage and publish one table, as a run does; `flow` has its parameters, `more` adds to the manifest."""
    shard = warehouse.parent / f"shard-{lock}"
    reject = [{"id": "x", "reason": "odd", "detail": "it is odd", "row": "{}"}]
    use = [{"id": "x", "key": "k", "record_id": "1"}]
    made = {
        "rejects": pa.Table.from_pylist(reject, REJECTS_SCHEMA),
        "uses": pa.Table.from_pylist(use, CALL_USES_SCHEMA),
    }
    write_shard_and_digest_rows_file(shard, {"rows": candidates(), "merged": MERGED_SCHEMA.empty_table(), **made})
    with open_warehouse(empty_warehouse(warehouse)) as db:
        write_finished_stage_records(db, "run", 1, [make_receipt(shard, rows_in=2, rejects=1)], SUMMARY)
        tables = {"granola_candidates": candidates(*names)}
        report = {"rows": len(names), "author": "scripted replies", "world": "w", "rejects": 1}
        return publish_build_tables(
            db, "run", "granola", {"lock": lock, **more}, {"flow": flow or {}}, tables, report, NOW
        )


def counts(warehouse: Path) -> dict[tuple[str, str], int]:
    with open_warehouse(warehouse) as db:
        return {
            (table, build): n
            for table in ("build_stages", "rejects", "build_calls", "granola_candidates")
            for build, n in db.execute(f"SELECT build_id, count(*) FROM {table} GROUP BY 1").fetchall()
        }


def test_stage_merged_again_by_resumed_run_counts_once(tmp_path: Path) -> None:
    record = make(tmp_path / "w.duckdb", "a")
    with open_warehouse(tmp_path / "w.duckdb") as db:
        for _ in range(2):
            write_finished_stage_records(
                db, "stopped", 1, [make_receipt(tmp_path / "shard-a", rows_in=2, rejects=1)], SUMMARY
            )
    assert counts(tmp_path / "w.duckdb") == {
        (table, build): 1
        for table in ("build_stages", "rejects", "build_calls")
        for build in (record.build_id, "stopped")
    }


def test_same_manifest_and_content_give_same_build_with_rows_rejects_and_calls(tmp_path: Path) -> None:
    path = tmp_path / "w.duckdb"
    for names in (("p", "q"), ("q", "p")):
        (build,) = {make(path, "a", *names).build_id, *(each.build_id for each in list_builds(path))}
        rows = {"build_stages": 1, "rejects": 1, "build_calls": 1, "granola_candidates": 2}
        assert counts(path) == {(table, build): count for table, count in rows.items()}


def test_same_manifest_with_different_content_gives_new_build_and_keeps_old_one(tmp_path: Path) -> None:
    path = tmp_path / "w.duckdb"
    first, second = make(path, "a", "p"), make(path, "a", "p", "z")
    assert second.build_id == f"{first.build_id}.2"
    assert [build.build_id for build in list_builds(path)] == [first.build_id, second.build_id]
    assert find_build_by_manifest(path, {"lock": "a"}) == resolve_build(path, second.build_id)
    assert find_build_by_manifest(path, {"lock": "other"}) is None


def test_builds_are_found_by_id_id_prefix_and_latest(tmp_path: Path) -> None:
    path = tmp_path / "w.duckdb"
    first, second = make(path, "a", "p"), make(path, "b", "p")
    assert resolve_build(path, first.build_id).build_id == first.build_id
    assert resolve_build(path, second.build_id[:-2]).build_id == second.build_id
    assert resolve_build(path, "latest:granola").build_id == second.build_id
    with pytest.raises(UnknownBuild, match="2 builds begin with 'granola-'"):
        resolve_build(path, "granola-")
    with pytest.raises(
        UnknownBuild, match=r"no build 'latest:salq': there is no benchmark 'salq'; benchmarks: .*slaq.*mean slaq"
    ):
        resolve_build(path, "latest:salq")
    with pytest.raises(UnknownBuild, match="no build 'latest:slaq'"):
        resolve_build(path, "latest:slaq")


WHOLE: dict[str, Any] = {"source": [], "limit": None, "policy": "linked"}
PART, TOY = WHOLE | {"limit": 5}, WHOLE | {"source": ["/toy.json"]}


def test_latest_is_newest_complete_default_build_and_lists_skipped_builds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "w.duckdb"
    progress.set_progress_style("lines")
    try:
        toy = make(path, "toy", "p", flow=TOY)
        assert resolve_build(path, "latest:granola") == toy
        assert f"{toy.build_id}, made with source /toy.json; there is no complete build" in capsys.readouterr().err
        old, whole = make(path, "old", "p", flow=WHOLE), make(path, "whole", "p", flow=WHOLE | {"policy": "smallest"})
        assert resolve_build(path, "latest:granola").build_id == whole.build_id
        assert not capsys.readouterr().err, "it is the newest"
        part = make(path, "part", "p", flow=PART)
        assert resolve_build(path, "latest:granola").build_id == whole.build_id
        output = capsys.readouterr().err
        assert (
            f"latest:granola is {whole.build_id}, the newest complete build of the default source; others: " in output
        )
        assert f"{old.build_id} (whole)" in output
        assert f"{part.build_id} (limit 5)" in output and f"{toy.build_id} (source /toy.json)" in output
        again = make(path, "again", "p", flow=PART)
        resolve_build(path, "latest:granola")
        alike = f"{again.build_id} of {again.published_at:%Y-%m-%d %H:%M} and {part.build_id} of {part.published_at:%Y-%m-%d %H:%M}"
        assert f"{alike} (each limit 5), {toy.build_id} (source /toy.json)" in capsys.readouterr().err
        assert resolve_build(path, part.build_id).build_id == part.build_id
        assert not capsys.readouterr().err, "it was named"
    finally:
        progress.set_progress_style("none")
    table, where, _ = TableStore(path).read_with_digest("granola_candidates")
    assert (where, table.num_rows) == (whole.build_id, 1)


def test_newer_build_of_own_source_must_be_named_to_release(tmp_path: Path) -> None:
    path = tmp_path / "w.duckdb"
    toy = make(path, "toy", "p", flow=TOY)
    check_latest_passes_over_no_user_source(path, "latest:granola")
    whole = make(path, "whole", "p", flow=WHOLE)
    check_latest_passes_over_no_user_source(path, "latest:granola")
    again = make(path, "again", "p", flow=TOY)
    make(path, "part", "p", flow=PART)
    with pytest.raises(UsageError) as error:
        check_latest_passes_over_no_user_source(path, "latest:granola")
    assert str(error.value) == (
        f"latest:granola is {whole.build_id}, but {again.build_id} is newer, made from /toy.json; name the build to release"
    )
    for named in (toy.build_id, whole.build_id):
        check_latest_passes_over_no_user_source(path, named)


@pytest.mark.parametrize("of", [{"build": "granola-1", "setting": []}, {"evaluation": ["slaq_evaluation-1"]}])
def test_latest_evaluation_is_newest_whatever_its_parameters(tmp_path: Path, of: dict[str, Any]) -> None:
    builds = [
        make(tmp_path / "w.duckdb", name, "p", flow=of | changed) for name, changed in (("a", {}), ("b", {"limit": 5}))
    ]
    assert [each.build_id for each in rank_builds_for_latest(builds)] == [each.build_id for each in reversed(builds)]
    assert format_latest_build_choice_note(rank_builds_for_latest(builds)) == ""


def test_missing_warehouse_has_no_builds(tmp_path: Path) -> None:
    assert list_builds(tmp_path / "none.duckdb") == []
    assert not (tmp_path / "none.duckdb").exists()


def test_export_of_modified_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.duckdb"
    record = make(path, "a", "p")
    assert {file.name for file in export_build(path, record, tmp_path / "out", NO_FORMS)} == {
        "granola_candidates.parquet", "granola_candidates.csv", "granola_candidates.jsonl", "rejects.parquet",
        "build.md",
    }  # fmt: skip
    with open_warehouse(path) as db:
        db.execute("UPDATE granola_candidates SET name = 'forged'")
    with pytest.raises(WarehouseError, match=r"granola_candidates of granola-.* --force"):
        export_build(path, record, tmp_path / "again", NO_FORMS)


SCRIPTS = {"x/write": "1"}


@pytest.mark.parametrize(
    ("scripted", "services", "is_cautious"),
    [
        (SCRIPTS, EMBEDDED, False),
        (SCRIPTS, EMBEDDED | {"wikidata": "graph-1"}, True),
        (SCRIPTS, EMBEDDED | {"wikipedia": "https://en.wikipedia.org"}, True),
        (None, REAL, False),
    ],
)
def test_rows_from_scripted_replies_outside_their_world_carry_warning(
    scripted: dict[str, str] | None, services: dict[str, str], is_cautious: bool
) -> None:
    assert (
        "not for use"
        in format_scripted_rows_use_restriction(
            {"scripted": scripted, "author": "scripted replies", "services": services}
        )
    ) == is_cautious


def test_export_states_use_restrictions_of_its_rows(tmp_path: Path) -> None:
    for name, services, is_cautious in (("sound", EMBEDDED, False), ("shown", REAL, True)):
        record = make(tmp_path / "w.duckdb", name, "p", scripted=SCRIPTS, author="scripted replies", services=services)
        export_build(tmp_path / "w.duckdb", record, tmp_path / name, NO_FORMS)
        result = (tmp_path / name / "build.md").read_text("utf-8")
        assert result.startswith(f"# {record.build_id}\n\n1 rows by scripted replies in world w, published ")
        assert ("not for use" in result) == is_cautious


def test_rejects_of_unpublished_run_are_found_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "w.duckdb"
    record = make(path, "a", "p")
    with open_warehouse(path) as db:
        write_finished_stage_records(
            db, f"{record.build_id}-unfinished", 1, [make_receipt(tmp_path / "shard-a", rows_in=2, rejects=1)], SUMMARY
        )
    assert resolve_build_id_and_reject_count(path, f"{record.build_id}-unfinished") == (
        f"{record.build_id}-unfinished",
        1,
    )
    assert (
        resolve_build_id_and_reject_count(path, record.build_id)
        == resolve_build_id_and_reject_count(path, "latest:granola")
        == (record.build_id, 1)
    )
    with pytest.raises(UnknownBuild, match="no build 'other-unfinished'"):
        resolve_build_id_and_reject_count(path, "other-unfinished")


@pytest.mark.parametrize(
    ("status", "operation", "reason", "is_spoilt"),
    [
        ("failed", "find_items", "odd", True),
        ("ok", "chat", "odd", False),
        ("ok", "chat", "cut_off", True),
        ("ok", "find_items", "cut_off", False),
    ],
)
def test_retry_covers_failed_calls_and_model_calls_of_rows_lost_to_given_reason(
    tmp_path: Path, status: str, operation: str, reason: str, is_spoilt: bool
) -> None:
    path = tmp_path / "w.duckdb"
    record = make(path, "a", "p")
    with open_warehouse(path) as db:
        db.execute("UPDATE rejects SET reason = ?", [reason])
        db.execute(
            "INSERT INTO calls (record_id, key, service, operation, parts, status, error, transient, body, "
            "tokens_in, tokens_out, cost_usd, latency_s, asked_at) "
            "VALUES ('1', 'k', 's', ?, '{}', ?, '', false, 'null', 0, 0, 0, 0, ?)",
            [operation, status, NOW],
        )
        assert list_failed_and_rejected_calls_to_retry(db, record.build_id, ["cut_off"]) == (
            [("s", "1")] if is_spoilt else []
        )


def test_csv_spreads_granola_answers_and_joins_other_lists() -> None:
    table = pa.table(
        {
            "id": ["a", "b"],
            "granola_answers": [["x, y", 'z "q"'], ["x"]],
            "tags": [["1", "2"], None],
            "n": pa.array([None, 3], pa.int64()),
        }
    )
    assert csv_bytes(table, BenchmarkExportFormat(spread_columns={"granola_answers": "granola_answer_"})).decode() == (
        'id,granola_answer_1,granola_answer_2,tags,n\na,"x, y","z ""q""",1<SEP>2,\nb,x,,,3\n'
    )


def test_csv_uses_ids_and_separators_of_paper_where_benchmark_defines_them() -> None:
    table = pa.table({"path_id": ["q_0"], "id": ["q_0_deu"], "trip": [["a", "b"]], "tags": [["1", "2"]]})
    forms = BenchmarkExportFormat(separators={"trip": "; "}, csv_id_column="path_id")
    assert csv_bytes(table, forms).decode() == "id,trip,tags\nq_0,a; b,1<SEP>2\n"


def test_json_strings_are_exported_as_objects() -> None:
    table = pa.table({"id": ["a", "b"], "answer": ['{"Graz": 3.5, "Linz": [true]}', None], "text": ["[1]", "x"]})
    rows = [
        {"id": "a", "answer": {"Graz": 3.5, "Linz": [True]}, "text": "[1]"},
        {"id": "b", "answer": None, "text": "x"},
    ]
    lines = jsonl_bytes(table, ["answer"]).decode().splitlines()
    assert [json.loads(line) for line in lines] == json.loads(json_bytes(table, ["answer"])) == rows
    assert json.loads(jsonl_bytes(table).decode().splitlines()[0])["answer"] == '{"Graz": 3.5, "Linz": [true]}'


def test_tables_with_answers_of_test_split_can_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "w.duckdb"
    record = make(path, "a", "p")
    assert {file.name for file in export_build(path, record, tmp_path / "out", NO_FORMS, ["granola_candidates"])} == {
        "rejects.parquet",
        "build.md",
    }


def test_empty_table_is_exported_with_header() -> None:
    header = csv_bytes(arrow_schema(NameBearingItemCandidateRow).empty_table(), NO_FORMS).decode()
    assert header == "id,row_id,role,name,qid,via,chosen,linked\n"


def test_share_of_planted_faults_names_what_it_counts() -> None:
    assert format_faulty_scripted_reply_shares({"slaq/check": {"faults": 9, "replies": 542}}) == (
        "deliberately planted faults among the replies: slaq/check 9 of 542 replies (1.7 %)"
    )
