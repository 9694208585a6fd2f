"""What the HTML of a page refers to, and what it says without markup."""

import re
from functools import lru_cache
from html import unescape
from urllib.parse import unquote

from tasks.world.wiki.pages import FILE, Title, parse_title

_LINK = re.compile(r'<a href="/(?:wiki/|w/index\.php\?title=)([^"#&?]+)')
"""A link within the wiki; one to a page that is not there may be written as MediaWiki does, to its editor."""
_EXTERNAL = re.compile(r'<a rel="nofollow" class="external [^"]*" href="([^"]+)"')
_TAG = re.compile(r"<[^>]+>")


def find_links(html: str) -> dict[str, Title]:
    """Return the pages that are linked to, files aside, each once: full title → title."""
    return {title.full: title for title in _find_titles(html) if title.namespace != FILE}


def find_files(html: str) -> list[str]:
    """Return the names of the files that are shown, each once."""
    return list(dict.fromkeys(title.name.replace(" ", "_") for title in _find_titles(html) if title.namespace == FILE))


def find_external_links(html: str) -> list[str]:
    """Return the addresses outside the wiki that are linked to, each once."""
    return list(dict.fromkeys(map(unescape, _EXTERNAL.findall(html))))


@lru_cache(maxsize=4096)
def read_plain_text(html: str) -> str:
    """Return the text without markup, in one line."""
    return " ".join(unescape(_TAG.sub(" ", html)).split())


def _find_titles(html: str) -> list[Title]:
    return [parse_title(unquote(path)) for path in _LINK.findall(html)]
