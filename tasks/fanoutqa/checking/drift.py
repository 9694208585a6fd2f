"""`factmill drift`: pin the references of a published build to another moment, and check what their articles say then.

Calls are recorded in the build's warehouse, so repeating the same report sends none. The build itself is only read.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from factmill.tasks.core.batch_receipts import StageBatch
from factmill.tasks.core.rows import rows_from_arrow
from factmill.tasks.engine.batches import BatchInProgress
from factmill.tasks.engine.runs import BuildRun
from factmill.tasks.engine.services import WorldServices
from factmill.tasks.errors import UsageError
from factmill.tasks.fanoutqa.core.drift import EvidenceReferenceDrift, classify_reference_drifts, compute_lost_share
from factmill.tasks.fanoutqa.core.rows import EvidenceReference
from factmill.tasks.fanoutqa.pin import apply_pin, format_problem
from factmill.tasks.lookups.pinned_articles import (
    MissingArticleReason,
    PinnedArticleRevision,
    index_article_text,
    load_article_texts,
    pin_article_revisions_by_title_at_epoch,
)
from factmill.tasks.progress import print_and_log
from factmill.tasks.storage.builds import BuildRecord, load_published_table, load_table_digests
from factmill.tasks.storage.recording.call_cache import CallCache
from factmill.tasks.storage.warehouse import open_warehouse
from factmill.tasks.text.values.answer_search import IndexedText, find_answer_and_missing_parts

REFERENCES_TABLE, QUESTIONS_TABLE = "fanoutqa_references", "fanoutqa"
REFERENCES_PER_BATCH = 100
"""References looked up in one batch; their articles are in memory together."""


def load_published_references(warehouse: Path, build: BuildRecord) -> list[EvidenceReference]:
    """Load the references of a build's published questions, by id; UsageError for a build without such a table."""
    with open_warehouse(warehouse) as db:
        if REFERENCES_TABLE not in load_table_digests(db, build.build_id):
            raise UsageError(f"{build.build_id} has no table {REFERENCES_TABLE}; expected a build of fanoutqa")
        published = set(load_published_table(db, build.build_id, QUESTIONS_TABLE)["id"].to_pylist())
        found = rows_from_arrow(EvidenceReference, load_published_table(db, build.build_id, REFERENCES_TABLE))
    return [each for each in found if each.question_id in published]


def measure_drift(
    references: Sequence[EvidenceReference],
    services: WorldServices,
    recorder: CallCache,
    epoch: str,
    size: int = REFERENCES_PER_BATCH,
) -> list[EvidenceReferenceDrift]:
    """Return how references differ at another moment (ISO 8601, UTC), by id.

    If the build never read a reference's article, since its question was rejected before, the article is also read as
    of the build's epoch.
    """
    before: list[EvidenceReference] = []
    after: list[EvidenceReference] = []
    # references to one article share a batch, so that its text is read once
    in_order = sorted(references, key=lambda each: (each.title_asked, each.id))
    for number, start in enumerate(range(0, len(in_order), size), 1):
        run = BuildRun(Path(), {"params": {}}, {}, {}, services, recorder)
        work = BatchInProgress(StageBatch(run="", stage="drift", index=number, key=""), run)
        known, found = _check_references_in_build_and_at_epoch(work, in_order[start : start + size], epoch)
        before += known
        after += found
        recorder.merge_journal()
        print_and_log(f"drift: {len(after):,} of {len(references):,} references, {work.calls_sent:,} calls sent")
    return classify_reference_drifts(before, after)


def _check_references_in_build_and_at_epoch(
    work: BatchInProgress, batch: Sequence[EvidenceReference], epoch: str
) -> tuple[list[EvidenceReference], list[EvidenceReference]]:
    """Return references as in the build, with the missing findings added, and as they are at the epoch."""
    pinned = pin_article_revisions_by_title_at_epoch(work, ((each.id, each.title_asked) for each in batch), epoch)
    then = [_apply_pin_or_problem(each, pinned[each.title_asked]) for each in batch]
    pairs = list(zip(batch, then, strict=True))
    unread = [each for each in batch if each.problem is None and each.found is None and each.answer is not None]
    moved = [new for old, new in pairs if not _has_old_build_checked_revision(old, new)]
    texts = load_article_texts(
        work, ((each.id, each.title or each.title_asked, each.revid) for each in [*unread, *moved] if each.revid)
    )
    known = {revid: index_article_text(text) if isinstance(text, str) else text for revid, text in texts.items()}
    before = [_add_answer_finding(each, known) if each in unread else each for each in batch]
    after = [
        new.replace(found=old.found, missing=old.missing)
        if _has_old_build_checked_revision(old, new)
        else _add_answer_finding(new, known)
        for old, new in pairs
    ]
    return before, after


def _has_old_build_checked_revision(old: EvidenceReference, new: EvidenceReference) -> bool:
    """True if the build already looked for the answer in this revision."""
    return old.problem is None and new.problem is None and old.revid == new.revid and old.found is not None


def _apply_pin_or_problem(
    reference: EvidenceReference, pin: PinnedArticleRevision | MissingArticleReason
) -> EvidenceReference:
    if isinstance(pin, PinnedArticleRevision):
        return apply_pin(reference, pin)
    page = dict.fromkeys(("title", "pageid", "revid", "timestamp", "found"))
    return reference.replace(**page, missing=[], problem=format_problem(pin))


def _add_answer_finding(
    reference: EvidenceReference, known: Mapping[int, IndexedText | MissingArticleReason]
) -> EvidenceReference:
    """Return a reference with whether its revision says the answer; with a problem if the revision has no text."""
    if reference.revid is None:
        return reference
    text = known[reference.revid]
    if isinstance(text, MissingArticleReason):
        return reference.replace(problem=format_problem(text), found=None, missing=[])
    finding = find_answer_and_missing_parts(json.loads(reference.answer or "null"), text)
    return reference.replace(found=finding.found, missing=list(finding.missing))


def format_reference_drift(drift: EvidenceReferenceDrift) -> Iterator[str]:
    """Yield the report lines of one reference."""
    before, after = drift.before, drift.after
    yield f"{drift.kind.replace('_', ' ')}: {before.question_id} {before.path}  {before.sub_question}".rstrip()
    answers = "" if before.answer is None else f"answer {before.answer}"
    if missing := after.missing or before.missing:
        answers += f"; {'missing now' if after.missing else 'was missing'}: {', '.join(missing)}"
    if answers:
        yield f"    {answers}"
    pins = (
        f"{each.title_asked}: {each.problem}"
        if each.problem is not None
        else f"{each.title}, revision {each.revid} of {each.timestamp or 'an unknown date'}"
        for each in (before, after)
    )
    yield f"    {' → '.join(pins)}"


def format_reference_drift_summary(build_id: str, moments: tuple[str, str], counts: dict[str, int]) -> str:
    """Return the summary in one line."""
    kinds = [name for name in counts if name not in ("references", "questions", "in_another_revision")]
    kind_counts = ", ".join(f"{counts[kind]:,} {kind.replace('_', ' ')}" for kind in kinds)
    share = compute_lost_share(counts)
    return (
        f"{build_id}, {moments[0] or 'its epoch'} → {moments[1]}: n = {counts['references']:,} references of "
        f"{counts['questions']:,} questions, {counts['in_another_revision']:,} in another revision; {kind_counts}"
        + ("" if share is None else f"; lost: {share:.2%} of those looked up")
    )
