"""Incremental rebuild, `factmill build BENCHMARK --since BUILD`: revalidate the expired replies of an earlier build.

The items and pages behind the replies (core/calls/freshness.py) are checked for changes in batches. Replies whose
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
    MAX_RESOURCES_PER_REQUEST,
    ResponseFreshnessVerdict,
    find_resources_response_depends_on,
    judge_embedded_world_freshness,
    judge_live_freshness,
    make_embedded_world_digests_call,
    make_state_calls,
    parse_resource_states,
)
from factmill.tasks.core.calls.operation import WikiItemLabelOrPageDependency
from factmill.tasks.engine.naming.identities import embedded_world_identity
from factmill.tasks.engine.runs import BuildRun, parse_oldest_valid_reply_times
from factmill.tasks.errors import UnknownBuild, UsageError
from factmill.tasks.options import LATEST_BUILD, RunOptions, resolve_warehouse_path
from factmill.tasks.storage.builds import BuildRecord, list_builds, resolve_build
from factmill.tasks.storage.recording.call_records import (
    BuildRevalidation,
    RevalidatedCall,
    find_latest_success,
    find_revalidation,
    is_recorded_reply_expired,
    list_used_calls,
    load_records,
)
from factmill.tasks.storage.recording.journal import CallRecord
from factmill.tasks.storage.warehouse import open_warehouse

_UNFINISHED_RUN_SUFFIX = "-unfinished"
_CONTENT_STATE_PATTERN = re.compile(r"(?:^|@)(embedded|graph)-[0-9a-f]+")
"""The part of an identity that names the state of a world's content."""
_EMBEDDED_PREFIX = "embedded-"
_LOAD_CHUNK_SIZE = 2_000
"""Records held in memory at a time."""


def resolve_since_build(benchmark: str, manifest: Mapping[str, Any], run: RunOptions) -> BuildRecord | None:
    """Return the build that `since` names; None if it is unset, or is `last` and there is no build yet.

    `manifest`: the new build's. UnknownBuild or UsageError for a build that is not published, or is of another
    benchmark or world.
    """
    if run.since is None:
        return None
    if run.mode != "record":
        raise UsageError(
            f"--since requests again only what has changed, but --mode {run.mode} requests {'nothing' if run.mode == 'replay' else 'everything'}: "
            "remove one of the two"
        )
    warehouse = resolve_warehouse_path(run)
    if run.since == LATEST_BUILD:
        own = [each for each in list_builds(warehouse) if each.benchmark == benchmark]
        return next(
            (each for each in reversed(own) if not find_service_differing_beyond_state(each.lock, manifest)), None
        )
    if run.since.endswith(_UNFINISHED_RUN_SUFFIX):
        raise UnknownBuild(
            f"--since {run.since}: this run has published nothing; name a published build (`factmill show` lists them), or remove "
            "--since: the same command then resumes that run"
        )
    record = resolve_build(warehouse, run.since)
    if record.benchmark != benchmark:
        raise UsageError(
            f"--since {run.since}: {record.build_id} is a build of {record.benchmark}, not of {benchmark}; name a build "
            f"of {benchmark} (`factmill show` lists them), or use --since {LATEST_BUILD} for the newest of each benchmark"
        )
    if other := find_service_differing_beyond_state(record.lock, manifest):
        name, then, now = other
        raise UsageError(
            f"--since {run.since}: {record.build_id} was made in the world {record.lock['world']['name']} with {name} {then}, "
            f"but {manifest['world']['name']} has {name} {now}; name a build of this world (`factmill show` lists them), or remove --since"
        )
    return record


def find_service_differing_beyond_state(
    earlier_manifest: Mapping[str, Any], current_manifest: Mapping[str, Any]
) -> tuple[str, str, str] | None:
    """Return (service, identity then, identity now) of the first service that differs in more than state, or None."""
    for name, identity in current_manifest["services"].items():
        before = earlier_manifest["services"].get(name)
        if before is not None and strip_service_content_state(before) != strip_service_content_state(identity):
            return name, before, identity
    return None


def strip_service_content_state(identity: str) -> str:
    """Return a service's identity without the state of its content, for services of the embedded world and graphs."""
    return _CONTENT_STATE_PATTERN.sub(r"\1", identity)


