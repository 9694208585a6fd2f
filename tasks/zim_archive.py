"""Read a Wikipedia from a ZIM file: its date, its identity, and its articles with the revisions that they state.

A ZIM file is one state of a wiki. It is identified by the UUID and the checksum that stand in it, and dated by its
metadata entry `Date`; so a copy of it anywhere is the same Wikipedia, and another file is another one. The checksum is
the one that the file's maker stored: reading a whole Wikipedia to compute it again takes minutes, so only
`ZimArchive.find_damage` does that.

mwoffliner, which makes Kiwix's files, ends each article with a link to the revision that it was made from (`oldid`),
and the day of that revision. That revision is what a row can be traced to, so an article without this link has no
revision here; nothing stands in for it. A file holds no page ids, no items and no other revisions.

Paths of articles are their titles with underscores; all of them are below `A/` in files of the old namespace scheme,
and in those whose main page is. Redirects are entries of their own, or pages that only refresh to another one.

libzim comes with the extra `zim`, and is imported where a file is opened.
"""

import os
import re
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from lxml import html

from factmill.tasks.core.calls.wikipedia import FILE_IDENTITY_PREFIX
from factmill.tasks.core.digests import digest_json
from factmill.tasks.errors import SettingsError, WikipediaFileError
from factmill.tasks.files import open_regular_file
from factmill.tasks.text.wikipedia_urls import canonical_title

MAX_REDIRECTS = 10
"""Largest number of successive redirects followed."""
_ARTICLE_FOLDER = "A/"
_HTML_TYPE = "text/html"
_BLOCK_TAGS = ("div", "p", "footer", "section", "td")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_REFRESH_TARGET = re.compile(r"url\s*=\s*['\"]?([^'\"]+)", re.IGNORECASE)
_SPDX_LICENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*-[A-Za-z0-9.+-]+")
_DISAMBIGUATION_XPATH = "//*[@id='disambigbox' or contains(concat(' ', @class, ' '), ' dmbox-disambig ')]"


@dataclass(frozen=True, slots=True)
class ZimArticle:
    """An article of a file."""

    title: str
    path: str
    """Path of its entry."""
    text: str
    """HTML of its content, without the link to the revision."""
    revid: int | None
    """The revision that it was made from; None: the file does not state one."""
    edited_on: str | None
    """Day of that revision (YYYY-MM-DD); None: the file does not state it."""
    is_disambiguation: bool


@dataclass(frozen=True, slots=True)
class ZimTitleResolution:
    """Where a title leads."""

    article: ZimArticle | None
    """None: the file has no such page, or redirects lead in circles."""
    redirected_from: str | None = None
    """The title, if it is a redirect."""
    is_loop: bool = False


class ZimArchive:
    """A Wikipedia in a ZIM file."""

    def __init__(self, path: Path) -> None:
        """Open a file; WikipediaFileError if it cannot be used as a Wikipedia, SettingsError if libzim is not installed."""
        self.path = path
        self._signature = _get_file_signature(path)
        try:
            reader = import_module("libzim.reader")
        except ImportError as error:
            raise SettingsError(
                f'[wikipedia] engine = "zim" needs libzim, which cannot be imported ({error}): pip install "factmill[zim]"'
            ) from error
        try:
            self._archive = reader.Archive(path)
        except (RuntimeError, ValueError) as error:
            raise WikipediaFileError(
                f"{path}: not a readable ZIM file ({error}); expected a ZIM file of Wikipedia"
            ) from error
        self._folder = self._find_article_folder()
        self.date = self._read_date()
        """Day of the file."""
        language = self._read_metadata("Language")
        if language and not language.lower().startswith("en"):
            raise WikipediaFileError(f"{path}: its language is {language}; expected a file of the English Wikipedia")
        if not self._archive.has_checksum:
            raise WikipediaFileError(f"{path}: it carries no checksum, by which builds tell files apart; expected one")
        contents = [str(self._archive.uuid), self._archive.checksum, self.date.isoformat()]
        self.identity = f"{FILE_IDENTITY_PREFIX}{self.date.isoformat()}-{digest_json(contents)[:16]}"
        """Its value as a service of recorded calls and in manifests: the same for every copy of the file."""

    @property
    def licence(self) -> str:
        """SPDX id of the licence that the file states; empty if it states none."""
        stated = self._read_metadata("License")
        return stated if _SPDX_LICENCE.fullmatch(stated) else ""

    @property
    def article_count(self) -> int:
        """Number of its articles."""
        return int(self._archive.article_count)

    @property
    def has_search(self) -> bool:
        """True when it holds a full-text index."""
        return bool(self._archive.has_fulltext_index)

    def check_unchanged(self) -> None:
        """Raise WikipediaFileError when the file was replaced or changed since it was opened."""
        if _get_file_signature(self.path) != self._signature:
            raise WikipediaFileError(
                f"{self.path}: the file was changed or replaced while it was in use; put {self.identity} back, or run the "
                "same command again, which makes another build of the new file"
            )

    def find_damage(self) -> str:
        """Return what is wrong with the file's content; empty if its checksum is right. Reads all of it."""
        return "" if self._archive.check() else f"{self.path}: its content does not have the checksum that it states"

    def find_article(self, title: str) -> ZimTitleResolution:
        """Return the article that a title in MediaWiki's spelling leads to, over redirects."""
        spellings = [f"{self._folder}{title.replace(' ', '_')}", f"{self._folder}{title}"]
        path, known = next(filter(self._archive.has_entry_by_path, spellings), None), set[str]()
        redirected_from = None
        while path and path not in known:
            known.add(path)
            entry = self._archive.get_entry_by_path(path)
            if len(known) > MAX_REDIRECTS:
                break
            if entry.is_redirect:
                path, redirected_from = entry.get_redirect_entry().path, title
                continue
            item = entry.get_item()
            if item.mimetype.partition(";")[0].strip() != _HTML_TYPE:
                return ZimTitleResolution(None, redirected_from)
            page = html.document_fromstring(bytes(item.content) or b"<p>", parser=html.HTMLParser(encoding="utf-8"))
            if target := _find_refresh_target(page, path):
                path, redirected_from = target if self._archive.has_entry_by_path(target) else None, title
                continue
            return ZimTitleResolution(_read_article(page, path, self._make_title(path)), redirected_from)
        return ZimTitleResolution(None, redirected_from, is_loop=path is not None)

    def search(self, words: str, limit: int) -> list[str]:
        """Return the titles of the articles that match words best, best first; only with a full-text index."""
        search = import_module("libzim.search")
        results = search.Searcher(self._archive).search(search.Query().set_query(words)).getResults(0, limit)
        return [self._make_title(path) for path in results]

    def _make_title(self, path: str) -> str:
        return canonical_title(path.removeprefix(self._folder))

    def _find_article_folder(self) -> str:
        if not self._archive.has_new_namespace_scheme:
            return _ARTICLE_FOLDER
        main = self._archive.main_entry if self._archive.has_main_entry else None
        while main is not None and main.is_redirect:
            main = main.get_redirect_entry()
        return _ARTICLE_FOLDER if main is not None and main.path.startswith(_ARTICLE_FOLDER) else ""

    def _read_metadata(self, name: str) -> str:
        if name not in self._archive.metadata_keys:
            return ""
        return bytes(self._archive.get_metadata(name)).decode("utf-8", "replace").strip()

    def _read_date(self) -> date:
        stated = self._read_metadata("Date")
        try:
            if not _DAY.fullmatch(stated):
                raise ValueError(stated)
            return date.fromisoformat(stated)
        except ValueError as error:
            raise WikipediaFileError(
                f"{self.path}: its metadata entry Date is {stated or 'missing'!r}; expected the day of the file, such as 2026-01-15"
            ) from error


