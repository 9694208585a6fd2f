"""Expected digests of the embedded builds (data/world/digests.json), which every machine must reproduce.

They cover the published tables, the keys of all scripted replies that the builds look up, and the embedded world.

    factmill build all --json | python -m factmill.flows.published_digests       # rewrite on purpose: `make digests`

Parquet bytes depend on the library that writes them, so the file also holds pyarrow's version. The ids of the builds
and the digests of the packages identify the inputs and the code that made the tables.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.engine.naming.code_versions import PACKAGE_VERSIONS, digest_code_packages
from factmill.tasks.storage.recording.call_records import load_scripted_records
from factmill.tasks.storage.warehouse import open_warehouse
from factmill.tasks.world.data import digest_world_files
from factmill.tasks.world.scripted_replies import (
    PromptVariables,
    ScriptedReplyKey,
    digest_reply_key_set,
    make_scripted_reply_key,
)

_DIGESTS_FILE = ASSETS_ROOT / "data" / "world" / "digests.json"
TableDigests = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Benchmark → published table → row count and SHA-256 of its Parquet bytes."""


def load_published_digests() -> TableDigests:
    """Return the project's expected digests; empty if they were written with another version of pyarrow."""
    content = _load_digests_file()
    builds: TableDigests = content["builds"]
    return builds if content["pyarrow"] == version("pyarrow") else {}


def load_world_and_reply_key_digests() -> tuple[str, Mapping[str, str]]:
    """Return the embedded world's digest, and prompt → digest of the keys that builds look up, as last stored."""
    content = _load_digests_file()
    return content["world"], content["asked"]


def load_scripted_reply_keys_by_prompt(
    warehouse: Path, build_id: str
) -> dict[str, dict[ScriptedReplyKey, PromptVariables]]:
    """Return prompt → key → variables of the scripted replies that a build looked up, existing or missing."""
    with open_warehouse(warehouse) as db:
        records = load_scripted_records(db, build_id)
    asked: dict[str, dict[ScriptedReplyKey, PromptVariables]] = {}
    for parts in (record.read_column("parts") for record in records):
        asked.setdefault(parts["prompt"], {})[make_scripted_reply_key(parts["variables"])] = parts["variables"]
    return asked


def digest_scripted_reply_keys_by_prompt(reports: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return prompt → digest of the reply keys that the builds of these reports look up."""
    found = (load_scripted_reply_keys_by_prompt(Path(report["warehouse"]), report["build_id"]) for report in reports)
    return {prompt: digest_reply_key_set(keys) for asked in found for prompt, keys in sorted(asked.items())}


def collect_table_digests(reports: Iterable[Mapping[str, Any]]) -> TableDigests:
    """Return the table digests of builds from their reports (BuildReport as JSON)."""
    return {report["benchmark"]: dict(sorted(report["tables"].items())) for report in reports}


def describe_table_changes_under_same_id(reports: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a message, with advice, for each build with the stored id but different tables."""
    content = _load_digests_file()
    if content["pyarrow"] != version("pyarrow"):
        return []
    changed = [
        package
        for package, digest in digest_code_packages().items()
        if content["rooms"].get(package, {}).get("digest") != digest
    ]
    versions = " or ".join(f"{package} (now {PACKAGE_VERSIONS[package].number})" for package in changed)
    advice = (
        f"raise the version of the package whose change caused it in tasks/engine/naming/code_versions.py: {versions}"
        if changed
        else "no versioned package changed either, so no version covers the cause: see tasks/engine/naming/code_versions.py"
    )
    return [
        f"{report['build_id']}: its tables differ from those in data/world/digests.json, but nothing in its manifest "
        f"differs; {advice}"
        for report in reports
        if content["ids"].get(report["benchmark"]) == report["build_id"]
        and content["builds"][report["benchmark"]] != collect_table_digests([report])[report["benchmark"]]
    ]


def write_published_digests(reports: Iterable[Mapping[str, Any]]) -> None:
    """Write the digests of builds, from their reports, into the project."""
    made = list(reports)
    content = {
        "pyarrow": version("pyarrow"),
        "ids": {report["benchmark"]: report["build_id"] for report in made},
        "rooms": {
            package: {"version": PACKAGE_VERSIONS[package].number, "digest": digest}
            for package, digest in digest_code_packages().items()
        },
        "world": digest_world_files(),
        "asked": digest_scripted_reply_keys_by_prompt(made),
        "builds": collect_table_digests(made),
    }
    _DIGESTS_FILE.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", "utf-8")


def _load_digests_file() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(_DIGESTS_FILE.read_text("utf-8"))
    return content


if __name__ == "__main__":
    read = [json.loads(line) for line in sys.stdin]
    if problems := describe_table_changes_under_same_id(read):
        sys.exit("\n".join(problems))
    write_published_digests(read)
