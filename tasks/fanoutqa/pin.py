"""Steps that pin the articles of questions to the epoch, and check whether they say the answers (paper §3.1, App. B).

A question with an article that cannot be pinned is rejected; all of its references stay, with the problem.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from prefect import task

from factmill.tasks.core.batch_receipts import BatchReceipt, StageBatch
from factmill.tasks.core.epochs import FANOUTQA_SNAPSHOT
from factmill.tasks.core.rows import Reject, RowOutcome, make_arrow_table
from factmill.tasks.engine.batches import make_batch_cache_key, open_batch
from factmill.tasks.fanoutqa.core.flags import find_composition_and_article_flags
from factmill.tasks.fanoutqa.core.questions import (
    ArticleEvidence,
    FanOutQuestion,
    SubQuestion,
    dump_json,
    list_article_references,
)
from factmill.tasks.fanoutqa.core.rows import (
    EvidenceReference,
    FlaggedQuestion,
    GatheredFanOutQuestion,
    PinnedQuestion,
    QuestionFlag,
    SubAnswerInArticleFinding,
)
from factmill.tasks.fanoutqa.params import FanOutInputs
from factmill.tasks.lookups.pinned_articles import (
    MissingArticleReason,
    PinnedArticleRevision,
    index_article_text,
    load_article_texts,
    pin_article_revisions_by_title_at_epoch,
)
from factmill.tasks.text.values.answer_search import AnswerValue, find_answer_and_missing_parts

LeafReference = tuple[str, str, AnswerValue | None, ArticleEvidence]
"""Path, text of the sub-question, its answer, and its article."""


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def pin_evidence(batch: StageBatch) -> BatchReceipt:
    """Pin every article to its newest revision at or before the epoch (§3.1).

    An article that a released question already pins to this epoch stays.
    """
    work = open_batch(batch)
    rows = work.rows(GatheredFanOutQuestion)
    epoch = work.inputs(FanOutInputs).epoch
    trees = {row.id: row.tree() for row in rows}
    leaves = {row_id: _list_leaf_references(tree) for row_id, tree in trees.items()}
    asked = {
        row.id: [
            each
            for _, _, _, each in leaves[row.id]
            if row.source != "released" or epoch != FANOUTQA_SNAPSHOT or None in (each.pageid, each.revid)
        ]
        for row in rows
    }
    pinned = pin_article_revisions_by_title_at_epoch(
        work, ((row_id, each.title) for row_id, of in asked.items() for each in of), epoch
    )
    outcomes: list[RowOutcome] = []
    references: list[EvidenceReference] = []
    for row in rows:
        pins = {each: pinned[each.title] for each in asked[row.id]}
        references += [_make_reference(row.id, leaf, pins.get(leaf[3])) for leaf in leaves[row.id]]
        found = ((path, pins.get(each)) for path, _, _, each in leaves[row.id])
        if troubles := [(path, pin) for path, pin in found if isinstance(pin, MissingArticleReason)]:
            outcomes.append(_reject_unpinned_question(row.id, troubles))
        else:
            outcomes.append(row.with_tree(_apply_pins(trees[row.id], pins)).extend_to(PinnedQuestion, epoch=epoch))
    work.extras = make_arrow_table(EvidenceReference, references)
    return work.finish(outcomes, PinnedQuestion)


def _list_leaf_references(tree: FanOutQuestion) -> list[LeafReference]:
    return [
        (path, sub.question if sub else "", sub.answer if sub else None, each)
        for path, sub, each in list_article_references(tree)
    ]


def _reject_unpinned_question(row_id: str, troubles: Sequence[tuple[str, MissingArticleReason]]) -> Reject:
    """Return a question's reject by its first permanent problem; by a transient one only if there is no other."""
    lasting = [trouble for _, trouble in troubles if not trouble.retryable]
    detail = "; ".join(f"{path}: {trouble.detail}" for path, trouble in troubles)
    return Reject(row_id, (lasting or [trouble for _, trouble in troubles])[0].reason, detail, retryable=not lasting)


