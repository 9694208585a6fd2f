"""The FanOutQA benchmark as registered with the commands: tables, recipe, audit, row explanations."""

from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel

from factmill.tasks.core.measures.audits import AuditCriterion, AuditProtocol
from factmill.tasks.core.publishing.release_spec import BenchmarkExportFormat
from factmill.tasks.core.review import ReviewItem
from factmill.tasks.core.rows import BuildRowMatchingRules, json_columns
from factmill.tasks.engine.benchmark import (
    WIKIDATA_QUERIES,
    WIKIDATA_SOURCE,
    Benchmark,
    BenchmarkAssetNames,
    CompanionTable,
)
from factmill.tasks.fanoutqa.core.rows import (
    ArticleRevision,
    DevQuestion,
    EvidenceReference,
    HeldOutAnswer,
    HeldOutTestSplitQuestion,
    PublishedFanOutQuestion,
)
from factmill.tasks.fanoutqa.params import FanOutParams, resolve_fanoutqa_inputs


def format_fanoutqa_row(row: PublishedFanOutQuestion) -> Iterator[str]:
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


def explain_evidence_references(references: Sequence[EvidenceReference], _services: Mapping[str, str]) -> Iterator[str]:
    """Yield two lines for each article behind a row's sub-questions."""
    for each in references:
        found = {True: "found", False: "not found", None: "cannot be checked in a text"}[each.found]
        where = f"{each.title}, revision {each.revid} of {each.timestamp or 'the release'}: {found}"
        yield f"  {each.path:11} {each.sub_question} — {each.answer}"
        yield f"              {f'{each.title_asked}: {each.problem}' if each.problem else where}"


FANOUTQA_AUDIT = AuditProtocol(
    paper_section="Appendix B, whose filters find these faults; the paper gives no shares",
    criteria=(
        AuditCriterion("wrong_answer", "Is the answer wrong, or not composed of the sub-questions' answers?"),
        AuditCriterion("not_in_evidence", "Is a sub-question's answer not in its article?"),
        AuditCriterion("not_objective", "Does the answer depend on taste, or on the day of the question?"),
        AuditCriterion("poorly_phrased", "Is a question ungrammatical, or does it lack a unit?"),
    ),
)


_FANOUTQA_TABLES: dict[str, type[BaseModel]] = {
    "fanoutqa": PublishedFanOutQuestion,
    "fanoutqa_dev": DevQuestion,
    "fanoutqa_test": HeldOutTestSplitQuestion,
    "fanoutqa_test_answers": HeldOutAnswer,
    "fanoutqa_articles": ArticleRevision,
    "fanoutqa_references": EvidenceReference,
    "fanoutqa_review": ReviewItem,
}
FANOUTQA = Benchmark(
    name="fanoutqa",
    title="FanOutQA: questions that need many articles, with sub-questions and dated evidence",
    examples=(
        "factmill build fanoutqa",
        "factmill build fanoutqa --source my-questions.json --epoch 2025-06-01 --world my-world.toml",
        "factmill build fanoutqa --source wikidata --sets P47 --graph mine --review manual",
    ),
    params=FanOutParams,
    resolve_inputs=resolve_fanoutqa_inputs,
    recipe="factmill.flows.fanoutqa:fanoutqa",
    evaluation="factmill.tasks.fanoutqa.evaluation.definition:FANOUTQA_EVALUATION",
    release="factmill.tasks.fanoutqa.release:FANOUTQA_RELEASE",
    page="factmill.tasks.fanoutqa.release:draw_fanoutqa_distributions",
    narrowing_params=frozenset({"sets", "sets_a_kind"}),
    tables=_FANOUTQA_TABLES,
    main_table="fanoutqa",
    group_column="source",
    value_labels=lambda: {
        "shape": {
            "questions_read": "questions read",
            "questions": "questions published",
            "dev": "of these in the development part",
            "test": "of these in the test part",
            "sub_questions": "sub-questions",
            "articles": "articles",
        }
    },
    display_columns={"id": "id", "split": "split", "source": "source", "question": "question", "articles": "articles"},
    trace_id_columns=("id",),
    matching=BuildRowMatchingRules(
        # an id is a digest of the question, or of the set it was made from
        keys=(("id",), ("question",), ("source_name", "source_row")),
        source_columns=("question",),
        provenance_columns=("source_name", "source_row"),
        wide_tables=("fanoutqa_dev", "fanoutqa_test", "fanoutqa_test_answers"),
        cross_row_stages=("gather_questions", "find_near_articles", "flag_duplicates"),
        get_draw_unit=lambda row: " ".join(row["source_name"].split(" ")[1:3]),
        list_source_ids=lambda row: (f"{row['source_name'].rpartition('.')[0]}_{row['source_row'] - 1}",),
    ),
    explain=format_fanoutqa_row,
    audit=FANOUTQA_AUDIT,
    companion_tables=(CompanionTable("fanoutqa_references", "question_id", explain_evidence_references),),
    held_out_tables=("fanoutqa_test_answers", "fanoutqa_references", "fanoutqa_review"),
    statements_sql="""
        SELECT build_id, id AS row_id, upper(split_part(statement, '-', 1)) AS subject, NULL AS property, NULL AS "value",
            statement, NULL AS modified, id AS asked_for
        FROM (SELECT build_id, id, unnest(statements) AS statement FROM fanoutqa)
    """,
    forms=BenchmarkExportFormat(
        json_columns={name: json_columns(model) for name, model in _FANOUTQA_TABLES.items()},
        json_array_tables=("fanoutqa_dev", "fanoutqa_test"),
    ),
    reads_wikipedia_files=True,
    required_services=lambda params: (
        "wikipedia",
        *(("wikidata",) if not params.source or WIKIDATA_SOURCE in params.source else ()),
    ),
    assets=BenchmarkAssetNames(
        prompts=("fanoutqa/word_question", "fanoutqa/objective", "fanoutqa/wording"),
        lists=("removed_from_evidence.txt", "fanout_sets.csv", "fanout_properties.csv", "known_sources.csv"),
        queries=WIKIDATA_QUERIES,
    ),
)
