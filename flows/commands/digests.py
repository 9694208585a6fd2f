"""The digests of what the embedded builds publish, which every machine is held to (data/world/digests.json).

    factmill build all --json | python -m flows.commands.digests       # write them anew, on purpose: `make digests`

Parquet's bytes depend on the library that writes them, so its version stands beside them.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any

from tasks.assets import ROOT

_FILE = ROOT / "data" / "world" / "digests.json"

Digests = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Benchmark → published table → rows and SHA-256 of its Parquet bytes."""


def read_digests() -> Digests:
    """Return the digests that stand in the project; empty when this pyarrow writes other bytes than theirs did."""
    content: dict[str, Any] = json.loads(_FILE.read_text("utf-8"))
    builds: Digests = content["builds"]
    return builds if content["pyarrow"] == version("pyarrow") else {}


def collect_digests(reports: Iterable[Mapping[str, Any]]) -> Digests:
    """Return the digests of builds by their reports (BuildReport as JSON)."""
    return {report["benchmark"]: dict(sorted(report["tables"].items())) for report in reports}


def write_digests(digests: Digests) -> None:
    """Write the digests into the project."""
    content = {"pyarrow": version("pyarrow"), "builds": digests}
    _FILE.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    write_digests(collect_digests(json.loads(line) for line in sys.stdin))
