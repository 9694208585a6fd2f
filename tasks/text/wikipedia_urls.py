"""URLs and titles of English Wikipedia articles: the evidence of questions (FanOutQA, Appendix E).

Authors paste what their browser shows, so all spellings of an article's URL are read: mobile, unencrypted, with a
section, percent-encoded or not, by path or as /w/index.php?title=. A URL is refused, with a reason, where it leads to
no article of this wiki: other hosts and languages, other namespaces, the main page, and titles that MediaWiki does not
allow. A question mark ends a path, so one in a title must be encoded; a bare one is refused, since a browser opens
another page for it.

Those rules are for authors. Released data names each page by a title as well as the URL, and may name any page with a
history, such as Template:Largest cities; there only the URL's wiki is checked (`find_english_wikipedia_url_problem`).

This module does not check whether an article of that title exists, nor prefixes that lead out of the wiki (`fr:Paris`):
the wiki knows them.
"""

import re
import unicodedata
from dataclasses import dataclass
from html import unescape
from urllib.parse import SplitResult, quote, unquote_to_bytes, urlsplit

_HOSTS = frozenset({"en.wikipedia.org", "en.m.wikipedia.org"})
_SCHEME_PORTS = {"http": 80, "https": 443}
_EXPECTED_ARTICLE_URL = (
    "expected an article of the English Wikipedia, such as https://en.wikipedia.org/wiki/Alan_Turing"
)
_NAMESPACES_WITHOUT_HISTORY = frozenset({"media", "special"})
_NON_ARTICLE_NAMESPACES = _NAMESPACES_WITHOUT_HISTORY | frozenset(
    {
        *("talk", "wt", "wp", "project", "image", "tm", "mos"),
        *("user", "wikipedia", "file", "mediawiki", "template", "help", "category", "portal", "draft"),
        *("timedtext", "module", "event"),
    }
)
_UNQUOTED_CHARACTERS = "()!*,;:@/~$-_.'"
_MAIN_PAGE = "Main Page"
_MAX_TITLE_BYTES = 255
"""Bytes of UTF-8."""
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_TITLE_SPACES = re.compile(r"[ _\u00a0\u1680\u180e\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
_DIRECTION_MARKS = re.compile(r"[\u200e\u200f\u202a-\u202e]")
"""Direction marks, which MediaWiki removes from titles."""
_FORBIDDEN_IN_TITLE = re.compile(r"[#<>\[\]|{}\x00-\x1f\x7f\ufffd]")
_FORBIDDEN_IN_URL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_TITLE_SYNTAX_CONFLICT = re.compile(r"%[0-9A-Fa-f]{2}|&[^\W_]+;|~~~|^:|^\.\.?(?:/|$)|/\.\.?(?:/|$)")
"""Text that MediaWiki forbids in titles, as an escape, an entity, a signature, a prefix or a path."""
_REDIRECT = re.compile(r'<div class="redirectMsg"><p>[^<]*</p><ul class="redirectText"><li><a [^>]*>([^<]*)</a>')


@dataclass(frozen=True, slots=True)
class ArticleUrl:
    """An article, and the section of it that a URL points to."""

    title: str
    """Decoded, with spaces for underscores; the first letter is unchanged."""
    section: str | None
    """Decoded likewise."""


class _NotAnArticleError(Exception):
    """A URL leads to no article; the text gives the reason and the expected form. Caught where reading begins."""


def parse_english_article_url_or_problem(url: str) -> ArticleUrl | str:
    """Parse the URL of an English Wikipedia article; where it is none, return the reason and the expected form as text."""
    url = url.strip()
    try:
        parts = _split_english_wikipedia_url(url)
        decoded = _percent_decode(_get_encoded_title(url, parts))
        if decoded is None:
            raise _NotAnArticleError(f"{url!r} is not encoded as UTF-8; a percent sign of the title is written %25")
        title = _tidy_title_spacing(decoded)
        if trouble := find_article_title_problem(title):
            raise _NotAnArticleError(f"{url!r}: {trouble}; {_EXPECTED_ARTICLE_URL}")
        if canonical_title(title) == _MAIN_PAGE:
            raise _NotAnArticleError(
                f"{url!r} is the main page, which changes daily, and no article; {_EXPECTED_ARTICLE_URL}"
            )
        # a browser's text directive is no section
        written = parts.fragment.partition(":~:")[0]
        section = _percent_decode(written)
        return ArticleUrl(title, _TITLE_SPACES.sub(" ", written if section is None else section).strip(" ") or None)
    except _NotAnArticleError as refused:
        return str(refused)


def find_english_wikipedia_url_problem(url: str) -> str | None:
    """Return why a URL leads outside the English Wikipedia; None where it does not. The page itself is not checked."""
    try:
        _split_english_wikipedia_url(url.strip())
    except _NotAnArticleError as refused:
        return str(refused)
    return None


def format_article_url(wiki: str, title: str, revid: int | None = None) -> str:
    """Return the URL of an article, or of one revision of it, on the wiki of a world file.

    `wiki`: scheme and host, and the script path unless it is /w; `embedded`: the English Wikipedia.
    """
    root = "https://en.wikipedia.org" if wiki == "embedded" else wiki.rstrip("/").removesuffix("/api.php")
    parts = urlsplit(root)
    if revid is None and (parts.hostname or "").endswith(".wikipedia.org"):
        return f"{parts.scheme}://{parts.netloc}/wiki/{quote(title.replace(' ', '_'), safe=_UNQUOTED_CHARACTERS)}"
    script = root if parts.path else f"{root}/w"
    # only Wikipedias certainly have their articles under /wiki/
    revision = "" if revid is None else f"&oldid={revid}"
    return f"{script}/index.php?title={quote(title.replace(' ', '_'))}{revision}"


def canonical_title(title: str) -> str:
    """Return a title in MediaWiki's spelling, so that all spellings of one are equal: spaces, first letter, NFC."""
    tidy = _tidy_title_spacing(title)
    first = tidy[:1].upper()
    return tidy if len(first) > 1 else first + tidy[1:]


def find_page_title_problem(title: str) -> str | None:
    """Return why no page with a history can have a title; None where one can."""
    if not title:
        return "the title is empty"
    if found := _FORBIDDEN_IN_TITLE.search(title) or _TITLE_SYNTAX_CONFLICT.search(title):
        return f"no title holds {found[0]!r}"
    if len(title.encode("utf-8", "replace")) > _MAX_TITLE_BYTES:
        return f"a title has {_MAX_TITLE_BYTES} bytes at most, this one more"
    prefix = _get_title_prefix(title)
    return f"what begins with {prefix}: has no history" if prefix.casefold() in _NAMESPACES_WITHOUT_HISTORY else None


def find_article_title_problem(title: str) -> str | None:
    """Return why no article can have a title; None where one can."""
    prefix = _get_title_prefix(title)
    if prefix.casefold().replace("_", " ").removesuffix(" talk") in _NON_ARTICLE_NAMESPACES:
        return f"what begins with {prefix}: is no article"
    return find_page_title_problem(title)


def _get_title_prefix(title: str) -> str:
    prefix, colon, _ = title.partition(":")
    return prefix.strip(" _") if colon else ""


def find_redirect(html: str) -> str | None:
    """Return the title (optionally with #section) that a page's HTML redirects to; None: it is no redirect."""
    found = _REDIRECT.search(html)
    return unescape(found[1]) if found else None


def _tidy_title_spacing(title: str) -> str:
    return unicodedata.normalize("NFC", _TITLE_SPACES.sub(" ", _DIRECTION_MARKS.sub("", title)).strip(" "))


def _split_english_wikipedia_url(url: str) -> SplitResult:
    """Split a URL of this wiki into its parts."""
    if _FORBIDDEN_IN_URL.search(url):
        raise _NotAnArticleError(f"{url!r} holds a character that no address holds; {_EXPECTED_ARTICLE_URL}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _NotAnArticleError(f"{url!r} cannot be read as an address ({error}); {_EXPECTED_ARTICLE_URL}") from error
    host = parts.hostname or ""
    if parts.scheme not in _SCHEME_PORTS or not host:
        raise _NotAnArticleError(f"{url!r} is no address with http or https; {_EXPECTED_ARTICLE_URL}")
    if host not in _HOSTS and host.endswith(".wikipedia.org") and host != "www.wikipedia.org":
        raise _NotAnArticleError(f"{url!r} is of another Wikipedia ({host}); {_EXPECTED_ARTICLE_URL}")
    if host not in _HOSTS:
        raise _NotAnArticleError(f"{url!r} is not on en.wikipedia.org but on {host}; {_EXPECTED_ARTICLE_URL}")
    if "@" in parts.netloc or port not in (None, _SCHEME_PORTS[parts.scheme]):
        raise _NotAnArticleError(f"{url!r} has a user or a port before its path; {_EXPECTED_ARTICLE_URL}")
    return parts


def _get_encoded_title(url: str, parts: SplitResult) -> str:
    """Return the title in a URL, still encoded."""
    if parts.path.startswith("/wiki/"):
        if "?" in url.partition("#")[0]:
            raise _NotAnArticleError(
                f"{url!r} goes on behind a question mark; one that belongs to the title is written %3F"
            )
        return parts.path.removeprefix("/wiki/")
    if parts.path != "/w/index.php":
        raise _NotAnArticleError(
            f"{url!r} leads to no article, since its path does not begin with /wiki/; {_EXPECTED_ARTICLE_URL}"
        )
    name, _, value = parts.query.partition("=")
    if name != "title" or re.search("[&;=]", value):
        raise _NotAnArticleError(
            f"{url!r} asks for more than the newest text of an article by its title; {_EXPECTED_ARTICLE_URL}"
        )
    return value.replace("+", "%20")


def _percent_decode(written: str) -> str | None:
    """Decode a percent-encoded text; None where it is invalid."""
    if _BAD_ESCAPE.search(written):
        return None
    try:
        return unquote_to_bytes(written).decode()
    except UnicodeDecodeError:
        return None
