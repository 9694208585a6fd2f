"""Parse a page as a browser does: find active content and external links."""

import re
from html.parser import HTMLParser


class ReadPage(HTMLParser):
    """The active elements of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.handlers: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "srcset", "action", "data", "poster", "xlink:href", "background"):
                self.addresses.append(value or "")
            if name == "style":
                self.addresses += re.findall(r"url\(([^)]*)\)", value or "")
            if name.startswith("on"):
                self.handlers.append(name)
