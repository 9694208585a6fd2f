"""What the embedded builds publish and ask, which every machine is held to (data/world/digests.json): digests of tables, and of
the keys of all scripted replies that they look for, with the world that they were built in.

    factmill build all --json | python -m factmill.flows.commands.digests       # write them anew, on purpose: `make digests`

Parquet's bytes depend on the library that writes them, so its version stands beside them; the builds' ids and the digests of
the rooms say what the tables were made by.
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
"""Benchmark → published table → rows and SHA-256 of its Parquet bytes."""


def read_digests() -> Digests:
    """Return the digests that stand in the project; empty when this pyarrow writes other bytes than theirs did."""
    content = _read_file()
    builds: Digests = content["builds"]
    return builds if content["pyarrow"] == version("pyarrow") else {}


@dataclass(frozen=True, slots=True)
class NotedAsks:
    """What the embedded builds ask, as the project notes it."""

    world: str
    """Digest of the world that they were built in."""
    prompts: Mapping[str, str]
    """Prompt → digest of the keys that are asked (digest_keys)."""


def read_asked() -> NotedAsks:
    """Return what the embedded builds asked when that was last written into the project."""
    content = _read_file()
    return NotedAsks(content["world"], content["asked"])


def list_asked(warehouse: Path, build_id: str) -> dict[str, dict[Key, Variables]]:
    """Return prompt → key → variables of the scripted replies that a build asked for, there or missing."""
    with open_warehouse(warehouse) as db:
        records = read_scripted(db, build_id)
    asked: dict[str, dict[Key, Variables]] = {}
    for parts in (record.read("parts") for record in records):
        asked.setdefault(parts["prompt"], {})[make_key(parts["variables"])] = parts["variables"]
    return asked


def collect_asked(reports: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return prompt → digest of what the builds of these reports ask."""
    found = (list_asked(Path(report["warehouse"]), report["build_id"]) for report in reports)
    return {prompt: digest_keys(keys) for asked in found for prompt, keys in sorted(asked.items())}


def collect_digests(reports: Iterable[Mapping[str, Any]]) -> Digests:
    """Return the digests of builds by their reports (BuildReport as JSON)."""
    return {report["benchmark"]: dict(sorted(report["tables"].items())) for report in reports}


def find_uncounted(reports: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what is wrong with builds that have the ids of those in the project and other tables, and what to do."""
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
    """Write the digests of builds into the project, by their reports."""
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
