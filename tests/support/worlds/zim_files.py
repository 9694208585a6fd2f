"""Write ZIM files with libzim's writer: of a few pages, or of the embedded world's articles at a date."""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from libzim.writer import Creator, Hint, Item, StringProvider

from factmill.tasks.world.data import WorldArticle
from factmill.tasks.world.files import load_world_data

FOOTER = (
    '<!--htdig_noindex--><div style="clear:both"><div class="zim-footer">This article is issued from '
    '<a class="external text" title="Last edited on {day}" href="https://en.wikipedia.org/wiki/?title={title}&amp;oldid={revid}">Wikipedia</a>. '
    "The text is available under a licence.</div></div><!--/htdig_noindex-->"
)
"""mwoffliner's note of the revision that an article was made from."""


@dataclass(frozen=True)
class ZimPage:
    """A page to write; its path is its title with underscores."""

    title: str
    body: str
    revid: int | None = None
    day: str = ""
    path: str = ""
    mimetype: str = "text/html"

    @property
    def html(self) -> str:
        title = quote(self.title.replace(" ", "_"), safe="")
        footer = "" if self.revid is None else FOOTER.format(day=self.day, title=title, revid=self.revid)
        return (
            f"<!doctype html><html><head><title>{escape(self.title)}</title></head><body>"
            f'<h1 id="firstHeading">{escape(self.title)}</h1><div id="mw-content-text">{self.body}{footer}</div></body></html>'
        )


@dataclass(frozen=True)
class ZimFile:
    """The pages, redirects (title → title) and metadata of a file."""

    pages: Iterable[ZimPage] = ()
    redirects: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    indexed: bool = True
    main_path: str = ""

    def write(self, path: Path) -> Path:
        """Write the file; its UUID is new each time."""
        metadata = {"Date": "2026-01-01", "Language": "eng", "Title": "Made up", **self.metadata}
        with Creator(path).config_indexing(self.indexed, "eng") as creator:
            if self.main_path:
                creator.set_mainpath(self.main_path)
            for page in self.pages:
                creator.add_item(_PageItem(page))
            for title, target in self.redirects.items():
                creator.add_redirection(
                    title.replace(" ", "_"), title, target.replace(" ", "_"), {Hint.FRONT_ARTICLE: False}
                )
            for name, value in metadata.items():
                if value:
                    creator.add_metadata(name, value)
        return path


class _PageItem(Item):  # type: ignore[misc]
    def __init__(self, page: ZimPage) -> None:
        super().__init__()
        self.page = page

    def get_path(self) -> str:
        return self.page.path or self.page.title.replace(" ", "_")

    def get_title(self) -> str:
        return self.page.title

    def get_mimetype(self) -> str:
        return self.page.mimetype

    def get_contentprovider(self) -> StringProvider:
        return StringProvider(self.page.html)

    def get_hints(self) -> dict[Hint, Any]:
        return {Hint.FRONT_ARTICLE: True}


def write_embedded_zim(path: Path, day: str) -> Path:
    """Write the embedded world's articles as of the beginning of a day, with its redirects."""
    data = load_world_data()
    pages = [page for article in data.articles.values() if (page := _make_page(article, day))]
    titles = {page.title for page in pages}
    redirects = {
        title: target.partition("#")[0]
        for title, target in data.redirects.items()
        if target.partition("#")[0] in titles
    }
    return ZimFile(pages, redirects, {"Date": day, "License": "Apache-2.0"}).write(path)


def write_embedded_topics(path: Path, categories: Iterable[str]) -> Path:
    """Write the members of categories and of their subcategories, with their daily views, as a table of topics."""
    data = load_world_data()
    rows = [
        (category, article.title, article.pageid, article.daily_views)
        for category in categories
        for article in data.articles.values()
        if any(category in (name, *data.categories[name]) for name in article.categories)
    ]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("category", "title", "pageid", "views"), *rows])
    return path


def _make_page(article: WorldArticle, day: str) -> ZimPage | None:
    known = [each for each in article.revisions if each.at <= f"{day}T00:00:00Z"]
    if not known:
        return None
    box = '<table id="disambigbox"></table>' if article.is_disambiguation else ""
    return ZimPage(article.title, f"{known[-1].text}{box}", known[-1].revid, known[-1].at[:10])
