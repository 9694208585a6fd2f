"""Publishing SLAQ, and what its report says beside the funnel: topics by category and half, kinds of facts, reviews."""

import pyarrow.compute as pc

from tasks.core.counting import count_values, divide
from tasks.core.reviewing.review import ReviewItem
from tasks.core.rows import arrow_schema
from tasks.engine.building import Build
from tasks.engine.datasets import Dataset
from tasks.options import BuildReport
from tasks.slaq.core.rows import CategoryCount, SlaqRow


def publish_slaq(build: Build, drawn: Dataset, checked: Dataset, typed: Dataset) -> BuildReport:
    """Publish the topics, what their categories held, and the review queue with its decisions."""
    rows = typed.table(SlaqRow)
    queue = checked.extras(arrow_schema(ReviewItem)).drop_columns(["file", "line"])
    counts = drawn.extras(arrow_schema(CategoryCount))
    entities = sum(pc.sum(rows[f"ShortQ{number}_Entity"]).as_py() or 0 for number in range(1, 6))
    facts = {
        "categories": count_values(rows["Category"].to_pylist()),
        "halves": count_values(rows["half"].to_pylist()),
        "members": dict(zip(counts["id"].to_pylist(), counts["members"].to_pylist(), strict=True)),
        "entity_answers": {"share": divide(entities, 5 * len(rows)), "n": 5 * len(rows)},
        "fact_types": count_values(each for types in rows["fact_types"].to_pylist() for each in types),
        "review": count_values(queue["decision"].to_pylist()),
    }
    return build.publish({"slaq": rows, "slaq_categories": counts, "slaq_review": queue}, facts)
