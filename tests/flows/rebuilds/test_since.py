"""Test incremental builds on a changing live Wikidata: only responses expired by build or age are requested again."""

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Factmill
from support.commands.toy_command import ToyCommand
from support.models.scripted_chat import Message
from support.webs.loopback import Loopback, Seen
from support.webs.wikidata_web import answer_from, open_store, read_query
from support.worlds.changing_world import COUNTRIES, PEOPLE, SPARE, ChangingWorld
from trials.since import Beside, Size, compare_embedded, compare_served

from factmill.flows.serve_options import ServeOptions, load_serve_config
from factmill.tasks.storage.warehouse import open_warehouse

_LONG_AGO = "2025-03-01T00:00:00Z"


class EditedWorld(ChangingWorld):
    """A world whose items carry edit times, and whose Wikidata records requests by the first words of the query."""

    def __init__(self, folder: Path, factmill: Factmill) -> None:
        super().__init__(folder, factmill)
        self.edited_at: dict[str, str] = {}
        self.looks_fail = False
        self.said: list[str] = []

    def options(self) -> list[str | Path]:
        """Return the options of its builds."""
        return ["--source", self.folder / "P19.people.json", "--world", self.folder / "world.toml"]

    def edit(self, name: str) -> None:
        """Mark an item as edited now."""
        self.edited_at[name] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def take_asked(self) -> dict[str, list[str]]:
        """Return the requests since the last call: selected variables → items or names of their VALUES, and chats."""
        seen, self.wikidata.web.seen[:] = list(self.wikidata.web.seen), []
        asked: dict[str, list[str]] = {}
        for each in seen:
            if "/views/" not in each.path:
                query = read_query(each)
                kind = " ".join(re.findall(r"\?(\w+)", query.partition("WHERE")[0]))
                asked.setdefault(kind, []).extend(re.findall(r'wd:(Q\d+)|"([A-Z][^"]+)"@en', query))
        result = {kind: sorted({self._name(qid) or name for qid, name in found}) for kind, found in asked.items()}
        chats, self.said = self.said, []
        return result | ({"chats": chats} if chats else {})

    def _name(self, qid: str) -> str:
        names = [*PEOPLE, *SPARE, *COUNTRIES, *sorted({*COUNTRIES.values()})]
        return names[int(qid[1:]) - 1000] if qid else ""

    def _answer(self, seen: Seen) -> dict[str, Any] | None:
        if self.looks_fail and "/views/" not in seen.path and "?version" in read_query(seen):
            return {"status": 503, "text": "down"}
        return super()._answer(seen)

    def _speak(self, messages: Sequence[Message]) -> tuple[int, str]:
        status, text = super()._speak(messages)
        self.said.append(text)
        return status, text

    def _list_triples(self) -> str:
        plain = super()._list_triples()
        dates = [
            f'wd:{qid} schema:dateModified "{self.edited_at.get(self._name(qid), _LONG_AGO)}"^^xsd:dateTime'
            for qid in sorted({*re.findall(r"wd:(Q\d+)", plain)})
        ]
        return "\n".join([plain, *dates])


@pytest.fixture
def world(factmill: Factmill, tmp_path: Path) -> Iterator[EditedWorld]:
    made = EditedWorld(tmp_path, factmill)
    yield made
    made.close()


def report_of(world: EditedWorld, build_id: str) -> dict[str, Any]:
    with open_warehouse(world.warehouse) as db:
        (result,) = db.execute("SELECT report FROM builds WHERE build_id = ?", [build_id]).fetchone() or ("{}",)
    report: dict[str, Any] = json.loads(result)
    return report


def test_changed_items_are_requested_again_and_model_only_for_changed_text(world: EditedWorld) -> None:
    first = world.build()
    world.take_asked()
    world.describe["Lyon"] = "old city in France"
    for name in ("Lyon", "Nice", "Ada One"):
        world.edit(name)  # Nice repeats its response
    second = world.build("--since", first)
    asked = world.take_asked()
    assert asked["item label description title modified"] == ["Ada One", "Lyon", "Nice"]
    assert asked["item property value label"] == ["Ada One", "Lyon", "Nice"]
    assert len(asked["name item via"]) > 2, "no service says who has a name"
    assert [said for said in asked["chats"] if said != "Yes."] == ["1:: Lyon\n2:: France"], (
        "Lyon is described otherwise"
    )
    assert asked["chats"].count("Yes.") == 8, "and scored again, in eight samples"
    since = report_of(world, second)["since"]
    assert (since["build"], since["changed"], since["requests"]) == (first, 6, 1)
    assert since["undecidable"] == {"find_items": len(asked["name item via"])}
    assert {result["too_old"] for result in report_of(world, second)["replies"].values()} == {0}

    assert world.run("verify", second).json["agrees"]
    published = world.warehouse
    world.warehouse = world.folder / "full.duckdb"
    full = world.build()
    assert read_digests(published, second) == read_digests(world.warehouse, full)


def read_digests(warehouse: Path, build_id: str) -> Any:
    with open_warehouse(warehouse) as db:
        return db.execute("SELECT table_name, sha256 FROM build_tables WHERE build_id = ?", [build_id]).fetchall()


