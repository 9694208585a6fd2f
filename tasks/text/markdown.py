"""Texts from outside as they stand in Markdown without being taken for any."""

import re

from tasks.text.whole import clean

_SPECIAL = re.compile(r"([\\`*\[\]|#~$]|(?<!\w)_|_(?!\w)|^(?:[-+=]|\d+[.)])(?=\s))")


def escape_markdown(text: str) -> str:
    """Return a text as it stands in a line or in a cell of a table; its lines are parted by <br>."""
    text = clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "<br>".join(_SPECIAL.sub(r"\\\1", line) for line in text.split("\n"))
