"""GRANOLA-EQ: entity questions with answers from fine to coarse."""

from collections import Counter
from typing import Any, Literal

import pyarrow as pa
from prefect import flow

from flows.artifacts import leave_artifacts
from tasks.building import Build, Dataset, open_build
from tasks.check import remove_trivial_answers
from tasks.core.granola_rows import CandidateRow, GranolaRow
from tasks.core.rows import arrow_schema
from tasks.disambiguate import describe_entities, find_qids, measure_popularity
from tasks.generate import generate_granular_answers
from tasks.granola_inputs import WIKIDATA_SOURCE, lock_inputs
from tasks.judge import score_description_consistency
from tasks.options import BuildReport, RunOptions
from tasks.read import cut_question_entities, draw_questions, read_entity_questions


@flow(name="granola", validate_parameters=True, persist_result=False)
def granola(
    source: list[str] | None = None,
    relations: list[str] | None = None,
    limit: int | None = None,
    policy: Literal["smallest", "linked"] = "smallest",
    samples: int = 8,
    max_error_score: float = 0.5,
    min_levels: int = 2,
    run: RunOptions = RunOptions(),  # noqa: B008 - frozen
) -> BuildReport:
    """GRANOLA-EQ: entity questions with answers from fine to coarse (paper §3)."""
    inputs = lock_inputs(source, relations, limit, policy, samples, max_error_score, min_levels, run)
    with open_build("granola", run, inputs) as build:
        read = draw_questions if inputs.params["source"] == WIKIDATA_SOURCE else read_entity_questions
        questions = build.load(read, inputs.params["relations"])  # §3.2
        named = build.stage(cut_question_entities, questions)  # §3.1
        linked = build.stage(find_qids, named)  # Appendix B, "QID disambiguation"
        described = build.stage(describe_entities, linked)  # §3.1
        popular = build.stage(measure_popularity, described)
        answered = build.stage(generate_granular_answers, popular)  # §3.1, Table 8
        scored = build.stage(score_description_consistency, answered)  # Appendix B, "Data cleaning"
        cleaned = build.stage(remove_trivial_answers, scored)
        report = publish(build, linked, cleaned)
        leave_artifacts(report, cleaned.table(GranolaRow))
    return report


def publish(build: Build, linked: Dataset, cleaned: Dataset) -> BuildReport:
    """Publish the benchmark and the table of all candidates."""
    candidates = linked.extras(arrow_schema(CandidateRow))
    rows = cleaned.table(GranolaRow)
    facts = {**count_names(candidates), **count_levels(rows)}
    return build.publish({"granola_eq": rows, "granola_candidates": candidates}, "granola_eq", facts)


def count_names(candidates: pa.Table) -> dict[str, Any]:
    """Return how many names were looked up, how many were ambiguous, and how often the policies differ."""
    rows = candidates.to_pylist()
    per_name: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        per_name.setdefault((row["row_id"], row["role"]), []).append(row)
    names = {group[0]["name"]: len(group) for group in per_name.values()}
    differing = {
        row_id
        for (row_id, _), group in per_name.items()
        if any(row["linked"] for row in group) and not any(row["linked"] and row["chosen"] for row in group)
    }
    return {
        "names": len(names),
        "ambiguous_names": sum(count > 1 for count in names.values()),
        "rows_with_ambiguous_name": len({row_id for (row_id, _), group in per_name.items() if len(group) > 1}),
        "rows_where_linked_differs": len(differing),
    }


def count_levels(rows: pa.Table) -> dict[str, Any]:
    """Return the mean number of answers with n, and how many rows have how many (paper: 2.9; 20/60/15 % with 2/3/≥4)."""
    counts = Counter(rows["num_granola_answers"].to_pylist())
    total = sum(counts.values())
    return {
        "mean_levels": round(sum(n * times for n, times in counts.items()) / total, 3) if total else None,
        "mean_levels_n": total,
        "levels": {str(n): counts[n] for n in sorted(counts)},
    }
