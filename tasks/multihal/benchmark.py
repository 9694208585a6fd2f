"""MultiHal's benchmark definition: options, stages, tables, audit questions and assets."""

from collections.abc import Iterator

from factmill.tasks.core.calls.entity_linking import SAME_AS_OPERATION
from factmill.tasks.core.calls.path_calls import PATH_OPERATIONS
from factmill.tasks.core.measures.audits import AuditCriterion, AuditProtocol
from factmill.tasks.core.publishing.release_spec import BenchmarkExportFormat
from factmill.tasks.core.rows import BuildRowMatchingRules
from factmill.tasks.engine.benchmark import WIKIDATA_QUERIES, Benchmark, BenchmarkAssetNames
from factmill.tasks.multihal.core.path_selection import count_distinct_paths_capped_for_scoring
from factmill.tasks.multihal.core.rows import LANGUAGE_NAMES, DroppedPath, MultiHalRow
from factmill.tasks.multihal.params import MultiHalParams, resolve_multihal_inputs


def format_multihal_row(row: MultiHalRow) -> Iterator[str]:
    """Yield a row's content as lines of text."""
    yield f"  source      {row.source_name}, row {row.source_row}, of {row.source_dataset} ({row.licence})"
    yield f"  question    {row.input}{f'   (translated by {row.translated_by})' if row.translated_by else ''}"
    yield f"  answer      {row.output}   ({row.answer_type})"
    if row.disputed_answers:
        yield f"  disputed    {' | '.join(row.disputed_answers)}   (answers of other foundations that agree with none of these)"
    yield f"  items       question {', '.join(row.subjects)}; answer {', '.join(row.objects)}"
    yield f"  path        {'; '.join(row.trip_labels)}"
    yield f"  as ids      {' '.join(row.responses)}"
    yield f"  label from  {', '.join(row.part_sources)}"
    yield f"  score       {row.judged_score} of 5 (judge {row.judged_by}; chosen by {row.chosen_by})"


AUDIT = AuditProtocol(
    paper_section="the paper checks paths only with a judge model",
    criteria=(
        AuditCriterion("wrong_answer", "Is the answer wrong, or not an answer to the question?"),
        AuditCriterion("useless_path", "Does the path not help to answer the question?"),
        AuditCriterion("wrong_path", "Is a step of the path false?"),
        AuditCriterion("faulty_translation", "Is the question, answer or path translated incorrectly?"),
    ),
)


MULTIHAL = Benchmark(
    name="multihal",
    title="MultiHal: questions of seven benchmarks with judged Wikidata paths, in six languages",
    examples=(
        "factmill build multihal",
        "factmill build multihal --foundations simpleqa --source simple_qa_test_set.csv --limit 100",
        "factmill build multihal --source foundations/ --graph mine --languages deu",
    ),
    params=MultiHalParams,
    resolve_inputs=resolve_multihal_inputs,
    recipe="factmill.flows.multihal:multihal",
    evaluation="factmill.tasks.multihal.evaluation.definition:MULTIHAL_EVALUATION",
    release="factmill.tasks.multihal.release:MULTIHAL_RELEASE",
    page="factmill.tasks.multihal.release:draw_multihal_distributions",
    narrowing_params=frozenset({"limit", "languages", "foundations"}),
    tables={"multihal": MultiHalRow, "multihal_dropped_paths": DroppedPath},
    main_table="multihal",
    group_column="source_dataset",
    value_labels=lambda: {
        "language": LANGUAGE_NAMES,
        "chosen_by": {"all": "ten paths or fewer", "judge": "picked by the judge", "chance": "drawn to fill up"},
    },
    pilot_stage="select_paths",
    pilot_size=lambda row: count_distinct_paths_capped_for_scoring(path["labels"] for path in row["paths"]),
    display_columns={
        "id": "id",
        "input": "question",
        "output": "answer",
        "trip_labels": "path",
        "judged_score": "score",
    },
    ordered_list_columns=frozenset({"trip_labels"}),
    trace_id_columns=("id", "path_id", "question_id"),
    matching=BuildRowMatchingRules(
        # ids count rows of files, and the paths of a question
        keys=(
            ("id", "input", "responses"),
            ("source_dataset", "language", "input", "responses"),
            ("question_id", "language", "responses"),
            ("id",),
        ),
        source_columns=(
            "domain",
            "licence",
            "input",
            "output",
            "optional_output",
            "incorrect_answers",
            "disputed_answers",
            "context",
        ),
        provenance_columns=("source_name", "source_row"),
        cross_row_stages=("deduplicate_foundation_questions",),
    ),
    explain=format_multihal_row,
    audit=AUDIT,
    required_services=lambda params: (
        "wikidata",
        "wikipedia",
        *(("falcon", "dbpedia") if params.linker == "falcon" else ()),
    ),
    statements_sql="""
        SELECT build_id, id AS row_id, ids[hop] AS subject, ids[hop + 1] AS property, ids[hop + 2] AS "value",
            CASE WHEN len(responses) > len(ids) AND hop = len(ids) - 2 THEN responses[-2] END AS statement,
            NULL AS modified, question_id AS asked_for
        FROM (SELECT *, responses_formatted AS ids, unnest(range(1, len(responses_formatted) - 1, 2)) AS hop FROM multihal)
    """,
    forms=BenchmarkExportFormat(separators={"trip_labels": "; "}, csv_id_column="path_id"),
    assets=BenchmarkAssetNames(
        prompts=("multihal/select_paths", "multihal/score_path"),
        lists=(
            "refusals.txt",
            "function_words.txt",
            "units.csv",
            "time_properties.txt",
            "number_properties.txt",
            "rank_properties.txt",
            "ignored_properties.txt",
            "known_sources.csv",
        ),
        queries=(
            *WIKIDATA_QUERIES,
            *(file for each in (*PATH_OPERATIONS, SAME_AS_OPERATION) for file in each.query_files),
        ),
    ),
)
