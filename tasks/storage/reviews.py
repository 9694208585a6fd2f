"""Human judgments in the warehouse: decisions on flagged rows, audit verdicts, labels, and judge cards computed from labels.

A build publishes its review queue as the table `<benchmark>_review`. Decisions belong to no build: they are imported once
and enter the manifest of every later build of the benchmark.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from factmill.tasks.core.evaluation.judge_cards import JudgeCard
from factmill.tasks.core.evaluation.labels import DrawnItem, Label
from factmill.tasks.core.fingerprints import canonical_json
from factmill.tasks.core.measures.audits import Verdict
from factmill.tasks.core.review import Policy, Reviewing, ReviewItem
from factmill.tasks.errors import UsageError
from factmill.tasks.options import RunOptions, warehouse_of
from factmill.tasks.storage.builds import BuildRecord, find_build, published_names, published_table
from factmill.tasks.storage.warehouse import Connection, is_there, open_warehouse, read_json, read_model, read_records


def read_queue_of(warehouse: Path, build: BuildRecord) -> list[ReviewItem]:
    """Return the review queue of a build, sorted by id; UsageError if the benchmark has none."""
    table = f"{build.benchmark}_review"
    with open_warehouse(warehouse) as db:
        if table not in published_names(db, build.build_id):
            raise UsageError(f"{build.build_id} has no review queue: {build.benchmark} flags nothing")
        return [ReviewItem.model_validate(row) for row in published_table(db, build.build_id, table).to_pylist()]


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
    if not is_there(warehouse):
        return []
    query = "SELECT id, item FROM review_decisions WHERE benchmark = ? ORDER BY id"
    with open_warehouse(warehouse) as db:
        found = db.execute(query, [benchmark]).fetchall()
    return [read_model(ReviewItem, item, f"review_decisions.item of {item_id}") for item_id, item in found]


def open_review(benchmark: str, policy: Policy, run: RunOptions) -> Reviewing:
    """Return policy and decisions for a build's flagged rows: those imported so far, or those of the pinned build."""
    warehouse = warehouse_of(run)
    if run.pinned_build:
        return Reviewing.model_validate(find_build(warehouse, run.pinned_build).lock["params"]["reviewing"])
    decisions = (item.model_copy(update={"file": "", "line": 0}) for item in load_decisions(warehouse, benchmark))
    return Reviewing(policy="auto" if policy == "auto" else "manual", decisions=tuple(decisions))


def save_verdicts(db: duckdb.DuckDBPyConnection, build_id: str, verdicts: Sequence[Verdict]) -> None:
    """Store verdicts on rows of a build; each replaces an earlier one on its row."""
    for each in verdicts:
        values = [build_id, each.row_id, canonical_json(each.marks), each.reviewer, each.note, datetime.now(UTC)]
        db.execute("INSERT OR REPLACE INTO audit_verdicts VALUES (?, ?, ?, ?, ?, ?)", values)


def load_verdicts(db: duckdb.DuckDBPyConnection, build_id: str) -> dict[str, Verdict]:
    """Return row id → verdict of a build, sorted by row id."""
    query = "SELECT row_id, marks, reviewer, note FROM audit_verdicts WHERE build_id = ? ORDER BY row_id"
    found = {row["row_id"]: row for row in read_records(db, query, build_id)}
    for row_id, row in found.items():
        row["marks"] = read_json(row["marks"], f"audit_verdicts.marks of {build_id}, row {row_id}", dict)
    return {row_id: Verdict(**row) for row_id, row in found.items()}


_ITEM = tuple(DrawnItem.model_fields)


def save_items(db: Connection, items: Iterable[DrawnItem]) -> None:
    """Store the drawn items; storing the same draw again changes nothing."""
    query = f"INSERT OR REPLACE INTO label_items ({', '.join(_ITEM)}) VALUES ({', '.join('?' for _ in _ITEM)})"
    for item in items:
        db.execute(query, [getattr(item, name) for name in _ITEM])


def find_items(db: Connection, ids: Sequence[str]) -> dict[str, DrawnItem]:
    """Return id → drawn item, for those that exist."""
    query = f"SELECT {', '.join(_ITEM)} FROM label_items WHERE id IN (SELECT unnest(?)) ORDER BY id"
    return {row["id"]: DrawnItem.model_validate(row) for row in read_records(db, query, list(ids))}


def find_draw(db: Connection, draw: str) -> list[str]:
    """Return the ids of the items of a draw."""
    return [item for (item,) in db.execute("SELECT id FROM label_items WHERE draw = ? ORDER BY id", [draw]).fetchall()]


def save_labels(db: Connection, labels: Sequence[Label], file_digest: str) -> int:
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


def save_card(db: Connection, card: JudgeCard) -> None:
    """Store a judge's card, replacing an earlier one of the same judge and labels."""
    identity = card.identity
    values = [card.id, identity.benchmark, identity.judge, identity.prompt_digest, card.labels_digest]
    db.execute(
        "INSERT OR REPLACE INTO judge_cards VALUES (?, ?, ?, ?, ?, ?)", [*values, canonical_json(card.model_dump())]
    )


def find_cards(db: Connection, benchmark: str, judge: str) -> list[JudgeCard]:
    """Return the cards of a judge on a benchmark, for all its prompts, sorted by id."""
    query = "SELECT id, card FROM judge_cards WHERE benchmark = ? AND judge = ? ORDER BY id"
    found = db.execute(query, [benchmark, judge]).fetchall()
    return [read_model(JudgeCard, card, f"judge_cards.card of {card_id}") for card_id, card in found]
