"""Which replies last: what no service answers otherwise later on, however old the reply is.

| operation | its reply lasts | since |
|---|---|---|
| page_text | from the start | a revision is asked for by its id, and says what it said |
| pageviews | when it came three days after the last day asked for, or later | days that are over are counted to the end within two |

All else may be answered otherwise tomorrow: items and facts, which titles redirect, which revision a page had at a moment
(pages are moved), who is in a category, what a linker or a model makes of a text.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from tasks.core.fingerprints import Json

_COUNTED_AFTER = timedelta(days=3)


def lasts_from(operation: str, parts: Mapping[str, Json]) -> datetime | None:
    """Return the moment from which on replies to a call last; None: none does."""
    if operation == "page_text":
        return datetime.min.replace(tzinfo=UTC)
    if operation == "pageviews":
        return datetime.strptime(str(parts["end"]), "%Y%m%d").replace(tzinfo=UTC) + timedelta(days=1) + _COUNTED_AFTER
    return None


def find_oldest(operation: str, parts: Mapping[str, Json], oldest: datetime) -> datetime:
    """Return how old a reply to a call may be, where replies that do not last may be as old as `oldest`."""
    lasting = lasts_from(operation, parts)
    return oldest if lasting is None else min(oldest, lasting)
