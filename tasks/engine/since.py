"""Incremental rebuild, `factmill build BENCHMARK --since BUILD`: revalidate the expired replies of an earlier build.

The items and pages behind the replies (core/calls/freshness/changes.py) are checked for changes in batches. Replies whose
data has not changed are kept; all others stay expired. The result is written into the run's folder, once per run.

For each build in the embedded world, a record stores what that world says about each thing. If a later state of the world
says the same, replies of the earlier state are reused under the service's new identity.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from factmill.tasks import progress
from factmill.tasks.core.calls.freshness import (
    MOST_THINGS,
    Verdict,
    call_world_contents,
    find_oldest,
    judge,
    judge_content,
    list_looks,
    read_states,
    rests_on,
)
from factmill.tasks.core.calls.operation import Thing
from factmill.tasks.engine.naming.identities import world_identity
from factmill.tasks.engine.runs import Run, read_moments
from factmill.tasks.errors import UnknownBuild, UsageError
from factmill.tasks.options import LAST, RunOptions, warehouse_of
from factmill.tasks.storage.builds import BuildRecord, find_build, list_builds
from factmill.tasks.storage.recording.journal import Record
from factmill.tasks.storage.recording.records import Kept, KeptCall, find_reply, list_used, read_all, read_kept
from factmill.tasks.storage.warehouse import open_warehouse, read_json

_UNFINISHED = "-unfinished"
_STATE = re.compile(r"(?:^|@)(embedded|graph)-[0-9a-f]+")
"""The part of an identity that names the state of a world's content."""
_EMBEDDED = "embedded-"
_AT_ONCE = 2_000
"""Records held in memory at a time."""


def find_earlier(benchmark: str, lock: Mapping[str, Any], run: RunOptions) -> BuildRecord | None:
    """Return the build that `since` names; None if it is unset, or is `last` and there is no build yet.

    `lock`: the new build's manifest. UnknownBuild or UsageError for a build that is not published, or is of another
    benchmark or world.
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
    """Return (service, identity then, identity now) of the first service that differs in more than state, or None."""
    for name, identity in now["services"].items():
        before = then["services"].get(name)
        if before is not None and name_service(before) != name_service(identity):
            return name, before, identity
    return None


def name_service(identity: str) -> str:
    """Return a service's identity without the state of its content, for services of the embedded world and graphs."""
    return _STATE.sub(r"\1", identity)


@dataclass(frozen=True, slots=True)
class Contents:
    """Contents of two states of the embedded world, for comparison."""

    then: Mapping[str, str] = field(default_factory=dict)
    now: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    """Ids of the records with these contents."""
    note: str = ""
    """Why they cannot be compared; empty if they can."""

    def judge(self, record: Record) -> Verdict:
        """Return whether a reply from the earlier state would be the same now."""
        if self.note:
            return Verdict(None, self.note)
        return judge_content(record.operation, record.read("parts"), record.read("body"), self.then, self.now)


