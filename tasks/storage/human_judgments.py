"""Human judgments in the warehouse: decisions on flagged rows, audit verdicts, labels, and judge cards computed from labels.

A build publishes its review queue as the table `<benchmark>_review`. Decisions belong to no build: they are imported once
and enter the manifest of every later build of the benchmark.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from factmill.tasks.core.digests import canonical_json
from factmill.tasks.core.evaluation.human_labels import HumanLabel, ItemToLabel
from factmill.tasks.core.evaluation.judge_cards import JudgeCard
from factmill.tasks.core.measures.audits import AuditMarksOfRow
from factmill.tasks.core.review import ReviewItem, ReviewPolicy, ReviewPolicyAndDecisions
from factmill.tasks.errors import UsageError
from factmill.tasks.options import RunOptions, resolve_warehouse_path
from factmill.tasks.storage.builds import BuildRecord, load_published_table, load_table_digests, resolve_build
from factmill.tasks.storage.warehouse import (
    Connection,
    open_warehouse,
    parse_json_column,
    parse_model_column,
    query_rows,
    warehouse_exists,
)


def load_review_queue(warehouse: Path, build: BuildRecord) -> list[ReviewItem]:
    """Return the review queue of a build, sorted by id; UsageError if the benchmark has none."""
    table = f"{build.benchmark}_review"
    with open_warehouse(warehouse) as db:
        if table not in load_table_digests(db, build.build_id):
            raise UsageError(f"{build.build_id} has no review queue: {build.benchmark} flags nothing")
        return [ReviewItem.model_validate(row) for row in load_published_table(db, build.build_id, table).to_pylist()]


def save_decisions(warehouse: Path, items: Sequence[ReviewItem]) -> int:
    """Store the decided items, replacing earlier decisions; return their number. Open items are skipped."""
    decided = [item for item in items if item.decision != "open"]
    with open_warehouse(warehouse) as db:
        for item in decided:
            values = [item.id, item.benchmark, json.dumps(item.model_dump(mode="json")), datetime.now(UTC)]
            db.execute("INSERT OR REPLACE INTO review_decisions VALUES (?, ?, ?, ?)", values)
    return len(decided)


def load_decisions(warehouse: Path, benchmark: str) -> list[ReviewItem]:
    """Return all decisions about rows of a benchmark, sorted by id."""
    if not warehouse_exists(warehouse):
        return []
    query = "SELECT id, item FROM review_decisions WHERE benchmark = ? ORDER BY id"
    with open_warehouse(warehouse) as db:
        found = db.execute(query, [benchmark]).fetchall()
    return [parse_model_column(ReviewItem, item, f"review_decisions.item of {item_id}") for item_id, item in found]


def load_review_inputs(benchmark: str, policy: ReviewPolicy, run: RunOptions) -> ReviewPolicyAndDecisions:
    """Return policy and decisions for a build's flagged rows: those imported so far, or those of the pinned build."""
    warehouse = resolve_warehouse_path(run)
    if run.pinned_build:
        return ReviewPolicyAndDecisions.model_validate(
            resolve_build(warehouse, run.pinned_build).lock["params"]["reviewing"]
        )
    decisions = (item.model_copy(update={"file": "", "line": 0}) for item in load_decisions(warehouse, benchmark))
    return ReviewPolicyAndDecisions(policy="auto" if policy == "auto" else "manual", decisions=tuple(decisions))


def save_audit_verdicts(db: duckdb.DuckDBPyConnection, build_id: str, verdicts: Sequence[AuditMarksOfRow]) -> None:
    """Store verdicts on rows of a build; each replaces an earlier one on its row."""
    for each in verdicts:
        values = [build_id, each.row_id, canonical_json(each.marks), each.reviewer, each.note, datetime.now(UTC)]
        db.execute("INSERT OR REPLACE INTO audit_verdicts VALUES (?, ?, ?, ?, ?, ?)", values)