@dataclass(frozen=True, slots=True)
class EarlierAndCurrentWorldContents:
    """Contents of two states of the embedded world, for comparison."""

    then: Mapping[str, str] = field(default_factory=dict)
    now: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    """Ids of the records with these contents."""
    note: str = ""
    """Why they cannot be compared; empty if they can."""

    def judge_reply(self, record: CallRecord) -> ResponseFreshnessVerdict:
        """Return whether a reply from the earlier state would be the same now."""
        if self.note:
            return ResponseFreshnessVerdict(None, self.note)
        return judge_embedded_world_freshness(
            record.operation, record.read_column("parts"), record.read_column("body"), self.then, self.now
        )


def map_changed_embedded_services_to_earlier(
    earlier_manifest: Mapping[str, Any], current_manifest: Mapping[str, Any]
) -> dict[str, str]:
    """Return service identity → its identity in an earlier manifest, for embedded-world services whose state changed."""
    found = {
        identity: earlier_manifest["services"].get(name)
        for name, identity in current_manifest["services"].items()
        if _EMBEDDED_PREFIX in identity
    }
    return {
        identity: before
        for identity, before in found.items()
        if before
        and identity != before
        and strip_service_content_state(identity) == strip_service_content_state(before)
    }


def load_earlier_and_current_world_contents(
    run: BuildRun, revalidation: BuildRevalidation
) -> EarlierAndCurrentWorldContents:
    """Load the contents of the embedded world of the earlier build and of today's."""
    then = next((name for name in revalidation.renamed.values() if name.startswith(_EMBEDDED_PREFIX)), None)
    if then is None:
        return EarlierAndCurrentWorldContents()
    with open_warehouse(Path(run.options["warehouse"])) as db:
        record = find_latest_success(db, make_embedded_world_digests_call(then.partition("/")[0]).key)
    if record is None:
        note = f"{revalidation.build} was made by an earlier factmill, which did not record the contents of the embedded world"
        return EarlierAndCurrentWorldContents(note=note)
    now = get_or_record_world_content_digests(run, revalidation)
    return EarlierAndCurrentWorldContents(
        record.read_column("body"), now.read_column("body"), (record.record_id, now.record_id)
    )


def get_or_record_world_content_digests(run: BuildRun, revalidation: BuildRevalidation) -> CallRecord:
    """Return the record of the embedded world's current contents, creating it if needed."""
    from factmill.tasks.world.content_digests import WorldContentDigestsService

    service = WorldContentDigestsService(embedded_world_identity())
    call = make_embedded_world_digests_call(service.identity)
    record = run.call_cache.get_or_send([call], service).records[call.key]
    revalidation.checks[call.key] = record.record_id
    return record


def uses_embedded_world(manifest: Mapping[str, Any]) -> bool:
    """True if a build uses services of the embedded world."""
    return any(identity.startswith(_EMBEDDED_PREFIX) for identity in manifest["services"].values())


def revalidate_and_reuse_earlier_replies(run: BuildRun) -> BuildRevalidation:
    """Revalidate the earlier build's expired replies and let the recorder serve them; none if no build is named."""
    earlier, begun = run.options["since"], run.options["begun"]
    if earlier is None:
        return BuildRevalidation("", begun)
    kept = find_revalidation(run.folder, earlier, begun)
    if kept is None:
        kept = _revalidate_expired_replies(run, earlier, begun)
        kept.write(run.folder)
        progress.print_and_log(f"since {format_revalidation(kept.counts)}")
    run.call_cache.use_revalidation(kept)
    return kept


def format_revalidation(counts: Mapping[str, Any]) -> str:
    """Return in one line how many of an earlier build's replies are kept, changed or undecidable."""
    undecidable: Mapping[str, int] = counts["undecidable"]
    named = f" ({', '.join(f'{name} {count}' for name, count in undecidable.items())})" if undecidable else ""
    text = (
        f"{counts['build']}: requested again: {counts['changed']} changed, {sum(undecidable.values())} undecidable{named}; kept: "
        f"{counts['kept']} unchanged by {counts['by']} in {counts['requests']} requests, {counts['lasting']} not expired"
    )
    return f"{text}; {counts['note']}" if counts["note"] else text


