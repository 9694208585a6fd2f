"""What the page of a build tells of FanOutQA's rows: parts, sources, categories, articles a question, flags (§3.1, App. B)."""

from collections.abc import Iterator

from tasks.core.measures.figures import Figure
from tasks.core.publishing.distributions import Published, count_numbers, draw_counts, draw_groups, sort_counts


def list_distributions(build: Published) -> Iterator[Figure]:
    """Yield what rows have how many of."""
    rows = build.read("fanoutqa", ["split", "source", "sub_questions", "articles"]).to_pylist()
    yield _count_by_part("sources", "Questions by source", [(row["split"], row["source"]) for row in rows], "source")
    categories = [
        (part, category)
        for part in ("dev", "test")
        for each in build.column(f"fanoutqa_{part}", "categories")
        for category in each
    ]
    yield _count_by_part("categories", "Questions by category", categories, "category")
    articles = count_numbers(len(row["articles"]) for row in rows)
    yield draw_counts("articles", "Articles a question", "questions", articles, "articles")
    yield draw_counts(
        "sub_questions",
        "Sub-questions a question",
        "questions",
        count_numbers(row["sub_questions"] for row in rows),
        "sub-questions",
    )
    flags = build.facts.get("flags", {})
    yield draw_counts(
        "flags",
        "What checks flagged",
        "questions",
        dict(sorted(flags.items(), key=lambda each: (-each[1], each[0]))),
        "flag",
        "Of all questions that were checked, those that were then dropped too.",
    )


def _count_by_part(name: str, title: str, pairs: list[tuple[str, str]], by: str) -> Figure:
    """Return bars of values by part; pairs are (part, value)."""
    values = sort_counts(value for _, value in pairs)
    groups = {
        part: {each: counts.get(each, 0) for each in values}
        for part in ("dev", "test")
        for counts in [sort_counts(value for own, value in pairs if own == part)]
    }
    return draw_groups(name, title, "questions", groups, by, kind="stacked")
