"""Run a live world of six people in which everything can change between builds of GRANOLA-EQ.

Items, page views, the author's replies, question files, and the project's prompts, queries and lists can change.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.commands.command import Factmill, Ran
from support.models.scripted_chat import Message, ScriptedChat
from support.webs.loopback import Seen
from support.webs.small_wiki import SmallWiki
from support.webs.wikidata_web import answer_from, open_store
from support.worlds.other_assets import assets_at

from factmill.tasks import assets

PEOPLE = {
    "Ada One": "Ulm",
    "Bo Two": "Bonn",
    "Cy Three": "Lyon",
    "Di Four": "Nice",
    "Ed Five": "Pisa",
    "Fay Six": "Bari",
}
COUNTRIES = {"Ulm": "Germany", "Bonn": "Germany", "Lyon": "France", "Nice": "France", "Pisa": "Italy", "Bari": "Italy"}
SPARE = {"Guy Seven": "Ulm", "Hal Eight": "Nice"}
"""People in the Wikidata, but in no file at first."""
_FIRST = 1000


class ChangingWorld:
    """The services, the folder of sources and a copy of the project's assets; `build` uses their current state."""

    def __init__(self, folder: Path, factmill: Factmill) -> None:
        self.folder, self.factmill = folder, factmill
        self.warehouse = folder / "w.duckdb"
        self.describe: dict[str, str] = {place: f"city in {country}" for place, country in COUNTRIES.items()}
        self.say: Callable[[str, str], str] = lambda answer, about: f"1:: {answer}\n2:: {about.rpartition(' ')[2]}"
        """Answer and its description → the author's levels."""
        self.model, self.epoch = "tester", "2026-01-01"
        self.views = {"2024": 10_000, "2025": 20_000}
        self.people = dict(PEOPLE)
        self.wikidata = SmallWiki()
        self.wikidata.trouble = self._answer
        self.chat = ScriptedChat(self._speak)
        self.assets = folder / "assets"
        for part in ("data/templates", "prompts", "sparql", "data/lists"):
            shutil.copytree(assets.ASSETS_ROOT / part, self.assets / part)

    def close(self) -> None:
        """Stop the servers."""
        self.wikidata.close()
        self.chat.close()

    def build(self, *options: str) -> str:
        """Build with the current state, and return the build's id."""
        with assets_at(self.assets):
            ran = self.run(
                "build", "granola", "--source", self._write_source(), "--world", self._write_world(), *options
            )
        assert ran.code == 0, ran.err
        build_id: str = ran.json["build_id"]
        return build_id

    def run(self, *arguments: str | Path) -> Ran:
        """Run a command on this world's warehouse."""
        return self.factmill(*arguments, "--warehouse", self.warehouse, "--json", TEST_KEY="secret-key-1")

    def diff(self, before: str, after: str) -> dict[str, Any]:
        """Return the command's diff."""
        ran = self.run("diff", before, after)
        assert ran.code == 0, ran.err
        found: dict[str, Any] = ran.json
        return found

    @contextmanager
    def edited(self, name: str, old: str, new: str) -> Iterator[None]:
        """Edit one of the project's files inside the block."""
        path = self.assets / name
        text = path.read_text("utf-8")
        assert old in text, name
        path.write_text(text.replace(old, new, 1), "utf-8")
        yield
        path.write_text(text, "utf-8")

    def _write_source(self) -> Path:
        source = self.folder / "P19.people.json"
        rows = [{"question": f"Where was {who} born?", "answers": [where]} for who, where in self.people.items()]
        source.write_text(json.dumps(rows), "utf-8")
        return source

    def _write_world(self) -> Path:
        path = self.folder / "world.toml"
        limits = "limits = { parallel = 4, attempts = 1, backoff_s = 0.01 }"
        models = "".join(
            f'[models.{role}]\nkind = "openai"\nname = "{self.model}"\nurl = "{self.chat.url}"\nkey_env = "TEST_KEY"\n{limits}\n'
            for role in ("author", "judge")
        )
        path.write_text(
            f'name = "changing"\nuser_agent = "tests"\nepoch = {self.epoch}\n'
            f'[wikidata]\nurl = "{self.wikidata.web.url}/sparql"\n{limits}\n'
            f'[pageviews]\nurl = "{self.wikidata.web.url}/views"\n{limits}\n{models}',
            "utf-8",
        )
        return path

    def _answer(self, seen: Seen) -> dict[str, Any] | None:
        if "/views/" in seen.path:
            year = re.findall(r"/(\d{4})\d{4}", seen.path)[0]
            return {"json": {"items": [{"timestamp": "2025010100", "views": self.views[year]}]}}
        return answer_from(open_store(self._list_triples()))(seen)

    def _list_triples(self) -> str:
        lines: list[str] = []
        numbers = {
            name: _FIRST + at for at, name in enumerate([*PEOPLE, *SPARE, *COUNTRIES, *sorted({*COUNTRIES.values()})])
        }
        for name, number in numbers.items():
            about = self.describe.get(name, "person" if name in PEOPLE | SPARE else "country")
            lines += [f'wd:Q{number} rdfs:label "{name}"@en', f'wd:Q{number} schema:description "{about}"@en']
            lines += [f"enwiki:{number} schema:about wd:Q{number}", f'enwiki:{number} schema:name "{name}"@en']
            lines.append(f"enwiki:{number} schema:isPartOf <https://en.wikipedia.org/>")
        for who, where in (PEOPLE | SPARE).items():
            lines.append(f"wd:Q{numbers[who]} wdt:P19 wd:Q{numbers[where]}")
        for place, country in COUNTRIES.items():
            lines.append(f"wd:Q{numbers[place]} wdt:P17 wd:Q{numbers[country]}")
        return "\n".join(lines)

    def _speak(self, messages: Sequence[Message]) -> tuple[int, str]:
        said = messages[-1]["content"]
        if "<description>" in said:
            return 200, "Yes."
        result = dict(re.findall(r"<(\w+)>(.*?)</\1>", said, re.DOTALL))
        return 200, self.say(result["answer"], result["about_the_answer"])
