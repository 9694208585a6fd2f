"""Look up items' popularity, as page views of their English articles, through the call cache."""

from collections.abc import Iterable

from factmill.tasks.core.calls.pageviews import make_pageviews_call, parse_pageview_count
from factmill.tasks.core.rows import Reject
from factmill.tasks.engine.batches import BatchInProgress
from factmill.tasks.lookups.labels import look_up_item_descriptions_by_qid


def look_up_page_views_by_title(
    work: BatchInProgress, row_title_pairs: Iterable[tuple[str, str]], first: str, last: str
) -> tuple[dict[str, int | None], dict[str, Reject]]:
    """Return title → views of the English article from day `first` to day `last` (YYYYMMDD), for every (row id, title).

    Views are None for an article unknown to the Pageviews API. Also returns row id → Reject if the API failed.
    """
    service = work.run.services.pageviews
    calls = (
        (row_id, title, make_pageviews_call(service.identity, title, first, last)) for row_id, title in row_title_pairs
    )
    return work.call_and_parse(service, calls, parse_pageview_count, "pageviews_failed")


def look_up_page_views_by_qid(
    work: BatchInProgress, row_qid_pairs: Iterable[tuple[str, str]], first: str, last: str
) -> tuple[dict[str, int | None], dict[str, Reject]]:
    """Return QID → views of the item's English article, as `look_up_page_views_by_title`, for every (row id, QID).

    Views are also None for an item without an article. Also returns row id → Reject if Wikidata or the API failed.
    """
    pairs = list(row_qid_pairs)
    items, failed = look_up_item_descriptions_by_qid(work, pairs)
    titles = {qid: item.title for qid, item in items.items()}
    views, unknown = look_up_page_views_by_title(
        work, ((row_id, title) for row_id, qid in pairs if (title := titles.get(qid))), first, last
    )
    return {qid: views.get(title) if title else None for qid, title in titles.items()}, failed | unknown