def load_audit_verdicts_by_row_id(db: duckdb.DuckDBPyConnection, build_id: str) -> dict[str, AuditMarksOfRow]:
    """Return row id → verdict of a build, sorted by row id."""
    query = "SELECT row_id, marks, reviewer, note FROM audit_verdicts WHERE build_id = ? ORDER BY row_id"
    found = {row["row_id"]: row for row in query_rows(db, query, build_id)}
    for row_id, row in found.items():
        row["marks"] = parse_json_column(row["marks"], f"audit_verdicts.marks of {build_id}, row {row_id}", dict)
    return {row_id: AuditMarksOfRow(**row) for row_id, row in found.items()}


_LABEL_ITEM_COLUMNS = tuple(ItemToLabel.model_fields)


def save_label_items(db: Connection, items: Iterable[ItemToLabel]) -> None:
    """Store the drawn items; storing the same draw again changes nothing."""
    query = f"INSERT OR REPLACE INTO label_items ({', '.join(_LABEL_ITEM_COLUMNS)}) VALUES ({', '.join('?' for _ in _LABEL_ITEM_COLUMNS)})"
    for item in items:
        db.execute(query, [getattr(item, name) for name in _LABEL_ITEM_COLUMNS])


def load_label_items(db: Connection, ids: Sequence[str]) -> dict[str, ItemToLabel]:
    """Return id → drawn item, for those that exist."""
    query = f"SELECT {', '.join(_LABEL_ITEM_COLUMNS)} FROM label_items WHERE id IN (SELECT unnest(?)) ORDER BY id"
    return {row["id"]: ItemToLabel.model_validate(row) for row in query_rows(db, query, list(ids))}


def list_label_draw_item_ids(db: Connection, draw: str) -> list[str]:
    """Return the ids of the items of a draw."""
    return [item for (item,) in db.execute("SELECT id FROM label_items WHERE draw = ? ORDER BY id", [draw]).fetchall()]


def save_labels_and_count_changed(db: Connection, labels: Sequence[HumanLabel], file_digest: str) -> int:
    """Store labels, replacing earlier ones by the same person; return how many labels changed."""
    changed, now = 0, datetime.now(UTC)
    query = "SELECT label FROM labels WHERE item = ? AND labeller = ?"
    for each in labels:
        before = db.execute(query, [each.item, each.labeller]).fetchone()
        changed += before is not None and before[0] != each.label
        values = [each.item, each.labeller, each.label, each.note, file_digest, now]
        db.execute("INSERT OR REPLACE INTO labels VALUES (?, ?, ?, ?, ?, ?)", values)
    return changed


def load_labels(db: Connection, items: Sequence[str] | None = None) -> dict[str, dict[str, str]]:
    """Return item → labeller → label, of these items or of all."""
    found: dict[str, dict[str, str]] = {}
    wanted = "" if items is None else "WHERE item IN (SELECT unnest(?))"
    query = f"SELECT item, labeller, label FROM labels {wanted} ORDER BY item, labeller"
    for item, labeller, label in db.execute(query, [] if items is None else [list(items)]).fetchall():
        found.setdefault(item, {})[labeller] = label
    return found


def save_judge_card(db: Connection, card: JudgeCard) -> None:
    """Store a judge's card, replacing an earlier one of the same judge and labels."""
    identity = card.identity
    values = [card.id, identity.benchmark, identity.judge, identity.prompt_digest, card.labels_digest]
    db.execute(
        "INSERT OR REPLACE INTO judge_cards VALUES (?, ?, ?, ?, ?, ?)", [*values, canonical_json(card.model_dump())]
    )


def load_judge_cards(db: Connection, benchmark: str, judge: str) -> list[JudgeCard]:
    """Return the cards of a judge on a benchmark, for all its prompts, sorted by id."""
    query = "SELECT id, card FROM judge_cards WHERE benchmark = ? AND judge = ? ORDER BY id"
    found = db.execute(query, [benchmark, judge]).fetchall()
    return [parse_model_column(JudgeCard, card, f"judge_cards.card of {card_id}") for card_id, card in found]
