"""Publish SLAQ, with its report's counts besides the funnel: topics by category and half, fact types, reviews."""

import pyarrow.compute as pc

from factmill.tasks.core.measures.counts_and_bins import count_values_sorted_by_value, divide_rounded
from factmill.tasks.core.review import ReviewItem
from factmill.tasks.core.rows import arrow_schema
from factmill.tasks.engine.batches import StageDataset
from factmill.tasks.engine.building import Build
from factmill.tasks.options import BuildReport
from factmill.tasks.slaq.core.rows import CategoryCount, SlaqRow


def publish_slaq(build: Build, drawn: StageDataset, checked: StageDataset, typed: StageDataset) -> BuildReport:
    """Publish the topics, the page counts of their categories, and the review queue with its decisions."""
    rows = typed.table(SlaqRow)
    queue = checked.companion_rows(arrow_schema(ReviewItem)).drop_columns(["file", "line"])
    counts = drawn.companion_rows(arrow_schema(CategoryCount))
    entities = sum(pc.sum(rows[f"ShortQ{number}_Entity"]).as_py() or 0 for number in range(1, 6))
    facts = {
        "categories": count_values_sorted_by_value(rows["Category"].to_pylist()),
        "halves": count_values_sorted_by_value(rows["half"].to_pylist()),
        "members": dict(zip(counts["id"].to_pylist(), counts["members"].to_pylist(), strict=True)),
        "entity_answers": {"share": divide_rounded(entities, 5 * len(rows)), "n": 5 * len(rows)},
        "fact_types": count_values_sorted_by_value(each for types in rows["fact_types"].to_pylist() for each in types),
        "review": count_values_sorted_by_value(queue["decision"].to_pylist()),
    }
    return build.publish({"slaq": rows, "slaq_categories": counts, "slaq_review": queue}, facts)
