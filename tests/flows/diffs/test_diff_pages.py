"""Causes that articles and reviewers bring: a page with another revision, a decision about a flagged row."""

import csv
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Factmill, Ran
from support.models.scripted_chat import Message, ScriptedChat
from support.webs.loopback import Seen
from support.webs.small_wiki import SmallPage, SmallWiki
from support.worlds.planting import edited_prompt

FACTS = {"mass": "grams", "height": "metres", "width": "litres", "price": "francs", "age": "years"}
LATER = 7


class Things:
    """A wiki of four things in one category; the author asks five facts of each, and the judge doubts the bowl."""

    def __init__(self, folder: Path, factmill: Factmill) -> None:
        self.folder, self.factmill, self.wiki = folder, factmill, SmallWiki()
        self.chat = ScriptedChat(self._speak)
        self.revised = ""
        """Title of a page that has a second revision."""
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
            "--category",
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
        """Answer with the second revision of a page, whose mass is another; its first sentence asks for it."""
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
        told = f"The {name} has {', '.join(f'a {fact} of {value}' for fact, _, value in found)}."
        return 200, json.dumps(
            {"short": short, "long_question": f"{self.verb} of the {name}: {asked}.", "long_answer": told}
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


def test_a_revision_and_a_decision(things: Things, tmp_path: Path) -> None:
    base = things.build()
    queue = tmp_path / "queue.csv"
    assert things.run("review", "export", base, "--to", queue).code == 0
    with queue.open(encoding="utf-8", newline="") as file:
        items = [item | {"decision": "keep", "reviewer": "Ann"} for item in csv.DictReader(file)]
    with queue.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, items[0].keys())
        writer.writeheader()
        writer.writerows(items)
    assert things.run("review", "import", queue).code == 0
    kept = things.build()
    assert list_causes(things, base, kept) == {
        "added Bowl": ["decision: second_model none → keep by Ann"],
        "added Candle": ["other rows:  rows are weighed together, and others of them changed"],
    }
    things.revised = "Anvil"
    revised = things.build("--mode", "refresh")
    assert list_causes(things, kept, revised) == {"changed Anvil": ["world: wikipedia page Anvil: revision 10 → 17"]}


def test_a_prompt_a_parameter_an_epoch_and_a_model(things: Things, tmp_path: Path) -> None:
    """Two at a time, so that each row has to be told by its own."""
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
