"""Publish GRANOLA-EQ with report facts: ambiguous names, and the data set's shape compared with the paper's."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from factmill.tasks.core.measures.counts_and_bins import (
    count_values_sorted_by_value,
    divide_rounded,
    pair_with_paper_figures,
)
from factmill.tasks.core.review import ReviewItem
from factmill.tasks.core.rows import arrow_schema
from factmill.tasks.engine.batches import StageOutputShards
from factmill.tasks.engine.building import BuildInProgress
from factmill.tasks.granola.core.rows import GranolaRow, NameBearingItemCandidateRow
from factmill.tasks.granola.source_questions import contains_answer
from factmill.tasks.options import BuildReport

PAPER_SHAPE = {
    "rows": 12452,
    "mean_answers": 2.9,
    "share_2_answers": 0.20,
    "share_3_answers": 0.60,
    "share_4_or_more_answers": 0.15,
    "share_removed_by_consistency": 0.095,
}
"""Shape of the paper's data set (§3.2 and Appendix B)."""


def publish_granola(
    build: BuildInProgress, linked: StageOutputShards, described: StageOutputShards, cleaned: StageOutputShards
) -> BuildReport:
    """Publish the benchmark, the table of all candidates, and the review queue with its decisions."""
    candidates = linked.companion_rows(arrow_schema(NameBearingItemCandidateRow))
    queue = described.companion_rows(arrow_schema(ReviewItem)).drop_columns(["file", "line"])
    rows = cleaned.table(GranolaRow)
    held = Counter(rows["fact_in_graph"].to_pylist())
    asked = zip(rows["question"].to_pylist(), rows["answer"].to_pylist(), strict=True)
    facts = {
        **count_ambiguous_names_and_rows(candidates),
        "rows_confirmed_by_the_graph": held[True],
        "rows_confirmed_by_nothing": held[None],
        "rows_against_the_graph": held[False],
        "questions_that_contain_their_answer": sum(contains_answer(*each) for each in asked),
        "review": count_values_sorted_by_value(queue["decision"].to_pylist()),
        "shape": compare_shape_with_paper(rows, build.summaries),
    }
    tables = {"granola_eq": rows, "granola_candidates": candidates, "granola_review": queue}
    return build.publish(tables, facts)


def count_ambiguous_names_and_rows(candidates: pa.Table) -> dict[str, int]:
    """Count names, names that several items bear, rows with such a name, and rows in which the policies differ.

    The policies differ where the relation holds between candidates, but not for those with the smallest QID numbers.
    """
    linked = pc.fill_null(candidates["linked"], False)
    named = candidates.select(["row_id", "role", "name"])
    named = named.append_column("linked", linked).append_column("agrees", pc.and_(linked, candidates["chosen"]))
    groups = named.group_by(["row_id", "role"], use_threads=False).aggregate(
        [("name", "first"), ("name", "count"), ("linked", "any"), ("agrees", "any")]
    )
    names = groups.group_by("name_first", use_threads=False).aggregate([("name_count", "last")])
    differing = groups.filter(pc.and_not(groups["linked_any"], groups["agrees_any"]))
    ambiguous = groups.filter(pc.greater(groups["name_count"], 1))
    return {
        "names": names.num_rows,
        "ambiguous_names": pc.sum(pc.greater(names["name_count_last"], 1), min_count=0).as_py(),
        "rows_with_ambiguous_name": len(pc.unique(ambiguous["row_id"])),
        "rows_where_linked_differs": len(pc.unique(differing["row_id"])),
    }


def compare_shape_with_paper(
    rows: pa.Table, summaries: Sequence[Mapping[str, Any]]
) -> dict[str, dict[str, float | int | None]]:
    """Return figure → this build's value, n and the paper's value; the first is None where there is no data."""
    counts = Counter(rows["num_granola_answers"].to_pylist())
    total = counts.total()
    judged = {summary["stage"]: summary for summary in summaries}.get("score_description_consistency")
    rejected, read = (judged["rejects"], judged["rows_in"]) if judged else (0, 0)
    sums = {
        "mean_answers": sum(n * times for n, times in counts.items()),
        "share_2_answers": counts[2],
        "share_3_answers": counts[3],
        "share_4_or_more_answers": sum(times for n, times in counts.items() if n >= 4),
    }
    here = {
        "rows": (total, total),
        **{name: (divide_rounded(value, total), total) for name, value in sums.items()},
        "share_removed_by_consistency": (divide_rounded(rejected, read), read),
    }
    return pair_with_paper_figures(here, PAPER_SHAPE)
