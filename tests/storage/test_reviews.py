"""Test reviewers' decisions in the warehouse."""

from pathlib import Path

from factmill.tasks.core.review import ReviewItem, TextEdit, make_review_item
from factmill.tasks.storage.human_judgments import load_decisions, save_decisions


def decide(row_id: str, decision: str, benchmark: str = "slaq", **more: object) -> ReviewItem:
    item = make_review_item(benchmark, row_id, "second_model", "it says so", "what it says")
    return ReviewItem.model_validate(item.model_dump() | {"decision": decision, "reviewer": "Ada"} | more)


def test_newest_decision_about_item_counts_and_undecided_items_are_skipped(tmp_path: Path) -> None:
    warehouse = tmp_path / "a.duckdb"
    edited = decide("a", "edit", edited=[TextEdit(field="LongA", text="line\nand \u201cline\u201d")], note="=1+1")
    assert save_decisions(warehouse, [decide("a", "drop"), decide("b", "open"), decide("c", "keep", "fanoutqa")]) == 2
    assert save_decisions(warehouse, [edited]) == 1
    assert load_decisions(warehouse, "slaq") == [edited]
    assert [item.row_id for item in load_decisions(warehouse, "fanoutqa")] == ["c"]


def test_missing_warehouse_has_no_decisions(tmp_path: Path) -> None:
    assert load_decisions(tmp_path / "none.duckdb", "slaq") == []
