"""What the page of a build tells of GRANOLA-EQ's rows: answers a question, popularity, relations (paper §3.1, §3.2)."""

from collections.abc import Iterator

from tasks.assets import load_relations
from tasks.core.measures.figures import Figure
from tasks.core.publishing.distributions import (
    Published,
    count_numbers,
    count_powers,
    draw_counts,
    draw_groups,
    sort_counts,
)

_TABLE = "granola_eq"


def list_distributions(build: Published) -> Iterator[Figure]:
    """Yield what rows have how many of."""
    yield draw_counts(
        "answers",
        "Answers a question, from fine to coarse",
        "questions",
        count_numbers(build.column(_TABLE, "num_granola_answers")),
        "answers",
    )
    popularity = {
        role: count_powers(build.column(_TABLE, f"{role}_entity_popularity")) for role in ("question", "answer")
    }
    order = sorted({name for counts in popularity.values() for name in counts}, key=_order)
    yield draw_groups(
        "popularity",
        "Page views of the items' articles",
        "questions",
        {f"item of the {role}": {name: counts.get(name, 0) for name in order} for role, counts in popularity.items()},
        "page views",
    )
    known = load_relations()
    relations = sort_counts(
        f"{pid} {known[pid].label}" if pid in known else pid for pid in build.column(_TABLE, "relation")
    )
    yield draw_counts("relations", "Questions by relation", "questions", relations, "relation")


def _order(name: str) -> int:
    first = name.partition(" ")[0].replace(",", "")
    return int(first) if first.isdigit() else 10**30
