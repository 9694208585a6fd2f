"""A live Wikidata that changes under a benchmark: what is too old is asked again, nothing else, and older builds stay."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Factmill
from support.commands.toy_command import ToyCommand
from support.webs.loopback import Loopback, Seen
from support.webs.wikidata_web import answer_from, open_store, read_query

from tasks.storage.warehouse import open_warehouse

COUNTRIES = ("Germany", "France", "Spain", "Italy")


class ChangingWikidata:
    """Its items have numbers of today's; `held` stops its answers, `down` makes it fail."""

    def __init__(self) -> None:
        self.web = Loopback()
        self.web.handle = self._answer
        self.asked: list[str] = []
        self.down = False
        self.free = threading.Event()
        self.free.set()
        self.number(1)

    def number(self, first: int) -> None:
        """Give the countries the numbers from `first` on."""
        labels = (f'wd:Q{first + at} rdfs:label "{name}"@en' for at, name in enumerate(COUNTRIES))
        self._answer_from = answer_from(open_store("\n".join(labels)))

    def _answer(self, seen: Seen) -> dict[str, Any]:
        query = read_query(seen)
        self.asked += [name for name in COUNTRIES if f'"{name}"' in query]
        answer = {"status": 503, "text": "down"} if self.down else self._answer_from(seen)
        return {**answer, "until": self.free}

    def take_asked(self) -> list[str]:
        """Return what was asked since the last time."""
        asked, self.asked = sorted(set(self.asked)), []
        return asked


@pytest.fixture
def wikidata() -> Iterator[ChangingWikidata]:
    web = ChangingWikidata()
    yield web
    web.free.set()
    web.web.close()


@pytest.fixture
def command(factmill: Factmill, tmp_path: Path) -> Iterator[ToyCommand]:
    toy = ToyCommand(factmill, tmp_path)
    yield toy
    toy.close()


@pytest.fixture
def build(wikidata: ChangingWikidata, tmp_path: Path) -> list[str]:
    """The command that builds, in a world with this Wikidata."""
    (tmp_path / "names.txt").write_text("\n".join(COUNTRIES), "utf-8")
    (tmp_path / "world.toml").write_text(
        f"""name = "changing"\nuser_agent = "tests"\nepoch = 2026-01-01\n[wikidata]\nurl = "{wikidata.web.url}"
limits = {{ parallel = 1, attempts = 1, backoff_s = 0.01, batch = 1 }}\n[models.author]\nkind = "openai"\nname = "not-asked"\nurl = "http://127.0.0.1:9/v1"\n""",
        "utf-8",
    )
    options = ["--world", str(tmp_path / "world.toml"), "--batch-size", "1", "--concurrency", "1", "--json"]
    return ["build", "countries", "--file", str(tmp_path / "names.txt"), *options]


def age(warehouse: Path, days: int, *names: str) -> None:
    """Let the recorded replies about names be so many days older."""
    with open_warehouse(warehouse) as db:
        for name in names:
            db.execute("UPDATE calls SET asked_at = asked_at - to_days(?) WHERE parts LIKE ?", [days, f'%"{name}"%'])


def read(command: ToyCommand, *arguments: str, code: int = 0) -> Any:
    return json.loads(command(*arguments, code=code).out)


def test_each_rebuild_asks_what_is_too_old_and_nothing_else(
    command: ToyCommand, wikidata: ChangingWikidata, build: list[str]
) -> None:
    first = read(command, *build)
    assert wikidata.take_asked() == sorted(COUNTRIES)
    wikidata.number(100)
    age(command.warehouse, 40, "France", "Spain")
    assert read(command, *build)["up_to_date"], "without an age replies serve for ever"
    assert read(command, *build, "--max-age", "50d")["up_to_date"]
    assert wikidata.take_asked() == []

    second = read(command, *build, "--max-age", "30d")
    assert wikidata.take_asked() == ["France", "Spain"]
    assert (second["calls_sent"], second["calls_replayed"], second["confirmed"]) == (2, 2, False)
    assert second["build_id"] == f"{first['build_id']}.2"
    (replies,) = second["replies"].values()
    assert (replies["calls"], replies["asked"], replies["too_old"]) == (4, 2, 0)
    shown = read(command, "show", "countries", "--json")["rows"]
    assert {row["question"].split()[-1].rstrip("?"): row["qid"] for row in shown} == {
        "Germany": "Q1",
        "France": "Q101",
        "Spain": "Q102",
        "Italy": "Q4",
    }
    for each in (first, second):
        assert read(command, "verify", each["build_id"], "--json")["agrees"]
    assert read(command, *build, "--max-age", "30d")["up_to_date"]
    assert wikidata.take_asked() == []

    trace = read(command, "explain", "countries", "c-France", "--build", first["build_id"], "--json")
    assert trace["calls"][0]["age_s"] // 86_400 == 40
    told = command("explain", "countries", "c-France", "--build", first["build_id"]).out
    assert ", 40 days ago (call " in told


