"""Rebuild a benchmark daily for a month in a world whose epoch advances and whose Wikidata changes.

    python bench trials.months.month [--days 30] [--seed 1] [--limit 60] [--max-age 7d]

Between rebuilds, cached responses age by a day. Each rebuild must request what is too old or new, and nothing else.
A final rebuild without cached responses must publish the same tables as a build in a new warehouse. Prints a line
per day; exits 1 on any problem. `month_served` runs the month as a served schedule.
"""

import json
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scripts import read_options
from trials.months.month_asked import count_asked
from trials.months.month_chat import MonthChat
from trials.months.month_world import MODEL, SOURCE, ChangingWorld, day_of, describe_world
from trials.trial import Trial

from factmill.tasks.processes import find_free_port
from factmill.tasks.storage.warehouse import open_warehouse
from factmill.tasks.text.durations import parse_validated_duration
from factmill.tasks.world.serving import running_world

_SERVICES = ("wikidata", "wikipedia", "pageviews")


class Month:
    """The rebuilds in one warehouse."""

    def __init__(self, trial: Trial, seed: int, limit: int, max_age: str) -> None:
        self.trial = trial
        self.warehouse = trial.folder / "month.duckdb"
        self.options = ["--source", str(SOURCE), "--limit", str(limit), "--json"]
        self.max_age = max_age
        self.world = ChangingWorld(trial.folder / "world", seed)
        self.port = find_free_port()
        self.chat = MonthChat()
        self.urls: dict[str, str] = {}
        self.wrong: list[str] = []
        self._newest = ""
        self._ever = set[str]()

    def rebuild(self, day: int, max_age: str, warehouse: Path) -> dict[str, Any]:
        """Build the world of a day; return the report."""
        path = self.trial.folder / "month.toml"
        with running_world(self.trial.home, self.world.folder, self.port) as running:
            self.urls = {name: running.endpoints[name] for name in _SERVICES}
            path.write_text(describe_world(day_of(day), self.urls) + MODEL.format(url=self.chat.url), "utf-8")
            command = ["build", "granola", *self.options, "--world", str(path), "--max-age", max_age]
            code, out, err = self.trial.tell(f"day-{day}", [*command, "--warehouse", str(warehouse)])
        if code:
            sys.exit(f"day {day} ends with {code}: {err[-2000:]}")
        report: dict[str, Any] = json.loads(out.splitlines()[-1])
        return report

    def live(self, day: int) -> None:
        """Advance one day: age the cached responses, change the world, rebuild and check."""
        if day:
            self.world.change(day)
            with open_warehouse(self.warehouse) as db:
                db.execute("UPDATE calls SET asked_at = asked_at - to_days(1)")
        begun = datetime.now(UTC).isoformat()
        report = self.rebuild(day, self.max_age, self.warehouse)
        ages_s = dict.fromkeys(self.urls.values(), parse_validated_duration(self.max_age))
        asked, self._newest = count_asked(self.warehouse, self._newest, ages_s, begun, self._ever)
        size = self.warehouse.stat().st_size
        print(
            f"day {day:2}: {report['rows']:3} rows, {report['calls_sent']:5} calls sent, {report['calls_replayed']:5} "
            f"replayed; {asked.too_old} were too old, {len(asked.new)} new, {asked.needless} needless, {asked.stale} too old "
            f"served; {size / 1e6:6.2f} MB{', confirmed' if report['confirmed'] else ''}",
            flush=True,
        )
        if asked.needless or asked.stale or asked.failed or asked.total != report["calls_sent"]:
            self.wrong.append(f"day {day}: {report['calls_sent']} are said to be sent; {asked}")

    def end(self, day: int) -> None:
        """Rebuild without cached responses and compare with a build in a new warehouse."""
        rebuilt = self.rebuild(day, "0s", self.warehouse)["tables"]
        fresh = self.rebuild(day, "0s", self.trial.folder / "fresh.duckdb")["tables"]
        if rebuilt != fresh:
            self.wrong.append("a rebuild that sends all calls again makes other tables than a new warehouse")


def live_a_month(trial: Trial, days: int, seed: int, limit: int, max_age: str) -> list[str]:
    """Rebuild day by day; return the problems."""
    month = Month(trial, seed, limit, max_age)
    try:
        for day in range(days):
            month.live(day)
        month.end(days - 1)
    finally:
        month.chat.close()
    return month.wrong


def main() -> int:
    """Run the month and print the problems."""
    given = read_options(__doc__, days=30, seed=1, limit=60, max_age="7d")
    with tempfile.TemporaryDirectory() as folder:
        wrong = live_a_month(Trial(Path(folder)), given.days, given.seed, given.limit, given.max_age)
    print("\n".join(wrong) or "all as it has to be")
    return 1 if wrong else 0
