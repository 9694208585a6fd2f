"""Which earlier build a rebuild goes by, and whether it can: `factmill build BENCHMARK --since BUILD`."""

import re
from collections.abc import Mapping
from typing import Any

from tasks.errors import UnknownBuild, UsageError
from tasks.options import LAST, RunOptions, warehouse_of
from tasks.storage.builds import BuildRecord, find_build, list_builds

_UNFINISHED = "-unfinished"
_STATE = re.compile(r"(?:^|@)(embedded|graph)-[0-9a-f]+")
"""What of an identity names the state of a world's content."""


def find_earlier(benchmark: str, lock: Mapping[str, Any], run: RunOptions) -> BuildRecord | None:
    """Return the build that `since` names, or None where it is `last` and there is none yet.

    `lock`: of what is to be built. UnknownBuild or UsageError for one that is not published, is another benchmark's or of
    another world.
    """
    if run.since is None:
        return None
    if run.mode != "record":
        raise UsageError(
            f"--since asks anew what has changed, and --mode {run.mode} {'asks nothing' if run.mode == 'replay' else 'asks all'}: "
            "leave out one of the two"
        )
    warehouse = warehouse_of(run)
    if run.since == LAST:
        own = [each for each in list_builds(warehouse) if each.benchmark == benchmark]
        return next((each for each in reversed(own) if not find_other_services(each.lock, lock)), None)
    if run.since.endswith(_UNFINISHED):
        raise UnknownBuild(
            f"--since {run.since}: a run that has published nothing; give a published build (`factmill builds`), or leave out "
            "--since: the same command goes on with that run"
        )
    record = find_build(warehouse, run.since)
    if record.benchmark != benchmark:
        raise UsageError(
            f"--since {run.since}: {record.build_id} is a build of {record.benchmark}, and this one is of {benchmark}; give one "
            f"of its own (`factmill builds`), or --since {LAST} for the newest of each benchmark"
        )
    if other := find_other_services(record.lock, lock):
        name, then, now = other
        raise UsageError(
            f"--since {run.since}: {record.build_id} was made in the world {record.lock['world']['name']}, whose {name} is "
            f"{then}, and that of {lock['world']['name']} is {now}; give a build of this world (`factmill builds`), or leave out --since"
        )
    return record


def find_other_services(then: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Return (service, identity in one lock, in the other) of the first that is not the same in another state; else None."""
    for name, identity in now["services"].items():
        before = then["services"].get(name)
        if before is not None and name_service(before) != name_service(identity):
            return name, before, identity
    return None


def name_service(identity: str) -> str:
    """Return what a service is known by whatever its content: the embedded world's Wikidata is one, and so is a graph."""
    return _STATE.sub(r"\1", identity)
