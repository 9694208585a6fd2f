"""What has changed since an earlier build: its replies that are too old are looked through before anything is asked.

What they rest on (core/calls/freshness/changes.py) is looked at in batches; those that would come again are kept, all others are
too old, as the ages have it. What is settled is written into the run's folder, once.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks import progress
from tasks.core.calls.call import Service
from tasks.core.calls.freshness.changes import MOST_THINGS, Thing, Verdict, judge, list_looks, read_states, rests_on
from tasks.core.calls.freshness.lasting import find_oldest
from tasks.engine.runs import Run, read_moments
from tasks.engine.since.contents import compare_contents, find_renamed
from tasks.storage.builds import find_build
from tasks.storage.recording.journal import Record
from tasks.storage.recording.kept import Kept, KeptCall, list_used, read_kept, read_used
from tasks.storage.warehouse import open_warehouse, read_json

_AT_ONCE = 2_000
"""Records whose replies are held in memory."""


def settle_since(run: Run) -> Kept:
    """Find out which replies of the earlier build are kept, and have the recorder serve them; none where none is named."""
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
    """Return in a line what became of an earlier build's replies."""
    undecidable: Mapping[str, int] = counts["undecidable"]
    named = f" ({', '.join(f'{name} {count}' for name, count in undecidable.items())})" if undecidable else ""
    told = (
        f"{counts['build']}: asked anew: {counts['changed']} changed, {sum(undecidable.values())} undecidable{named}; kept: "
        f"{counts['kept']} unchanged by {counts['by']} in {counts['requests']} requests, {counts['lasting']} that last"
    )
    return f"{told}; {counts['note']}" if counts["note"] else told


def _look_for_changes(run: Run, earlier: str, begun: str) -> Kept:
    """Look at what the too old replies of an earlier build rest on, and those of services that were called otherwise."""
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
        if record.service in oldest:
            verdict = _judge(record, states)
            shown = tuple(dict.fromkeys(checks[each] for each in _list_things(record) if each in checks))
        else:
            verdict, shown = contents.judge(record), contents.checks
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
    """Yield records, some at a time, since a build's replies may not fit into memory."""
    for start in range(0, len(record_ids), _AT_ONCE):
        with open_warehouse(warehouse) as db:
            found = read_used(db, record_ids[start : start + _AT_ONCE])
        yield from found


def _list_things(record: Record) -> list[Thing]:
    if record.status != "ok":
        return []
    return rests_on(record.operation, record.read("parts"), record.read("body")) or []


def _judge(record: Record, states: Mapping[Thing, object]) -> Verdict:
    if record.status != "ok":
        return Verdict(None, "it is a failure")
    return judge(record.operation, record.read("parts"), record.read("body"), record.asked_at, states)


def _ask_states(
    run: Run, things: Iterable[Thing], begun: str, kept: Kept
) -> tuple[dict[Thing, object], dict[Thing, str]]:
    """Return the state of things, of those that the services tell, and the record that tells it."""
    states: dict[Thing, object] = {}
    checks: dict[Thing, str] = {}
    of_items, of_pages = _split(things)
    for service, found, limit in (
        (run.services.wikidata, of_items, run.services.world.wikidata.limits.batch),
        (run.services.wikipedia, of_pages, run.services.world.wikipedia.limits.batch),
    ):
        looks = list_looks(service.identity, service.identity, found, min(limit, MOST_THINGS), begun)
        if not looks:
            continue
        progress.say(f"looking for changes of {len(found)} {_name_things(service, run)} in {len(looks)} requests …")
        records = run.recorder.answer([call for call, _ in looks], service).records
        for call, told_of in looks:
            record = records[call.key]
            kept.checks[call.key] = record.record_id
            reply = record.reply()
            if reply.status == "ok":
                states |= read_states(reply.body, told_of)
                checks |= dict.fromkeys(told_of, record.record_id)
    return states, checks


def _split(things: Iterable[Thing]) -> tuple[list[Thing], list[Thing]]:
    of_items: list[Thing] = []
    of_pages: list[Thing] = []
    for thing in things:
        (of_pages if thing.kind == "page" else of_items).append(thing)
    return of_items, of_pages


def _name_things(service: Service, run: Run) -> str:
    return "items" if service is run.services.wikidata else "pages"
