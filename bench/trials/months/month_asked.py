"""What a rebuild asked, told from what the warehouse has recorded: what was too old, what was never asked, what was needless."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

from trials.months.month_world import FIRST_REVID, LOOKED_THROUGH

from factmill.tasks.core.calls.freshness import get_oldest_usable_response_time
from factmill.tasks.storage.warehouse import open_warehouse

_SENT = re.compile(r"calls: ([\d,]+) sent, ([\d,]+) replayed")


@dataclass
class Asked:
    """Calls of one rebuild."""

    HEADING: ClassVar[str] = "day  asked = too old + new; needless; too old served; replayed;  took"

    too_old: int = 0
    new: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Operation and parts of what was never asked before."""
    needless: int = 0
    stale: int = 0
    """Replies that were served though they were too old."""
    failed: int = 0
    replayed: int = 0

    @property
    def total(self) -> int:
        return self.too_old + len(self.new) + self.needless

    def __str__(self) -> str:
        return (
            f"{self.total:6} = {self.too_old:7} + {len(self.new):3} {self.needless:9} {self.stale:15} {self.replayed:9}"
        )

    def sent_said(self, message: str) -> int:
        """Return how many calls the rebuild's last message says were sent; those replayed are noted down."""
        lines = [(int(sent.replace(",", "")), int(again.replace(",", ""))) for sent, again in _SENT.findall(message)]
        self.replayed = sum(again for _, again in lines)
        return sum(sent for sent, _ in lines)

    def find_wrong(self, day: date, changed: Collection[str], is_first: bool) -> list[str]:
        """Return what should not be; `changed`: words of the people that Wikidata has said other things of."""
        wrong = [] if is_first else [each for each in self.new if not _is_due(*each, day, changed)]
        result = [f"{len(wrong)} new calls that nothing explains, such as {wrong[0]}"] if wrong else []
        counts = {"needless": self.needless, "too old and served": self.stale, "failed": self.failed}
        return result + [f"{count} {what}" for what, count in counts.items() if count]

    @staticmethod
    def read_newest(warehouse: Path) -> str:
        """Return the id of the newest record."""
        with open_warehouse(warehouse) as db:
            return str((db.execute("SELECT max(record_id) FROM calls").fetchone() or ("",))[0])


def count_asked(
    warehouse: Path, newest: str, ages_s: Mapping[str, float], begun: str, ever: set[str]
) -> tuple[Asked, str]:
    """Return what was recorded behind a record, and the newest one now; `ages_s`: service → how old its replies may be,
    `begun`: when the rebuild began, `ever`: keys of what was ever asked, to which these are added.

    What was asked once and is recorded no more was too old for any build when `gc` removed it.
    """
    with open_warehouse(warehouse) as db:
        recorded = db.execute(
            "SELECT n.key, n.service, n.operation, n.parts, n.asked_at, n.status, max(o.asked_at) FROM calls n LEFT JOIN calls o "
            "ON o.key = n.key AND o.record_id <= ? AND o.status = 'ok' WHERE n.record_id > ? GROUP BY ALL",
            [newest, newest],
        ).fetchall()
        used = db.execute(
            "SELECT DISTINCT service, operation, parts, asked_at FROM calls JOIN build_calls USING (record_id) "
            "JOIN builds USING (build_id) WHERE published_at >= ?",
            [_read_moment(begun)],
        ).fetchall()
    asked = Asked()
    for key, service, operation, parts, asked_at, status, before in recorded:
        asked.failed += status != "ok"
        if before is None and key in ever:
            asked.too_old += 1
        elif before is None:
            asked.new.append((operation, json.loads(parts)))
        elif before >= _find_limit(service, operation, parts, asked_at, ages_s):
            asked.needless += 1
        else:
            asked.too_old += 1
    ever.update(key for key, *_ in recorded)
    asked.stale = sum(
        asked_at < _find_limit(service, operation, parts, _read_moment(begun), ages_s)
        for service, operation, parts, asked_at in used
    )
    return asked, Asked.read_newest(warehouse)


def _find_limit(service: str, operation: str, parts: str, now: datetime, ages_s: Mapping[str, float]) -> datetime:
    """Return how old a reply may be; what no age is given for serves for ever."""
    if service not in ages_s:
        return datetime.min.replace(tzinfo=UTC)
    return get_oldest_usable_response_time(operation, json.loads(parts), now - timedelta(seconds=ages_s[service]))


def _is_due(operation: str, parts: Mapping[str, Any], day: date, changed: Collection[str]) -> bool:
    """True for what an epoch that moved, a page that was rewritten or a person that is told otherwise gives cause to ask."""
    text = json.dumps(parts, ensure_ascii=False)
    if operation == "page_revision_at":
        return str(parts["at"]).startswith(day.isoformat())
    if operation == "pageviews":
        return str(parts["end"]) == (day - timedelta(days=1)).strftime("%Y%m%d")
    if operation == "page_text":
        return int(parts["revid"]) >= FIRST_REVID
    return (operation == "chat" and LOOKED_THROUGH in text) or any(word in text for word in changed)


def _read_moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
