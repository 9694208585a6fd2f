"""A copy of the embedded world that changes daily, for trials: Wikidata's people and the revisions of pages.

Each day a seeded plan renames, redescribes or restores some of the people in the questions. SLAQ's articles, and new
pages about gauges, have revisions dated over the whole month from the start. A build of one day must see only the
revisions up to that day.
"""

import json
import random
import re
import shutil
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.world.data import WORLD_FOLDER

BEGIN = date(2025, 12, 1)
SOURCE = ASSETS_ROOT / "data" / "world" / "sources" / "entityquestions" / "P19.json"
GAUGES = 10
"""Number of pages whose figure changes once in the month, each on a different day; one question covers them all."""
MODEL = """[models.author]
kind = "openai"
name = "tester"
url = "{url}"
key_env = "TEST_KEY"
[models.judge]
kind = "openai"
name = "tester"
url = "{url}"
key_env = "TEST_KEY"
"""
"""Both models of a world file, at one server's address."""
_LIMITS = "{ parallel = 4, timeout_s = 60, attempts = 4, backoff_s = 0.2, batch = 50 }"
_CHANGES_A_DAY = 4
FIRST_REVID = 8_920_000
"""First id of revisions that the trial adds."""
LOOKED_THROUGH = "This was looked through on day"
"""Text in each revision that the trial adds to an article."""
_PAGEID = 7_920_000
_ASKED = re.compile(r"^Where was (.*) born\?$")


def day_of(number: int) -> date:
    """Return the date of a day of the month, counted from 0."""
    return BEGIN + timedelta(days=number)


def describe_world(epoch: date, urls: Mapping[str, str], max_ages: Mapping[str, str] | None = None) -> str:
    """Return the text of a world file without models; `urls` and `max_ages` are by section."""
    lines = ['name = "month"', 'user_agent = "factmill trials"', f"epoch = {epoch}"]
    for name, url in urls.items():
        lines += [f"[{name}]", f'url = "{url}"', f"limits = {_LIMITS}"]
        lines += [f'max_age = "{max_ages[name]}"'] if max_ages else []
    return "\n".join(lines) + "\n"


