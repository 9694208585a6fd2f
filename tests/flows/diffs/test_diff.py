"""Test `factmill diff`: changed rows, causes and pages, for every benchmark."""

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import FEW_QUESTIONS, Factmill, Ran
from support.models.scripted_chat import Message, ScriptedChat
from support.rows.csv_files import read_csv, write_csv
from support.webs.loopback import Seen
from support.webs.small_wiki import SmallPage, SmallWiki
from support.worlds.changing_world import PEOPLE, ChangingWorld
from support.worlds.planting import Planting, edited_prompt

from factmill.tasks.core.authoring.granular_answers import remove_uninformative_answer_levels
from factmill.tasks.engine.naming.code_versions import make_code_manifest


@pytest.fixture(scope="module")
def world(factmill: Factmill, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChangingWorld]:
    made = ChangingWorld(tmp_path_factory.mktemp("changing"), factmill)
    yield made
    made.close()


@pytest.fixture(scope="module")
def first(world: ChangingWorld) -> tuple[str, Path]:
    """Build before any change, and keep a copy of that warehouse."""
    build_id = world.build()
    return build_id, Path(shutil.copy(world.warehouse, world.folder / "first.duckdb"))


@pytest.fixture
def base(world: ChangingWorld, first: tuple[str, Path]) -> str:
    """Return the first build, alone in its warehouse."""
    build_id, kept = first
    shutil.copy(kept, world.warehouse)
    return build_id


def causes(found: dict[str, Any]) -> dict[str, list[str]]:
    """Map each kind of row to its causes."""
    return {
        f"{row['kind']} {row['shown']['question']}": [f"{each['kind']}: {each['what']}" for each in row["causes"]]
        for row in found["rows"]
    }


def of_all(*text: str) -> dict[str, list[str]]:
    return {f"changed Where was {who} born?": list(text) for who in PEOPLE}


