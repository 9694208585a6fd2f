"""Removes secrets from what servers send, since a server may repeat a key or a token."""

import json
from typing import TypeVar
from urllib.parse import quote, quote_plus

Json = TypeVar("Json")

HIDDEN = "***"
_SHORTEST_SECRET, _SHORTEST_WORD = 5, 8
"""Characters; what is shorter stands in ordinary text too. A word is part of a secret such as `Bearer KEY`."""


class Secrets:
    """The secrets of one service that were in use, and the texts without them."""

    def __init__(self) -> None:
        self._secrets: dict[str, None] = {}
        """Every form in which a secret may appear in a text."""

    def hide(self, secret: str) -> None:
        """Scrub a secret from all texts from now on, as it is and as JSON and addresses spell it."""
        words = [word for word in secret.split() if len(word) >= _SHORTEST_WORD]
        for each in (secret, *words):
            if len(each) >= _SHORTEST_SECRET:
                spellings = json.dumps(each)[1:-1], json.dumps(each, ensure_ascii=False)[1:-1]
                forms = each, *spellings, quote(each, safe=""), quote(each), quote_plus(each)
                self._secrets |= dict.fromkeys(forms)

    def scrub(self, text: str) -> str:
        """Return a text with `***` for each secret, the longest ones first."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        return text

    def scrub_content(self, content: bytes) -> bytes:
        """Return the bytes of a UTF-8 text scrubbed as `scrub` does."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            content = content.replace(secret.encode(), HIDDEN.encode())
        return content

    def scrub_values(self, value: Json) -> Json:
        """Return a JSON-able value with each of its texts scrubbed, names too."""
        if isinstance(value, str):
            return self.scrub(value)  # type: ignore[return-value]
        if isinstance(value, list):
            return [self.scrub_values(each) for each in value]  # type: ignore[return-value]
        if isinstance(value, dict):
            return {self.scrub(name): self.scrub_values(each) for name, each in value.items()}  # type: ignore[return-value]
        return value
