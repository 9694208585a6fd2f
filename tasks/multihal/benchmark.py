"""MultiHal's benchmark definition: options, stages, tables, audit questions and assets."""

from collections.abc import Iterator

from factmill.tasks.core.calls.linkers import SAME_AS
from factmill.tasks.core.calls.paths import OPERATIONS
from factmill.tasks.core.measures.audits import Audit, AuditKind
from factmill.tasks.core.publishing.release_forms import ExportForms
from factmill.tasks.core.rows import Matching
from factmill.tasks.engine.benchmark import WIKIDATA_QUERIES, Assets, Benchmark
from factmill.tasks.multihal.core.path_choice import count_scored
from factmill.tasks.multihal.core.rows import DroppedPath, MultiHalRow
from factmill.tasks.multihal.params import MultiHalParams, lock_inputs


def explain_row(row: MultiHalRow) -> Iterator[str]:
    """Yield a row's content as lines of text."""
    yield f"  source      {row.source_name}, row {row.source_row}, of {row.source_dataset} ({row.licence})"
    yield f"  question    {row.input}{f'   (translated by {row.translated_by})' if row.translated_by else ''}"
    yield f"  answer      {row.output}   ({row.answer_type})"
    if row.disputed_answers:
        yield f"  disputed    {' | '.join(row.disputed_answers)}   (another foundation's answers, which agree with none of these)"
    yield f"  items       of the question {', '.join(row.subjects)}; of the answer {', '.join(row.objects)}"
    yield f"  path        {'; '.join(row.trip_labels)}"
    yield f"  as ids      {' '.join(row.responses)}"
    yield f"  its words   {', '.join(row.part_sources)}"
    yield f"  score       {row.judged_score} of 5 (judge {row.judged_by}; chosen by {row.chosen_by})"


AUDIT = Audit(
    source="the paper checks paths by a judge model alone",
    kinds=(
        AuditKind("wrong_answer", "Is the answer wrong, or none to the question?"),
        AuditKind("useless_path", "Does the path not help to answer the question?"),
        AuditKind("wrong_path", "Is a step of the path untrue?"),
        AuditKind("faulty_translation", "Is question, answer or path translated wrongly?"),
    ),
)


MULTIHAL = Benchmark(
    name="multihal",
    title="MultiHal: questions of seven benchmarks with judged Wikidata paths, in six languages",
    examples=(
        "factmill build multihal",
        "factmill build multihal --foundation simpleqa --source simple_qa_test_set.csv --limit 100",
        "factmill build multihal --source foundations/ --graph mine --language deu",
    ),
    params=MultiHalParams,
    lock_inputs=lock_inputs,
    recipe="factmill.flows.multihal:multihal",
    evaluation="factmill.tasks.multihal.evaluation.record:MULTIHAL_EVALUATION",
    release="factmill.tasks.multihal.release:MULTIHAL_RELEASE",
    page="factmill.tasks.multihal.release:list_distributions",
    narrowing=frozenset({"limit", "languages", "foundations"}),
    tables={"multihal": MultiHalRow, "multihal_dropped_paths": DroppedPath},
    main_table="multihal",
    part="source_dataset",
    pilot_at="select_paths",
    pilot_size=lambda row: count_scored(path["labels"] for path in row["paths"]),
    shown={"id": "id", "input": "question", "output": "answer", "trip_labels": "path", "judged_score": "score"},
    ordered=frozenset({"trip_labels"}),
    trace=("id", "path_id", "question_id"),
    matching=Matching(
        # ids count rows of files, and the paths of a question
        keys=(
            ("id", "input", "responses"),
            ("source_dataset", "language", "input", "responses"),
            ("question_id", "language", "responses"),
            ("id",),
        ),
        given=(
            "domain",
            "licence",
            "input",
            "output",
            "optional_output",
            "incorrect_answers",
            "disputed_answers",
            "context",
        ),
        marks=("source_name", "source_row"),
        together=("unite_duplicates",),
    ),
    explain=explain_row,
    audit=AUDIT,
    needs=lambda params: ("wikidata", "wikipedia", *(("falcon", "dbpedia") if params.linker == "falcon" else ())),
    statements="""
        SELECT build_id, id AS row_id, ids[hop] AS subject, ids[hop + 1] AS property, ids[hop + 2] AS "value",
            CASE WHEN len(responses) > len(ids) AND hop = len(ids) - 2 THEN responses[-2] END AS statement,
            NULL AS modified, question_id AS asked_for
        FROM (SELECT *, responses_formatted AS ids, unnest(range(1, len(responses_formatted) - 1, 2)) AS hop FROM multihal)
    """,
    forms=ExportForms(separators={"trip_labels": "; "}, csv_id="path_id"),
    assets=Assets(
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
        queries=(*WIKIDATA_QUERIES, *(file for each in (*OPERATIONS, SAME_AS) for file in each.files)),
    ),
)
