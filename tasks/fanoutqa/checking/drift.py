"""`factmill drift`: pin the references of a published build to another moment, and check what their articles say then.

Calls are recorded in the build's warehouse, so repeating the same report sends none. The build itself is only read.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from factmill.tasks.core.receipts import Batch
from factmill.tasks.core.rows import rows_from_arrow
from factmill.tasks.engine.batches import Work
from factmill.tasks.engine.runs import Run
from factmill.tasks.engine.services import Services
from factmill.tasks.errors import UsageError
from factmill.tasks.fanoutqa.core.drift import Drift, compare_findings, share_lost
from factmill.tasks.fanoutqa.core.rows import Reference
from factmill.tasks.lookups.evidence import PinnedArticle, Unpinned, know_article, load_article_texts, pin_articles
from factmill.tasks.progress import say
from factmill.tasks.storage.builds import BuildRecord, published_names, published_table
from factmill.tasks.storage.recording.recorder import Recorder
from factmill.tasks.storage.warehouse import open_warehouse
from factmill.tasks.text.values.answers import Finding, find_answer

TABLE, QUESTIONS = "fanoutqa_references", "fanoutqa"
BATCH = 100
"""References looked up in one batch; their articles are in memory together."""


def read_references(warehouse: Path, build: BuildRecord) -> list[Reference]:
    """Load the references of a build's published questions, by id; UsageError for a build without such a table."""
    with open_warehouse(warehouse) as db:
        if TABLE not in published_names(db, build.build_id):
            raise UsageError(f"{build.build_id} has no table {TABLE}; expected a build of fanoutqa")
        published = set(published_table(db, build.build_id, QUESTIONS)["id"].to_pylist())
        found = rows_from_arrow(Reference, published_table(db, build.build_id, TABLE))
    return [each for each in found if each.question_id in published]


def measure_drift(
    references: Sequence[Reference], services: Services, recorder: Recorder, epoch: str, size: int = BATCH
) -> list[Drift]:
    """Return how references differ at another moment (ISO 8601, UTC), by id.

    If the build never read a reference's article, since its question was rejected before, the article is also read as
    of the build's epoch.
    """
    before: list[Reference] = []
    after: list[Reference] = []
    # references to one article share a batch, so that its text is read once
    batches = _split(sorted(references, key=lambda each: (each.title_asked, each.id)), size)
    for number, batch in enumerate(batches, 1):
        run = Run(Path(), {"params": {}}, {}, {}, services, recorder)
        work = Work(Batch(run="", stage="drift", index=number, key=""), run)
        known, found = _look_at(work, batch, epoch)
        before += known
        after += found
        recorder.merge()
        say(f"drift: {len(after):,} of {len(references):,} references, {work.calls_sent:,} calls sent")
    return compare_findings(before, after)


def _look_at(work: Work, batch: Sequence[Reference], epoch: str) -> tuple[list[Reference], list[Reference]]:
    """Return references as in the build, with the missing findings added, and as they are at the epoch."""
    pinned = pin_articles(work, ((each.id, each.title_asked) for each in batch), epoch)
    then = [_put_pin(each, pinned[each.title_asked]) for each in batch]
    unread = [each for each in batch if each.problem is None and each.found is None and each.answer is not None]
    moved = [new for old, new in zip(batch, then, strict=True) if not _is_known(old, new)]
    findings = _find(work, [*unread, *moved])
    completed = {each.id: _put_finding(each, findings) for each in unread}
    before = [completed.get(each.id, each) for each in batch]
    after = [
        new.replace(found=old.found, missing=old.missing) if _is_known(old, new) else _put_finding(new, findings)
        for old, new in zip(batch, then, strict=True)
    ]
    return before, after


def _is_known(old: Reference, new: Reference) -> bool:
    """True if the build already looked for the answer in this revision."""
    return old.problem is None and new.problem is None and old.revid == new.revid and old.found is not None


def _put_pin(reference: Reference, pin: PinnedArticle | Unpinned) -> Reference:
    none = reference.replace(title=None, pageid=None, revid=None, timestamp=None, found=None, missing=[])
    if isinstance(pin, Unpinned):
        return none.replace(problem=f"{pin.reason}: {pin.detail}")
    return none.replace(title=pin.title, pageid=pin.pageid, revid=pin.revid, timestamp=pin.timestamp, problem=None)


def _find(work: Work, references: Sequence[Reference]) -> dict[tuple[str, int], Finding | Unpinned]:
    """Return (reference id, revision id) → whether that revision says the answer; Unpinned if it has no text."""
    texts = load_article_texts(work, ((each.id, each.revid) for each in references if each.revid is not None))
    known = {revid: text if isinstance(text, Unpinned) else know_article(text) for revid, text in texts.items()}
    found: dict[tuple[str, int], Finding | Unpinned] = {}
    for each in references:
        if each.revid is None:
            continue
        text = known[each.revid]
        answer = None if each.answer is None else json.loads(each.answer)
        finding = text if isinstance(text, Unpinned) else Finding(None) if answer is None else find_answer(answer, text)
        found[each.id, each.revid] = finding
    return found


def _put_finding(reference: Reference, findings: dict[tuple[str, int], Finding | Unpinned]) -> Reference:
    if reference.revid is None:
        return reference
    finding = findings[reference.id, reference.revid]
    if isinstance(finding, Unpinned):
        return reference.replace(problem=f"{finding.reason}: {finding.detail}", found=None, missing=[])
    return reference.replace(found=finding.found, missing=list(finding.missing))


def format_drift(drift: Drift) -> Iterator[str]:
    """Yield the report lines of one reference."""
    before, after = drift.before, drift.after
    yield f"{drift.kind.replace('_', ' ')}: {before.question_id} {before.path}  {before.sub_question}".rstrip()
    answers = "" if before.answer is None else f"answer {before.answer}"
    if missing := after.missing or before.missing:
        answers += f"; {'missing now' if after.missing else 'was missing'}: {', '.join(missing)}"
    if answers:
        yield f"    {answers}"
    yield f"    {_format_side(before)} → {_format_side(after)}"


def _format_side(reference: Reference) -> str:
    if reference.problem is not None:
        return f"{reference.title_asked}: {reference.problem}"
    return f"{reference.title}, revision {reference.revid} of {reference.timestamp or 'an unknown date'}"


def format_counts(build_id: str, moments: tuple[str, str], counts: dict[str, int]) -> str:
    """Return the summary in one line."""
    kinds = [name for name in counts if name not in ("references", "questions", "in_another_revision")]
    told = ", ".join(f"{counts[kind]:,} {kind.replace('_', ' ')}" for kind in kinds)
    share = share_lost(counts)
    return (
        f"{build_id}, {moments[0] or 'its epoch'} → {moments[1]}: n = {counts['references']:,} references of "
        f"{counts['questions']:,} questions, {counts['in_another_revision']:,} in another revision; {told}"
        + ("" if share is None else f"; lost: {share:.2%} of those looked up")
    )


def _split(references: Sequence[Reference], size: int) -> Iterable[Sequence[Reference]]:
    return (references[start : start + size] for start in range(0, len(references), size))
