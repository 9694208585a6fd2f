"""A month of schedule: a rebuild a day in a world whose epoch moves and whose Wikidata changes.

    PYTHONPATH=tests python -m trials.month [--days 30] [--seed 1] [--limit 60] [--max-age 7d]

The world is a copy of the embedded one, served on loopback; each day a seeded plan renames, describes anew or restores
some of the people that are asked about. Between two rebuilds what is recorded grows a day older. Each rebuild has to ask what is too old or
was never asked, and nothing else; a rebuild at the end that asks all anew has to leave what a build in a new warehouse
leaves. Prints a line a day; exits 1 when anything is wrong.
"""

import argparse
import json
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb
from support.work.scripted_chat import Message, ScriptedChat
from trials.trial import ROOT, Trial

from tasks.core.calls.lasting import find_oldest
from tasks.processes import free_port
from tasks.storage.warehouse import open_warehouse
from tasks.text.ages import read_age
from tasks.world.data import WORLD_FOLDER
from tasks.world.files.reading import load_world_data
from tasks.world.files.values import ItemValue
from tasks.world.serving import running_world

BEGIN = date(2025, 12, 1)
SOURCE = ROOT / "data" / "world" / "sources" / "entityquestions" / "P19.json"
_CHANGES_A_DAY = 4
_WORLD = """name = "month"
user_agent = "factmill trials"
epoch = {epoch}
[wikidata]
engine = "sparql"
url = "{wikidata}"
limits = {{ parallel = 4, timeout_s = 60, attempts = 4, backoff_s = 0.2, batch = 200 }}
[wikipedia]
url = "{wikipedia}"
limits = {{ parallel = 4, timeout_s = 60, attempts = 4, backoff_s = 0.2, batch = 50 }}
[pageviews]
url = "{pageviews}"
limits = {{ parallel = 8, timeout_s = 60, attempts = 4, backoff_s = 0.2 }}
"""
_MODEL = """[models.{role}]
kind = "openai"
name = "tester"
url = "{url}"
key_env = "TEST_KEY"
limits = {{ parallel = 4, timeout_s = 600, attempts = 2, backoff_s = 0.02 }}
"""


