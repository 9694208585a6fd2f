"""The GRANOLA-EQ `Benchmark`: tables, row matching, audit and assets."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from factmill.tasks.assets import load_entity_questions_relations
from factmill.tasks.core.measures.audits import AuditCriterion, AuditProtocol
from factmill.tasks.core.publishing.release_spec import BenchmarkExportFormat
from factmill.tasks.core.review import ReviewItem
from factmill.tasks.core.rows import BuildRowMatchingRules
from factmill.tasks.engine.benchmark import WIKIDATA_QUERIES, Benchmark, BenchmarkAssetNames, CompanionTable
from factmill.tasks.granola.core.rows import GranolaRow, NameBearingItemCandidateRow
from factmill.tasks.granola.params import (
    CONSISTENCY_PROMPT,
    LEVELS_PROMPT,
    TRIVIAL_LIST,
    GranolaParams,
    resolve_granola_inputs,
)
from factmill.tasks.text.wikidata_ids import get_wikidata_id_number

_FACT_STATUS_TEXTS = {True: "has the fact", False: "has only other values", None: "has no value for this relation"}


def list_possible_source_ids_of_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the ids under which a row was read: file and row number, or its fact."""
    _, *fact = row["source_name"].rsplit(" ", 3)
    subject, pid, value = fact if len(fact) == 3 else ("", "", "")
    return (f"{row['source_name']}:{row['source_row']}", f"{pid}-{subject}-{value}")


def format_granola_row(row: GranolaRow) -> Iterator[str]:
    """Yield a row's contents as readable lines."""
    yield f"  source      {row.source_name}, row {row.source_row}, relation {row.relation} ({row.source_licence})"
    yield f"  question    {row.question}"
    made = {True: " (made from its claims)", False: ""}
    yield (
        f"  about       {row.question_entity} = {row.question_entity_qid}: {row.question_entity_description}"
        f"{made[row.question_entity_description_made]}"
    )
    yield (
        f"  answer      {row.answer} = {row.answer_entity_qid}: {row.answer_entity_description}"
        f"{made[row.answer_entity_description_made]}"
    )
    yield f"  graph       {_FACT_STATUS_TEXTS[row.fact_in_graph]}"
    yield f"  answers     {' → '.join(row.granola_answers)}   (author {row.author})"
    yield (
        f"  error score question entity {row.question_description_score:.2f}, "
        f"answer {row.answer_description_score:.2f} (judge {row.judge})"
    )


def format_candidate_item_lines(
    candidates: Sequence[NameBearingItemCandidateRow], services: Mapping[str, str]
) -> Iterator[str]:
    """Yield the items that bear a row's names as lines: question entity first, each sorted by QID number."""
    yield f"  items of {services['wikidata']} with these names:"
    by_number = sorted(candidates, key=lambda each: get_wikidata_id_number(each.qid))
    for each in sorted(by_number, key=lambda each: each.role, reverse=True):
        holds = " (has the relation)" if each.linked else ""
        yield f"    {each.role:8} {each.name!r}: {each.qid} by {each.via}{' (chosen)' if each.chosen else ''}{holds}"


AUDIT = AuditProtocol(
    paper_section="the paper's Table 2: 124 questions",
    criteria=(
        AuditCriterion("correctness", "Is an answer wrong?", paper_value=0.008),
        AuditCriterion(
            "informativeness", "Could an answer be given from the question's template alone?", paper_value=0.06
        ),
        AuditCriterion(
            "granularity",
            "Is an answer not coarser than the one before it, or is the first answer not the given one?",
            paper_value=0.09,
        ),
    ),
)


GRANOLA = Benchmark(
    name="granola",
    title="GRANOLA-EQ: entity questions with answers from fine to coarse",
    examples=(
        "factmill build granola",
        "factmill build granola --source P19.test.json --relations P19 --limit 500",
        "factmill graph load dump.nt.gz --name mine && factmill build granola --graph mine",
    ),
    params=GranolaParams,
    resolve_inputs=resolve_granola_inputs,
    recipe="factmill.flows.granola:granola",
    evaluation="factmill.tasks.granola.evaluation.definition:GRANOLA_EVALUATION",
    release="factmill.tasks.granola.release:GRANOLA_RELEASE",
    page="factmill.tasks.granola.release:draw_granola_distributions",
    narrowing_params=frozenset({"limit", "limits"}),
    tables={"granola_eq": GranolaRow, "granola_candidates": NameBearingItemCandidateRow, "granola_review": ReviewItem},
    main_table="granola_eq",
    group_column="relation",
    value_labels=lambda: {
        "relation": {pid: each.label for pid, each in load_entity_questions_relations().items()},
        "shape": {
            "rows": "rows",
            "mean_answers": "answers per question",
            "share_2_answers": "questions with two answers",
            "share_3_answers": "questions with three answers",
            "share_4_or_more_answers": "questions with four answers or more",
            "share_removed_by_consistency": "rows removed by the check of descriptions",
        },
    },
    display_columns={
        "id": "id",
        "question": "question",
        "granola_answers": "answers, fine to coarse",
        "score_for_potential_error": "error score",
    },
    ordered_list_columns=frozenset({"granola_answers"}),
    trace_id_columns=("id",),
    matching=BuildRowMatchingRules(
        # ids digest question and answer
        keys=(("id",), ("relation", "question"), ("relation", "question_entity_qid"), ("source_name", "source_row")),
        source_columns=("relation", "question", "answer"),
        provenance_columns=("source_name", "source_row", "author_call"),
        cross_row_stages=("read_entity_questions", "make_questions_from_facts"),
        list_source_ids=list_possible_source_ids_of_row,
        get_draw_unit=lambda row: str(row["relation"]),
    ),
    explain=format_granola_row,
    audit=AUDIT,
    companion_tables=(CompanionTable("granola_candidates", "row_id", format_candidate_item_lines),),
    statements_sql="""
        SELECT build_id, id AS row_id, question_entity_qid AS subject, relation AS property, answer_entity_qid AS "value",
            NULL AS statement, question_entity_modified AS modified, id AS asked_for
        FROM granola_eq WHERE fact_in_graph
    """,
    forms=BenchmarkExportFormat(spread_columns={"granola_answers": "granola_answer_"}),
    required_services=lambda _: ("wikidata", "pageviews"),
    assets=BenchmarkAssetNames(
        prompts=(LEVELS_PROMPT, CONSISTENCY_PROMPT),
        lists=(
            f"{TRIVIAL_LIST}.txt",
            "granola_relations.csv",
            *("countries.csv", "regions.csv", "occupations.csv", "kinds.csv"),
            *("description_words.csv", "person_properties.txt"),
        ),
        queries=WIKIDATA_QUERIES,
    ),
)
