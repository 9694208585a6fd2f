"""Labels of people and cards of judges in the warehouse; they belong to no build."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from tasks.core.evaluation.judge_cards import JudgeCard
from tasks.core.evaluation.label_files import Label
from tasks.core.evaluation.labels import DrawnItem
from tasks.core.fingerprints import canonical_json
from tasks.storage.warehouse import Connection, read_model, read_records

_ITEM = tuple(DrawnItem.model_fields)


def save_items(db: Connection, items: Iterable[DrawnItem]) -> None:
    """Keep what was drawn; the same draw again changes nothing."""
    marks = ", ".join("?" for _ in _ITEM)
    for item in items:
        db.execute(
            f"INSERT OR REPLACE INTO label_items ({', '.join(_ITEM)}) VALUES ({marks})",
            [getattr(item, name) for name in _ITEM],
        )


def find_items(db: Connection, ids: Sequence[str]) -> dict[str, DrawnItem]:
    """Return drawn items by id, those that there are."""
    query = f"SELECT {', '.join(_ITEM)} FROM label_items WHERE id IN (SELECT unnest(?)) ORDER BY id"
    return {row["id"]: DrawnItem.model_validate(row) for row in read_records(db, query, list(ids))}


def find_draw(db: Connection, draw: str) -> list[str]:
    """Return the ids of the items of a draw."""
    return [item for (item,) in db.execute("SELECT id FROM label_items WHERE draw = ? ORDER BY id", [draw]).fetchall()]


def save_labels(db: Connection, labels: Sequence[Label], file_digest: str) -> int:
    """Keep labels; each takes the place of an earlier one by the same person, and those that it changes are counted."""
    changed = 0
    now = datetime.now(UTC)
    for label in labels:
        before = db.execute(
            "SELECT label FROM labels WHERE item = ? AND labeller = ?", [label.item, label.labeller]
        ).fetchone()
        changed += before is not None and before[0] != label.label
        db.execute(
            "INSERT OR REPLACE INTO labels VALUES (?, ?, ?, ?, ?, ?)",
            [label.item, label.labeller, label.label, label.note, file_digest, now],
        )
    return changed


def load_labels(db: Connection, items: Sequence[str] | None = None) -> dict[str, dict[str, str]]:
    """Return item → labeller → label: of these items, or of all."""
    found: dict[str, dict[str, str]] = {}
    wanted = "" if items is None else "WHERE item IN (SELECT unnest(?))"
    query = f"SELECT item, labeller, label FROM labels {wanted} ORDER BY item, labeller"
    for item, labeller, label in db.execute(query, [] if items is None else [list(items)]).fetchall():
        found.setdefault(item, {})[labeller] = label
    return found


def save_card(db: Connection, card: JudgeCard) -> None:
    """Keep a judge's card; it takes the place of an earlier one of the same judge and labels."""
    identity = card.identity
    values = [card.id, identity.benchmark, identity.judge, identity.prompt_digest, card.labels_digest]
    db.execute(
        "INSERT OR REPLACE INTO judge_cards VALUES (?, ?, ?, ?, ?, ?)", [*values, canonical_json(card.model_dump())]
    )


def find_cards(db: Connection, benchmark: str, judge: str) -> list[JudgeCard]:
    """Return the cards of a judge on a benchmark, with whatever prompts, by id."""
    query = "SELECT id, card FROM judge_cards WHERE benchmark = ? AND judge = ? ORDER BY id"
    found = db.execute(query, [benchmark, judge]).fetchall()
    return [read_model(JudgeCard, card, f"judge_cards.card of {card_id}") for card_id, card in found]
