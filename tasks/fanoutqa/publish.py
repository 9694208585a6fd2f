"""Publish FanOutQA: dev in full, test with its answers apart, articles, references, and the report (paper §3.1)."""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from factmill.tasks.core.measures.bins import compare_figures, count_values
from factmill.tasks.core.review import ReviewItem
from factmill.tasks.core.rows import arrow_schema, arrow_table, rows_from_arrow
from factmill.tasks.engine.batches import Dataset
from factmill.tasks.engine.building import Build
from factmill.tasks.fanoutqa.core.flags import split_questions
from factmill.tasks.fanoutqa.core.questions import (
    FanOutQuestion,
    dump_json,
    evidence_to_released,
    list_references,
    list_sub_questions,
)
from factmill.tasks.fanoutqa.core.rows import (
    Article,
    DevQuestion,
    FanOutQuestionRow,
    FlaggedQuestion,
    HeldOutAnswer,
    HeldOutQuestion,
    Reference,
    ReferenceFinding,
    Split,
)
from factmill.tasks.fanoutqa.near import NearArticles
from factmill.tasks.fanoutqa.params import FanOutInputs
from factmill.tasks.fanoutqa.review import name_flags
from factmill.tasks.options import BuildReport
from factmill.tasks.text.wikipedia_addresses import write_article_address

PAPER = {
    "questions": 1_034,
    "sub_questions": 7_305,
    "articles": 4_121,
    "dev": 310,
    "test": 724,
    "questions_read": 1_418,
}
"""Counts of the paper (§3.1)."""


def publish_fanoutqa(
    build: Build,
    pinned: Dataset,
    flagged: Dataset,
    retrieved: Dataset,
    found: Dataset,
    reviewed: Dataset,
) -> BuildReport:
    """Publish the questions by split; `found` are all rows with all flags, `reviewed` those that passed the review."""
    inputs = build.run.read_inputs(FanOutInputs)
    rows = rows_from_arrow(FlaggedQuestion, reviewed.table(FlaggedQuestion))
    trees = {row.id: row.tree() for row in rows}
    of_all = _split(rows_from_arrow(FlaggedQuestion, found.table(FlaggedQuestion)), inputs.params.seed)
    splits = {row.id: of_all[row.id] for row in rows}
    references = _unite_references(pinned, flagged)
    articles = _list_articles(inputs.wiki, trees, references)
    queue = reviewed.extras(arrow_schema(ReviewItem)).drop_columns(["file", "line"])
    dev = [row for row in rows if splits[row.id] == "dev"]
    test = [row for row in rows if splits[row.id] == "test"]
    tables = {
        "fanoutqa": arrow_table(FanOutQuestionRow, (_describe(row, trees[row.id], splits[row.id]) for row in rows)),
        "fanoutqa_dev": arrow_table(DevQuestion, (row.narrow(DevQuestion) for row in dev)),
        "fanoutqa_test": arrow_table(HeldOutQuestion, (_hold_out(row, trees[row.id]) for row in test)),
        "fanoutqa_test_answers": arrow_table(
            HeldOutAnswer, (row.narrow(HeldOutAnswer) for row in test if row.answer is not None)
        ),
        "fanoutqa_articles": arrow_table(Article, articles),
        "fanoutqa_references": arrow_table(Reference, references),
        "fanoutqa_review": queue,
    }
    facts = {
        "shape": _describe_shape(build, trees, articles, splits),
        "sources": count_values(row.source for row in rows),
        "answer_types": count_values(type(tree.answer).__name__ for tree in trees.values() if tree.answer is not None),
        "flags": count_values(
            flag["code"] for flags in found.table(FlaggedQuestion)["flags"].to_pylist() for flag in flags
        ),
        "review": count_values(queue["decision"].to_pylist()),
        "near_articles": _count_near(retrieved.extras(arrow_schema(NearArticles))),
        "references_without_article": sum(each.problem is not None for each in references),
    }
    return build.publish(tables, facts)


def _split(rows: Iterable[FlaggedQuestion], seed: int) -> dict[str, Split]:
    """Return id → split. Questions of files come first, so that generated ones do not move them."""
    in_order = sorted(rows, key=lambda row: row.source == "generated")
    return split_questions(((row.id, row.tree().articles, row.published_split) for row in in_order), seed)


def _describe(row: FlaggedQuestion, tree: FanOutQuestion, split: Split) -> FanOutQuestionRow:
    return row.narrow(
        FanOutQuestionRow,
        split=split,
        sub_questions=len(list(list_sub_questions(tree))),
        articles=tree.articles,
        flags=name_flags(row.flags),
    )


def _hold_out(row: FlaggedQuestion, tree: FanOutQuestion) -> HeldOutQuestion:
    evidence = [each for _, _, each in list_references(tree)]
    if tree.decomposition:
        # sorted by title, since the order of need can give away the answer's order
        evidence.sort(key=lambda each: each.title)
    unique = {each.title: evidence_to_released(each) for each in evidence}
    return row.narrow(HeldOutQuestion, necessary_evidence=dump_json(list(unique.values())))


def _unite_references(pinned: Dataset, flagged: Dataset) -> list[Reference]:
    """Return all references, each with its finding if the article's text was read."""
    findings = {
        each.id: each.model_dump(exclude={"id"})
        for each in rows_from_arrow(ReferenceFinding, flagged.extras(arrow_schema(ReferenceFinding)))
    }
    return [
        each.replace(**findings.get(each.id, {}))
        for each in rows_from_arrow(Reference, pinned.extras(arrow_schema(Reference)))
    ]


def _list_articles(wiki: str, trees: Mapping[str, FanOutQuestion], references: Iterable[Reference]) -> list[Article]:
    """Return the articles behind the published questions, each once."""
    users: dict[int, set[str]] = {}
    first: dict[int, Reference] = {}
    for each in references:
        if each.question_id in trees and each.revid is not None:
            users.setdefault(each.revid, set()).add(each.question_id)
            first.setdefault(each.revid, each)
    return [
        Article(
            id=str(revid),
            title=each.title or each.title_asked,
            pageid=each.pageid or 0,
            revid=revid,
            timestamp=each.timestamp,
            url=write_article_address(wiki, each.title or each.title_asked, revid),
            questions=len(users[revid]),
        )
        for revid, each in first.items()
    ]


def _count_near(near: pa.Table) -> dict[str, int]:
    """Return the totals of the retrieval check."""
    return {name: pc.sum(near[name]).as_py() or 0 for name in ("read", "not_to_be_had")}


def _describe_shape(
    build: Build, trees: Mapping[str, FanOutQuestion], articles: Sequence[Article], splits: Mapping[str, str]
) -> dict[str, dict[str, float | int | None]]:
    counted = count_values(splits.values())
    here = {
        "questions_read": build.summaries[0]["rows_in"],
        "questions": len(trees),
        "sub_questions": sum(len(list(list_sub_questions(tree))) for tree in trees.values()),
        "articles": len(articles),
        "dev": counted.get("dev", 0),
        "test": counted.get("test", 0),
    }
    return compare_figures({name: (value, len(trees)) for name, value in here.items()}, PAPER)