def test_explain_shows_check_behind_kept_reply(world: EditedWorld) -> None:
    world.build()
    world.edit("Lyon")
    second = world.build("--since", "last")
    rows = world.run("show", "granola").json["rows"]
    row = next(each["id"] for each in rows if "Bo Two" in each["question"])
    trace = world.run("explain", "granola", row).json
    kept = {call["operation"] for call in trace["calls"] if call["unchanged"]}
    assert kept == {"describe_items", "neighbours"}
    (shown,) = {check for call in trace["calls"] for check in call["checks"]}
    result = world.factmill("explain", "granola", row, "--warehouse", world.warehouse).out
    assert f"was last changed at '{_LONG_AGO}' as before (checked by call {shown})" in result
    with open_warehouse(world.warehouse) as db:
        key = shown.partition(" ")[0]
        found = db.execute("SELECT operation FROM calls WHERE starts_with(key, ?)", [key]).fetchall()
    assert found == [("item_states",)]
    assert world.run("gc", "--older-than", "0s", "--yes").code == 0
    assert world.run("verify", second).json["agrees"]
    assert world.run("explain", "granola", row).json["calls"][0]["checks"] == trace["calls"][0]["checks"]


def test_items_with_failed_change_check_are_requested_again(world: EditedWorld) -> None:
    first = world.build()
    world.take_asked()
    world.looks_fail = True
    assert world.build("--since", first) == first
    asked = world.take_asked()
    assert len(asked["item label description title modified"]) == len(PEOPLE) + len(COUNTRIES)
    since = report_of(world, first)["since"]
    assert (since["kept"], since["changed"]) == (0, 0)


def test_replies_within_max_age_are_reused_without_change_check(world: EditedWorld) -> None:
    first = world.build()
    world.take_asked()
    world.edit("Lyon")
    options = [*world.options(), "--warehouse", world.warehouse, "--since", "last", "--max-age", "1h"]
    result = world.factmill("build", "granola", *options, TEST_KEY="secret-key-1")
    assert (result.code, world.take_asked()) == (0, {})
    assert f"{first}: already built from the same inputs" in result.out


def test_budget_reached_during_change_check_is_reported_and_resumes(
    world: EditedWorld,
) -> None:
    first = world.build()
    world.take_asked()
    given = ("build", "granola", *world.options(), "--since", "last")
    ran = world.run(*given, "--max-requests", "0")
    assert (ran.code, world.take_asked()) == (3, {})
    assert "the limit of 0 requests (--max-requests) is reached" in ran.err
    assert "no stage is done" in ran.err
    assert report_of(world, world.run(*given).json["build_id"])["since"]["build"] == first


def test_unusable_since_builds_are_rejected(world: EditedWorld) -> None:
    world.build()
    port = world.wikidata.web.url.rpartition(":")[2]
    with open_warehouse(world.warehouse) as db:
        for name, benchmark in (("toys-1", "toys"), ("granola-other", "granola")):
            db.execute(
                "INSERT INTO builds SELECT ?, ?, 'd', replace(lock, ?, ?), origin, content_digest, report, started_at, "
                "published_at FROM builds WHERE lock_digest <> 'd'",
                [name, benchmark, f"127.0.0.1:{port}", "elsewhere.example"],
            )
    world.take_asked()
    for given, result in (
        (["--since", "nothing"], "no build 'nothing'"),
        (["--since", "granola-1234-unfinished"], "this run has published nothing"),
        (["--since", "toys-1"], "is a build of toys"),
        (["--since", "granola-other"], "with wikidata http://elsewhere.example/sparql"),
        (["--since", "last", "--mode", "refresh"], "--mode refresh requests everything"),
    ):
        ran = world.run("build", "granola", *world.options(), *given)
        assert ran.code == 2
        assert result in ran.err
    assert world.take_asked() == {}


def test_since_last_uses_build_of_same_world_or_none(world: EditedWorld) -> None:
    ran = world.build("--since", "last")
    assert report_of(world, ran)["since"] == {}
    world.take_asked()
    world.build("--since", "last")
    assert report_of(world, ran)["since"]["build"] == ran


def test_serve_config_accepts_since_last(tmp_path: Path) -> None:
    config = tmp_path / "serve.toml"
    config.write_text('interval = "30d"\nsince = "last"\n', "utf-8")
    result, _ = load_serve_config(config)
    assert ServeOptions(**result).make_run_options(30 * 86_400.0).since == "last"


@pytest.mark.parametrize(
    ("compare", "benchmarks"), [(compare_served, ("granola", "slaq")), (compare_embedded, ("fanoutqa",))]
)
def test_rebuild_since_equals_full_rebuild(
    compare: Callable[[Path, Factmill, Sequence[str], Size], Iterator[Beside]],
    benchmarks: Sequence[str],
    factmill: Factmill,
    tmp_path: Path,
) -> None:
    """`make trials` compares all benchmarks end to end in both worlds."""
    for found in compare(tmp_path, factmill, benchmarks, Size(rows=2, share=0.05, seed=3)):
        assert found.since["tables"] == found.full["tables"], found.benchmark
        result = found.since["since"]
        assert result["kept"] > result["changed"], found.benchmark
        assert found.since["calls_sent"] < found.full["calls_sent"], found.benchmark
        if found.benchmark == "granola":
            ran = factmill("verify", found.since["build_id"], "--warehouse", tmp_path / "w.duckdb", "--json")
            assert ran.json["agrees"], "including unchanged replies"


