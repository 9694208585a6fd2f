"""Classify the calls of a rebuild from the warehouse: too old, new, or needless."""

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
    """Operation and parts of calls sent for the first time."""
    needless: int = 0
    stale: int = 0
    """Cached responses that were used although they were too old."""
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
        """Return the calls sent according to the rebuild's last message; also set `replayed`."""
        lines = [(int(sent.replace(",", "")), int(again.replace(",", ""))) for sent, again in _SENT.findall(message)]
        self.replayed = sum(again for _, again in lines)
        return sum(sent for sent, _ in lines)

    def find_wrong(self, day: date, changed: Collection[str], is_first: bool) -> list[str]:
        """Return the problems; `changed`: words of the people whose Wikidata entries have changed."""
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
    """Return the calls recorded after the record `newest`, and the id of the newest record now.

    `ages_s`: service → maximum age of its responses. `begun`: start time of the rebuild. `ever`: keys of all calls
    ever sent; this function adds the new ones. A call that was sent before but is no longer recorded was too old for
    any build when `gc` removed it.
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
    """Return the oldest usable response time; responses of services without a maximum age never expire."""
    if service not in ages_s:
        return datetime.min.replace(tzinfo=UTC)
    return get_oldest_usable_response_time(operation, json.loads(parts), now - timedelta(seconds=ages_s[service]))


def _is_due(operation: str, parts: Mapping[str, Any], day: date, changed: Collection[str]) -> bool:
    """Return True if a moved epoch, a rewritten page or a changed person explains the call."""
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