def find_renamed(then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """Return service identity → its identity in an earlier manifest, for embedded-world services whose state changed."""
    found = {
        identity: then["services"].get(name) for name, identity in now["services"].items() if _EMBEDDED in identity
    }
    return {
        identity: before
        for identity, before in found.items()
        if before and identity != before and name_service(identity) == name_service(before)
    }


def compare_contents(run: Run, kept: Kept) -> Contents:
    """Load the contents of the embedded world of the earlier build and of today's."""
    then = next((name for name in kept.renamed.values() if name.startswith(_EMBEDDED)), None)
    if then is None:
        return Contents()
    with open_warehouse(Path(run.options["warehouse"])) as db:
        record = find_reply(db, call_world_contents(then.partition("/")[0]).key)
    if record is None:
        note = f"{kept.build} was made by an earlier factmill, which did not record what the embedded world said"
        return Contents(note=note)
    now = note_contents(run, kept)
    return Contents(record.read("body"), now.read("body"), (record.record_id, now.record_id))


def note_contents(run: Run, kept: Kept) -> Record:
    """Return the record of the embedded world's current contents, creating it if needed."""
    from factmill.tasks.world.contents import WorldContents

    service = WorldContents(world_identity())
    call = call_world_contents(service.identity)
    record = run.recorder.answer([call], service).records[call.key]
    kept.checks[call.key] = record.record_id
    return record


def is_embedded(lock: Mapping[str, Any]) -> bool:
    """True if a build uses services of the embedded world."""
    return any(identity.startswith(_EMBEDDED) for identity in lock["services"].values())


def settle_since(run: Run) -> Kept:
    """Revalidate the earlier build's expired replies and let the recorder serve them; none if no build is named."""
    earlier, begun = run.options["since"], run.options["begun"]
    if earlier is None:
        return Kept("", begun)
    kept = read_kept(run.folder, earlier, begun)
    if kept is None:
        kept = _look_for_changes(run, earlier, begun)
        kept.write(run.folder)
        progress.say(f"since {tell_since(kept.counts)}")
    run.recorder.keep(kept)
    return kept


def tell_since(counts: Mapping[str, Any]) -> str:
    """Return in one line how many of an earlier build's replies are kept, changed or undecidable."""
    undecidable: Mapping[str, int] = counts["undecidable"]
    named = f" ({', '.join(f'{name} {count}' for name, count in undecidable.items())})" if undecidable else ""
    told = (
        f"{counts['build']}: asked anew: {counts['changed']} changed, {sum(undecidable.values())} undecidable{named}; kept: "
        f"{counts['kept']} unchanged by {counts['by']} in {counts['requests']} requests, {counts['lasting']} that last"
    )
    return f"{told}; {counts['note']}" if counts["note"] else told


def _look_for_changes(run: Run, earlier: str, begun: str) -> Kept:
    """Check an earlier build's expired replies, and those of services with another identity now, for changes."""
    oldest = read_moments(run.options["oldest"])
    warehouse = Path(run.options["warehouse"])
    kept = Kept(earlier, begun, renamed=find_renamed(find_build(warehouse, earlier).lock, run.lock))
    with open_warehouse(warehouse) as db:
        used = list_used(db, earlier, sorted({*oldest, *kept.renamed.values()}))
    old = [
        record_id
        for record_id, service, operation, parts, asked_at in used
        if service not in oldest
        or asked_at < find_oldest(operation, read_json(parts, f"calls.parts of {record_id}", dict), oldest[service])
    ]
    contents = compare_contents(run, kept)
    things = {
        thing for record in _iterate(warehouse, old) if record.service in oldest for thing in _list_things(record)
    }
    states, checks = _ask_states(run, things, begun, kept)
    changed, undecidable = 0, dict[str, int]()
    for record in _iterate(warehouse, old):
        shown = contents.checks
        if record.status != "ok":
            verdict = Verdict(None, "it is a failure")
        elif record.service in oldest:
            parts, body = record.read("parts"), record.read("body")
            verdict = judge(record.operation, parts, body, record.asked_at, states)
            shown = tuple(dict.fromkeys(checks[each] for each in _list_things(record) if each in checks))
        else:
            verdict = contents.judge(record)
        if verdict.is_unchanged:
            kept.calls[record.key] = KeptCall(record.record_id, record.asked_at.isoformat(), verdict.why, shown)
        elif verdict.is_unchanged is None:
            undecidable[record.operation] = undecidable.get(record.operation, 0) + 1
        else:
            changed += 1
    kept.counts = {
        "build": earlier,
        "kept": len(kept.calls),
        "changed": changed,
        "undecidable": dict(sorted(undecidable.items())),
        "lasting": len(used) - len(old),
        "requests": len(kept.checks),
        "things": len(things),
        "by": "comparison of contents" if kept.renamed else "lastrevid check",
        "note": contents.note,
    }
    return kept


def _iterate(warehouse: Path, record_ids: Sequence[str]) -> Iterable[Record]:
    """Yield records in portions, since a build's replies may not fit into memory."""
    for start in range(0, len(record_ids), _AT_ONCE):
        with open_warehouse(warehouse) as db:
            found = read_all(db, record_ids[start : start + _AT_ONCE])
        yield from sorted(found, key=lambda record: record.record_id)


def _list_things(record: Record) -> list[Thing]:
    if record.status != "ok":
        return []
    return rests_on(record.operation, record.read("parts"), record.read("body")) or []


def _ask_states(
    run: Run, things: Collection[Thing], begun: str, kept: Kept
) -> tuple[dict[Thing, object], dict[Thing, str]]:
    """Fetch the current state of things; return thing → state and thing → record id, for those with a successful reply."""
    states: dict[Thing, object] = {}
    checks: dict[Thing, str] = {}
    world = run.services.world
    for kind, service, limits in (
        ("items", run.services.wikidata, world.wikidata.limits),
        ("pages", run.services.wikipedia, world.wikipedia.limits),
    ):
        found = [thing for thing in things if (thing.kind == "page") == (kind == "pages")]
        looks = list_looks(service.identity, service.identity, found, min(limits.batch, MOST_THINGS), begun)
        if not looks:
            continue
        progress.say(f"looking for changes of {len(found)} {kind} in {len(looks)} requests …")
        records = run.recorder.answer([call for call, _ in looks], service).records
        for call, told_of in looks:
            record = records[call.key]
            kept.checks[call.key] = record.record_id
            reply = record.reply()
            if reply.status == "ok":
                states |= read_states(reply.body, told_of)
                checks |= dict.fromkeys(told_of, record.record_id)
    return states, checks
