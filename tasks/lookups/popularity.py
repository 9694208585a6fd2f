"""Look up items' popularity, as page views of their English articles, through the call cache."""

from collections.abc import Iterable

from factmill.tasks.core.calls.pageviews import call_pageviews, read_views
from factmill.tasks.core.rows import Reject
from factmill.tasks.engine.batches import Work
from factmill.tasks.lookups.labels import look_up_items


def look_up_views(
    work: Work, asked: Iterable[tuple[str, str]], first: str, last: str
) -> tuple[dict[str, int | None], dict[str, Reject]]:
    """Return title → views of the English article from day `first` to day `last` (YYYYMMDD), for every (row id, title).

    Views are None for an article unknown to the Pageviews API. Also returns row id → Reject if the API failed.
    """
    service = work.run.services.pageviews
    calls = ((row_id, title, call_pageviews(service.identity, title, first, last)) for row_id, title in asked)
    return work.look_up(service, calls, read_views, "pageviews_failed")


def look_up_popularity(
    work: Work, asked: Iterable[tuple[str, str]], first: str, last: str
) -> tuple[dict[str, int | None], dict[str, Reject]]:
    """Return QID → views of the item's English article, as `look_up_views`, for every (row id, QID).

    Views are also None for an item without an article. Also returns row id → Reject if Wikidata or the API failed.
    """
    pairs = list(asked)
    items, failed = look_up_items(work, pairs)
    titles = {qid: item.title for qid, item in items.items()}
    views, unknown = look_up_views(
        work, ((row_id, title) for row_id, qid in pairs if (title := titles.get(qid))), first, last
    )
    return {qid: views.get(title) if title else None for qid, title in titles.items()}, failed | unknown
