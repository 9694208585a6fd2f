"""Pageviews API of the embedded world; all its numbers are made up.

An article's file states a made-up mean of views per day; the daily series varies around it with the week, the year and
a random factor seeded by the title, so that a day has the same views in every run. If the world lacks an item's English
article, the mean is derived from the item's id. As in the real service, a redirect has its own counts, the response omits
days without views, there is no data before July 2015, and an unknown title gives 404.
"""

import calendar
import hashlib
import math
from collections.abc import Iterator
from datetime import date, timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse

from factmill.tasks.core.digests import derive_seed
from factmill.tasks.world.data import WorldData

FIRST_PAGEVIEWS_DAY = date(2015, 7, 1)
_PER_ARTICLE_PATH = "/api/rest_v1/metrics/pageviews/per-article/"
_PROJECTS = {"en.wikipedia", "en.wikipedia.org"}
# Percentage of a day's views by people (agent `user`) per access method; made up, like everything here.
_ACCESS_SHARES = {"desktop": 38, "mobile-app": 3, "mobile-web": 59}
# Views by programs, in percent of those by people.
_AGENT_SHARES = {"spider": 12, "automated": 6}
_WEEKDAY_FACTORS = (1.06, 1.07, 1.06, 1.04, 0.98, 0.87, 0.92)


