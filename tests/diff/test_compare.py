"""Test comparison of two builds' rows in a warehouse: equal rows, compared columns, withheld values."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.builds.built import add_call
from support.builds.changes import HOSTILE, LOCK
from support.builds.published import publish_rows
from support.rows.slaq_answers import judged_rows

from factmill.flows.evaluate.evaluations import EVALUATIONS
from factmill.tasks.core.rows import arrow_schema
from factmill.tasks.diff.compare import compare_builds
from factmill.tasks.diff.core.changes import BuildDiff
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.errors import UsageError
from factmill.tasks.fanoutqa.benchmark import FANOUTQA
from factmill.tasks.granola.benchmark import GRANOLA
from factmill.tasks.multihal.benchmark import MULTIHAL
from factmill.tasks.slaq.evaluation.definition import SLAQ_EVALUATION
from factmill.tasks.storage.builds import BuildRecord, publish_build_tables
from factmill.tasks.storage.warehouse import open_warehouse

Row = Mapping[str, Any]


def fill(benchmark: Benchmark, table: str, row: Row) -> dict[str, Any]:
    """Return a table's row with a value in every column that may not be null."""
    plain: dict[Any, Any] = {pa.string(): "x", pa.int64(): 1, pa.float64(): 0.5, pa.bool_(): True}
    schema = arrow_schema(benchmark.tables[table])
    return {each.name: None if each.nullable else plain.get(each.type, []) for each in schema} | dict(row)


def make_build(warehouse: Path, benchmark: Benchmark, code: str, **tables: Sequence[Row]) -> BuildRecord:
    made = {
        name: pa.Table.from_pylist([fill(benchmark, name, row) for row in rows], arrow_schema(benchmark.tables[name]))
        for name, rows in tables.items()
    }
    lock = LOCK | {"code": code, "benchmark": benchmark.name}
    report = {"rows": made[benchmark.main_table].num_rows, "rejects": 0}
    with open_warehouse(warehouse) as db:
        return publish_build_tables(db, f"run-{code}", benchmark.name, lock, {}, made, report, datetime.now(UTC))


def compare(folder: Path, benchmark: Benchmark, before: Any, after: Any, **more: Any) -> BuildDiff:
    """Compare builds of these tables, which differ in code."""
    builds = [
        make_build(folder / "w.duckdb", benchmark, code, **tables) for code, tables in (("c1", before), ("c2", after))
    ]
    return compare_builds(folder / "w.duckdb", benchmark, builds[0], builds[1], **more)


def tell(diff: BuildDiff) -> list[tuple[str, str, str, tuple[str, ...]]]:
    return [(row.kind, row.id_before, row.id, tuple(each.name for each in row.columns)) for row in diff.rows]


def ask(number: int, **more: Any) -> Row:
    result = {"id": f"P19-{number}", "relation": "P19", "question": f"Where was {number} born?"}
    return result | {"question_entity_qid": f"Q{number}", "source_row": number} | more


def test_row_with_changed_id_is_matched_by_question_item_or_position(tmp_path: Path) -> None:
    """Rows that only moved are unchanged."""
    before = [ask(1), ask(2), ask(3), ask(4, question_entity_qid="Q9"), ask(5)]
    after = [
        ask(1, id="P19-1b", answer="other"),
        ask(2, id="P19-2b", question="In which place was 2 born?"),
        ask(3, source_row=6, author_call="other"),
        ask(4, id="P19-8", question="Where was 8 born?", question_entity_qid="Q8"),
        ask(7),
    ]
    found = compare(tmp_path, GRANOLA, {"granola_eq": before}, {"granola_eq": after})
    assert tell(found) == [
        ("added", "", "P19-7", ()),
        ("removed", "P19-5", "P19-5", ()),
        ("changed", "P19-1", "P19-1b", ("id", "answer")),
        ("changed", "P19-2", "P19-2b", ("id", "question")),
        ("changed", "P19-4", "P19-8", ("id", "question", "question_entity_qid")),
    ]
    assert (found.same, found.remade) == (1, 1)
    assert {row.main_cause.label for row in found.rows} == {"code: steps"}


def test_rows_shifted_by_new_row_are_matched_by_content(tmp_path: Path) -> None:
    """The ids count positions, so they are the only difference."""
    before = [
        {"id": f"a_{n}_0_eng", "question_id": f"a_{n}", "input": f"Who {n}?", "responses": ["Q1"]} for n in range(3)
    ]
    after = [each | {"id": f"a_{n}_0_eng", "question_id": f"a_{n}"} for n, each in enumerate(before, 1)]
    new = {"id": "a_0_0_eng", "question_id": "a_0", "input": "Who is new?", "responses": ["Q1"]}
    found = compare(tmp_path, MULTIHAL, {"multihal": before}, {"multihal": [new, *after]})
    assert tell(found)[0] == ("added", "", "a_0_0_eng", ())
    assert tell(found)[1:] == [("changed", f"a_{n}_0_eng", f"a_{n + 1}_0_eng", ("id", "question_id")) for n in range(3)]


