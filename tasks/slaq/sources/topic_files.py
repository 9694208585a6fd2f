"""Read topics with their categories and page views from a CSV file, for a Wikipedia that lists neither (`--topics`).

Columns: `category`, `title`, `pageid` and `views`, the page views over the days that the file's maker chose; empty where
they are unknown. Wikimedia's dumps of category links and of page views name pages by the same page id.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from factmill.tasks.errors import SourceError
from factmill.tasks.storage.source_files import SourceFile, iterate_csv
from factmill.tasks.text.wikipedia_urls import canonical_title, find_article_title_problem

TOPIC_FILE = "topics"
"""Name of the manifest's file group."""
_COLUMNS = ("category", "title", "pageid", "views")
_MAX_NUMBER = 1 << 53
_MAX_QUOTED_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class ListedTopic:
    """A row of a file of topics."""

    category: str
    title: str
    """In MediaWiki's spelling."""
    pageid: int
    views: int | None


def iterate_topics(source: SourceFile) -> Iterator[ListedTopic]:
    """Yield the topics of a file in its order; SourceError names the row of a wrong or repeated one."""
    known: dict[tuple[str, int], int] = {}
    for number, row in iterate_csv(source, _COLUMNS):
        category, title = " ".join(row["category"].replace("_", " ").split()), canonical_title(row["title"])
        pageid, views = _parse_number(row["pageid"]), _parse_number(row["views"])
        problem = find_article_title_problem(title)
        if not category or category.lower().startswith("category:"):
            problem = f"category {row['category'][:_MAX_QUOTED_CHARACTERS]!r}; expected a name without Category:, like Astronomy"
        elif not pageid:
            problem = f"pageid {row['pageid'][:_MAX_QUOTED_CHARACTERS]!r}; expected the number of the page"
        elif views is None and row["views"].strip():
            problem = f"views {row['views'][:_MAX_QUOTED_CHARACTERS]!r}; expected a whole number, or nothing where they are unknown"
        elif (first := known.setdefault((category, pageid), number)) != number:
            problem = f"page {pageid} stands in {category} already, in row {first}; expected each page once"
        if problem:
            raise SourceError(f"{source.path}: row {number}: {problem}")
        yield ListedTopic(category, title, pageid or 0, views)


def _parse_number(text: str) -> int | None:
    """Return a whole number of 0 or more; None for any other text."""
    digits = text.strip()
    is_number = digits.isascii() and digits.isdigit() and len(digits) < 18
    return int(digits) if is_number and int(digits) < _MAX_NUMBER else None