def test_diff_reports_added_removed_and_changed_source_rows(
    world: ChangingWorld, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed question is not a removal plus an addition; moved rows are unchanged."""
    others = {who: where for who, where in PEOPLE.items() if who not in ("Ada One", "Bo Two")}
    monkeypatch.setattr(world, "people", {"Guy Seven": "Ulm"} | others | {"Hal Eight": "Nice"})
    found = world.diff(base, world.build())
    source = ["source: P19.people.json"]
    assert causes(found) == {
        "added Where was Hal Eight born?": source,
        "removed Where was Bo Two born?": source,
        "changed Where was Guy Seven born?": source,
    }
    assert (found["same"], found["remade"]) == (4, 4)


def test_diff_names_changed_world_item(world: ChangingWorld, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The diff traces the author's completion to the item."""
    monkeypatch.setitem(world.describe, "Lyon", "large city in France")
    monkeypatch.setitem(world.describe, "Nice", "old city")
    found = world.diff(base, world.build("--mode", "refresh"))
    assert causes(found) == {
        "changed Where was Cy Three born?": ["world: wikidata"],
        "removed Where was Di Four born?": ["world: wikidata"],
    }
    removed = next(row for row in found["rows"] if row["kind"] == "removed")
    assert (removed["fate"]["stage"], removed["fate"]["reason"]) == ("remove_trivial_answers", "too_few_levels")
    assert "describe_items of Q" in removed["causes"][0]["told"]


def test_diff_names_changed_epoch(world: ChangingWorld, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "epoch", "2025-01-01")
    found = world.diff(base, world.build())
    assert causes(found) == of_all("epoch: ")
    assert found["rows"][0]["causes"][0]["told"] == "2026-01-01 → 2025-01-01"


def test_diff_names_changed_prompt(world: ChangingWorld, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows with an equal completion from the edited prompt are unchanged."""
    say = world.say
    monkeypatch.setattr(world, "say", lambda *of: say(*of).replace(":: France", ":: a city in France"))
    with world.edited("prompts/granola/granular_answers.md", "a known answer", "an answer"):
        found = world.diff(base, world.build())
    lines = ["prompt: granola/granular_answers"]
    assert causes(found) == {f"changed Where was {who} born?": lines for who in ("Cy Three", "Di Four")}


def test_diff_names_changed_query(world: ChangingWorld, base: str) -> None:
    """A service that gets a new request may change its response by itself, so it is one of the two causes."""
    old = "OPTIONAL { ?item schema:dateModified ?modified }"
    with world.edited("sparql/wikidata/describe_items.rq", old, 'BIND("2025-01-01T00:00:00Z" AS ?modified)'):
        found = world.diff(base, world.build("--mode", "refresh"))
    assert causes(found) == of_all("one of: query: wikidata/describe_items, world: wikidata")


def test_diff_names_changed_list(world: ChangingWorld, base: str) -> None:
    with world.edited("data/lists/trivial_answers.txt", "\nP264:", "\nP19: Italy\nP264:"):
        found = world.diff(base, world.build())
    lines = ["list: trivial_answers.txt"]
    assert causes(found) == {f"removed Where was {who} born?": lines for who in ("Ed Five", "Fay Six")}


def test_diff_names_changed_model(world: ChangingWorld, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "model", "newer")
    assert causes(world.diff(base, world.build())) == of_all("model: author, judge")


def test_diff_names_changed_model_reply(world: ChangingWorld, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    say = world.say
    monkeypatch.setattr(world, "say", lambda *of: say(*of).replace(":: Italy", ":: a city in Italy"))
    found = world.diff(base, world.build("--mode", "refresh"))
    lines = ["reply: granola/granular_answers"]
    assert causes(found) == {f"changed Where was {who} born?": lines for who in ("Ed Five", "Fay Six")}


def test_diff_names_changed_parameter(world: ChangingWorld, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = world.diff(base, world.build("--limit", "4"))
    assert causes(found) == {f"removed Where was {who} born?": ["parameter: limits"] for who in ("Ed Five", "Fay Six")}


def test_diff_names_changed_code(world: ChangingWorld, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("factmill.tasks.granola.answer_levels.remove_uninformative_answer_levels", clean_too_much)
    described = make_code_manifest("factmill.flows.granola:granola")
    checking = {**described["definitions"]["factmill.tasks.granola.answer_levels"], "remove_trivial_answers": "another"}
    definitions = {**described["definitions"], "factmill.tasks.granola.answer_levels": checking}
    monkeypatch.setattr(
        "factmill.tasks.engine.naming.manifests.make_code_manifest", lambda _: {**described, "definitions": definitions}
    )
    found = world.diff(base, world.build())
    lines = ["code: factmill.tasks.granola.answer_levels:remove_trivial_answers"]
    assert causes(found) == {f"removed Where was {who} born?": lines for who in ("Ada One", "Bo Two")}


def clean_too_much(levels: list[str], *more: Any) -> Any:
    return remove_uninformative_answer_levels([each for each in levels if each != "Germany"], *more)


def test_diff_names_changes_of_fanoutqa(factmill: Factmill, tmp_path: Path) -> None:
    planting = Planting(tmp_path, factmill, "fanoutqa", *FEW_QUESTIONS)
    base = planting.build()
    worded = planting.build(twist=("fanoutqa/word_question", lambda said: said.replace("?", ", please?")))
    later = planting.build("--epoch", "2026-01-01", model="scripted replies 2")
    fewer = Planting(tmp_path, factmill, "fanoutqa", *FEW_QUESTIONS[:6], "--sets-a-kind", "1").build()
    assert [planting.list_causes(base, each) for each in (worded, later, fewer)] == [
        # a reworded question gets other verdicts: one that was dropped is published
        {"changed": {"prompt: fanoutqa/word_question"}, "added": {"prompt: fanoutqa/word_question"}},
        {"changed": {"epoch:  + model: author, judge"}, "added": {"epoch: "}, "removed": {"epoch: "}},
        {"removed": {"parameter: sets"}},
    ]


def test_diff_names_changes_of_biokalma(factmill: Factmill, tmp_path: Path) -> None:
    planting = Planting(tmp_path, factmill, "biokalma", "--source", "wikidata", "--relations", "P26", "--limit")
    base = planting.build("4")
    worded = planting.build("3", twist=("biokalma/general_question", lambda said: said.replace("?", ", please?")))
    later = planting.build("4", epoch="2019-01-01", model="scripted replies 2")
    assert [planting.list_causes(base, each) for each in (worded, later)] == [
        {
            "changed": {"prompt: biokalma/general_question", "prompt: biokalma/general_question + parameter: limits"},
            "removed": {"parameter: limits"},
        },
        {"changed": {"model: author, judge", "epoch:  + model: author, judge"}},
    ]


def test_diff_names_changes_of_multihal(factmill: Factmill, tmp_path: Path) -> None:
    planting = Planting(tmp_path, factmill, "multihal", "--foundations", "simpleqa", "--languages", "eng", "--limit")
    base = planting.build("8")
    scored = planting.build("6", twist=("multihal/score_path", lambda said: said.replace("5", "4")))
    later = planting.build("8", "--min-score", "5", epoch="2024-01-01", model="scripted replies 2")
    assert [planting.list_causes(base, each) for each in (scored, later)] == [
        {"changed": {"prompt: multihal/score_path"}, "removed": {"parameter: limit"}},
        {"changed": {"model: author, judge"}, "removed": {"parameter: min_score"}},
    ]


FACTS = {"mass": "grams", "height": "metres", "width": "litres", "price": "francs", "age": "years"}
LATER = 7


class Things:
    """A wiki of four items in one category; the author asks for five facts of each, and the judge doubts the bowl."""

    def __init__(self, folder: Path, factmill: Factmill) -> None:
        self.folder, self.factmill, self.wiki = folder, factmill, SmallWiki()
        self.chat = ScriptedChat(self._speak)
        self.revised = ""
        """Title of the page that has a second revision."""
        self.epoch, self.model, self.verb = "2026-01-01", "tester", "Tell"
        names = ("Anvil", "Bowl", "Candle", "Drum")
        self.wiki.categories = {"Things": [(at, name) for at, name in enumerate(names, 1)]}
        for at, name in enumerate(names, 1):
            text = " ".join(
                f"The {fact} of the {name} is {at * 10 + n} {unit}." for n, (fact, unit) in enumerate(FACTS.items())
            )
            self.wiki.add(SmallPage(at, name, f"<p>{text}</p>", views=(at * 100,)))
        self.wiki.trouble = self._revise

    def close(self) -> None:
        self.wiki.close()
        self.chat.close()

    def build(self, *options: str) -> str:
        ran = self.run(
            "build",
            "slaq",
            "--world",
            self._write_world(),
            "--categories",
            "Things",
            "--min-chars",
            "0",
            "--review",
            "manual",
            *options,
        )
        assert ran.code == 0, ran.err
        build_id: str = ran.json["build_id"]
        return build_id

    def run(self, *arguments: str | Path) -> Ran:
        return self.factmill(*arguments, "--warehouse", self.folder / "w.duckdb", "--json", TEST_KEY="secret-key-1")

    def _write_world(self) -> Path:
        path, url = self.folder / "world.toml", self.wiki.web.url
        models = "".join(
            f'[models.{role}]\nkind = "openai"\nname = "{self.model}"\nurl = "{self.chat.url}"\nkey_env = "TEST_KEY"\n'
            for role in ("author", "judge")
        )
        services = f'[wikipedia]\nurl = "{url}"\n[pageviews]\nurl = "{url}/views"\n'
        path.write_text(f'name = "things"\nuser_agent = "tests"\nepoch = {self.epoch}\n{services}{models}', "utf-8")
        return path

    def _revise(self, seen: Seen) -> dict[str, Any] | None:
        """Serve the second revision of a page, with another mass; the first sentence of the page selects it."""
        if not self.revised:
            return None
        page = self.wiki.pages[self.revised]
        if seen.query.get("oldid") == str(page.pageid * 10 + LATER):
            text = page.html.replace(" grams", "7 grams")
            return {
                "json": {
                    "parse": {
                        "title": page.title,
                        "pageid": page.pageid,
                        "revid": page.pageid * 10 + LATER,
                        "text": text,
                    }
                }
            }
        if "revisions" in seen.query.get("prop", ""):
            self.wiki.trouble = lambda _: None
            answer = self.wiki._answer(seen)
            self.wiki.trouble = self._revise
            for each in answer["json"]["query"]["pages"]:
                if each["title"] == page.title:
                    each["revisions"][0]["revid"] += LATER
            return answer
        return None

    def _speak(self, messages: Sequence[Message]) -> tuple[int, str]:
        said = messages[-1]["content"]
        if "<pairs>" in said:
            return 200, "\n".join(f"{n}: {'unclear' if n == 2 and 'Bowl' in said else 'ok'}" for n in range(1, 6))
        if "<article>" not in said:
            return 200, "Type: QUANTITY"
        found = re.findall(r"The (\w+) of the (\w+) is (\d+ \w+)\.", said.rpartition("<article>")[2])
        short = [{"question": f"What is the {fact} of the {name}?", "answer": value} for fact, name, value in found]
        name = found[0][1]
        asked = ", ".join(f"({n}) its {fact}" for n, fact in enumerate(FACTS, 1))
        text = f"The {name} has {', '.join(f'a {fact} of {value}' for fact, _, value in found)}."
        return 200, json.dumps(
            {"short": short, "long_question": f"{self.verb} of the {name}: {asked}.", "long_answer": text}
        )


@pytest.fixture
def things(factmill: Factmill, tmp_path: Path) -> Iterator[Things]:
    made = Things(tmp_path, factmill)
    yield made
    made.close()


def list_causes(things: Things, before: str, after: str) -> dict[str, list[str]]:
    ran = things.run("diff", before, after)
    assert ran.code == 0, ran.err
    return {
        f"{row['kind']} {row['shown']['Topic']}": [
            f"{each['kind']}: {each['what']} {each['told']}".strip() for each in row["causes"]
        ]
        for row in ran.json["rows"]
    }


def test_diff_names_changed_revision_and_decision(things: Things, tmp_path: Path) -> None:
    base = things.build()
    queue = tmp_path / "queue.csv"
    assert things.run("review", base, "--to", queue).code == 0
    items = [item | {"decision": "keep", "reviewer": "Ann"} for item in read_csv(queue)]
    write_csv(queue, items)
    assert things.run("review", "--from", queue).code == 0
    kept = things.build()
    assert list_causes(things, base, kept) == {
        "added Bowl": ["decision: second_model none → keep by Ann"],
        "added Candle": ["other rows:  the stage balance halves compares rows with each other, and other rows changed"],
    }
    things.revised = "Anvil"
    revised = things.build("--mode", "refresh")
    assert list_causes(things, kept, revised) == {"changed Anvil": ["world: wikipedia page Anvil: revision 10 → 17"]}


def test_diff_separates_causes_of_two_simultaneous_changes(things: Things, tmp_path: Path) -> None:
    """Changes come in pairs, so the diff must assign each row to one of them."""
    base = things.build()
    things.verb = "Speak"
    with edited_prompt(tmp_path, "slaq/generate"):
        worded = things.build("--min-chars", "178")
    things.verb, things.epoch, things.model, things.revised = "Tell", "2025-06-01", "newer", "Anvil"
    later = things.build()
    found = [
        {row: [cause.partition(" ")[0] for cause in causes] for row, causes in list_causes(things, base, each).items()}
        for each in (worded, later)
    ]
    assert found == [
        {"added Candle": ["other"], "removed Drum": ["parameter:"], "changed Anvil": ["prompt:"]},
        {"changed Anvil": ["epoch:", "model:"], "changed Drum": ["model:"]},
    ]
