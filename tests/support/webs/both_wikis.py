"""Compare a real MediaWiki with the embedded one: both have the same pages and get the same calls; only ids differ.

Both have data/world, pages with histories (page_histories.py), and pages in many kinds of markup. For the markup pages
the embedded one has the HTML that the real one renders from their wikitext. The real one lacks the text of the world's
articles.
"""

import re
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from support.webs.page_histories import HISTORIES, copy_world, write_article
from support.webs.real_mediawiki import RealMediaWiki, default_cache, running_mediawiki

from factmill.tasks.clients.wikipedia import WikipediaClient
from factmill.tasks.core.calls.call import Call, CallResponse, ResponseHandler
from factmill.tasks.core.digests import JsonValue
from factmill.tasks.core.service_settings import ServiceLimits
from factmill.tasks.world.data import WorldArticle, WorldData
from factmill.tasks.world.files import WorldFileViolationCollector, load_world_data, parse_world_article
from factmill.tasks.world.serving import running_world
from factmill.tasks.world.wiki.pages import WorldWikiPageIndex

LIMITS = ServiceLimits(parallel=4, timeout_s=30, attempts=2, backoff_s=0.02, batch=50)
_CATEGORIES = "  Pages with broken file links: []\n  Probes: []\n  Probes within: [Probes]\n  Probes beside: [Probes, Probes within]\n"


class OnceRendered(WikipediaClient):
    """A Wikipedia that is asked for each text once, since a MediaWiki without caches renders on every request."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "p", LIMITS, "factmill tests")
        self._texts: dict[tuple[JsonValue, JsonValue], CallResponse] = {}

    def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        def keep(call: Call, reply: CallResponse) -> None:
            if call.operation == "page_text" and reply.status == "ok":
                self._texts[call.parts["revid"], call.parts["form"]] = reply
            deliver(call, reply)

        unknown = []
        for call in calls:
            if known := self._texts.get((call.parts.get("revid"), call.parts.get("form"))):
                deliver(call, known)
            else:
                unknown.append(call)
        super().send(unknown, keep)


@dataclass(frozen=True)
class Both:
    """The two wikis and their contents."""

    data: WorldData
    wiki: WorldWikiPageIndex
    written: frozenset[str]
    """Titles of the pages with the same text in both."""
    real: WikipediaClient
    ours: WikipediaClient
    real_url: str
    ours_url: str
    revids: dict[int, int]
    """Revision id in the embedded wiki → in the real one."""
    pageids: dict[int, str]
    """Page id in either wiki → title; the ids of the two wikis do not overlap."""


@contextmanager
def running_both(folder: Path, pages: Path) -> Iterator[Both]:
    """Start both wikis with these pages added; raise NotInstalledError if the real one's programs are missing."""
    world_folder, wikitexts = folder / "world", read_wikitexts(pages)
    copy_world(world_folder)
    for file in wikitexts:
        shutil.copy(file, name_copy(world_folder, file))
    categories = world_folder / "categories.yaml"
    categories.write_text(categories.read_text("utf-8").replace("tree:\n", f"tree:\n{_CATEGORIES}"), "utf-8")
    written = {title: [text for _, text in revisions] for title, revisions in HISTORIES.items()}
    written |= {article.title: [each.text for each in article.revisions] for article in wikitexts.values()}
    with running_mediawiki(default_cache(), load_world_data(world_folder), written) as real:
        for file, article in wikitexts.items():
            copy_article(name_copy(world_folder, file), article, real)
        data = load_world_data(world_folder)
        wiki = WorldWikiPageIndex(data)
        with running_world(folder / "home", world_folder) as world:
            yield Both(
                data=data,
                wiki=wiki,
                written=frozenset(written),
                real=OnceRendered(real.url),
                ours=open_wiki(world.endpoints["wikipedia"]),
                real_url=real.url,
                ours_url=world.endpoints["wikipedia"],
                revids=match_revids(real, wiki),
                pageids={page.pageid: page.title for page in wiki.by_title.values()} | real.pageids,
            )