def _revalidate_expired_replies(run: BuildRun, earlier: str, begun: str) -> BuildRevalidation:
    """Check an earlier build's expired replies, and those of services with another identity now, for changes."""
    oldest = parse_oldest_valid_reply_times(run.options["oldest"])
    warehouse = Path(run.options["warehouse"])
    kept = BuildRevalidation(
        earlier,
        begun,
        renamed=map_changed_embedded_services_to_earlier(resolve_build(warehouse, earlier).lock, run.manifest),
    )
    with open_warehouse(warehouse) as db:
        used = list_used_calls(db, earlier, sorted({*oldest, *kept.renamed.values()}))
    old = [
        record_id
        for record_id, service, operation, parts, asked_at in used
        if service not in oldest or is_recorded_reply_expired(record_id, operation, parts, asked_at, oldest[service])
    ]
    contents = load_earlier_and_current_world_contents(run, kept)
    things = {
        thing
        for record in _iterate_call_records(warehouse, old)
        if record.service in oldest
        for thing in _list_wiki_resources_record_depends_on(record)
    }
    states, checks = _fetch_resource_states_and_record_ids(run, things, begun, kept)
    changed, undecidable = 0, dict[str, int]()
    for record in _iterate_call_records(warehouse, old):
        shown = contents.checks
        if record.status != "ok":
            verdict = ResponseFreshnessVerdict(None, "the recorded reply is a failure")
        elif record.service in oldest:
            parts, body = record.read_column("parts"), record.read_column("body")
            verdict = judge_live_freshness(record.operation, parts, body, record.asked_at, states)
            shown = tuple(
                dict.fromkeys(checks[each] for each in _list_wiki_resources_record_depends_on(record) if each in checks)
            )
        else:
            verdict = contents.judge_reply(record)
        if verdict.is_unchanged:
            kept.calls[record.key] = RevalidatedCall(record.record_id, record.asked_at.isoformat(), verdict.why, shown)
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


def _iterate_call_records(warehouse: Path, record_ids: Sequence[str]) -> Iterable[CallRecord]:
    """Yield records in portions, since a build's replies may not fit into memory."""
    for start in range(0, len(record_ids), _LOAD_CHUNK_SIZE):
        with open_warehouse(warehouse) as db:
            found = load_records(db, record_ids[start : start + _LOAD_CHUNK_SIZE])
        yield from sorted(found, key=lambda record: record.record_id)


def _list_wiki_resources_record_depends_on(record: CallRecord) -> list[WikiItemLabelOrPageDependency]:
    if record.status != "ok":
        return []
    return (
        find_resources_response_depends_on(record.operation, record.read_column("parts"), record.read_column("body"))
        or []
    )


def _fetch_resource_states_and_record_ids(
    run: BuildRun, resources: Collection[WikiItemLabelOrPageDependency], begun: str, revalidation: BuildRevalidation
) -> tuple[dict[WikiItemLabelOrPageDependency, object], dict[WikiItemLabelOrPageDependency, str]]:
    """Fetch the current state of things; return thing → state and thing → record id, for those with a successful reply."""
    states: dict[WikiItemLabelOrPageDependency, object] = {}
    checks: dict[WikiItemLabelOrPageDependency, str] = {}
    world = run.services.world
    for kind, service, limits in (
        ("items", run.services.wikidata, world.wikidata.limits),
        ("pages", run.services.wikipedia, world.wikipedia.limits),
    ):
        found = [thing for thing in resources if (thing.kind == "page") == (kind == "pages")]
        looks = make_state_calls(
            service.identity, service.identity, found, min(limits.batch, MAX_RESOURCES_PER_REQUEST), begun
        )
        if not looks:
            continue
        progress.print_and_log(f"checking {len(found)} {kind} for changes in {len(looks)} requests …")
        records = run.call_cache.get_or_send([call for call, _ in looks], service).records
        for call, checked in looks:
            record = records[call.key]
            revalidation.checks[call.key] = record.record_id
            reply = record.reply()
            if reply.status == "ok":
                states |= parse_resource_states(reply.body, checked)
                checks |= dict.fromkeys(checked, record.record_id)
    return states, checks
