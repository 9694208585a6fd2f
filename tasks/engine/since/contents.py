"""Services that are named by their content: what a new state of the embedded world says as the one before did.

Beside each build in the embedded world it is recorded what that says of each thing. Where a later state says the same,
replies of the earlier one are taken over under the service's new name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tasks.core.calls.freshness.changes import Verdict
from tasks.core.calls.freshness.contents import call_world_contents, judge_content
from tasks.engine.naming.identities import world_identity
from tasks.engine.runs import Run
from tasks.engine.since.earlier import name_service
from tasks.storage.recording.journal import Record
from tasks.storage.recording.kept import Kept, find_reply
from tasks.storage.warehouse import open_warehouse

_EMBEDDED = "embedded-"


@dataclass(frozen=True, slots=True)
class Contents:
    """What two states of the embedded world say."""

    then: Mapping[str, str] = field(default_factory=dict)
    now: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    """Ids of the records that tell it."""
    note: str = ""
    """Why nothing can be told; empty where it can."""

    def judge(self, record: Record) -> Verdict:
        """Return whether a reply of then would come now."""
        if self.note or record.status != "ok":
            return Verdict(None, self.note or "it is a failure")
        return judge_content(record.operation, record.read("parts"), record.read("body"), self.then, self.now)


def find_renamed(then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """Return service → what it was called in an earlier lock, of those of the embedded world."""
    pairs = [(identity, then["services"].get(name)) for name, identity in now["services"].items()]
    return {
        identity: before
        for identity, before in pairs
        if identity
        and before
        and identity != before
        and _EMBEDDED in identity
        and name_service(identity) == name_service(before)
    }


def compare_contents(run: Run, kept: Kept) -> Contents:
    """Return what the embedded world of the earlier build and that of today say."""
    then = next((name for name in kept.renamed.values() if name.startswith(_EMBEDDED)), None)
    if then is None:
        return Contents()
    with open_warehouse(Path(run.options["warehouse"])) as db:
        record = find_reply(db, call_world_contents(then.partition("/")[0]).key)
    if record is None:
        note = f"{kept.build} was made by an earlier factmill, which did not record what the embedded world said"
        return Contents(note=note)
    before = record.read("body")
    now = note_contents(run, kept)
    return Contents(before, now.read("body"), (record.record_id, now.record_id))


def note_contents(run: Run, kept: Kept) -> Record:
    """Return the record of what the embedded world says today, which is made where there is none."""
    from tasks.world.contents import WorldContents

    service = WorldContents(world_identity())
    call = call_world_contents(service.identity)
    record = run.recorder.answer([call], service).records[call.key]
    kept.checks[call.key] = record.record_id
    return record


def is_embedded(lock: Mapping[str, Any]) -> bool:
    """True where a build asks services of the embedded world."""
    return any(identity.startswith(_EMBEDDED) for identity in lock["services"].values())
