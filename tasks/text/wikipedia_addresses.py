"""URLs and titles of English Wikipedia articles: the evidence of questions (FanOutQA, Appendix E).

Authors paste what their browser shows, so all spellings of an article's URL are read: mobile, unencrypted, with a
section, percent-encoded or not, by path or as /w/index.php?title=. A URL is refused, with a reason, where it leads to
no article of this wiki: other hosts and languages, other namespaces, the main page, and titles that MediaWiki does not
allow. A question mark ends a path, so one in a title must be encoded; a bare one is refused, since a browser opens
another page for it.

Those rules are for authors. Released data names each page by a title as well as the URL, and may name any page with a
history, such as Template:Largest cities; there only the URL's wiki is checked (`find_wiki_trouble`).

This module does not check whether an article of that title exists, nor prefixes that lead out of the wiki (`fr:Paris`):
the wiki knows them.
"""

import re
import unicodedata
from dataclasses import dataclass
from html import unescape
from urllib.parse import SplitResult, quote, unquote_to_bytes, urlsplit

_HOSTS = frozenset({"en.wikipedia.org", "en.m.wikipedia.org"})
_PORTS = {"http": 80, "https": 443}
_EXPECTED = "expected an article of the English Wikipedia, such as https://en.wikipedia.org/wiki/Alan_Turing"
_WITHOUT_HISTORY = frozenset({"media", "special"})
_NAMESPACES = _WITHOUT_HISTORY | frozenset(
    {
        *("talk", "wt", "wp", "project", "image", "tm", "mos"),
        *("user", "wikipedia", "file", "mediawiki", "template", "help", "category", "portal", "draft"),
        *("timedtext", "module", "event"),
    }
)
_SAFE = "()!*,;:@/~$-_.'"
_MAIN_PAGE = "Main Page"
_LONGEST_TITLE = 255
"""Bytes of UTF-8."""
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SPACES = re.compile(r"[ _\u00a0\u1680\u180e\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
_NOT_WRITTEN = re.compile(r"[\u200e\u200f\u202a-\u202e]")
"""Direction marks, which MediaWiki removes from titles."""
_IN_NO_TITLE = re.compile(r"[#<>\[\]|{}\x00-\x1f\x7f\ufffd]")
_NOT_IN_ADDRESS = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_READ_OTHERWISE = re.compile(r"%[0-9A-Fa-f]{2}|&[^\W_]+;|~~~|^:|^\.\.?(?:/|$)|/\.\.?(?:/|$)")
"""Text that MediaWiki forbids in titles, as an escape, an entity, a signature, a prefix or a path."""
_REDIRECT = re.compile(r'<div class="redirectMsg"><p>[^<]*</p><ul class="redirectText"><li><a [^>]*>([^<]*)</a>')


@dataclass(frozen=True, slots=True)
class ArticleAddress:
    """An article, and the section of it that a URL points to."""

    title: str
    """Decoded, with spaces for underscores; the first letter is unchanged."""
    section: str | None
    """Decoded likewise."""


class _Refused(Exception):
    """A URL leads to no article; the text gives the reason and the expected form. Caught where reading begins."""


def read_article_address(url: str) -> ArticleAddress | str:
    """Parse the URL of an English Wikipedia article; where it is none, return the reason and the expected form as text."""
    url = url.strip()
    try:
        parts = _split(url)
        return ArticleAddress(_read_title(url, _take_title(url, parts)), _read_section(parts.fragment))
    except _Refused as refused:
        return str(refused)


def find_wiki_trouble(url: str) -> str | None:
    """Return why a URL leads outside the English Wikipedia; None where it does not. The page itself is not checked."""
    try:
        _split(url.strip())
    except _Refused as refused:
        return str(refused)
    return None


def write_article_address(wiki: str, title: str, revid: int | None = None) -> str:
    """Return the URL of an article, or of one revision of it, on the wiki of a world file.

    `wiki`: scheme and host, and the script path unless it is /w; `embedded`: the English Wikipedia.
    """
    root = "https://en.wikipedia.org" if wiki == "embedded" else wiki.rstrip("/").removesuffix("/api.php")
    parts = urlsplit(root)
    if revid is None and (parts.hostname or "").endswith(".wikipedia.org"):
        return f"{parts.scheme}://{parts.netloc}/wiki/{quote(title.replace(' ', '_'), safe=_SAFE)}"
    script = root if parts.path else f"{root}/w"
    # only Wikipedias certainly have their articles under /wiki/
    revision = "" if revid is None else f"&oldid={revid}"
    return f"{script}/index.php?title={quote(title.replace(' ', '_'))}{revision}"


def spell_title(title: str) -> str:
    """Return a title in MediaWiki's spelling, so that all spellings of one are equal: spaces, first letter, NFC."""
    tidy = _tidy(title)
    first = tidy[:1].upper()
    return tidy if len(first) > 1 else first + tidy[1:]


def find_title_trouble(title: str) -> str | None:
    """Return why no page with a history can have a title; None where one can."""
    if not title:
        return "the title is empty"
    if found := _IN_NO_TITLE.search(title) or _READ_OTHERWISE.search(title):
        return f"no title holds {found[0]!r}"
    if len(title.encode("utf-8", "replace")) > _LONGEST_TITLE:
        return f"a title has {_LONGEST_TITLE} bytes at most, this one more"
    prefix = _read_prefix(title)
    return f"what begins with {prefix}: has no history" if prefix.casefold() in _WITHOUT_HISTORY else None


def find_article_trouble(title: str) -> str | None:
    """Return why no article can have a title; None where one can."""
    prefix = _read_prefix(title)
    if prefix.casefold().replace("_", " ").removesuffix(" talk") in _NAMESPACES:
        return f"what begins with {prefix}: is no article"
    return find_title_trouble(title)


def _read_prefix(title: str) -> str:
    prefix, colon, _ = title.partition(":")
    return prefix.strip(" _") if colon else ""


def find_redirect(html: str) -> str | None:
    """Return the title (optionally with #section) that a page's HTML from MediaWiki redirects to; None: it is no
    redirect."""
    found = _REDIRECT.search(html)
    return unescape(found[1]) if found else None


def _tidy(title: str) -> str:
    return unicodedata.normalize("NFC", _SPACES.sub(" ", _NOT_WRITTEN.sub("", title)).strip(" "))


def _split(url: str) -> SplitResult:
    """Split a URL of this wiki into its parts."""
    if _NOT_IN_ADDRESS.search(url):
        raise _Refused(f"{url!r} holds a character that no address holds; {_EXPECTED}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _Refused(f"{url!r} cannot be read as an address ({error}); {_EXPECTED}") from error
    host = parts.hostname or ""
    if parts.scheme not in _PORTS or not host:
        raise _Refused(f"{url!r} is no address with http or https; {_EXPECTED}")
    if host not in _HOSTS and host.endswith(".wikipedia.org") and host != "www.wikipedia.org":
        raise _Refused(f"{url!r} is of another Wikipedia ({host}); {_EXPECTED}")
    if host not in _HOSTS:
        raise _Refused(f"{url!r} is not on en.wikipedia.org but on {host}; {_EXPECTED}")
    if "@" in parts.netloc or port not in (None, _PORTS[parts.scheme]):
        raise _Refused(f"{url!r} has a user or a port before its path; {_EXPECTED}")
    return parts


def _take_title(url: str, parts: SplitResult) -> str:
    """Return the title in a URL, still encoded."""
    if parts.path.startswith("/wiki/"):
        if "?" in url.partition("#")[0]:
            raise _Refused(f"{url!r} goes on behind a question mark; one that belongs to the title is written %3F")
        return parts.path.removeprefix("/wiki/")
    if parts.path != "/w/index.php":
        raise _Refused(f"{url!r} leads to no article, since its path does not begin with /wiki/; {_EXPECTED}")
    name, _, value = parts.query.partition("=")
    if name != "title" or re.search("[&;=]", value):
        raise _Refused(f"{url!r} asks for more than the newest text of an article by its title; {_EXPECTED}")
    return value.replace("+", "%20")


def _read_title(url: str, written: str) -> str:
    decoded = _decode(written)
    if decoded is None:
        raise _Refused(f"{url!r} is not encoded as UTF-8; a percent sign of the title is written %25")
    title = _tidy(decoded)
    if trouble := find_article_trouble(title):
        raise _Refused(f"{url!r}: {trouble}; {_EXPECTED}")
    if spell_title(title) == _MAIN_PAGE:
        raise _Refused(f"{url!r} is the main page, which changes daily, and no article; {_EXPECTED}")
    return title


def _read_section(fragment: str) -> str | None:
    """Return the section of a fragment, without a browser's text directive (`:~:text=`)."""
    written = fragment.partition(":~:")[0]
    decoded = _decode(written)
    return _SPACES.sub(" ", written if decoded is None else decoded).strip(" ") or None


def _decode(written: str) -> str | None:
    """Decode a percent-encoded text; None where it is invalid."""
    if _BAD_ESCAPE.search(written):
        return None
    try:
        return unquote_to_bytes(written).decode()
    except UnicodeDecodeError:
        return None
