"""Publishing SLAQ, and what its report says beside the funnel: topics by category and half, kinds of facts, reviews."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow.compute as pc

from tasks.building import Build, Dataset
from tasks.core.review import ReviewItem
from tasks.core.rows import arrow_schema
from tasks.core.slaq_rows import CategoryCount, SlaqRow
from tasks.options import BuildReport


def publish_slaq(build: Build, drawn: Dataset, checked: Dataset, typed: Dataset) -> BuildReport:
    """Publish the topics, what their categories held, and the review queue with its decisions."""
    rows = typed.table(SlaqRow)
    queue = checked.extras(arrow_schema(ReviewItem)).drop_columns(["file", "line"])
    counts = drawn.extras(arrow_schema(CategoryCount))
    entities = sum(pc.sum(rows[f"ShortQ{number}_Entity"]).as_py() or 0 for number in range(1, 6))
    facts = {
        "categories": _count(rows["Category"].to_pylist()),
        "halves": _count(rows["half"].to_pylist()),
        "members": dict(zip(counts["id"].to_pylist(), counts["members"].to_pylist(), strict=True)),
        "entity_answers": {"share": round(entities / (5 * len(rows)), 3) if len(rows) else None, "n": 5 * len(rows)},
        "fact_types": _count(each for types in rows["fact_types"].to_pylist() for each in types),
        "review": _count(queue["decision"].to_pylist()),
    }
    return build.publish({"slaq": rows, "slaq_categories": counts, "slaq_review": queue}, facts)


def _count(values: Iterable[Any]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))
