"""The pages of the embedded Wikipedia: articles, redirects and categories, found by title, page id or revision.

Redirect and category pages have no file of their own; their ids and texts follow from their names, made up like all
page ids here. Titles are normalised as MediaWiki does: underscores are spaces, the first letter is a capital,
namespace names do not mind case, a fragment is cut off.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from tasks.core.fingerprints import seed_from
from tasks.world.data import Article, Revision, WorldData
from tasks.world.files.articles import categories_of

NAMESPACES = {
    -2: "Media", -1: "Special", 0: "", 1: "Talk", 2: "User", 3: "User talk", 4: "Wikipedia", 5: "Wikipedia talk",
    6: "File", 7: "File talk", 8: "MediaWiki", 9: "MediaWiki talk", 10: "Template", 11: "Template talk", 12: "Help",
    13: "Help talk", 14: "Category", 15: "Category talk",
}  # fmt: skip
MAIN, FILE, CATEGORY = 0, 6, 14

_NUMBERS = {name.casefold(): number for number, name in NAMESPACES.items() if name} | {
    "image": 6,
    "project": 4,
    "wp": 4,
}
_INVALID = re.compile(r"[<>\[\]|{}\x00-\x1f\x7f]|%[0-9A-Fa-f]{2}|&#?\w+;")
_DISAMBIGUATION = re.compile(r"\{\{\s*(?:disambig|disambiguation|hndis|geodis)\b", re.IGNORECASE)
_SHORT_DESCRIPTION = re.compile(r"\{\{\s*short description\s*\|\s*([^}|]*?)\s*(?:\|[^}]*)?\}\}", re.IGNORECASE)
_MADE_UP_DATE = "2015-06-01T00:00:00Z"


class BadTitleError(Exception):
    """A title that no page can have."""


@dataclass(frozen=True, slots=True)
class Title:
    """A normalised title."""

    namespace: int
    name: str
    """Without the namespace."""
    fragment: str
    """Behind the #; empty when there is none."""

    @property
    def full(self) -> str:
        """Title with its namespace."""
        prefix = NAMESPACES[self.namespace]
        return f"{prefix}:{self.name}" if prefix else self.name


@dataclass(frozen=True, slots=True)
class Page:
    """One page that exists."""

    pageid: int
    namespace: int
    title: str
    """Full title."""
    revisions: tuple[Revision, ...]
    """Oldest first, at least one."""
    qid: str | None = None
    redirect_to: str | None = None
    """Full title, perhaps with #fragment, where a redirect leads; None for other pages."""

    @property
    def text(self) -> str:
        """Wikitext of the newest revision."""
        return self.revisions[-1].text

    @property
    def is_disambiguation(self) -> bool:
        """True when the newest revision is marked as a disambiguation page."""
        return _DISAMBIGUATION.search(self.text) is not None

    @property
    def short_description(self) -> str | None:
        """Text of {{Short description}}, None without one."""
        match = _SHORT_DESCRIPTION.search(self.text)
        return match[1] if match else None


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a category."""

    page: Page
    sort_key: str
    """Upper-case text by which members are ordered."""
    kind: str
    """page or subcat."""


class Wiki:
    """Every page, ready to be looked up."""

    def __init__(self, data: WorldData) -> None:
        taken = {article.pageid for article in data.articles.values()}
        pages = [
            *(_article_page(article) for article in data.articles.values()),
            *(_redirect_page(source, target, taken) for source, target in data.redirects.items()),
            *(_category_page(name, parents, taken) for name, parents in data.categories.items()),
        ]
        self.by_title: Mapping[str, Page] = {page.title: page for page in pages}
        self.by_id: Mapping[int, Page] = {page.pageid: page for page in pages}
        self.by_revid: Mapping[int, tuple[Page, Revision]] = {
            r.revid: (page, r) for page in pages for r in page.revisions
        }

    @cached_property
    def members(self) -> Mapping[str, list[Member]]:
        """Category title → members, pages before subcategories, each by sort key."""
        found: dict[str, list[Member]] = defaultdict(list)
        for page in self.by_title.values():
            kind = "subcat" if page.namespace == CATEGORY else "page"
            for name, key in categories_of(page.text).items():
                found[f"Category:{name}"].append(Member(page, (key or parse_title(page.title).name).upper(), kind))
        for members in found.values():
            members.sort(key=lambda member: (member.kind, member.sort_key, member.page.pageid))
        return found

    @cached_property
    def redirects_to(self) -> Mapping[str, list[str]]:
        """Full title → titles of the redirects that lead to it."""
        found: dict[str, list[str]] = defaultdict(list)
        for page in self.by_title.values():
            if page.redirect_to:
                found[parse_title(page.redirect_to).full].append(page.title)
        return found

    def follow(self, title: str) -> tuple[list[tuple[str, Title]], Title]:
        """Follow redirects from a full title: (each step as from and to, where it ends)."""
        steps: list[tuple[str, Title]] = []
        at = parse_title(title)
        while (page := self.by_title.get(at.full)) and page.redirect_to and len(steps) < 10:
            target = parse_title(page.redirect_to)
            steps.append((at.full, target))
            at = target
        return steps, at


def parse_title(text: str, namespace: int = MAIN) -> Title:
    """Normalise a title; `namespace` holds for titles that name none. BadTitleError when no page can have it."""
    name, _, fragment = text.replace("_", " ").partition("#")
    name = " ".join(name.split())
    if name.startswith(":"):
        name, namespace = name[1:].strip(), MAIN
    prefix, colon, rest = name.partition(":")
    if colon and prefix.strip().casefold() in _NUMBERS:
        namespace, name = _NUMBERS[prefix.strip().casefold()], rest.strip()
    if not name:
        raise BadTitleError("The requested page title is empty or contains only the name of a namespace.")
    if bad := _INVALID.search(name):
        raise BadTitleError(f'The requested page title contains invalid characters: "{bad[0]}".')
    if name in {".", ".."} or len(name.encode()) > 255:
        raise BadTitleError("The requested page title is too long or a relative path.")
    return Title(namespace, name[0].upper() + name[1:], fragment.strip())


def _article_page(article: Article) -> Page:
    return Page(article.pageid, MAIN, article.title, article.revisions, article.qid)


def _redirect_page(source: str, target: str, taken: set[int]) -> Page:
    title = parse_title(source)
    return _made_up_page(title, f"#REDIRECT [[{target}]]", taken, target)


def _category_page(name: str, parents: Iterable[str], taken: set[int]) -> Page:
    text = "\n".join(f"[[Category:{parent}]]" for parent in parents)
    return _made_up_page(Title(CATEGORY, name, ""), text, taken)


def _made_up_page(title: Title, text: str, taken: set[int], redirect_to: str | None = None) -> Page:
    pageid = 40_000_000 + seed_from("pageid", title.full) % 20_000_000
    while pageid in taken:
        pageid += 1
    taken.add(pageid)
    # beyond every revision id of an article, and as unique as the page id
    revision = Revision(1_000_000_000 + pageid, 0, _MADE_UP_DATE, "made up", text)
    return Page(pageid, title.namespace, title.full, (revision,), None, redirect_to)
