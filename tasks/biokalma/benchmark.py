"""The BioKaLMA `Benchmark`: tables, row matching, audit and assets."""

from collections.abc import Iterator, Mapping
from typing import Any

from factmill.tasks.biokalma.core.rows import (
    BiokalmaRow,
    EvolutionRoundRow,
    NameBearingPersonCandidateRow,
    RelationWithPersonGraphCount,
)
from factmill.tasks.biokalma.params import BiokalmaParams, resolve_biokalma_inputs
from factmill.tasks.biokalma.sources.person_pairs import load_packaged_pair_relations
from factmill.tasks.core.measures.audits import AuditCriterion, AuditProtocol
from factmill.tasks.core.rows import BuildRowMatchingRules
from factmill.tasks.engine.benchmark import WIKIDATA_QUERIES, Benchmark, BenchmarkAssetNames


def format_biokalma_row(row: BiokalmaRow) -> Iterator[str]:
    """Yield a row's contents as readable lines."""
    pages = f": {', '.join(row.text_pages)}" if row.text_pages else ""
    yield f"  source      {row.source_name}, row {row.source_row}; text from {row.text_source}{pages} ({row.licence})"
    (person, other), (name, other_name) = row.people, row.names
    yield f"  people      {name} ({person}), {row.relation_label} {other_name} ({other})"
    yield f"  general     {row.general_question}"
    yield f"  specific    {row.specific_question}"
    yield f"  paragraph   {row.paragraph}"
    yield "  knowledge   in the order of addition (biokalma_rounds has all candidates with their scores):"
    for piece in row.minimum_knowledge:
        item = f" ({piece.value_qid})" if piece.value_qid else ""
        yield f"              {piece.qid} {piece.property} ({piece.pid}): {piece.value}{item}"
    yield f"  made by     author {row.author}, scorer {row.scorer}"


def format_knowledge_with_names(row: Mapping[str, Any]) -> str:
    """Return a row's pieces of knowledge as one line, each with the name of its person."""
    names = dict(zip(row["people"], row["names"], strict=True))
    return " · ".join(
        f"{names.get(piece['qid'], piece['qid'])}: {piece['property']} {piece['value']}"
        for piece in row["minimum_knowledge"]
    )


AUDIT = AuditProtocol(
    paper_section="the paper's Table 2: 50 entries, general and specific questions",
    criteria=(
        AuditCriterion("authenticity_general", "General question: are the facts in it true?", "score", 1, 1.0),
        AuditCriterion("authenticity_specific", "Specific question: are the facts in it true?", "score", 1, 1.0),
        AuditCriterion(
            "relevance_general", "General question: does answering it need every piece of the set?", "score", 1, 0.73
        ),
        AuditCriterion(
            "relevance_specific", "Specific question: does answering it need every piece of the set?", "score", 1, 0.84
        ),
        AuditCriterion(
            "naturalness_general", "General question: is it concise and easy to understand?", "score", 5, 4.38
        ),
        AuditCriterion(
            "naturalness_specific", "Specific question: is it concise and easy to understand?", "score", 5, 3.52
        ),
        AuditCriterion("significance_general", "General question: would people ask it?", "score", 5, 3.94),
        AuditCriterion("significance_specific", "Specific question: would people ask it?", "score", 5, 3.68),
    ),
)


BIOKALMA = Benchmark(
    name="biokalma",
    title="BioKaLMA: questions about two people, each with the smallest set of facts that answers it",
    examples=(
        "factmill build biokalma",
        "factmill build biokalma --source wikidata --graph mine --relations P26,P40",
        "factmill build biokalma --source wikidata --class-qid Q43229 --relations P749,P355",
    ),
    params=BiokalmaParams,
    resolve_inputs=resolve_biokalma_inputs,
    recipe="factmill.flows.biokalma:biokalma",
    evaluation="factmill.tasks.biokalma.evaluation.definition:BIOKALMA_EVALUATION",
    release="factmill.tasks.biokalma.release:BIOKALMA_RELEASE",
    page="factmill.tasks.biokalma.release:draw_biokalma_distributions",
    narrowing_params=frozenset({"limit", "limits"}),
    tables={
        "biokalma": BiokalmaRow,
        "biokalma_rounds": EvolutionRoundRow,
        "biokalma_candidates": NameBearingPersonCandidateRow,
        "biokalma_relations": RelationWithPersonGraphCount,
    },
    main_table="biokalma",
    group_column="relation",
    value_labels=lambda: {"relation": load_packaged_pair_relations().labels},
    pilot_stage="annotate_paragraph",
    display_columns={
        "id": "id",
        "general_question": "question",
        "paragraph": "answer",
        "minimum_knowledge": "knowledge",
    },
    display_texts={"minimum_knowledge": format_knowledge_with_names},
    trace_id_columns=("id",),
    matching=BuildRowMatchingRules(
        # ids count rows of files
        keys=(("id", "names"), ("relation", "names"), ("relation", "people"), ("id",)),
        source_columns=("relation", "names"),
        provenance_columns=("source_name", "source_row", "call"),
        get_draw_unit=lambda row: str(row["relation"]),
        cross_row_stages=("deduplicate_person_pairs", "count_relations_over_build", "evolve_paragraph"),
    ),
    explain=format_biokalma_row,
    audit=AUDIT,
    statements_sql="""
        SELECT build_id, id AS row_id, piece.qid AS subject, piece.pid AS property,
            coalesce(nullif(piece.value_qid, ''), piece."value") AS "value", piece."statement" AS statement,
            NULL AS modified, id AS asked_for
        FROM (SELECT build_id, id, unnest(minimum_knowledge) AS piece FROM biokalma)
    """,
    reads_wikipedia_files=True,
    required_services=lambda _: ("wikidata", "wikipedia"),
    required_models=("perplexity",),
    assets=BenchmarkAssetNames(
        prompts=("biokalma/annotate", "biokalma/extend", "biokalma/general_question", "biokalma/specific_question"),
        lists=(
            "biography_properties.csv",
            "organisation_properties.txt",
            "pair_relations.csv",
            "pool_left_out.txt",
            "person_properties.txt",
            "relation_forms.csv",
            "removed_from_articles.txt",
        ),
        queries=WIKIDATA_QUERIES,
    ),
)