def open_zim_archive(path: Path) -> ZimArchive:
    """Return the archive at a path, opened once as long as the file stays the same; errors as of `ZimArchive`."""
    return _open_once(path, _get_file_signature(path))


@lru_cache(maxsize=4)
def _open_once(path: Path, _signature: tuple[int, ...]) -> ZimArchive:
    return ZimArchive(path)


def _get_file_signature(path: Path) -> tuple[int, ...]:
    """Return what changes when a file is replaced or written; WikipediaFileError if it is no regular file."""
    try:
        with open_regular_file(path) as file:
            state = os.fstat(file.fileno())
    except OSError as error:
        raise WikipediaFileError(
            f"[wikipedia] path: {path} cannot be read ({error.strerror}); expected a ZIM file of Wikipedia"
        ) from error
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns


def _find_refresh_target(page: Any, path: str) -> str | None:
    """Return the path that a page refreshes to at once; None for an article."""
    for meta in page.iter("meta"):
        if meta.get("http-equiv", "").lower() == "refresh" and (
            found := _REFRESH_TARGET.search(meta.get("content", ""))
        ):
            target = unquote(found[1].partition("#")[0])
            return os.path.normpath(f"{path.rpartition('/')[0]}/{target}").lstrip("/")
    return None


def _read_article(page: Any, path: str, title: str) -> ZimArticle:
    content = page.get_element_by_id("mw-content-text", None)
    content = next(iter(page.iter("body")), page) if content is None else content
    is_disambiguation = bool(content.xpath(_DISAMBIGUATION_XPATH))
    revid, edited_on = None, None
    if (link := _find_revision_link(content, title)) is not None:
        revid, edited_on = int(_get_oldid(link) or 0), _DAY.search(link.get("title", ""))
        _find_footer_with_revision_link(link, content).drop_tree()
    text = (content.text or "") + "".join(html.tostring(each, encoding="unicode") for each in content)
    return ZimArticle(title, path, text, revid or None, edited_on[0] if edited_on else None, is_disambiguation)


def _find_footer_with_revision_link(link: Any, content: Any) -> Any:
    """Return the block of a link to the revision, with the blocks around it that begin with it."""
    block = next(
        (each for each in link.iterancestors() if each.tag in _BLOCK_TAGS or each.getparent() is content), link
    )
    while (around := block.getparent()) is not content and around[0] is block and not (around.text or "").strip():
        block = around
    return block


def _find_revision_link(content: Any, title: str) -> Any | None:
    """Return the last link to a revision, if it is one of this page and in no text of the article."""
    links = [link for link in content.iter("a") if _get_oldid(link)]
    if not links:
        return None
    parts = urlsplit(links[-1].get("href"))
    named = [*parse_qs(parts.query).get("title", ()), unquote(parts.path).partition("/wiki/")[2]]
    return links[-1] if title in map(canonical_title, (each.replace("_", " ") for each in named)) else None


def _get_oldid(link: Any) -> str | None:
    found = parse_qs(urlsplit(link.get("href", "")).query).get("oldid", [""])[0]
    return found if found.isascii() and found.isdigit() and found.strip("0") else None