def test_a_build_that_comes_out_the_same_is_confirmed_and_no_new_one(
    command: ToyCommand, wikidata: ChangingWikidata, build: list[str]
) -> None:
    first = read(command, *build)
    wikidata.take_asked()
    again = read(command, *build, "--max-age", "0s")
    assert wikidata.take_asked() == sorted(COUNTRIES)
    assert (again["build_id"], again["confirmed"], again["tables"]) == (first["build_id"], True, first["tables"])
    assert len(read(command, "builds", "--json")) == 1
    assert "the same as before: confirmed" in command(*build[:-1], "--max-age", "0s").out


def test_a_world_says_how_old_replies_may_be_and_the_option_comes_before_it(
    command: ToyCommand, wikidata: ChangingWikidata, build: list[str], tmp_path: Path
) -> None:
    locked = read(command, *build)["build_id"]
    world = tmp_path / "world.toml"
    world.write_text(world.read_text("utf-8").replace("[wikidata]", '[wikidata]\nmax_age = "7d"'), "utf-8")
    age(command.warehouse, 8, "Italy")
    wikidata.take_asked()
    assert read(command, *build, "--max-age", "9d")["up_to_date"]
    assert read(command, *build)["build_id"] == locked, "an age is no part of the lock"
    assert wikidata.take_asked() == ["Italy"]


def test_a_killed_rebuild_goes_on_with_the_ages_it_began_with(
    command: ToyCommand, factmill: Factmill, wikidata: ChangingWikidata, build: list[str], tmp_path: Path
) -> None:
    read(command, *build)
    wikidata.take_asked()
    wikidata.number(100)
    answered = threading.Semaphore(0)
    plain = wikidata.web.handle

    def stop_after_two(seen: Seen) -> dict[str, Any]:
        answer = plain(seen)
        if len(wikidata.asked) == 3:
            wikidata.free.clear()
            answered.release()
        return answer

    wikidata.web.handle = stop_after_two
    command.begin(*build, "--max-age", "0s")
    answered.acquire()
    command.kill()
    before = wikidata.take_asked()
    wikidata.free.set()
    wikidata.web.handle = plain
    later = ToyCommand(factmill, tmp_path)
    report = read(later, *build, "--max-age", "0s")
    after = wikidata.take_asked()
    later.close()
    assert len(before) == 3
    assert len(after) == 2, "what had been answered before the kill is not asked again"
    assert sorted({*before, *after}) == sorted(COUNTRIES)
    (replies,) = report["replies"].values()
    assert (report["rows"], replies["asked"]) == (4, 4)


def test_a_service_that_fails_costs_the_row_unless_the_old_reply_may_stay(
    command: ToyCommand, wikidata: ChangingWikidata, build: list[str]
) -> None:
    first = read(command, *build)
    age(command.warehouse, 40, "France")
    wikidata.down = True
    lost = read(command, *build, "--max-age", "30d")
    assert (lost["rows"], lost["unsettled"]) == (3, 1)
    kept = read(command, *build, "--max-age", "30d", "--stale-if-error")
    (replies,) = kept["replies"].values()
    assert (kept["rows"], kept["confirmed"], replies["too_old"]) == (4, True, 1)
    told = command(*build[:-1], "--max-age", "30d", "--stale-if-error").out
    assert "1 are too old, kept since the service fails" in told
    assert read(command, "verify", first["build_id"], "--json")["agrees"]
