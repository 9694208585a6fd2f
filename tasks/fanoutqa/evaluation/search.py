"""Answer a model's searches: with chunks of articles as of the epoch, or titles of similar ones (paper §3.2, §4.3).

The search runs on today's wiki, so its hits are dated before the model sees them; to a model, a page younger than the
epoch does not exist. Offered titles belong to pages that existed at the epoch, under their names of today.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from factmill.tasks.core.calls.wikipedia import call_page_revision_at, call_search, read_found, read_revision
from factmill.tasks.engine.batches import Work
from factmill.tasks.fanoutqa.core.evaluation.chunks import choose_chunks, split_article
from factmill.tasks.fanoutqa.core.evaluation.dialogue import Found, Provide, Search
from factmill.tasks.lookups.evidence import PinnedArticle, Unpinned, load_article_texts, pin_articles
from factmill.tasks.text.wikipedia_addresses import find_article_trouble, spell_title

_MOST_SIMILAR = 10
_MOST_SEARCHED = 200
"""Most characters of a search query; wikis refuse longer ones."""
_AT_ONCE = 20
"""Look-ups whose articles are in memory together."""


def look_up(work: Work, looks: Sequence[tuple[str, Search | Provide]]) -> list[Found]:
    """Return the result of each (row id, look-up), in their order."""
    groups = (looks[start : start + _AT_ONCE] for start in range(0, len(looks), _AT_ONCE))
    return list(chain.from_iterable(_look_up(work, group) for group in groups))


def _look_up(work: Work, looks: Sequence[tuple[str, Search | Provide]]) -> list[Found]:
    pinned = _pin(work, [(row_id, look) for row_id, look in looks if isinstance(look, Search)])
    needed = [_list_needed(row_id, look, pinned) for row_id, look in looks]
    texts = load_article_texts(
        work, ((row_id, revid) for (row_id, _), of in zip(looks, needed, strict=True) for _, revid in of)
    )
    found = [_choose(look, of, texts) for (_, look), of in zip(looks, needed, strict=True)]
    for at, (row_id, look) in enumerate(looks):
        if isinstance(look, Search) and isinstance(why := pinned[row_id, look.title], Unpinned):
            found[at] = _tell_missing(why)
    missing = [
        at for at, each in enumerate(found) if isinstance(looks[at][1], Search) and not each.chunks and not each.is_lost
    ]
    for at, told in zip(missing, _find_similar(work, [(looks[at], found[at]) for at in missing]), strict=True):
        found[at] = told
    work.unsettled += sum(each.is_lost for each in found)
    return found


def _pin(work: Work, asked: Iterable[tuple[str, Search]]) -> dict[tuple[str, str], PinnedArticle | Unpinned]:
    """Return (row id, title) → the article of that title at the epoch, or why there is none."""
    by_epoch: dict[str, list[tuple[str, str]]] = defaultdict(list)
    pinned: dict[tuple[str, str], PinnedArticle | Unpinned] = {}
    for row_id, search in asked:
        if trouble := find_article_trouble(spell_title(search.title)):
            pinned[row_id, search.title] = Unpinned("invalid_title", trouble)
        else:
            by_epoch[search.epoch].append((row_id, search.title))
    for epoch, titles in by_epoch.items():
        found = pin_articles(work, titles, epoch)
        pinned |= {(row_id, title): found[title] for row_id, title in titles}
    return pinned


def _list_needed(
    row_id: str, look: Search | Provide, pinned: Mapping[tuple[str, str], PinnedArticle | Unpinned]
) -> list[tuple[str, int]]:
    """Return (title, revision) of the articles whose texts a look-up needs."""
    if isinstance(look, Provide):
        return list(look.articles)
    article = pinned[row_id, look.title]
    # under the requested title, since the page may have been renamed after the epoch
    return [(spell_title(look.title), article.revid)] if isinstance(article, PinnedArticle) else []


def _choose(look: Search | Provide, needed: Sequence[tuple[str, int]], texts: Mapping[int, str | Unpinned]) -> Found:
    lost = [text for _, revid in needed if isinstance(text := texts[revid], Unpinned)]
    if any(each.retryable for each in lost) or (lost and len(lost) == len(needed)):
        return _tell_missing(next((each for each in lost if each.retryable), lost[0]))
    whole = [
        chunk
        for title, revid in needed
        if isinstance(text := texts[revid], str)
        for chunk in split_article(title, revid, text)
    ]
    return Found(tuple(choose_chunks(whole, look.query, look.room)), len(whole))


def _tell_missing(why: Unpinned) -> Found:
    return Found(reason=why.reason, detail=why.detail, is_lost=why.retryable)


def _find_similar(work: Work, missing: Sequence[tuple[tuple[str, Search | Provide], Found]]) -> list[Found]:
    """Return the failed look-ups, with titles of other articles that existed at the epoch."""
    service = work.run.services.wikipedia
    asked = [(row_id, look, found) for (row_id, look), found in missing if isinstance(look, Search)]
    searches = [call_search(service.identity, look.title[:_MOST_SEARCHED], _MOST_SIMILAR) for _, look, _ in asked]
    records = work.call(service, zip((row_id for row_id, _, _ in asked), searches, strict=True)) if asked else {}
    replies = [records[call.key].reply() for call in searches]
    named = [read_found(reply.body) if reply.status == "ok" else () for reply in replies]
    dated = [
        {
            title: call_page_revision_at(service.identity, title, look.epoch, follow=False)
            for title in titles
            if not find_article_trouble(title)
        }
        for (_, look, _), titles in zip(asked, named, strict=True)
    ]
    pairs = [(row_id, call) for (row_id, _, _), calls in zip(asked, dated, strict=True) for call in calls.values()]
    dates = {key: record.reply() for key, record in (work.call(service, pairs) if pairs else {}).items()}
    told = []
    for (_, _, found), reply, calls in zip(asked, replies, dated, strict=True):
        there = [(title, dates[call.key]) for title, call in calls.items()]
        failed = next((each for each in (reply, *(date for _, date in there)) if each.transient), None)
        if failed:
            told.append(Found(reason="wikipedia_failed", detail=failed.error or "", is_lost=True))
        else:
            similar = [
                title for title, date in there if date.status == "ok" and read_revision(date.body).revid is not None
            ]
            told.append(Found(reason=found.reason, detail=found.detail, similar=tuple(similar)))
    return told
