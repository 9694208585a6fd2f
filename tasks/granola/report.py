"""What the page of a build tells of GRANOLA-EQ's rows: answers a question, popularity, relations (paper §3.1, §3.2)."""

from collections.abc import Iterator

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
        "Answers a question",
        "questions",
        count_numbers(build.column(_TABLE, "num_granola_answers")),
        "answers, from fine to coarse",
    )
    popularity = {
        role: count_powers(build.column(_TABLE, f"{role}_entity_popularity")) for role in ("question", "answer")
    }
    order = sorted({name for counts in popularity.values() for name in counts}, key=_order)
    yield draw_groups(
        "popularity",
        "Popularity of the items",
        "questions",
        {f"item of the {role}": {name: counts.get(name, 0) for name in order} for role, counts in popularity.items()},
        "page views of its article",
    )
    yield draw_counts(
        "relations", "Questions by relation", "questions", sort_counts(build.column(_TABLE, "relation")), "relation"
    )


def _order(name: str) -> int:
    first = name.partition(" ")[0].replace(",", "")
    return int(first) if first.isdigit() else 10**30
