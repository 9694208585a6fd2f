"""What the page of a build tells of SLAQ's rows: categories by half, page views, fact types, answer length (§3.2, Figure 6)."""

from collections import Counter
from collections.abc import Iterator

from tasks.core.measures.figures import Figure
from tasks.core.publishing.distributions import (
    Published,
    count_powers,
    draw_counts,
    draw_groups,
    sort_counts,
)

_TABLE = "slaq"
_HALVES = ("most", "least")


def list_distributions(build: Published) -> Iterator[Figure]:
    """Yield what rows have how many of."""
    rows = build.read(_TABLE, ["Category", "half", "Pageviews", "fact_types"])
    columns = {name: rows[name].to_pylist() for name in rows.column_names}
    both = Counter(zip(columns["half"], columns["Category"], strict=True))
    categories = sort_counts(columns["Category"])
    yield draw_groups(
        "categories",
        "Topics by category and half",
        "topics",
        {f"{half} viewed": {category: both[half, category] for category in categories} for half in _HALVES},
        "category",
        kind="stacked",
    )
    views = {
        half: count_powers(v for h, v in zip(columns["half"], columns["Pageviews"], strict=True) if h == half)
        for half in _HALVES
    }
    bins = count_powers(columns["Pageviews"])
    yield draw_groups(
        "page_views",
        "Topics by page views",
        "topics",
        {f"{half} viewed": {each: views[half].get(each, 0) for each in bins} for half in _HALVES},
        "page views",
        "Halves are of each category, so that a topic in the most viewed half of one may be less viewed than one in the "
        "least viewed half of another.",
        kind="stacked",
    )
    types = sort_counts(each for row in columns["fact_types"] for each in row)
    yield draw_counts("fact_types", "Short answers by type of fact", "short answers", types, "type")