class PageviewsRequestError(Exception):
    """A request that the Pageviews API rejects."""

    def __init__(self, status: int, title: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.title, self.detail = status, title, detail


def make_pageviews_routes(data: WorldData) -> APIRouter:
    """Return the per-article route."""
    router = APIRouter()

    @router.get(_PER_ARTICLE_PATH + "{rest:path}")
    async def per_article(request: Request) -> JSONResponse:
        # the undecoded path, since a title may contain %2F
        path = request.scope["raw_path"].decode("ascii").partition("?")[0]
        try:
            parts = [unquote(part) for part in path.removeprefix(_PER_ARTICLE_PATH).split("/")]
            return JSONResponse({"items": list(iterate_pageview_items(data, parts))})
        except PageviewsRequestError as error:
            body = {"detail": error.detail, "method": "get", "status": error.status, "title": error.title}
            body |= {"type": "about:blank", "uri": path.removeprefix("/api/rest_v1")}
            return JSONResponse(body, status_code=error.status, media_type="application/problem+json")

    return router


def iterate_pageview_items(data: WorldData, path_parts: list[str]) -> Iterator[dict[str, Any]]:
    """Yield response items for [project, access, agent, article, granularity, start, end]; PageviewsRequestError if none."""
    if len(path_parts) != 7:
        raise PageviewsRequestError(404, "Not Found", "expected project/access/agent/article/granularity/start/end")
    project, access, agent, article, granularity, start_text, end_text = path_parts
    if access not in {"all-access", *_ACCESS_SHARES} or agent not in {"all-agents", "user", *_AGENT_SHARES}:
        raise PageviewsRequestError(400, "Bad Request", f"unknown access {access!r} or agent {agent!r}")
    if granularity not in {"daily", "monthly"}:
        raise PageviewsRequestError(400, "Bad Request", f"granularity is {granularity!r}; expected daily or monthly")
    start, end = _parse_day(start_text, "start"), _parse_day(end_text, "end")
    if start > end:
        raise PageviewsRequestError(400, "Bad Request", "start is after end")
    title = article.replace("_", " ")
    mean = find_made_up_mean_daily_views(data, title) if project in _PROJECTS else None
    days = _iterate_daily_views(title, mean, start, end) if mean else iter(())
    series = [(day, _compute_views_by_access_and_agent(views, access, agent)) for day, views in days]
    if granularity == "monthly":
        series = _sum_complete_month_views(series, start, end)
    series = [(day, views) for day, views in series if views]
    if not series:
        raise PageviewsRequestError(404, "Not Found", "no views are known for this article in these days")
    head = {"project": "en.wikipedia", "article": title.replace(" ", "_"), "granularity": granularity}
    for day, views in series:
        timestamp = f"{day.year:04d}{day.month:02d}{day.day:02d}00"
        yield {**head, "timestamp": timestamp, "access": access, "agent": agent, "views": views}


def find_made_up_mean_daily_views(data: WorldData, title: str) -> float | None:
    """Return a title's made-up mean of views per day; None for an unknown title."""
    if title in data.articles:
        return float(data.articles[title].daily_views)
    if title in data.redirects:
        target = find_made_up_mean_daily_views(data, data.redirects[title].partition("#")[0])
        return None if target is None else target * (1 + derive_seed("redirect", title) % 40) / 1000
    if title in data.items_by_title:
        # between 3 and 3,000, with a median near 100
        return float(3 * 1000 ** (derive_seed("item", data.items_by_title[title].qid) % 10_000 / 10_000))
    return None


def _iterate_daily_views(title: str, mean: float, start: date, end: date) -> Iterator[tuple[date, int]]:
    """Yield (day, views by people) from start to end, both included."""
    day = max(start, FIRST_PAGEVIEWS_DAY)
    while day <= end:
        views = _make_daily_views_of_year(title, mean, day.year)
        last = min(end, date(day.year, 12, 31))
        first = day.timetuple().tm_yday - 1
        for number in range(first, first + (last - day).days + 1):
            yield day, views[number]
            day += timedelta(days=1)


@lru_cache(maxsize=4096)
def _make_daily_views_of_year(title: str, mean: float, year: int) -> tuple[int, ...]:
    """Return a year's daily views by people; 0 for omitted days."""
    seed = derive_seed("pageviews", title)
    count = 366 if calendar.isleap(year) else 365
    noise = hashlib.shake_256(f"{title}\x1f{year}".encode()).digest(4 * count)
    weekday = date(year, 1, 1).weekday()
    peak, swing = seed % count, (seed >> 16) % 25 / 100
    trend = (1.02 + (seed >> 24) % 9 / 100) ** (year - 2020) if seed % 2 else 1.0
    # one title in five lacks counts for a few consecutive days
    gap = range((seed >> 8) % 300, (seed >> 8) % 300 + 1 + seed % 7) if seed % 5 == 0 else range(0)
    return tuple(
        0
        if number in gap
        else _round_by_chance(
            mean
            * trend
            * _WEEKDAY_FACTORS[(weekday + number) % 7]
            * (1 + swing * math.cos(2 * math.pi * (number - peak) / count))
            # the sum of three bytes approximates a bell curve
            * (0.6 + sum(noise[4 * number : 4 * number + 3]) / (3 * 255) * 0.8),
            noise[4 * number + 3],
        )
        for number in range(count)
    )


def _round_by_chance(views: float, byte: int) -> int:
    """Round up or down at random, so that articles with few views have days without any."""
    floor = int(views)
    return floor + (byte / 256 < views - floor)


def _compute_views_by_access_and_agent(views: int, access: str, agent: str) -> int:
    """Return the share of a day's views with one access method and agent; shares add up to the total."""
    if agent == "all-agents":
        return sum(_compute_views_by_access_and_agent(views, access, each) for each in ("user", *_AGENT_SHARES))
    of_agent = views if agent == "user" else views * _AGENT_SHARES[agent] // 100
    if access == "all-access":
        return of_agent
    parts = {way: of_agent * hundredths // 100 for way, hundredths in _ACCESS_SHARES.items()}
    parts["mobile-web"] = of_agent - parts["desktop"] - parts["mobile-app"]
    return parts[access]


def _sum_complete_month_views(series: list[tuple[date, int]], start: date, end: date) -> list[tuple[date, int]]:
    """Sum the complete months between start and end."""
    sums: dict[date, int] = {}
    for day, views in series:
        month = day.replace(day=1)
        last = day.replace(day=calendar.monthrange(day.year, day.month)[1])
        if start <= month and last <= end:
            sums[month] = sums.get(month, 0) + views
    return list(sums.items())


def _parse_day(text: str, name: str) -> date:
    digits = text[:8] if len(text) in {8, 10} and text.isascii() and text.isdigit() else ""
    try:
        return date(int(digits[:4]), int(digits[4:6]), int(digits[6:]))
    except ValueError:
        raise PageviewsRequestError(400, "Bad Request", f"{name} is {text!r}; expected a day as YYYYMMDD") from None