class ChangingWorld:
    """A copy of the embedded world's files, and what becomes of its people day by day."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        shutil.copytree(WORLD_FOLDER, folder)
        self._draw = random.Random(seed)
        self._plain = {path: path.read_text("utf-8") for path in sorted(folder.glob("entities/*.yaml"))}
        asked = "|".join(re.escape(_named(each["question"])) for each in json.loads(SOURCE.read_text("utf-8")))
        of_asked = re.compile(rf"^(  label: (?:{asked})(?: /.*)?)\n(  is: .*)$", re.M)
        self._lines = [
            (path, line) for path, text in self._plain.items() for both in of_asked.findall(text) for line in both
        ]
        self._changed: dict[tuple[Path, str], str] = {}

    def change(self, today: int) -> None:
        """Change some lines, and restore some of those that were changed before."""
        for each in self._draw.sample(sorted(self._changed), len(self._changed) // 4):
            del self._changed[each]
        for path, line in self._draw.sample(self._lines, _CHANGES_A_DAY):
            name, slash, rest = line.partition(" /")
            self._changed[path, line] = f"{name} of day {today}{slash}{rest}"
        for path, plain in self._plain.items():
            text = plain
            for (where, line), other in self._changed.items():
                if where == path:
                    text = text.replace(line + "\n", other + "\n", 1)
            path.write_text(text, "utf-8")


class Month:
    """The rebuilds, in one warehouse."""

    def __init__(self, trial: Trial, seed: int, limit: int, max_age: str) -> None:
        self.trial = trial
        self.warehouse = trial.folder / "month.duckdb"
        self.age_s = read_age(max_age)
        self.options = ["--source", str(SOURCE), "--limit", str(limit), "--json"]
        self.max_age = max_age
        self.world = ChangingWorld(trial.folder / "world", seed)
        self.port = free_port()
        self.answers = _read_answers()
        self.chat = ScriptedChat(self._say)
        self.wrong: list[str] = []

    def rebuild(self, day: int, max_age: str, warehouse: Path) -> dict[str, Any]:
        """Build what the world is on a day; return the report."""
        path = self.trial.folder / "month.toml"
        epoch = BEGIN + timedelta(days=day)
        with running_world(self.trial.home, self.world.folder, self.port) as running:
            models = "".join(_MODEL.format(role=role, url=self.chat.url) for role in ("author", "judge"))
            path.write_text(_WORLD.format(epoch=epoch, **running.endpoints) + models, "utf-8")
            command = ["build", "granola", *self.options, "--world", str(path), "--max-age", max_age]
            code, out, err = self.trial.tell(f"day-{day}", [*command, "--warehouse", str(warehouse)])
        if code:
            sys.exit(f"day {day} ends with {code}: {err[-2000:]}")
        report: dict[str, Any] = json.loads(out.splitlines()[-1])
        return report

    def live(self, day: int) -> None:
        """Let a day pass: what is recorded ages, the world changes, the build is made again and looked at."""
        newest = ""
        if day:
            self.world.change(day)
            with open_warehouse(self.warehouse) as db:
                db.execute("UPDATE calls SET asked_at = asked_at - to_days(1)")
                newest = (db.execute("SELECT max(record_id) FROM calls").fetchone() or ("",))[0]
        report = self.rebuild(day, self.max_age, self.warehouse)
        asked, needless, stale = self._judge(report["build_id"], newest)
        size = self.warehouse.stat().st_size
        print(
            f"day {day:2}: {report['rows']:3} rows, {report['calls_sent']:5} calls sent, {report['calls_replayed']:5} "
            f"replayed, {asked} recorded, {needless} needlessly, {stale} too old served, {size / 1e6:6.2f} MB"
            f"{', confirmed' if report['confirmed'] else ''}",
            flush=True,
        )
        if needless or stale or asked != report["calls_sent"]:
            self.wrong.append(f"day {day}: {asked} asked, {needless} of them needlessly, {stale} too old ones served")

    def end(self, day: int) -> None:
        """Rebuild with everything asked anew and compare with a build in a new warehouse."""
        anew = self.rebuild(day, "0s", self.warehouse)["tables"]
        fresh = self.rebuild(day, "0s", self.trial.folder / "fresh.duckdb")["tables"]
        if anew != fresh:
            self.wrong.append("all asked anew leaves other tables than a new warehouse")
        with duckdb.connect(str(self.warehouse), read_only=True) as db:
            builds = db.execute("SELECT count(*) FROM builds").fetchone()
        print(
            f"at the end: {'the same as' if anew == fresh else 'OTHER than'} a new warehouse; builds {builds}",
            flush=True,
        )

    def _judge(self, build_id: str, newest: str) -> tuple[int, int, int]:
        """Return how many calls were recorded now, of these how many needlessly, and how many too old replies were served."""
        with duckdb.connect(str(self.warehouse), read_only=True) as db:
            new = db.execute(
                "SELECT n.operation, n.parts, n.asked_at, max(o.asked_at) FROM calls n LEFT JOIN calls o "
                "ON o.key = n.key AND o.record_id <= ? AND o.status = 'ok' WHERE n.record_id > ? AND "
                "starts_with(n.service, 'http') GROUP BY ALL",
                [newest, newest],
            ).fetchall()
            used = db.execute(
                "SELECT operation, parts, asked_at, service FROM calls JOIN build_calls USING (record_id) WHERE build_id = ?",
                [build_id],
            ).fetchall()
            (now,) = db.execute("SELECT max(asked_at) FROM calls").fetchone() or (None,)
        limit = now - timedelta(seconds=self.age_s)
        needless = sum(
            before is not None and (operation == "chat" or before >= find_oldest(operation, json.loads(parts), limit))
            for operation, parts, _, before in new
        )
        slack = timedelta(hours=1)
        stale = sum(
            operation != "chat" and asked_at < find_oldest(operation, json.loads(parts), limit) - slack
            for operation, parts, asked_at, _ in used
        )
        return len(new), needless, stale

    def _say(self, messages: Sequence[Message]) -> tuple[int, str]:
        said = "".join(message["content"] for message in messages[-3:])
        place, country = next(levels for question, levels in self.answers.items() if question in said)
        return 200, "Yes." if "<description>" in said else f"1:: {place}\n2:: {country}"


def _named(question: str) -> str:
    return question.removeprefix("Where was ").removesuffix(" born?")


def _read_answers() -> dict[str, tuple[str, str]]:
    """Return question → its answer and the country of that, as the embedded world has it at first."""
    items = load_world_data(WORLD_FOLDER).items
    countries = {
        item.labels["en"]: items[statement.value.qid].labels["en"]
        for item in items.values()
        for statement in item.statements_of("P17")
        if isinstance(statement.value, ItemValue)
    }
    asked = json.loads(SOURCE.read_text("utf-8"))
    return {each["question"]: (each["answers"][0], countries.get(each["answers"][0], "Earth")) for each in asked}


def live_a_month(trial: Trial, days: int, seed: int, limit: int, max_age: str) -> list[str]:
    """Rebuild day by day; return what is wrong."""
    month = Month(trial, seed, limit, max_age)
    try:
        for day in range(days):
            month.live(day)
        month.end(days - 1)
    finally:
        month.chat.close()
    return month.wrong


def main() -> int:
    """Live a month."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("days", 30), ("seed", 1), ("limit", 60)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--max-age", default="7d")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wrong = live_a_month(Trial(Path(folder)), given.days, given.seed, given.limit, given.max_age)
    print("\n".join(wrong) or "all as it has to be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
