"""Answer a model's searches: with chunks of articles as of the epoch, or titles of similar ones (paper §3.2, §4.3).

The search runs on today's wiki, so its hits are dated before the model sees them; to a model, a page younger than the
epoch does not exist. Offered titles belong to pages that existed at the epoch, under their names of today.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from factmill.tasks.core.calls.wikipedia import (
    make_page_revision_at_call,
    make_search_call,
    parse_page_revision_call_body,
    parse_search_titles,
)
from factmill.tasks.engine.batches import BatchInProgress
from factmill.tasks.fanoutqa.core.evaluation.chunks import select_chunks, split_article
from factmill.tasks.fanoutqa.core.evaluation.dialogue import (
    ArticleLookupResult,
    ArticleTitleRequest,
    EvidenceArticlesRequest,
)
from factmill.tasks.lookups.pinned_articles import (
    MissingArticleReason,
    PinnedArticleRevision,
    load_article_texts,
    pin_article_revisions_by_title_at_epoch,
)
from factmill.tasks.text.wikipedia_urls import canonical_title, find_article_title_problem

_MAX_SIMILAR_TITLES = 10
_MAX_QUERY_CHARACTERS = 200
"""Most characters of a search query; wikis refuse longer ones."""
_LOOKUPS_PER_BATCH = 20
"""Look-ups whose articles are in memory together."""


def look_up_articles(
    work: BatchInProgress, looks: Sequence[tuple[str, ArticleTitleRequest | EvidenceArticlesRequest]]
) -> list[ArticleLookupResult]:
    """Return the result of each (row id, look-up), in their order."""
    groups = (looks[start : start + _LOOKUPS_PER_BATCH] for start in range(0, len(looks), _LOOKUPS_PER_BATCH))
    return list(chain.from_iterable(_look_up_article_batch(work, group) for group in groups))


def _look_up_article_batch(
    work: BatchInProgress, looks: Sequence[tuple[str, ArticleTitleRequest | EvidenceArticlesRequest]]
) -> list[ArticleLookupResult]:
    pinned = _pin_searched_titles(
        work, [(row_id, look) for row_id, look in looks if isinstance(look, ArticleTitleRequest)]
    )
    needed = [_list_needed_revisions(row_id, look, pinned) for row_id, look in looks]
    texts = load_article_texts(
        work, ((row_id, title, revid) for (row_id, _), of in zip(looks, needed, strict=True) for title, revid in of)
    )
    found: list[ArticleLookupResult] = []
    missed: dict[int, tuple[str, ArticleTitleRequest]] = {}
    for (row_id, look), of in zip(looks, needed, strict=True):
        why = pinned[row_id, look.title] if isinstance(look, ArticleTitleRequest) else None
        found.append(
            _make_missing_result(why)
            if isinstance(why, MissingArticleReason)
            else _select_chunks_for_lookup(look, of, texts)
        )
        if isinstance(look, ArticleTitleRequest) and not (found[-1].chunks or found[-1].is_transient_failure):
            missed[len(found) - 1] = (row_id, look)
    for at, similar in zip(missed, _find_similar_titles(work, list(missed.values())), strict=True):
        found[at] = (
            replace(found[at], similar=similar)
            if isinstance(similar, tuple)
            else ArticleLookupResult(reason="wikipedia_failed", detail=similar, is_transient_failure=True)
        )
    work.retryable_rows += sum(each.is_transient_failure for each in found)
    return found


def _pin_searched_titles(
    work: BatchInProgress, asked: Iterable[tuple[str, ArticleTitleRequest]]
) -> dict[tuple[str, str], PinnedArticleRevision | MissingArticleReason]:
    """Return (row id, title) → the article of that title at the epoch, or why there is none."""
    by_epoch: dict[str, list[tuple[str, str]]] = defaultdict(list)
    pinned: dict[tuple[str, str], PinnedArticleRevision | MissingArticleReason] = {}
    for row_id, search in asked:
        if trouble := find_article_title_problem(canonical_title(search.title)):
            pinned[row_id, search.title] = MissingArticleReason("invalid_title", trouble)
        else:
            by_epoch[search.epoch].append((row_id, search.title))
    for epoch, titles in by_epoch.items():
        found = pin_article_revisions_by_title_at_epoch(work, titles, epoch)
        pinned |= {(row_id, title): found[title] for row_id, title in titles}
    return pinned


def _list_needed_revisions(
    row_id: str,
    look: ArticleTitleRequest | EvidenceArticlesRequest,
    pinned: Mapping[tuple[str, str], PinnedArticleRevision | MissingArticleReason],
) -> list[tuple[str, int]]:
    """Return (title, revision) of the articles whose texts a look-up needs."""
    if isinstance(look, EvidenceArticlesRequest):
        return list(look.articles)
    article = pinned[row_id, look.title]
    # under the requested title, since the page may have been renamed after the epoch
    return [(canonical_title(look.title), article.revid)] if isinstance(article, PinnedArticleRevision) else []


def _select_chunks_for_lookup(
    look: ArticleTitleRequest | EvidenceArticlesRequest,
    needed: Sequence[tuple[str, int]],
    texts: Mapping[int, str | MissingArticleReason],
) -> ArticleLookupResult:
    lost = [text for _, revid in needed if isinstance(text := texts[revid], MissingArticleReason)]
    if any(each.retryable for each in lost) or (lost and len(lost) == len(needed)):
        return _make_missing_result(next((each for each in lost if each.retryable), lost[0]))
    chunks = [
        chunk
        for title, revid in needed
        if isinstance(text := texts[revid], str)
        for chunk in split_article(title, revid, text)
    ]
    return ArticleLookupResult(tuple(select_chunks(chunks, look.query, look.max_characters)), len(chunks))


def _make_missing_result(why: MissingArticleReason) -> ArticleLookupResult:
    return ArticleLookupResult(reason=why.reason, detail=why.detail, is_transient_failure=why.retryable)


def _find_similar_titles(
    work: BatchInProgress, asked: Sequence[tuple[str, ArticleTitleRequest]]
) -> Iterator[tuple[str, ...] | str]:
    """Yield for each (row id, search) titles of other articles that existed at the epoch, or why a call failed for now."""
    if not asked:
        return
    service = work.run.services.wikipedia
    searches = [
        (row_id, make_search_call(service.identity, look.title[:_MAX_QUERY_CHARACTERS], _MAX_SIMILAR_TITLES))
        for row_id, look in asked
    ]
    records = work.get_call_records(service, searches)
    replies = [records[call.key].reply() for _, call in searches]
    dated = [
        {
            title: make_page_revision_at_call(service.identity, title, look.epoch, follow=False)
            for title in (parse_search_titles(reply.body) if reply.status == "ok" else ())
            if not find_article_title_problem(title)
        }
        for (_, look), reply in zip(asked, replies, strict=True)
    ]
    pairs = [(row_id, call) for (row_id, _), calls in zip(asked, dated, strict=True) for call in calls.values()]
    dates = {key: record.reply() for key, record in (work.get_call_records(service, pairs) if pairs else {}).items()}
    for reply, calls in zip(replies, dated, strict=True):
        there = {title: dates[call.key] for title, call in calls.items()}
        failed = next((each for each in (reply, *there.values()) if each.transient), None)
        existing = [
            title
            for title, date in there.items()
            if date.status == "ok" and parse_page_revision_call_body(date.body).revid
        ]
        yield (failed.error or "") if failed else tuple(existing)
