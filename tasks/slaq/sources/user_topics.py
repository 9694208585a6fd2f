"""Topics from tables of the user's own (`--source`): titles with their categories, and with page ids and views if stated.

Wikimedia's dumps of category links and of page views name pages by the same page id.
"""

from dataclasses import dataclass

from factmill.tasks.core.table_columns import ExpectedTableField, TableForm
from factmill.tasks.storage.user_tables import UserTableRow
from factmill.tasks.text.wikipedia_urls import canonical_title, find_article_title_problem

TOPIC_FORM: TableForm = (
    ExpectedTableField("topic", "title of an article of the wiki", is_required=True, other_name="title"),
    ExpectedTableField(
        "category", "category of the topic; the topics of each are halved by page views", is_required=True
    ),
    ExpectedTableField("pageid", "number of the page, for a Wikipedia that states none (a ZIM file)"),
    ExpectedTableField("views", "page views, used in place of the service's; empty where unknown"),
)
_MAX_NUMBER = 1 << 53
_MAX_QUOTED_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class TopicFromTable:
    """A topic of a table."""

    category: str
    title: str
    """In MediaWiki's spelling."""
    pageid: int | None
    views: int | None


def read_topic_from_table_row(row: UserTableRow) -> TopicFromTable | str:
    """Return the topic of a row, or what is wrong with it."""
    if isinstance(row.fields, str):
        return row.fields
    stated = row.fields
    category, title = normalise_category_name(stated["category"]), canonical_title(stated["topic"])
    pageid, views = _parse_number(stated["pageid"]), _parse_number(stated["views"])
    if category is None:
        return (
            f"category {_format_shortened_quote(stated['category'])}; expected a name without Category:, like Astronomy"
        )
    if stated["pageid"] is not None and not pageid:
        return f"pageid {_format_shortened_quote(stated['pageid'])}; expected the number of the page, or nothing"
    if stated["views"] is not None and views is None:
        return f"views {_format_shortened_quote(stated['views'])}; expected a whole number, or nothing where they are unknown"
    return find_article_title_problem(title) or TopicFromTable(category, title, pageid, views)


def normalise_category_name(stated: str) -> str | None:
    """Return a category's name with single spaces; None for one that has the prefix Category:, or none at all."""
    name = " ".join(stated.replace("_", " ").split())
    return name if name and not name.lower().startswith("category:") else None


def _format_shortened_quote(text: str) -> str:
    return repr(text[:_MAX_QUOTED_CHARACTERS])


def _parse_number(text: str | None) -> int | None:
    """Return a whole number of 0 or more; None for any other text."""
    digits = (text or "").strip()
    is_number = digits.isascii() and digits.isdigit() and len(digits) < 18
    return int(digits) if is_number and int(digits) < _MAX_NUMBER else None
