"""Print every violation in the files of data/world/, and counts of their contents.

python data/check_world.py"""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from factmill.tasks.world.data import WORLD_FOLDER, TimeValue, WorldData
from factmill.tasks.world.files import WorldFileViolation, load_world_and_violations
from factmill.tasks.world.wiki.pages import strip_html_tags_to_line


@dataclass(frozen=True, slots=True)
class WorldReport:
    """Contents of a world's files, and the violations in them."""

    violations: tuple[WorldFileViolation, ...]
    counts: Mapping[str, int]
    """Kind → number in the whole world."""
    shared_names: Mapping[str, tuple[str, ...]]
    """English name → the items with that label or alias, for names of two or more items."""
    articles_by_category: Mapping[str, int]
    """Category → articles in it or in a category below it, without disambiguation pages."""
    short_articles: tuple[str, ...]
    """Articles under 1,000 characters in their newest revision, without disambiguation pages."""


def check_world(folder: Path = WORLD_FOLDER) -> WorldReport:
    """Read a world's folder and report all violations and counts; violations raise no exception."""
    data, violations = load_world_and_violations(folder)
    articles = [article for article in data.articles.values() if not article.is_disambiguation]
    return WorldReport(
        violations=tuple(violations),
        counts=_count(data),
        shared_names=group_by_name(data),
        articles_by_category=_count_by_category(data, {article.title for article in articles}),
        short_articles=tuple(
            article.title for article in articles if len(strip_html_tags_to_line(article.newest_html)) < 1000
        ),
    )


def group_by_name(data: WorldData) -> dict[str, tuple[str, ...]]:
    """Return each English name that is a label or alias of two or more items, with those items."""
    groups: dict[str, list[str]] = defaultdict(list)
    for item in data.items.values():
        for name in dict.fromkeys(item.names):
            groups[name].append(item.qid)
    return {name: tuple(qids) for name, qids in sorted(groups.items()) if len(qids) > 1}


def describe_report(report: WorldReport) -> Iterator[str]:
    """Yield the report as lines of text, violations last."""
    for what, number in report.counts.items():
        yield f"{number:6d}  {what}"
    yield f"{len(report.shared_names):6d}  names that several items share"
    yield from (f"          {name}: {', '.join(qids)}" for name, qids in report.shared_names.items())
    yield "Articles by category (with the categories below it):"
    yield from (f"{number:6d}  {category}" for category, number in sorted(report.articles_by_category.items()))
    yield from (f"short (under 1,000 characters): {title}" for title in report.short_articles)
    yield from map(str, report.violations)
    yield f"{len(report.violations)} violations"


def main() -> int:
    """Print the report; return 1 when there is a violation."""
    report = check_world()
    sys.stdout.writelines(f"{line}\n" for line in describe_report(report))
    return 1 if report.violations else 0


def _count(data: WorldData) -> dict[str, int]:
    statements = [statement for item in data.items.values() for statement in item.statements]
    times = Counter(s.value.precision for s in statements if isinstance(s.value, TimeValue))
    ranks = Counter(s.rank for s in statements)
    return {
        "items": len(data.items),
        "items with a description": sum(item.description is not None for item in data.items.values()),
        "items with aliases": sum(bool(item.aliases) for item in data.items.values()),
        "items named differently in other languages": sum(len(set(i.labels.values())) > 1 for i in data.items.values()),
        "statements": len(statements),
        "statements with qualifiers": sum(bool(statement.qualifiers) for statement in statements),
        **{f"statements of rank {rank}": ranks[rank] for rank in ("preferred", "deprecated")},
        **{f"times of precision {p}": times[p] for p in ("day", "month", "year", "decade", "century")},
        "times before the common era": sum(isinstance(s.value, TimeValue) and s.value.year < 1 for s in statements),
        "properties": len(data.properties),
        "properties used": len({pid for s in statements for pid in (s.pid, *(q.pid for q in s.qualifiers))}),
        "articles": len(data.articles),
        "articles with two revisions or more": sum(len(a.revisions) > 1 for a in data.articles.values()),
        "categories": len(data.categories),
        "redirects": len(data.redirects),
    }


def _count_by_category(data: WorldData, titles: set[str]) -> dict[str, int]:
    inside: dict[str, set[str]] = defaultdict(set)
    for title in titles:
        waiting = [category for category in data.articles[title].categories if category in data.categories]
        while waiting:
            category = waiting.pop()
            if title not in inside[category]:
                inside[category].add(title)
                waiting.extend(parent for parent in data.categories[category] if parent in data.categories)
    return {category: len(inside[category]) for category in data.categories}


if __name__ == "__main__":
    sys.exit(main())