def test_hidden_answers_are_counted_but_not_shown(tmp_path: Path) -> None:
    def tables(answer: str) -> dict[str, list[Row]]:
        return {
            "fanoutqa": [{"id": "q"}],
            "fanoutqa_dev": [{"id": "q", "answer": "1"}],
            "fanoutqa_test_answers": [{"id": "q", "answer": answer}],
        }

    for with_answers, result in ((False, (None, None, True)), (True, ("old", "new", False))):
        found = compare(tmp_path, FANOUTQA, tables("old"), tables("new"), with_answers=with_answers)
        (row,) = found.rows
        (column,) = row.columns
        assert (column.before, column.after, column.withheld) == result
        assert (column.table, column.name) == ("fanoutqa_test_answers", "answer")


def test_columns_missing_in_older_build_are_not_row_changes(tmp_path: Path) -> None:
    older = make_build(tmp_path / "w.duckdb", GRANOLA, "c1", granola_eq=[ask(1), ask(2)])
    newer = make_build(tmp_path / "w.duckdb", GRANOLA, "c2", granola_eq=[ask(1), ask(2, answer="other")])
    with open_warehouse(tmp_path / "w.duckdb") as db:
        db.execute("UPDATE granola_eq SET question_entity_description_made = NULL WHERE build_id = ?", [older.build_id])
    found = compare_builds(tmp_path / "w.duckdb", GRANOLA, older, newer)
    assert tell(found) == [("changed", "P19-2", "P19-2", ("answer",))]
    assert found.new_columns == ["question_entity_description_made"]


def test_hostile_and_long_values_are_compared_like_other_values(tmp_path: Path) -> None:
    old, new = (ask(1, question=HOSTILE, answer="a" * 1_000_000 + end) for end in "xy")
    found = compare(
        tmp_path, GRANOLA, {"granola_eq": [old, ask(2, answer="'; DROP TABLE calls; --")]}, {"granola_eq": [new]}
    )
    assert [each[0] for each in tell(found)] == ["removed", "changed"]


def test_builds_of_different_benchmarks_are_rejected(tmp_path: Path) -> None:
    first = make_build(tmp_path / "w.duckdb", GRANOLA, "c1", granola_eq=[ask(1)])
    other = make_build(tmp_path / "w.duckdb", FANOUTQA, "c1", fanoutqa=[{"id": "q"}])
    with pytest.raises(UsageError, match=f"{first.build_id} and {other.build_id} .*granola, fanoutqa.*factmill show"):
        compare_builds(tmp_path / "w.duckdb", GRANOLA, first, other)


def publish_judged(warehouse: Path, digest: str, verdicts: Sequence[int]) -> BuildRecord:
    """Publish answers to two short questions with the calls of a judge whose prompt has this digest."""
    rows = [row.model_dump() for row in judged_rows("short", [verdicts])]
    prompt = {"prompt": "slaq/judge_short", "prompt_digest": digest, "model": "gpt-9"}
    for row in rows:
        row["judge_call"] = f"{digest} {row['id']}"
    build = publish_rows(
        warehouse, SLAQ_EVALUATION, {"slaq_answers": rows}, prompts={"slaq/judge_short": digest}, lists={"l.txt": "1"}
    )
    with open_warehouse(warehouse) as db:
        for row, verdict in zip(rows, verdicts, strict=True):
            parts = {**prompt, "variables": {"question": row["question_id"]}}
            add_call(db, build, row["id"], parts, {"texts": [f"Verdict: {verdict}"]}, key=row["judge_call"])
    return build


def test_edited_judge_prompt_is_cause_of_changed_verdicts(tmp_path: Path) -> None:
    """An answer with an equal verdict from the edited prompt is unchanged."""
    before = publish_judged(tmp_path / "w.duckdb", "p1", [1, 1])
    after = publish_judged(tmp_path / "w.duckdb", "p2", [1, 0])
    found = compare_builds(tmp_path / "w.duckdb", SLAQ_EVALUATION, before, after)
    assert tell(found) == [("changed", "short/t0/2", "short/t0/2", ("verdicts",))]
    assert [cause.label for cause in found.rows[0].causes] == ["prompt: slaq/judge_short"]
    assert (found.same, found.remade) == (1, 1)


def test_calls_of_every_judge_are_provenance() -> None:
    calls = {
        (name, column)
        for name, evaluation in EVALUATIONS.items()
        for column in evaluation.main_row_model.model_fields
        if column.startswith("judge_call")
    }
    assert {name for name, _ in calls} >= {"biokalma", "fanoutqa", "slaq"}
    assert all(column in EVALUATIONS[name].matching.provenance_columns for name, column in calls)
