"""Copy the embedded world to addresses of its own, and change a share of its articles and items on request.

Its services are on loopback, so their responses age. A changed item gives the date of its change, as a page's newest
revision does. Items and articles have the same addresses before and after.
"""

import random
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.habits.server import HabitsServer

from factmill.tasks.engine.naming.identities import embedded_world_identity
from factmill.tasks.processes import LOOPBACK_HOST
from factmill.tasks.world import data, files, serving
from factmill.tasks.world.data import WORLD_FOLDER
from factmill.tasks.world.serving import running_world

_ITEM = re.compile(r"^(Q\d+):\n((?:  .*\n)+)", re.M)
_CLAIM = re.compile(r"^  P\d+: Q\d+\n", re.M)
_HEADING = re.compile(r'^<div class="mw-heading .*</div>$', re.M)
_LIMITS = "{ parallel = 4, timeout_s = 60, attempts = 3, backoff_s = 0.1, batch = 50 }"
_REVID = 8_950_000


def find_free_pair() -> int:
    """Return the first of two neighbouring free ports.

    They are below the ports that systems assign, so that a restarted world finds them free again.
    """
    for port in random.SystemRandom().sample(range(20_000, 32_000, 2), 100):
        try:
            for each in (port, port + 1):
                with socket.socket() as probe:
                    probe.bind((LOOPBACK_HOST, each))
        except OSError:
            continue
        return port
    raise RuntimeError("no two neighbouring ports of a hundred pairs are free")


class PlantedWorld:
    """The files and their addresses."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.files = folder / "world"
        self.home = home
        self.port = find_free_pair()
        self.epoch = date.today() + timedelta(days=1)
        shutil.copytree(WORLD_FOLDER, self.files)

    @contextmanager
    def served(self) -> Iterator[dict[str, str]]:
        """Serve the current files; yield service → address."""
        with running_world(self.home, self.files, self.port) as running:
            # the embedded store has DBpedia's links to its items too
            yield {**running.endpoints, "dbpedia": running.endpoints["wikidata"]}

    def describe(self, urls: dict[str, str], models: str) -> str:
        """Return the text of the world's file."""
        lines = ['name = "planted"', 'user_agent = "factmill tests"', f"epoch = {self.epoch}"]
        for name in ("wikidata", "wikipedia", "pageviews", "falcon", "dbpedia"):
            lines += [f"[{name}]", f'url = "{urls[name]}"', f"limits = {_LIMITS}"]
        return "\n".join(lines) + "\n" + models

    def plant(self, share: float, seed: int = 1, moment: datetime | None = None) -> tuple[set[str], set[str]]:
        """Change a share of items and of articles; return ids and titles.

        `moment`: the date of the change, by default now.
        """
        draw = random.Random(seed)
        moment = moment or datetime.now(UTC).replace(microsecond=0)
        return self._plant_items(draw, share, moment), self._plant_articles(draw, share, moment)

    def _plant_items(self, draw: random.Random, share: float, moment: datetime) -> set[str]:
        texts = {path: path.read_text("utf-8") for path in sorted(self.files.glob("entities/*.yaml"))}
        ids = sorted(qid for text in texts.values() for qid, _ in _ITEM.findall(text))
        chosen = set(draw.sample(ids, max(round(len(ids) * share), 1)))
        at = moment.strftime("%Y-%m-%dT%H:%M:%SZ")

        def change(found: re.Match[str]) -> str:
            qid, body = found.groups()
            if qid not in chosen:
                return found[0]
            kind = draw.choice(("claim", "description", "description", "name"))
            if kind == "claim" and _CLAIM.search(body):
                body = _CLAIM.sub("", body, count=1)
            elif kind == "name":
                body = re.sub(r"^(  label: [^/\n]*[^/\s])", r"\1 the Younger", body, count=1, flags=re.M)
            else:
                body = re.sub(r"^(  is: .*)$", r"\1, as was found of late", body, count=1, flags=re.M)
            return f"{qid}:\n{body}  modified: {at}\n"

        for path, text in texts.items():
            path.write_text(_ITEM.sub(change, text), "utf-8")
        return chosen

    def _plant_articles(self, draw: random.Random, share: float, moment: datetime) -> set[str]:
        titles: set[str] = set()
        paths = sorted(self.files.glob("articles/*.html"))
        for path in draw.sample(paths, len(paths)):
            _, front, text = path.read_text("utf-8").split("---\n", 2)
            result: dict[str, Any] = yaml.safe_load(front)
            if len(titles) >= max(round(len(paths) * share), 1):
                break
            if not _HEADING.search(text) or result["revisions"][-1]["at"] >= moment:
                continue
            heading = _HEADING.findall(text)[-1]
            replace = [[heading, f"{heading}\n<p>This was looked through.</p>"]]
            change = {"revid": _REVID + len(titles), "at": moment, "comment": "looked through", "replace": replace}
            result["revisions"] = [*result["revisions"], change]
            path.write_text(f"---\n{_dump(result)}---\n{text}", "utf-8")
            titles.add(result["title"])
        return titles


def stand_in(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Make a folder's files the embedded world of this process."""
    for module in (data, files, serving):
        patch.setattr(module, "WORLD_FOLDER", folder)
    patch.setattr(data.digest_world_files, "__defaults__", (folder,))
    patch.setattr(files.load_world_data, "__defaults__", (folder,))
    patch.setattr(serving.running_world.__wrapped__, "__defaults__", (folder, 0))  # type: ignore[attr-defined]
    embedded_world_identity.cache_clear()


def describe_models(server: HabitsServer, habit: str = "well-formed") -> str:
    """Return the sections of a world's file that name a server's models and this machine's models."""
    asked = "".join(
        f'[models.{role}]\nkind = "openai"\nname = "habits"\nurl = "{server.url(habit)}"\nlimits = {_LIMITS}\n'
        for role in ("author", "judge")
    )
    here = (("translator", "embedded-nllb-1"), ("perplexity", "embedded-lm-1"))
    return asked + "".join(f'[models.{role}]\nkind = "local"\nname = "{name}"\n' for role, name in here)


def _dump(messages: dict[str, Any]) -> str:
    revisions = [{**each, "at": each["at"].strftime("%Y-%m-%dT%H:%M:%SZ")} for each in messages["revisions"]]
    text = yaml.safe_dump({**messages, "revisions": revisions}, allow_unicode=True, sort_keys=False, width=10_000)
    return re.sub(r"at: '(\S+)'", r"at: \1", text)
