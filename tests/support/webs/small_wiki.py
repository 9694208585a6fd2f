"""Serve a Wikipedia of a few pages and their page views on loopback, with failures on request."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

from support.webs.loopback import Loopback, Seen

from factmill.tasks.clients.pageviews import PageviewsClient
from factmill.tasks.clients.wikipedia import WikipediaClient
from factmill.tasks.core.service_settings import ServiceLimits

LIMITS = ServiceLimits(parallel=2, timeout_s=5, attempts=2, backoff_s=0.01, batch=10)
AGENT = "factmill tests"
Trouble = Callable[[Seen], dict[str, Any] | None]
"""Request → the answer to give instead, or None."""


@dataclass(frozen=True)
class SmallPage:
    """One page with one revision, whose id is ten times the page's."""

    pageid: int
    title: str
    html: str = "<p>Nothing.</p>"
    written: str = "2020-01-01T00:00:00Z"
    redirect_to: str = ""
    is_disambiguation: bool = False
    views: tuple[int, ...] | None = (1,)
    """Views of each listed day; None: the API does not know the page."""


class SmallWiki:
    """Both services at one address; `categories`: name → (page id, title) of its pages, in listing order."""

    def __init__(self) -> None:
        self.pages: dict[str, SmallPage] = {}
        self.categories: dict[str, Sequence[tuple[int, str]]] = {}
        self.subcategories: dict[str, Sequence[str]] = {}
        self.trouble: Trouble = lambda _: None
        self.web = Loopback()
        self.web.handle = self._answer

    def add(self, *pages: SmallPage) -> None:
        """Add pages to the wiki."""
        self.pages |= {page.title: page for page in pages}

    def close(self) -> None:
        """Stop the server."""
        self.web.close()

    def services(self) -> Any:
        """Return new clients of both services, as each build has."""
        return SimpleNamespace(
            wikipedia=WikipediaClient(self.web.url, "w", LIMITS, AGENT),
            pageviews=PageviewsClient(f"{self.web.url}/views", "v", LIMITS, AGENT),
        )

    def asked(self, name: str, value: str) -> list[Seen]:
        """Return the requests that had a parameter with this value."""
        return [seen for seen in self.web.seen if seen.query.get(name) == value]

    def _answer(self, seen: Seen) -> dict[str, Any]:
        if answer := self.trouble(seen):
            return answer
        if not seen.path.endswith("api.php"):
            return self._answer_views(unquote(seen.path.split("/")[-4]).replace("_", " "))
        query = seen.query
        if query["action"] == "parse":
            return self._answer_text(int(query["oldid"]))
        if query.get("list") == "categorymembers":
            return self._list_members(query)
        return {"json": {"query": self._find_titles(query["titles"].split("|"), query)}}

    def _list_members(self, query: Mapping[str, str]) -> dict[str, Any]:
        name = query["cmtitle"].partition(":")[2]
        start = int(query.get("cmcontinue", "0"))
        stop = start + int(query["cmlimit"])
        if query["cmtype"] == "page":
            listed = self.categories.get(name, ())
            lines = [{"pageid": number, "ns": 0, "title": title} for number, title in listed[start:stop]]
        else:
            listed = [(900 + at, each) for at, each in enumerate(self.subcategories.get(name, ()))]
            lines = [{"pageid": number, "ns": 14, "title": f"Category:{each}"} for number, each in listed[start:stop]]
        more = {"continue": {"cmcontinue": str(stop), "continue": "-||"}} if stop < len(listed) else {}
        return {"json": {**more, "query": {"categorymembers": lines}}}

    def _find_titles(self, titles: Iterable[str], query: Mapping[str, str]) -> dict[str, Any]:
        redirects: dict[str, str] = {}
        found: list[dict[str, Any]] = []
        for title in titles:
            page = self.pages.get(title)
            while page and page.redirect_to and page.title not in redirects:
                redirects[page.title] = page.redirect_to
                page = self.pages.get(page.redirect_to)
            if page is None:
                found.append({"ns": 0, "title": title, "missing": True})
            elif not page.redirect_to:
                found.append(_answer_page(page, query))
        # a redirect loop ends at no page
        return {"redirects": [{"from": old, "to": new} for old, new in redirects.items()], "pages": found}

    def _answer_text(self, revid: int) -> dict[str, Any]:
        page = next((page for page in self.pages.values() if page.pageid * 10 == revid), None)
        if page is None:
            return {"json": {"error": {"code": "nosuchrevid", "info": f"There is no revision with ID {revid}."}}}
        return {"json": {"parse": {"title": page.title, "pageid": page.pageid, "revid": revid, "text": page.html}}}

    def _answer_views(self, title: str) -> dict[str, Any]:
        views = self.pages[title].views
        if views is None:
            return {"status": 404, "json": {"title": "Not found."}, "type": "application/problem+json"}
        return {
            "json": {"items": [{"timestamp": f"202301{day:02}00", "views": each} for day, each in enumerate(views)]}
        }


def _answer_page(page: SmallPage, query: Mapping[str, str]) -> dict[str, Any]:
    result: dict[str, Any] = {"pageid": page.pageid, "ns": 0, "title": page.title}
    if query["prop"] == "pageprops":
        return result | {"pageprops": {"disambiguation": ""} if page.is_disambiguation else {}}
    if query["rvdir"] == "newer" or page.written <= query["rvstart"]:
        result["revisions"] = [{"revid": page.pageid * 10, "timestamp": page.written}]
    return result
