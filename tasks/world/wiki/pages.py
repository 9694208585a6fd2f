"""Pages of the embedded Wikipedia: articles, redirects and categories, found by title, page id or revision.

A text is HTML, as MediaWiki serves it within div.mw-parser-output; there is no wikitext. Redirect and category pages have
no file of their own; their ids and texts are derived from their names, made up like all page ids here. Titles are
normalised as in MediaWiki: underscores become spaces, the first letter a capital; namespace names ignore case; character
references are decoded; a fragment is cut off. Category members are sorted as MediaWiki does without ICU (collation
`uppercase`); English Wikipedia's order differs for accents, digits and signs.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from html import escape, unescape
from urllib.parse import quote, unquote

from factmill.tasks.core.digests import derive_seed
from factmill.tasks.text.wikipedia_urls import find_redirect
from factmill.tasks.world.data import WorldArticle, WorldArticleRevision, WorldData

WIKI_NAMESPACES = {
    -2: "Media", -1: "Special", 0: "", 1: "Talk", 2: "User", 3: "User talk", 4: "Wikipedia", 5: "Wikipedia talk",
    6: "File", 7: "File talk", 8: "MediaWiki", 9: "MediaWiki talk", 10: "Template", 11: "Template talk", 12: "Help",
    13: "Help talk", 14: "Category", 15: "Category talk",
}  # fmt: skip
MAIN_NAMESPACE, TALK_NAMESPACE, FILE_NAMESPACE, CATEGORY_NAMESPACE = 0, 1, 6, 14

_NAMESPACE_NUMBERS = {name.casefold(): number for number, name in WIKI_NAMESPACES.items() if name}
_NAMESPACE_NUMBERS |= {"image": 6, "project": 4, "wp": 4}
_INVALID_TITLE_TEXT = re.compile(r"[<>\[\]|{}\x00-\x1f\x7f\ufffd]|%[0-9A-Fa-f]{2}|&#?\w+;|~~~")
_TITLE_SPACES = re.compile("[ _\u00a0\u1680\u180e\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
_DIRECTION_MARKS = re.compile("[\u200e\u200f\u202a-\u202e]")
"""Text direction marks, which are removed from titles."""
_RELATIVE_PATH = re.compile(r"(?:^|/)\.\.?(?:/|$)")
_CHARACTER_REFERENCE = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|[a-zA-Z0-9]+);")
_MADE_UP_DATE = "2015-06-01T00:00:00Z"


class InvalidWikiTitleError(Exception):
    """An invalid page title."""


@dataclass(frozen=True, slots=True)
class WikiTitle:
    """A normalised title."""

    namespace: int
    name: str
    """Title without the namespace."""
    fragment: str
    """Part after the #; empty if there is none."""

    @property
    def full_title(self) -> str:
        """Title with its namespace."""
        prefix = WIKI_NAMESPACES[self.namespace]
        return f"{prefix}:{self.name}" if prefix else self.name


@dataclass(frozen=True, slots=True)
class WikiPage:
    """An existing page."""

    pageid: int
    namespace: int
    title: str
    """Full title."""
    revisions: tuple[WorldArticleRevision, ...]
    """Oldest first, at least one."""
    categories: Mapping[str, str]
    """Category name without the namespace → sort key; empty: the title is the key."""
    redirect_to: str | None = None
    """Target of a redirect: full title, optionally with #fragment; None for other pages."""
    qid: str | None = None
    short_description: str | None = None
    is_disambiguation: bool = False

    @property
    def newest_html(self) -> str:
        """HTML of the newest revision."""
        return self.revisions[-1].text

    @property
    def page_props(self) -> dict[str, str]:
        """Page properties by MediaWiki's names: disambiguation page, short description, item."""
        props = {"disambiguation": ""} if self.is_disambiguation else {}
        props |= {"wikibase-shortdesc": self.short_description} if self.short_description else {}
        return props | ({"wikibase_item": self.qid} if self.qid else {})


@dataclass(frozen=True, slots=True)
class WikiCategoryMember:
    """A member of a category."""

    page: WikiPage
    sort_key: str
    """Upper-case text that sorts the members: the page's own key, if any, then the title on a new line."""
    kind: str
    """page or subcat."""


class WorldWikiPageIndex:
    """All pages, indexed for look-up."""

    def __init__(self, data: WorldData) -> None:
        taken = {article.pageid for article in data.articles.values()}
        pages = [_make_article_page(article) for article in data.articles.values()]
        for source, target in data.redirects.items():
            pages.append(
                _make_synthetic_page(parse_wiki_title(source), format_redirect_html(target), taken, {}, target)
            )
        for name, parents in data.categories.items():
            pages.append(
                _make_synthetic_page(WikiTitle(CATEGORY_NAMESPACE, name, ""), "", taken, dict.fromkeys(parents, ""))
            )
        self.by_title: Mapping[str, WikiPage] = {page.title: page for page in pages}
        self.by_id: Mapping[int, WikiPage] = {page.pageid: page for page in pages}
        self.by_revid: Mapping[int, tuple[WikiPage, WorldArticleRevision]] = {
            revision.revid: (page, revision) for page in pages for revision in page.revisions
        }

    @cached_property
    def members_by_category(self) -> Mapping[str, list[WikiCategoryMember]]:
        """Category title → members: pages, then subcategories, each sorted by key."""
        found: dict[str, list[WikiCategoryMember]] = defaultdict(list)
        for page in self.by_title.values():
            kind = "subcat" if page.namespace == CATEGORY_NAMESPACE else "page"
            name_of_page = parse_wiki_title(page.title).name
            for name, key in page.categories.items():
                sort_key = f"{key}\n{name_of_page}" if key else name_of_page
                found[f"Category:{name}"].append(WikiCategoryMember(page, sort_key.upper(), kind))
        for members in found.values():
            members.sort(key=lambda member: (member.kind, member.sort_key, member.page.pageid))
        return found

    @cached_property
    def redirects_by_target(self) -> Mapping[str, list[str]]:
        """Full title → titles of the redirects to it."""
        found: dict[str, list[str]] = defaultdict(list)
        for page in self.by_title.values():
            if page.redirect_to:
                found[parse_wiki_title(page.redirect_to).full_title].append(page.title)
        return found

    def follow_redirects(self, title: str) -> tuple[list[tuple[str, WikiTitle]], WikiTitle | None]:
        """Follow redirects from a full title; return ([(from, to) per step], final title or None for a cycle)."""
        steps: dict[str, WikiTitle] = {}
        at = parse_wiki_title(title)
        while (page := self.by_title.get(at.full_title)) and page.redirect_to:
            if at.full_title in steps:
                return list(steps.items()), None
            steps[at.full_title] = parse_wiki_title(page.redirect_to)
            at = steps[at.full_title]
        return list(steps.items()), at


