"""The FanOutQA benchmark as registered with the commands: tables, recipe, audit, row explanations."""

from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel

from factmill.tasks.core.measures.audits import Audit, AuditKind
from factmill.tasks.core.publishing.release_forms import ExportForms
from factmill.tasks.core.review import ReviewItem
from factmill.tasks.core.rows import Matching, json_columns
from factmill.tasks.engine.benchmark import WIKIDATA_QUERIES, WIKIDATA_SOURCE, Assets, Benchmark, SideTable
from factmill.tasks.fanoutqa.core.rows import (
    Article,
    DevQuestion,
    FanOutQuestionRow,
    HeldOutAnswer,
    HeldOutQuestion,
    Reference,
)
from factmill.tasks.fanoutqa.params import FanOutParams, lock_inputs


def explain_row(row: FanOutQuestionRow) -> Iterator[str]:
    """Yield the lines that explain one row of the main table."""
    yield f"  source      {row.source_name}, row {row.source_row} ({row.source}; {row.licence})"
    yield f"  question    {row.question}"
    yield f"  part        {row.split}; {row.sub_questions} sub-questions (fanoutqa_references has them with revisions)"
    yield f"  articles    as of {row.epoch}: {', '.join(row.articles)}"
    if row.statements:
        yield f"  statements  {', '.join(row.statements)}"
    yield from (f"  flag        {flag}" for flag in row.flags)
    makers = {"worded by": row.author, "judged by": row.judge, "reviewed by": ", ".join(row.reviewed_by)}
    yield f"  made by     {'; '.join(f'{what} {who}' for what, who in makers.items() if who) or 'a person'}"


def explain_references(references: Sequence[Reference], _services: Mapping[str, str]) -> Iterator[str]:
    """Yield two lines for each article behind a row's sub-questions."""
    for each in references:
        found = {True: "found", False: "not found", None: "not to be told from a text"}[each.found]
        where = f"{each.title}, revision {each.revid} of {each.timestamp or 'the release'}: {found}"
        yield f"  {each.path:11} {each.sub_question} — {each.answer}"
        yield f"              {f'{each.title_asked}: {each.problem}' if each.problem else where}"


AUDIT = Audit(
    source="Appendix B, whose filters look for these; it gives no shares",
    kinds=(
        AuditKind("wrong_answer", "Is the answer wrong, or not composed of the sub-questions' answers?"),
        AuditKind("not_in_evidence", "Is a sub-question's answer not in its article?"),
        AuditKind("not_objective", "Does the answer depend on taste, or on the day it is asked?"),
        AuditKind("poorly_phrased", "Is a question ungrammatical, or a unit missing?"),
    ),
)


_TABLES: dict[str, type[BaseModel]] = {
    "fanoutqa": FanOutQuestionRow,
    "fanoutqa_dev": DevQuestion,
    "fanoutqa_test": HeldOutQuestion,
    "fanoutqa_test_answers": HeldOutAnswer,
    "fanoutqa_articles": Article,
    "fanoutqa_references": Reference,
    "fanoutqa_review": ReviewItem,
}
FANOUTQA = Benchmark(
    name="fanoutqa",
    title="FanOutQA: questions that need many articles, with decompositions and dated evidence",
    examples=(
        "factmill build fanoutqa",
        "factmill build fanoutqa --source my-questions.json --epoch 2025-06-01 --world my-world.toml",
        "factmill build fanoutqa --source wikidata --sets P47 --graph mine --review manual",
    ),
    params=FanOutParams,
    lock_inputs=lock_inputs,
    recipe="factmill.flows.fanoutqa:fanoutqa",
    evaluation="factmill.tasks.fanoutqa.evaluation.record:FANOUTQA_EVALUATION",
    release="factmill.tasks.fanoutqa.release:FANOUTQA_RELEASE",
    page="factmill.tasks.fanoutqa.release:list_distributions",
    narrowing=frozenset({"sets", "sets_a_kind"}),
    tables=_TABLES,
    main_table="fanoutqa",
    part="source",
    shown={"id": "id", "split": "split", "source": "source", "question": "question", "articles": "articles"},
    trace=("id",),
    matching=Matching(
        # an id is a digest of the question, or of the set it was made from
        keys=(("id",), ("question",), ("source_name", "source_row")),
        given=("question",),
        marks=("source_name", "source_row"),
        whole=("fanoutqa_dev", "fanoutqa_test", "fanoutqa_test_answers"),
        together=("gather_questions", "find_near_articles", "flag_duplicates"),
        unit=lambda row: " ".join(row["source_name"].split(" ")[1:3]),
        read_ids=lambda row: (f"{row['source_name'].rpartition('.')[0]}_{row['source_row'] - 1}",),
    ),
    explain=explain_row,
    audit=AUDIT,
    beside=(SideTable("fanoutqa_references", "question_id", explain_references),),
    held_out=("fanoutqa_test_answers", "fanoutqa_references", "fanoutqa_review"),
    statements="""
        SELECT build_id, id AS row_id, upper(split_part(statement, '-', 1)) AS subject, NULL AS property, NULL AS "value",
            statement, NULL AS modified, id AS asked_for
        FROM (SELECT build_id, id, unnest(statements) AS statement FROM fanoutqa)
    """,
    forms=ExportForms(
        json_columns={name: json_columns(model) for name, model in _TABLES.items()},
        arrays=("fanoutqa_dev", "fanoutqa_test"),
    ),
    needs=lambda params: (
        "wikipedia",
        *(("wikidata",) if not params.source or WIKIDATA_SOURCE in params.source else ()),
    ),
    assets=Assets(
        prompts=("fanoutqa/word_question", "fanoutqa/objective", "fanoutqa/wording"),
        lists=("removed_from_evidence.txt", "fanout_sets.csv", "fanout_properties.csv", "known_sources.csv"),
        queries=WIKIDATA_QUERIES,
    ),
)
