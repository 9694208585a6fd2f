"""Expected digests of the embedded builds (data/world/digests.json), which every machine must reproduce.

They cover the published tables, the keys of all scripted replies that the builds look up, and the embedded world.

    factmill build all --json | python -m factmill.flows.commands.digests       # rewrite on purpose: `make digests`

Parquet bytes depend on the library that writes them, so the file also holds pyarrow's version. The ids of the builds
and the digests of the rooms identify the inputs and the code that made the tables.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from factmill.tasks.assets import ROOT
from factmill.tasks.engine.naming.rooms import ROOMS, digest_rooms
from factmill.tasks.storage.recording.records import read_scripted
from factmill.tasks.storage.warehouse import open_warehouse
from factmill.tasks.world.data import digest_world
from factmill.tasks.world.replies import Key, Variables, digest_keys, make_key

_FILE = ROOT / "data" / "world" / "digests.json"
Digests = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Benchmark → published table → row count and SHA-256 of its Parquet bytes."""


def read_digests() -> Digests:
    """Return the project's expected digests; empty if they were written with another version of pyarrow."""
    content = _read_file()
    builds: Digests = content["builds"]
    return builds if content["pyarrow"] == version("pyarrow") else {}


@dataclass(frozen=True, slots=True)
class NotedAsks:
    """The prompts of the embedded builds, as stored in the project."""

    world: str
    """Digest of the embedded world at that time."""
    prompts: Mapping[str, str]
    """Prompt → digest of the keys that builds look up (digest_keys)."""


def read_asked() -> NotedAsks:
    """Return the key digests that were last stored in the project."""
    content = _read_file()
    return NotedAsks(content["world"], content["asked"])


def list_asked(warehouse: Path, build_id: str) -> dict[str, dict[Key, Variables]]:
    """Return prompt → key → variables of the scripted replies that a build looked up, existing or missing."""
    with open_warehouse(warehouse) as db:
        records = read_scripted(db, build_id)
    asked: dict[str, dict[Key, Variables]] = {}
    for parts in (record.read("parts") for record in records):
        asked.setdefault(parts["prompt"], {})[make_key(parts["variables"])] = parts["variables"]
    return asked


def collect_asked(reports: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return prompt → digest of the reply keys that the builds of these reports look up."""
    found = (list_asked(Path(report["warehouse"]), report["build_id"]) for report in reports)
    return {prompt: digest_keys(keys) for asked in found for prompt, keys in sorted(asked.items())}


def collect_digests(reports: Iterable[Mapping[str, Any]]) -> Digests:
    """Return the table digests of builds from their reports (BuildReport as JSON)."""
    return {report["benchmark"]: dict(sorted(report["tables"].items())) for report in reports}


def find_uncounted(reports: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a message, with advice, for each build with the stored id but different tables."""
    content = _read_file()
    if content["pyarrow"] != version("pyarrow"):
        return []
    changed = [
        room for room, digest in digest_rooms().items() if content["rooms"].get(room, {}).get("digest") != digest
    ]
    versions = " or ".join(f"{room} (now {ROOMS[room].number})" for room in changed)
    advice = (
        f"raise the version of the room whose change did it in tasks/engine/naming/rooms.py: {versions}"
        if changed
        else "no room of a version changed either, so what did it is counted nowhere: see tasks/engine/naming/rooms.py"
    )
    return [
        f"{report['build_id']}: its tables differ from those in data/world/digests.json, but nothing that its lock names "
        f"does; {advice}"
        for report in reports
        if content["ids"].get(report["benchmark"]) == report["build_id"]
        and content["builds"][report["benchmark"]] != collect_digests([report])[report["benchmark"]]
    ]


def write_digests(reports: Iterable[Mapping[str, Any]]) -> None:
    """Write the digests of builds, from their reports, into the project."""
    made = list(reports)
    content = {
        "pyarrow": version("pyarrow"),
        "ids": {report["benchmark"]: report["build_id"] for report in made},
        "rooms": {room: {"version": ROOMS[room].number, "digest": digest} for room, digest in digest_rooms().items()},
        "world": digest_world(),
        "asked": collect_asked(made),
        "builds": collect_digests(made),
    }
    _FILE.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", "utf-8")


def _read_file() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(_FILE.read_text("utf-8"))
    return content


if __name__ == "__main__":
    read = [json.loads(line) for line in sys.stdin]
    if problems := find_uncounted(read):
        sys.exit("\n".join(problems))
    write_digests(read)
