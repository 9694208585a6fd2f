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
from factmill.tasks.fanoutqa.core.flags import find_structure_flags
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
    PinnedQuestion,
    QuestionFlag,
    ReferenceAnswerFinding,
    SourcedFanOutQuestion,
)
from factmill.tasks.fanoutqa.params import FanOutInputs
from factmill.tasks.lookups.pinned_articles import (
    MissingArticleReason,
    PinnedArticleRevision,
    index_article_text,
    load_article_texts,
    pin_article_revisions_at_epoch,
)
from factmill.tasks.text.values.answer_search import AnswerFinding, AnswerValue, IndexedText, find_answer_in_text

LeafReference = tuple[str, str, AnswerValue | None, ArticleEvidence]
"""Path, text of the sub-question, its answer, and its article."""


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def pin_evidence(batch: StageBatch) -> BatchReceipt:
    """Pin every article to its newest revision at or before the epoch (§3.1)."""
    work = open_batch(batch)
    rows = work.rows(SourcedFanOutQuestion)
    epoch = work.inputs(FanOutInputs).epoch
    trees = {row.id: row.tree() for row in rows}
    leaves = {row_id: _list_leaf_references(tree) for row_id, tree in trees.items()}
    asked = {
        row.id: [each for _, _, _, each in leaves[row.id] if not _is_already_pinned(row, each, epoch)] for row in rows
    }
    pinned = pin_article_revisions_at_epoch(
        work, ((row_id, each.title) for row_id, of in asked.items() for each in of), epoch
    )
    outcomes: list[RowOutcome] = []
    references: list[EvidenceReference] = []
    for row in rows:
        pins = {each: pinned[each.title] for each in asked[row.id]}
        references += [_make_reference(row.id, leaf, pins.get(leaf[3])) for leaf in leaves[row.id]]
        found = ((path, pins.get(each)) for path, _, _, each in leaves[row.id])
        troubles = [(path, pin) for path, pin in found if isinstance(pin, MissingArticleReason)]
        if troubles:
            outcomes.append(_reject_unpinned_question(row.id, troubles))
        else:
            outcomes.append(row.with_tree(_apply_pins(trees[row.id], pins)).extend_to(PinnedQuestion, epoch=epoch))
    work.extras = make_arrow_table(EvidenceReference, references)
    return work.finish(outcomes, PinnedQuestion)


def _is_already_pinned(row: SourcedFanOutQuestion, evidence: ArticleEvidence, epoch: str) -> bool:
    """True for an article that the released question already pins to this epoch."""
    is_pinned = evidence.pageid is not None and evidence.revid is not None
    return row.source == "released" and epoch == FANOUTQA_SNAPSHOT and is_pinned


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
    found = pinned if isinstance(pinned, PinnedArticleRevision) else None
    return EvidenceReference(
        id=f"{row_id} {path}",
        question_id=row_id,
        path=path,
        sub_question=question,
        answer=None if answer is None else dump_json(answer),
        title_asked=evidence.title,
        title=found.title if found else evidence.title if evidence.revid else None,
        pageid=found.pageid if found else evidence.pageid,
        revid=found.revid if found else evidence.revid,
        timestamp=found.timestamp if found else None,
        url=evidence.url,
        problem=_format_problem(pinned) if isinstance(pinned, MissingArticleReason) else None,
        found=None,
        missing=[],
    )


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def flag_answers(batch: StageBatch) -> BatchReceipt:
    """Flag answers not composed of sub-answers, articles used twice, sub-answers not in their article (App. B)."""
    work = open_batch(batch)
    rows = work.rows(PinnedQuestion)
    trees = {row.id: row.tree() for row in rows}
    leaves = {row_id: _list_leaf_references(tree) for row_id, tree in trees.items()}
    texts = load_article_texts(
        work,
        [
            (row_id, each.title, each.revid)
            for row_id, of in leaves.items()
            for _, _, _, each in of
            if each.revid is not None
        ],
    )
    known = {revid: index_article_text(text) for revid, text in texts.items() if isinstance(text, str)}
    outcomes: list[RowOutcome] = []
    findings: list[ReferenceAnswerFinding] = []
    for row in rows:
        lost = [(path, trouble) for path, _, _, each in leaves[row.id] if (trouble := _find_text_problem(each, texts))]
        if lost:
            outcomes.append(_reject_unpinned_question(row.id, lost))
            findings += [_make_failed_finding(f"{row.id} {path}", trouble) for path, trouble in lost]
            continue
        leaf_findings = [(leaf, _find_leaf_answer(leaf, known)) for leaf in leaves[row.id]]
        flags = find_structure_flags(trees[row.id])
        flags += [_flag_missing_answer(leaf, finding) for leaf, finding in leaf_findings if finding.found is False]
        outcomes.append(row.extend_to(FlaggedQuestion, flags=flags, near_articles=[], judge=None, reviewed_by=[]))
        findings += [
            ReferenceAnswerFinding(
                id=f"{row.id} {leaf[0]}", found=finding.found, missing=list(finding.missing), problem=None
            )
            for leaf, finding in leaf_findings
        ]
    work.extras = make_arrow_table(ReferenceAnswerFinding, findings)
    return work.finish(outcomes, FlaggedQuestion)


def _find_text_problem(
    evidence: ArticleEvidence, texts: Mapping[int, str | MissingArticleReason]
) -> MissingArticleReason | None:
    found = texts[evidence.revid or 0]
    return (
        replace(found, detail=f"{evidence.title}: {found.detail}") if isinstance(found, MissingArticleReason) else None
    )


def _make_failed_finding(reference_id: str, trouble: MissingArticleReason) -> ReferenceAnswerFinding:
    return ReferenceAnswerFinding(id=reference_id, found=None, missing=[], problem=_format_problem(trouble))


def _format_problem(trouble: MissingArticleReason) -> str:
    return f"{trouble.reason}: {trouble.detail}"


def _find_leaf_answer(leaf: LeafReference, known: Mapping[int, IndexedText]) -> AnswerFinding:
    _, _, answer, evidence = leaf
    return AnswerFinding(None) if answer is None else find_answer_in_text(answer, known[evidence.revid or 0])


def _flag_missing_answer(leaf: LeafReference, finding: AnswerFinding) -> QuestionFlag:
    path, question, _answer, evidence = leaf
    missing = ", ".join(finding.missing)
    return QuestionFlag(
        code="answer_not_found",
        path=path,
        detail=f"{evidence.title} (revision {evidence.revid}) does not say {missing}, which is to answer: {question}",
    )