def parse_wiki_title(text: str, namespace: int = MAIN_NAMESPACE) -> WikiTitle:
    """Normalise a title; `namespace` applies to titles without one. InvalidWikiTitleError if the title is invalid."""
    text = _CHARACTER_REFERENCE.sub(lambda match: unescape(match[0]), text)
    name, _, fragment = _TITLE_SPACES.sub(" ", _DIRECTION_MARKS.sub("", text)).strip(" ").partition("#")
    name = name.strip(" ")
    if name.startswith(":"):
        name, namespace = name[1:].strip(), MAIN_NAMESPACE
    prefix, colon, rest = name.partition(":")
    if colon and prefix.strip().casefold() in _NAMESPACE_NUMBERS:
        namespace, name = _NAMESPACE_NUMBERS[prefix.strip().casefold()], rest.strip()
        if (
            namespace == TALK_NAMESPACE
            and rest.partition(":")[0].strip().casefold() in _NAMESPACE_NUMBERS
            and ":" in rest
        ):
            raise InvalidWikiTitleError("A talk page has its subject's namespace before the word talk, not behind it.")
    if name.startswith(":"):
        raise InvalidWikiTitleError("The requested page title contains an invalid colon at the beginning.")
    if not name:
        raise InvalidWikiTitleError("The requested page title is empty or contains only the name of a namespace.")
    if bad := _INVALID_TITLE_TEXT.search(name):
        raise InvalidWikiTitleError(f'The requested page title contains invalid characters: "{bad[0]}".')
    if _RELATIVE_PATH.search(name) or len(name.encode()) > 255:
        raise InvalidWikiTitleError("The requested page title is too long or a relative path.")
    return WikiTitle(namespace, name[0].upper() + name[1:], fragment.strip())


def format_title_for_url_path(title: str) -> str:
    """Return a title as written in a URL path."""
    return quote(title.replace(" ", "_"), safe=";@$!*(),/:~")


def format_redirect_html(target: str) -> str:
    """Return MediaWiki's HTML for a redirect to a title, optionally with #fragment."""
    title, mark, fragment = target.partition("#")
    href = f"/wiki/{format_title_for_url_path(title)}{mark}{format_title_for_url_path(fragment)}"
    link = f'<a href="{href}" title="{escape(title)}">{escape(target)}</a>'
    return f'<div class="redirectMsg"><p>Redirect to:</p><ul class="redirectText"><li>{link}</li></ul></div>'


def _make_article_page(article: WorldArticle) -> WikiPage:
    own = (article.categories, find_redirect(article.newest_html), article.qid)
    described = (article.short_description, article.is_disambiguation)
    return WikiPage(article.pageid, MAIN_NAMESPACE, article.title, article.revisions, *own, *described)


def _make_synthetic_page(
    title: WikiTitle, text: str, taken: set[int], categories: Mapping[str, str], redirect_to: str | None = None
) -> WikiPage:
    pageid = 40_000_000 + derive_seed("pageid", title.full_title) % 20_000_000
    while pageid in taken:
        pageid += 1
    taken.add(pageid)
    # above all article revision ids, and as unique as the page id
    revision = WorldArticleRevision(1_000_000_000 + pageid, 0, _MADE_UP_DATE, "made up", text)
    return WikiPage(pageid, title.namespace, title.full_title, (revision,), categories, redirect_to)


_WIKI_LINK = re.compile(r'<a href="/(?:wiki/|w/index\.php\?title=)([^"#&?]+)')
"""A link within the wiki; links to missing pages may lead to the editor, as in MediaWiki."""

_TAG = re.compile(r"<[^>]+>")


def map_linked_pages_by_full_title(html: str) -> dict[str, WikiTitle]:
    """Return the linked pages except files, each once: full title → title."""
    return {title.full_title: title for title in _find_linked_titles(html) if title.namespace != FILE_NAMESPACE}


def find_linked_files(html: str) -> list[str]:
    """Return the names of the linked files, each once."""
    return list(
        dict.fromkeys(
            title.name.replace(" ", "_") for title in _find_linked_titles(html) if title.namespace == FILE_NAMESPACE
        )
    )


@lru_cache(maxsize=4096)
def strip_html_tags_to_line(html: str) -> str:
    """Return the text of HTML without markup, in one line."""
    return " ".join(unescape(_TAG.sub(" ", html)).split())


def _find_linked_titles(html: str) -> list[WikiTitle]:
    return [parse_wiki_title(unquote(path)) for path in _WIKI_LINK.findall(html)]