class ChangingWorld:
    """The world's files and their changes."""

    def __init__(self, folder: Path, seed: int, changes: int = _CHANGES_A_DAY) -> None:
        self.folder = folder
        shutil.copytree(WORLD_FOLDER, folder)
        self._changes = changes
        self._draw = random.Random(seed)
        self._plain = {path: path.read_text("utf-8") for path in sorted(folder.glob("entities/*.yaml"))}
        questions = [each["question"] for each in json.loads(SOURCE.read_text("utf-8"))]
        asked = "|".join(re.escape(found[1]) for each in questions if (found := _ASKED.match(each)))
        of_asked = re.compile(rf"^(  label: (?:{asked})(?: /.*)?)\n(  is: .*)$", re.M)
        pairs = [(path, both) for path, text in self._plain.items() for both in of_asked.findall(text)]
        self._people = {_value(label): (label, described) for _, (label, described) in pairs}
        self._lines = [(path, line) for path, both in pairs for line in both]
        self._changed: dict[tuple[Path, str], str] = {}
        self.history = [self._tell()]
        """Day → person's original name → current label and description."""

    def change(self, today: int) -> None:
        """Change some lines, and restore some of those changed earlier."""
        for each in self._draw.sample(sorted(self._changed), len(self._changed) // 4):
            del self._changed[each]
        for path, line in self._draw.sample(self._lines, self._changes):
            name, slash, rest = line.partition(" /")
            self._changed[path, line] = f"{name} of day {today}{slash}{rest}"
        for path, plain in self._plain.items():
            text = plain
            for (where, line), other in self._changed.items():
                if where == path:
                    text = text.replace(line + "\n", other + "\n", 1)
            path.write_text(text, "utf-8")
        self.history.append(self._tell())

    def _tell(self) -> dict[str, tuple[str, str]]:
        changed = {line: other for (_, line), other in self._changed.items()}
        return {
            name: (_value(changed.get(label, label)), _value(changed.get(described, described)))
            for name, (label, described) in self._people.items()
        }


def rewrite_articles(folder: Path, titles: Collection[str], days: int) -> dict[str, list[tuple[date, int]]]:
    """Give articles a revision at noon every few days of the month.

    Returns title → day and id of all their revisions, the oldest first."""
    known: dict[str, list[tuple[date, int]]] = {}
    next_revid = FIRST_REVID
    for number, path in enumerate(sorted(folder.glob("articles/*.html"))):
        _, front, text = path.read_text("utf-8").split("---\n", 2)
        result: dict[str, Any] = yaml.safe_load(front)
        heading = re.search(r'^<div class="mw-heading .*</div>$', text, re.M)
        revisions: list[dict[str, Any]] = result["revisions"]
        if result["title"] not in titles or heading is None or revisions[-1]["at"].date() >= BEGIN:
            continue
        before = heading[0]
        for day in range(number % 5, days, 5):
            after = f"{heading[0]}\n<p>{LOOKED_THROUGH} {day} of the month.</p>"
            at = datetime.combine(day_of(day), datetime.min.time(), UTC) + timedelta(hours=12)
            revision = {"revid": next_revid, "at": at, "comment": "looked through", "replace": [[before, after]]}
            revisions.append(revision)
            before, next_revid = after, next_revid + 1
        known[result["title"]] = [(each["at"].date(), each["revid"]) for each in revisions]
        path.write_text(f"---\n{_dump(result)}---\n{text}", "utf-8")
    return known


def add_gauges(folder: Path, days: int) -> tuple[Path, list[int]]:
    """Add pages about gauges, whose reading changes on some day, and a file with a question about them.

    Returns the file and the days."""
    first = {"at": datetime(2020, 1, 1, tzinfo=UTC), "comment": "made"}
    turns = [1 + number * max(days - 2, 1) // GAUGES for number in range(GAUGES)]
    for number, turn in enumerate(turns):
        at = datetime.combine(day_of(turn), datetime.min.time(), UTC) - timedelta(hours=6)
        change = [[_reading(number), _reading(number, 500)]]
        revid = FIRST_REVID + 5_000 + 2 * number
        later = {"revid": revid + 1, "at": at, "comment": "read again", "replace": change}
        result = {"title": f"Gauge {number} of the month", "pageid": _PAGEID + number, "views": 1}
        page = {**result, "revisions": [{"revid": revid, **first}, later]}
        text = f"<p>A gauge of the trials. {_reading(number)}</p>\n"
        (folder / "articles" / f"gauge_{number}.html").write_text(f"---\n{_dump(page)}---\n{text}", "utf-8")
    source = folder.parent / "gauges.json"
    source.write_text(json.dumps([_ask()]), "utf-8")
    return source, turns


def _ask() -> dict[str, Any]:
    strategy = [
        {
            "question": f"What does gauge {number} of the month read?",
            "evidence": f"https://en.wikipedia.org/wiki/Gauge_{number}_of_the_month",
            "answer": 3000 + number,
        }
        for number in range(GAUGES)
    ]
    return {
        "question": "What do the gauges of the month read, each?",
        "strategy": strategy,
        "answer": [each["answer"] for each in strategy],
    }


def _reading(number: int, more: int = 0) -> str:
    return f"It reads {3000 + more + number}."


def _value(line: str) -> str:
    """Return the English value of a line of an item."""
    return line.partition(": ")[2].partition(" /")[0].strip()


def _dump(messages: dict[str, Any]) -> str:
    revisions = [{**each, "at": each["at"].strftime("%Y-%m-%dT%H:%M:%SZ")} for each in messages["revisions"]]
    text = yaml.safe_dump({**messages, "revisions": revisions}, allow_unicode=True, sort_keys=False, width=10_000)
    return re.sub(r"at: '(\S+)'", r"at: \1", text)