def read_wikitexts(folder: Path) -> dict[Path, WorldArticle]:
    """Return the tests' pages, written as articles of the world except for their wikitext."""
    found = {
        file: parse_world_article(file.read_text("utf-8"), WorldFileViolationCollector())
        for file in sorted(folder.glob("*.wiki"))
    }
    return {file: article for file, article in found.items() if article}


def name_copy(world: Path, file: Path) -> Path:
    return world / "articles" / f"{file.stem}.html"


def copy_article(path: Path, article: WorldArticle, real: RealMediaWiki) -> None:
    """Write an article's file with the HTML and the categories from the real wiki."""
    head: dict[str, Any] = {"title": article.title, "pageid": article.pageid, "views": article.daily_views}
    head["redirects"] = article.redirects
    revisions = []
    for each in article.revisions:
        asked = {"action": "parse", "oldid": real.revids[article.title, each.at], "prop": "text|categories"}
        asked |= {
            "disableeditsection": 1,
            "disabletoc": 1,
            "disablelimitreport": 1,
            "format": "json",
            "formatversion": 2,
        }
        parsed = requests.get(f"{real.url}/w/api.php", params=asked, timeout=30).json()["parse"]
        html = re.fullmatch(r"<div [^>]*>(.*)</div>", parsed["text"], re.DOTALL)
        assert html, parsed["text"]
        revisions.append(({"revid": each.revid, "at": each.at, "comment": each.comment}, html[1].strip()))
        named = {name["category"].replace("_", " "): name["sortkey"] for name in parsed["categories"]}
    head["categories"] = [f"{name}|{key}" if key else name for name, key in named.items()]
    write_article(path, head, revisions)


def open_wiki(url: str, limits: ServiceLimits = LIMITS) -> WikipediaClient:
    return WikipediaClient(url, "p", limits, "factmill tests")


def match_revids(real: RealMediaWiki, wiki: WorldWikiPageIndex) -> dict[int, int]:
    """Return the real wiki's revision ids by ours, matched by title and date; neither wiki has more."""
    ours = {(page.title, revision.at) for page in wiki.by_title.values() for revision in page.revisions}
    assert ours == {(title, at) for title, at in real.revids if title in wiki.by_title}
    return {
        revision.revid: real.revids[page.title, revision.at]
        for page in wiki.by_title.values()
        for revision in page.revisions
    }


def ask(service: WikipediaClient, calls: Sequence[Call]) -> list[CallResponse]:
    replies: dict[str, CallResponse] = {}
    service.send(calls, lambda call, reply: replies.__setitem__(call.key, reply))
    return [replies[call.key] for call in calls]


def ask_both(both: Both, real: Sequence[Call], ours: Sequence[Call]) -> tuple[list[CallResponse], list[CallResponse]]:
    """Return the replies of the two wikis to their calls, sent in parallel."""
    with ThreadPoolExecutor(2) as pool:
        real_replies, our_replies = pool.map(ask, (both.real, both.ours), (real, ours))
    return real_replies, our_replies


def without_ids(both: Both, reply: CallResponse) -> Any:
    """Return a reply with titles for page ids and our revision ids for the real wiki's; an error as its code."""
    if reply.status != "ok":
        return reply.status, str(reply.error).partition(":")[0]
    theirs = {real: ours for ours, real in both.revids.items()}

    def change(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: change(part, name) for name, part in value.items()}
        if isinstance(value, list | tuple):
            return [change(part) for part in value]
        if key == "pageid" and value is not None:
            return both.pageids[value]
        if key == "revid" and value is not None:
            return theirs.get(value, value)
        return bool(value) if key == "after" else value

    return change(reply.body)


def compare(both: Both, calls: Sequence[Call]) -> list[Any]:
    """Send calls to both wikis, check that the replies are equal, and return them."""
    real_replies, our_replies = ask_both(both, calls, calls)
    expected = [without_ids(both, reply) for reply in real_replies]
    found = [without_ids(both, reply) for reply in our_replies]
    different = [
        {"asked": dict(call.parts), "real": theirs, "ours": own}
        for call, theirs, own in zip(calls, expected, found, strict=True)
        if theirs != own
    ]
    assert different == []
    return expected
