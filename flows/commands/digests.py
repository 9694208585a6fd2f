"""What the embedded builds publish and ask, which every machine is held to (data/world/digests.json): digests of tables, and of
the keys of all scripted replies that they look for, with the world that they were built in.

    factmill build all --json | python -m flows.commands.digests       # write them anew, on purpose: `make digests`

Parquet's bytes depend on the library that writes them, so its version stands beside them.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tasks.assets import ROOT
from tasks.storage.recording.records import read_scripted
from tasks.storage.warehouse import open_warehouse
from tasks.world.data import digest_world
from tasks.world.replies import Key, Variables, digest_keys, make_key

_FILE = ROOT / "data" / "world" / "digests.json"

Digests = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Benchmark → published table → rows and SHA-256 of its Parquet bytes."""


def read_digests() -> Digests:
    """Return the digests that stand in the project; empty when this pyarrow writes other bytes than theirs did."""
    content: dict[str, Any] = json.loads(_FILE.read_text("utf-8"))
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
    content: dict[str, Any] = json.loads(_FILE.read_text("utf-8"))
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


def write_digests(digests: Digests, asked: Mapping[str, str]) -> None:
    """Write the digests into the project."""
    content = {"pyarrow": version("pyarrow"), "world": digest_world(), "asked": asked, "builds": digests}
    _FILE.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    reports = [json.loads(line) for line in sys.stdin]
    write_digests(collect_digests(reports), collect_asked(reports))