PLACES = ("Germany", "France", "Spain", "Italy")


class ChangingWikidata:
    """A Wikidata whose items get new numbers; `held` delays its responses, `down` makes it fail."""

    def __init__(self) -> None:
        self.web = Loopback()
        self.web.handle = self._answer
        self.asked: list[str] = []
        self.down = False
        self.free = threading.Event()
        self.free.set()
        self.number(1)

    def number(self, first: int) -> None:
        """Number the countries from `first` on."""
        labels = (f'wd:Q{first + at} rdfs:label "{name}"@en' for at, name in enumerate(PLACES))
        self._answer_from = answer_from(open_store("\n".join(labels)))

    def _answer(self, seen: Seen) -> dict[str, Any]:
        query = read_query(seen)
        self.asked += [name for name in PLACES if f'"{name}"' in query]
        answer = {"status": 503, "text": "down"} if self.down else self._answer_from(seen)
        return {**answer, "until": self.free}

    def take_asked(self) -> list[str]:
        """Return the requests since the last call."""
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
    """The build command, in a world with this Wikidata."""
    (tmp_path / "names.txt").write_text("\n".join(PLACES), "utf-8")
    (tmp_path / "world.toml").write_text(
        f"""name = "changing"\nuser_agent = "tests"\nepoch = 2026-01-01\n[wikidata]\nurl = "{wikidata.web.url}"
limits = {{ parallel = 1, attempts = 1, backoff_s = 0.01, batch = 1 }}\n[models.author]\nkind = "openai"\nname = "not-asked"\nurl = "http://127.0.0.1:9/v1"\n""",
        "utf-8",
    )
    options = ["--world", str(tmp_path / "world.toml"), "--batch-size", "1", "--concurrency", "1", "--json"]
    return ["build", "countries", "--file", str(tmp_path / "names.txt"), *options]


def age(warehouse: Path, days: int, *names: str) -> None:
    """Make the cached responses about names this many days older."""
    with open_warehouse(warehouse) as db:
        for name in names:
            db.execute("UPDATE calls SET asked_at = asked_at - to_days(?) WHERE parts LIKE ?", [days, f'%"{name}"%'])


def read(command: ToyCommand, *arguments: str, code: int = 0) -> Any:
    return json.loads(command(*arguments, code=code).out)


def test_rebuild_requests_only_expired_replies(
    command: ToyCommand, wikidata: ChangingWikidata, build: list[str]
) -> None:
    first = read(command, *build)
    assert wikidata.take_asked() == sorted(PLACES)
    wikidata.number(100)
    age(command.warehouse, 40, "France", "Spain")
    assert read(command, *build)["up_to_date"], "without an age, replies never expire"
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
    result = command("explain", "countries", "c-France", "--build", first["build_id"]).out
    assert ", 40 days ago (call " in result


def test_identical_rebuild_confirms_existing_build(
    command: ToyCommand, wikidata: ChangingWikidata, build: list[str]
) -> None:
    first = read(command, *build)
    wikidata.take_asked()
    again = read(command, *build, "--max-age", "0s")
    assert wikidata.take_asked() == sorted(PLACES)
    assert (again["build_id"], again["confirmed"], again["tables"]) == (first["build_id"], True, first["tables"])
    assert len(read(command, "builds", "--json")) == 1
    assert "with the same bytes: confirmed" in command(*build[:-1], "--max-age", "0s").out


def test_world_sets_max_age_and_option_overrides_it(
    command: ToyCommand, wikidata: ChangingWikidata, build: list[str], tmp_path: Path
) -> None:
    locked = read(command, *build)["build_id"]
    world = tmp_path / "world.toml"
    world.write_text(world.read_text("utf-8").replace("[wikidata]", '[wikidata]\nmax_age = "7d"'), "utf-8")
    age(command.warehouse, 8, "Italy")
    wikidata.take_asked()
    assert read(command, *build, "--max-age", "9d")["up_to_date"]
    assert read(command, *build)["build_id"] == locked, "an age is not part of the manifest"
    assert wikidata.take_asked() == ["Italy"]


def test_killed_rebuild_resumes_with_original_max_age(
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
    assert len(after) == 2, "requests answered before the kill are not sent again"
    assert sorted({*before, *after}) == sorted(PLACES)
    (replies,) = report["replies"].values()
    assert (report["rows"], replies["asked"]) == (4, 4)


def test_service_failure_rejects_row_unless_stale_reply_is_allowed(
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
    result = command(*build[:-1], "--max-age", "30d", "--stale-if-error").out
    assert "1 are expired, used because the service fails" in result
    assert read(command, "verify", first["build_id"], "--json")["agrees"]
