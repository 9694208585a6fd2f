"""What is asked of a translator, and the form of its answers; recorded like any call, so that a replay needs no model.

| operation | parts | body of the reply |
|---|---|---|
| translate_text | text, language | the translation |
| translate_path | parts (texts), labels (Wikidata's own in the language, or null, one a part), language | `[{"text", "origin"}]`, one a part; origin as text.translating.translation.PartOrigin |

A text that cannot be translated rightly is a failed reply `untranslatable: <reason>: <detail>`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tasks.core.calls.call import Call
from tasks.core.fingerprints import Json


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a path in another language."""

    text: str
    origin: str


def call_translate_text(service: str, text: str, language: str) -> Call:
    """Ask for an English text in another language."""
    return Call(service, "translate_text", {"text": text, "language": language})


def call_translate_path(service: str, parts: Sequence[str], labels: Sequence[str | None], language: str) -> Call:
    """Ask for the parts of a path in another language."""
    asked: dict[str, Json] = {"parts": list(parts), "labels": list(labels), "language": language}
    return Call(service, "translate_path", asked)


def read_parts(body: Any) -> list[Part]:
    """Read the answer to translate_path."""
    return [Part(part["text"], part["origin"]) for part in body]
