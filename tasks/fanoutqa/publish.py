"""Publish FanOutQA: dev in full, test with its answers apart, articles, references, and the report (paper §3.1)."""

from collections.abc import Iterable, Mapping

import pyarrow.compute as pc

from factmill.tasks.core.measures.counts_and_bins import count_values_sorted_by_value, pair_with_paper_figures
from factmill.tasks.core.review import ReviewItem
from factmill.tasks.core.rows import arrow_schema, make_arrow_table, rows_from_arrow
from factmill.tasks.engine.batches import StageOutputShards
from factmill.tasks.engine.building import BuildInProgress
from factmill.tasks.fanoutqa.core.flags import assign_splits_by_shared_articles
from factmill.tasks.fanoutqa.core.questions import (
    FanOutQuestion,
    dump_json,
    format_released_evidence,
    list_article_references,
    list_sub_questions,
)
from factmill.tasks.fanoutqa.core.rows import (
    ArticleRevision,
    DevQuestion,
    EvidenceReference,
    FlaggedQuestion,
    HeldOutAnswer,
    HeldOutTestSplitQuestion,
    PublishedFanOutQuestion,
    Split,
    SubAnswerInArticleFinding,
)
from factmill.tasks.fanoutqa.params import FanOutInputs
from factmill.tasks.fanoutqa.retrieval_check import SingleArticleCheckCountsOfQuestion
from factmill.tasks.options import BuildReport
from factmill.tasks.text.wikipedia_urls import format_article_url

PAPER_QUESTION_COUNTS = {
    "questions": 1_034,
    "sub_questions": 7_305,
    "articles": 4_121,
    "dev": 310,
    "test": 724,
    "questions_read": 1_418,
}
"""Counts of the paper (§3.1)."""


def publish_fanoutqa(
    build: BuildInProgress,
    pinned: StageOutputShards,
    flagged: StageOutputShards,
    retrieved: StageOutputShards,
    duplicates_flagged: StageOutputShards,
    reviewed: StageOutputShards,
) -> BuildReport:
    """Publish the questions by split; `duplicates_flagged` are all rows with all flags, `reviewed` those that passed the review."""
    inputs = build.run.read_inputs(FanOutInputs)
    checked = duplicates_flagged.table(FlaggedQuestion)
    # questions of files come first, so that generated ones do not move them to another split
    in_order = sorted(rows_from_arrow(FlaggedQuestion, checked), key=lambda row: row.source == "generated")
    splits = assign_splits_by_shared_articles(
        ((row.id, row.tree().articles, row.published_split) for row in in_order), inputs.params.seed
    )
    rows = rows_from_arrow(FlaggedQuestion, reviewed.table(FlaggedQuestion))
    trees = {row.id: row.tree() for row in rows}
    references = _merge_reference_findings(pinned, flagged)
    articles = _make_article_rows(inputs.wiki, trees, references)
    queue = reviewed.companion_rows(arrow_schema(ReviewItem)).drop_columns(["file", "line"])
    near = retrieved.companion_rows(arrow_schema(SingleArticleCheckCountsOfQuestion))
    dev = [row for row in rows if splits[row.id] == "dev"]
    test = [row for row in rows if splits[row.id] == "test"]
    tables = {
        "fanoutqa": make_arrow_table(
            PublishedFanOutQuestion, (make_published_question(row, trees[row.id], splits[row.id]) for row in rows)
        ),
        "fanoutqa_dev": make_arrow_table(DevQuestion, (row.narrow_to(DevQuestion) for row in dev)),
        "fanoutqa_test": make_arrow_table(
            HeldOutTestSplitQuestion, (_make_held_out_question(row, trees[row.id]) for row in test)
        ),
        "fanoutqa_test_answers": make_arrow_table(
            HeldOutAnswer, (row.narrow_to(HeldOutAnswer) for row in test if row.answer is not None)
        ),
        "fanoutqa_articles": make_arrow_table(ArticleRevision, articles),
        "fanoutqa_references": make_arrow_table(EvidenceReference, references),
        "fanoutqa_review": queue,
    }
    counts = {
        "questions_read": build.summaries[0]["rows_in"],
        "questions": len(trees),
        "sub_questions": sum(len(list(list_sub_questions(tree))) for tree in trees.values()),
        "articles": len(articles),
        "dev": len(dev),
        "test": len(test),
    }
    facts = {
        "shape": pair_with_paper_figures(
            {name: (value, len(trees)) for name, value in counts.items()}, PAPER_QUESTION_COUNTS
        ),
        "sources": count_values_sorted_by_value(row.source for row in rows),
        "answer_types": count_values_sorted_by_value(
            type(tree.answer).__name__ for tree in trees.values() if tree.answer is not None
        ),
        "flags": count_values_sorted_by_value(flag["code"] for flags in checked["flags"].to_pylist() for flag in flags),
        "review": count_values_sorted_by_value(queue["decision"].to_pylist()),
        "near_articles": {name: pc.sum(near[name]).as_py() or 0 for name in ("read", "not_to_be_had")},
        "references_without_article": sum(each.problem is not None for each in references),
    }
    return build.publish(tables, facts)


def make_published_question(row: FlaggedQuestion, tree: FanOutQuestion, split: Split) -> PublishedFanOutQuestion:
    """Return a question as published: its flags by code and path alone, since their details may give answers away."""
    flags = dict.fromkeys(f"{flag.code} {flag.path}".rstrip() for flag in row.flags)
    sub_questions = len(list(list_sub_questions(tree)))
    return row.narrow_to(
        PublishedFanOutQuestion, split=split, sub_questions=sub_questions, articles=tree.articles, flags=list(flags)
    )


def _make_held_out_question(row: FlaggedQuestion, tree: FanOutQuestion) -> HeldOutTestSplitQuestion:
    evidence = [each for _, _, each in list_article_references(tree)]
    if tree.decomposition:
        # sorted by title, since the order of need can give away the answer's order
        evidence.sort(key=lambda each: each.title)
    unique = {each.title: format_released_evidence(each) for each in evidence}
    return row.narrow_to(HeldOutTestSplitQuestion, necessary_evidence=dump_json(list(unique.values())))


def _merge_reference_findings(pinned: StageOutputShards, flagged: StageOutputShards) -> list[EvidenceReference]:
    """Return all references, each with its finding if the article's text was read."""
    read = flagged.companion_rows(arrow_schema(SubAnswerInArticleFinding))
    findings = {each.id: dict(each) for each in rows_from_arrow(SubAnswerInArticleFinding, read)}
    references = rows_from_arrow(EvidenceReference, pinned.companion_rows(arrow_schema(EvidenceReference)))
    return [each.replace(**findings.get(each.id, {})) for each in references]


def _make_article_rows(
    wiki: str, trees: Mapping[str, FanOutQuestion], references: Iterable[EvidenceReference]
) -> list[ArticleRevision]:
    """Return the articles behind the published questions, each once."""
    users: dict[int, set[str]] = {}
    first: dict[int, EvidenceReference] = {}
    for each in references:
        if each.question_id in trees and each.revid is not None:
            users.setdefault(each.revid, set()).add(each.question_id)
            first.setdefault(each.revid, each)
    return [
        ArticleRevision(
            id=str(revid),
            title=each.title or each.title_asked,
            pageid=each.pageid,
            revid=revid,
            timestamp=each.timestamp,
            url=format_article_url(wiki, each.title or each.title_asked, revid),
            questions=len(users[revid]),
        )
        for revid, each in first.items()
    ]
