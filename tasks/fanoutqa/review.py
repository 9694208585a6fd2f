"""The last steps of FanOutQA: flag duplicate questions, and review everything that was flagged (Appendix B)."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from prefect import task

from factmill.tasks.core.batch_receipts import BatchReceipt, StageBatch
from factmill.tasks.core.embedding_similarity import VectorArray, find_duplicate_pairs
from factmill.tasks.core.review import AutoReviewRules, EditableTexts, ReviewItem, TextEdit, make_review_item
from factmill.tasks.engine.batches import apply_and_store_review_decisions, make_batch_cache_key, open_batch
from factmill.tasks.fanoutqa.core.flags import FLAGS, find_questions_sharing_facts
from factmill.tasks.fanoutqa.core.questions import list_sub_questions
from factmill.tasks.fanoutqa.core.rows import FlaggedQuestion, QuestionFlag
from factmill.tasks.fanoutqa.params import FanOutInputs

FANOUTQA_AUTO_RULES: AutoReviewRules = {
    **dict.fromkeys(FLAGS, "drop"),
    "wording": "edit",
    "unproven_unit": "open",
    "unscored": "keep",
}
"""What the policy `auto` does: it applies a proposed wording, unless that has a unit only a person can check; keeps a
question without a verdict; drops all else."""
MIN_DUPLICATE_COSINE = 0.9
"""Least cosine of two duplicate questions (Appendix B)."""
EDITABLE_FANOUTQA_FIELDS: EditableTexts = {"question": "question"}
"""Texts that a reviewer may replace. Answers are corrected in the source, next to their sub-answers."""


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def flag_duplicates(batch: StageBatch) -> BatchReceipt:
    """Flag questions whose embedding has a cosine of at least 0.9 with a question that stays (Appendix B).

    A generated question is also a duplicate if it or the other holds nearly all facts of the other one (ours).
    Questions with the fewest flags stay first, then those that come first.
    """
    work = open_batch(batch)
    rows = work.rows(FlaggedQuestion)
    vectors = work.run.services.embedder().encode([row.question for row in rows])
    near: dict[int, list[tuple[float, int, str]]] = defaultdict(list)
    for one, other, likeness, measure in _find_duplicate_pairs(rows, vectors):
        near[one].append((-likeness, other, measure))
        near[other].append((-likeness, one, measure))
    staying: set[int] = set()
    outcomes = list(rows)
    for at in sorted(range(len(rows)), key=lambda at: (len(rows[at].flags), at)):
        # of those that are already decided, the nearest one that stays
        kept = next(((rows[other], measure) for _, other, measure in sorted(near[at]) if other in staying), None)
        if kept:
            detail = f"asks the same as {kept[0].id} ({kept[1]}): {kept[0].question}"
            flag = QuestionFlag(code="duplicate", path="", detail=detail)
            outcomes[at] = rows[at].replace(flags=[*rows[at].flags, flag])
        else:
            staying.add(at)
    return work.finish(outcomes, FlaggedQuestion)


def find_near_duplicates(vectors: VectorArray) -> list[tuple[int, int, float]]:
    """Return (index, index, cosine) of questions with a cosine of at least MIN_DUPLICATE_COSINE."""
    # find_duplicate_pairs compares with ">", the paper with "at least"
    pairs = find_duplicate_pairs(vectors, float(np.nextafter(MIN_DUPLICATE_COSINE, 0)))
    return list(zip(pairs.first.tolist(), pairs.second.tolist(), pairs.cosine.tolist(), strict=True))


def _find_duplicate_pairs(
    rows: Sequence[FlaggedQuestion], vectors: VectorArray
) -> Iterator[tuple[int, int, float, str]]:
    """Yield pairs of duplicates: the index of both questions, their similarity, and the same in words."""
    for one, other, cosine in find_near_duplicates(vectors):
        yield one, other, cosine, f"cosine {cosine:.3f}"
    for one, other, share in find_questions_sharing_facts([row.tree() for row in rows]):
        if "generated" in (rows[one].source, rows[other].source):
            yield one, other, share, f"{share:.0%} of the facts of the smaller one"


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def review_questions(batch: StageBatch) -> BatchReceipt:
    """Put every flag into the review queue, and apply what reviewers or the policy decide (Appendix B)."""
    work = open_batch(batch)
    rows = work.rows(FlaggedQuestion)
    items = [item for row in rows for item in _make_review_items(row)]
    return work.finish(
        apply_and_store_review_decisions(
            work, rows, items, work.inputs(FanOutInputs).reviewing, FANOUTQA_AUTO_RULES, EDITABLE_FANOUTQA_FIELDS
        ),
        FlaggedQuestion,
    )


def _make_review_items(row: FlaggedQuestion) -> Iterator[ReviewItem]:
    context = _format_review_context(row) if row.flags else ""
    for flag in row.flags:
        detail = f"{flag.path}: {flag.detail}" if flag.path else flag.detail
        edits = [TextEdit(field="question", text=flag.proposed)] if flag.proposed else []
        yield make_review_item("fanoutqa", row.id, flag.code, detail, context, edits)


def _format_review_context(row: FlaggedQuestion) -> str:
    """Return what a reviewer needs to see: the question, its answer, its sub-questions and their articles."""
    lines = [f"{row.question} — {row.answer or 'held back'}"]
    for path, sub in list_sub_questions(row.tree()):
        where = f" ({sub.evidence.url}, revision {sub.evidence.revid})" if sub.evidence else ""
        lines.append(f"{path}: {sub.question} — {sub.answer}{where}")
    return "\n".join(lines)
