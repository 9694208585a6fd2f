"""Select a category's topics: a random draw of pages, then two halves by popularity (SLAQ, Appendix A.1).

A page's place in the draw is a digest of seed, category and page id. So the draw does not depend on the order in which
a server lists pages, or on how often it lists one; a page added to a category displaces at most one other. The draw
reads members one by one and stores only those drawn so far, so memory does not grow with the category.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from factmill.tasks.core.digests import derive_seed
from factmill.tasks.errors import UsageError
from factmill.tasks.slaq.core.rows import CategoryPage, ViewedTopic

VIEW_DAYS = 1095
"""Days of page views that are summed by default (Appendix A.1)."""

UnselectedTopicReason = Literal["no_page_views", "odd_one_out", "half_is_full"]
"""`no_page_views`: its views are unknown; `odd_one_out`: the middle one of an odd number, in neither half;
`half_is_full`: not among the most viewed of the upper half or the least viewed of the lower."""


V = TypeVar("V", bound=ViewedTopic)


@dataclass(frozen=True, slots=True)
class WikipediaPageInSubcategory:
    """A page with the category that lists it."""

    pageid: int
    title: str
    subcategory: str


def sample_category_pages(
    pages: Iterable[WikipediaPageInSubcategory], seed: int, category: str, number: int
) -> list[WikipediaPageInSubcategory]:
    """Draw at most `number` pages of a category; return them in the order of the draw.

    A page listed again counts once. Stores no more than `number` pages at a time. UsageError for a number below 1.
    """
    if number < 1:
        raise UsageError(f"cannot draw {number} pages from {category!r}; expected 1 or more")
    # negated, so that the heap's first is the largest; page ids break ties of digests, so pages are never compared
    kept: list[tuple[int, int, WikipediaPageInSubcategory]] = []
    known: set[int] = set()
    for page in pages:
        if page.pageid in known:
            continue
        place = (-derive_seed("topic", str(seed), category, str(page.pageid)), -page.pageid, page)
        if len(kept) < number:
            heapq.heappush(kept, place)
        elif place[:2] > kept[0][:2]:
            known.discard(heapq.heapreplace(kept, place)[2].pageid)
        else:
            continue
        known.add(page.pageid)
    return [page for _, _, page in sorted(kept, key=lambda place: place[:2], reverse=True)]


def select_most_and_least_viewed(
    topics: Sequence[V], per_half: int
) -> tuple[list[V], list[V], list[tuple[V, UnselectedTopicReason]]]:
    """Split a category's topics by views into two halves; select the extreme `per_half` of each (Appendix A.1).

    Returns the most viewed (descending), the least viewed (ascending), and every other topic with its reason, by page
    id. Page ids break ties of views, titles those of pages without. Both halves get equally many topics, fewer than `per_half` if there are too few.
    UsageError for `per_half` below 1; ValueError for a page given twice.
    """
    if per_half < 1:
        raise UsageError(f"{per_half} topics per half; expected 1 or more")
    if len({topic.id for topic in topics}) < len(topics):
        raise ValueError("a page occurs twice among the topics to split by views; expected each page once")
    counted = (topic for topic in topics if topic.views is not None)
    ranked = sorted(counted, key=lambda topic: (-(topic.views or 0), *make_equal_views_tie_break_key(topic)))
    half = len(ranked) // 2
    taken = min(per_half, half)
    most, least = ranked[:taken], ranked[len(ranked) - taken :][::-1]
    reasons: dict[str, UnselectedTopicReason] = {topic.id: "half_is_full" for topic in ranked}
    if len(ranked) % 2:
        reasons[ranked[half].id] = "odd_one_out"
    in_halves = {topic.id for topic in (*most, *least)}
    rest = sorted((topic for topic in topics if topic.id not in in_halves), key=make_equal_views_tie_break_key)
    return most, least, [(topic, reasons.get(topic.id, "no_page_views")) for topic in rest]


def make_equal_views_tie_break_key(page: CategoryPage) -> tuple[int, str]:
    """Return a page's place among pages with equal views."""
    return page.pageid or 0, page.title