def _apply_pins(
    tree: FanOutQuestion, pins: Mapping[ArticleEvidence, PinnedArticleRevision | MissingArticleReason]
) -> FanOutQuestion:
    def pin(evidence: ArticleEvidence) -> ArticleEvidence:
        found = pins.get(evidence)
        if not isinstance(found, PinnedArticleRevision):
            return evidence
        return ArticleEvidence(found.title, evidence.url, found.pageid, found.revid)

    def pin_all(subs: Sequence[SubQuestion]) -> tuple[SubQuestion, ...]:
        return tuple(
            replace(
                sub,
                evidence=None if sub.evidence is None else pin(sub.evidence),
                decomposition=pin_all(sub.decomposition),
            )
            for sub in subs
        )

    return replace(
        tree,
        decomposition=pin_all(tree.decomposition),
        necessary_evidence=tuple(pin(each) for each in tree.necessary_evidence),
    )


def _make_reference(
    row_id: str, leaf: LeafReference, pinned: PinnedArticleRevision | MissingArticleReason | None
) -> EvidenceReference:
    """Return a reference as published, without the finding in its article."""
    path, question, answer, evidence = leaf
    reference = EvidenceReference(
        id=f"{row_id} {path}",
        question_id=row_id,
        path=path,
        sub_question=question,
        answer=None if answer is None else dump_json(answer),
        title_asked=evidence.title,
        title=evidence.title if evidence.revid else None,
        pageid=evidence.pageid,
        revid=evidence.revid,
        timestamp=None,
        url=evidence.url,
        problem=format_problem(pinned) if isinstance(pinned, MissingArticleReason) else None,
        found=None,
        missing=[],
    )
    return apply_pin(reference, pinned) if isinstance(pinned, PinnedArticleRevision) else reference


def apply_pin(reference: EvidenceReference, pin: PinnedArticleRevision) -> EvidenceReference:
    """Return a reference that is pinned to a revision, without a finding in its text."""
    page = {"title": pin.title, "pageid": pin.pageid, "revid": pin.revid, "timestamp": pin.timestamp}
    return reference.replace(**page, problem=None, found=None, missing=[])


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def flag_answers(batch: StageBatch) -> BatchReceipt:
    """Flag answers not composed of sub-answers, articles used twice, sub-answers not in their article (App. B)."""
    work = open_batch(batch)
    rows = work.rows(PinnedQuestion)
    trees = {row.id: row.tree() for row in rows}
    leaves = {row_id: _list_leaf_references(tree) for row_id, tree in trees.items()}
    texts = load_article_texts(
        work,
        (
            (row_id, each.title, each.revid)
            for row_id, of in leaves.items()
            for *_, each in of
            if each.revid is not None
        ),
    )
    known = {revid: index_article_text(text) for revid, text in texts.items() if isinstance(text, str)}
    outcomes: list[RowOutcome] = []
    findings: list[SubAnswerInArticleFinding] = []
    for row in rows:
        lost = [
            (path, replace(text, detail=f"{each.title}: {text.detail}"))
            for path, _, _, each in leaves[row.id]
            if isinstance(text := texts[each.revid or 0], MissingArticleReason)
        ]
        if lost:
            outcomes.append(_reject_unpinned_question(row.id, lost))
            findings += [
                SubAnswerInArticleFinding(
                    id=f"{row.id} {path}", found=None, missing=[], problem=format_problem(trouble)
                )
                for path, trouble in lost
            ]
            continue
        flags = find_composition_and_article_flags(trees[row.id])
        for path, question, answer, evidence in leaves[row.id]:
            finding = find_answer_and_missing_parts(answer, known[evidence.revid or 0])
            missing = list(finding.missing)
            if finding.found is False:
                where = f"{evidence.title} (revision {evidence.revid})"
                detail = f"{where} does not say {', '.join(missing)}, which is to answer: {question}"
                flags.append(QuestionFlag(code="answer_not_found", path=path, detail=detail))
            findings.append(
                SubAnswerInArticleFinding(id=f"{row.id} {path}", found=finding.found, missing=missing, problem=None)
            )
        outcomes.append(row.extend_to(FlaggedQuestion, flags=flags, near_articles=[], judge=None, reviewed_by=[]))
    work.extras = make_arrow_table(SubAnswerInArticleFinding, findings)
    return work.finish(outcomes, FlaggedQuestion)


def format_problem(trouble: MissingArticleReason) -> str:
    """Return a trouble as references have it: `reason: sentence`."""
    return f"{trouble.reason}: {trouble.detail}"
