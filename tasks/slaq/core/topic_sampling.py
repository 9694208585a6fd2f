"""Which pages of a category become topics: a draw, days of views, and two halves by popularity (SLAQ, Appendix A.1).

A page's place in the draw is a digest of seed, category and page id. So the draw depends neither on the order in which
a server lists pages nor on how often it lists one, and a page more in a category moves at most one page out. The draw
reads the members one by one and keeps as many as are wanted, so a category of any size takes the same memory.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Generic, Literal, Protocol, TypeVar

from tasks.core.fingerprints import seed_from
from tasks.errors import UsageError

VIEW_DAYS = 1095
"""So many days of page views are summed (Appendix A.1)."""
FIRST_DAY_OF_VIEWS = date(2015, 7, 1)
"""Wikimedia publishes page views from this day on."""

LeftOutReason = Literal["no_page_views", "odd_one_out", "half_is_full"]
"""`no_page_views`: nothing is known of its views; `odd_one_out`: the middle one of an odd number, which is in no half;
`half_is_full`: neither among the most viewed of the upper half nor among the least viewed of the lower."""


class HasPageId(Protocol):
    """A page with its number."""

    @property
    def pageid(self) -> int:
        """MediaWiki's number of the page."""
        ...


P = TypeVar("P", bound=HasPageId)


@dataclass(frozen=True, slots=True)
class ViewWindow:
    """Days of which views are counted, both ends included."""

    first: date
    last: date

    @property
    def start(self) -> str:
        """The first day as the Pageviews API takes it: 20221122."""
        return self.first.strftime("%Y%m%d")

    @property
    def end(self) -> str:
        """The last day as the Pageviews API takes it."""
        return self.last.strftime("%Y%m%d")


@dataclass(frozen=True, slots=True)
class Viewed(Generic[P]):
    """A page with the sum of its views."""

    page: P
    views: int | None
    """None where nothing is known of them."""


@dataclass(frozen=True, slots=True)
class Halves(Generic[P]):
    """The topics of a category, as many most viewed as least viewed ones."""

    most: tuple[Viewed[P], ...]
    """Most viewed first."""
    least: tuple[Viewed[P], ...]
    """Least viewed first."""
    left_out: tuple[tuple[Viewed[P], LeftOutReason], ...]
    """Every other page with the reason, by page id."""


def draw_pages(pages: Iterable[P], seed: int, category: str, number: int) -> list[P]:
    """Return at most `number` pages drawn from a category, in the order of the draw.

    The same page listed again counts once. Holds no more than `number` pages at a time. UsageError for a number below 1.
    """
    if number < 1:
        raise UsageError(f"{number} pages to be drawn from {category!r}: expected 1 or more")
    # the heap gives the largest first by its negative; page ids part equal digests and keep pages from being compared
    kept: list[tuple[int, int, P]] = []
    known: set[int] = set()
    for page in pages:
        if page.pageid in known:
            continue
        place = (-seed_from("topic", str(seed), category, str(page.pageid)), -page.pageid, page)
        if len(kept) < number:
            heapq.heappush(kept, place)
        elif place[:2] > kept[0][:2]:
            known.discard(heapq.heapreplace(kept, place)[2].pageid)
        else:
            continue
        known.add(page.pageid)
    return [page for _, _, page in sorted(kept, key=lambda place: place[:2], reverse=True)]


def open_window(cut_off: date, days: int = VIEW_DAYS) -> ViewWindow:
    """Return the `days` days before a cut-off, which is not one of them.

    UsageError for fewer than one day, and where the days begin before page views were published.
    """
    if days < 1:
        raise UsageError(f"{days} days of page views: expected 1 or more")
    if cut_off - FIRST_DAY_OF_VIEWS < timedelta(days):
        raise UsageError(
            f"{days} days of page views before {cut_off} begin before {FIRST_DAY_OF_VIEWS}, when page views were first "
            f"published; expected at most {max(0, (cut_off - FIRST_DAY_OF_VIEWS).days)} days, or a later cut-off"
        )
    return ViewWindow(cut_off - timedelta(days), cut_off - timedelta(1))


def split_by_views(pages: Sequence[Viewed[P]], per_half: int) -> Halves[P]:
    """Split a category's pages in a more and a less viewed half; take the outermost `per_half` of each (Appendix A.1).

    Pages of equal views go by page id. Both halves get equally many, fewer than `per_half` where there are too few
    pages. UsageError for fewer than one a half; ValueError when a page is given twice.
    """
    if per_half < 1:
        raise UsageError(f"{per_half} topics a half: expected 1 or more")
    if len({each.page.pageid for each in pages}) < len(pages):
        raise ValueError("a page stands twice among those that are split by views")
    ranked = sorted((each for each in pages if each.views is not None), key=_rank)
    half = len(ranked) // 2
    taken = min(per_half, half)
    most, least = ranked[:taken], ranked[len(ranked) - taken :][::-1]
    reasons: dict[int, LeftOutReason] = {each.page.pageid: "half_is_full" for each in ranked}
    if len(ranked) % 2:
        reasons[ranked[half].page.pageid] = "odd_one_out"
    for each in (*most, *least):
        del reasons[each.page.pageid]
    left_out = [
        (each, reasons.get(each.page.pageid, "no_page_views"))
        for each in sorted(pages, key=lambda each: each.page.pageid)
        if each.views is None or each.page.pageid in reasons
    ]
    return Halves(tuple(most), tuple(least), tuple(left_out))


def _rank(viewed: Viewed[P]) -> tuple[int, int]:
    return -(viewed.views or 0), viewed.page.pageid
