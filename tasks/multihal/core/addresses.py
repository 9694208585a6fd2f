"""Addresses of Wikipedia articles in a text, and the titles they lead to."""

import re
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

_ADDRESS = re.compile(r"https?://(?:[^\s<>\"'|,\]]|,(?=_)|(?<=\w)'(?=\w))+", re.IGNORECASE)
"""A comma belongs to an address where an underscore follows, an apostrophe where it stands between letters."""
_WIKIPEDIA = re.compile(r"([a-z-]+)\.(?:m\.)?wikipedia\.org", re.IGNORECASE)
_OTHER_PAGES = re.compile(r"(?:Special|File|Category|Template|Help|Talk|User|Wikipedia|Portal|Draft)(?: talk)?:", re.I)


def find_article_titles(texts: Iterable[str]) -> list[tuple[str, str | None]]:
    """Return (address, title) of every Wikipedia address in the texts, each once.

    The title is None for an edition in another language and for pages that are no articles. The case of an address is
    kept, since titles depend on it; what stands behind # or ? is left out.
    """
    found: dict[str, str | None] = {}
    for text in texts:
        for address in _ADDRESS.findall(text):
            trimmed = _trim(address)
            host = _WIKIPEDIA.fullmatch(urlsplit(trimmed).hostname or "")
            if host:
                found.setdefault(trimmed, _read_title(trimmed) if host[1].lower() == "en" else None)
    return list(found.items())


def _trim(address: str) -> str:
    """Return an address without what belongs to the sentence around it."""
    trimmed = address.rstrip(".;:!?*")
    return trimmed[:-1] if trimmed.endswith(")") and trimmed.count("(") < trimmed.count(")") else trimmed


def _read_title(address: str) -> str | None:
    parts = urlsplit(address)
    if not parts.path.startswith("/wiki/"):
        return None
    title = unquote(parts.path.removeprefix("/wiki/")).replace("_", " ").strip()
    return None if not title or _OTHER_PAGES.match(title) else title
