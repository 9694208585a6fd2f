"""Fill the sentence forms of the embedded world's MultiHal rows with labels, with articles where a form has them.

A slot is written [country], or [the country] where the label takes its article; data/world/sources/multihal_forms.yaml
has the forms and the articles. Prepositions and articles contract: "de le Japon" becomes "du Japon".
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from factmill.tasks.text.translating.translation import SOURCE_LANGUAGE, TARGET_LANGUAGES

Texts = Mapping[str, str]
"""Language → text."""

_HERE = "\0"
"""Marks the start of a slot's text until the preceding words are contracted with it."""
_VOWEL = "[aeiouàâäáéèêëíîïóôöúûüAEIOUÀÂÄÁÉÈÊËÍÎÏÓÔÖÚÛÜ]"
_ITALIAN = {
    "il ": "l ",
    "lo ": "llo ",
    "la ": "lla ",
    "l'": "ll'",
    "L'": "ll'",
    "i ": "i ",
    "gli ": "gli ",
    "le ": "lle ",
}
_CONTRACTED = {
    "de": {"von dem ": "vom ", "von der ": "der ", "von des ": "des ", "in das ": "ins "},
    "fr": {
        **{"de le ": "du ", "de les ": "des ", "à le ": "au ", "à les ": "aux ", "de Le ": "du ", "à Le ": "au "},
        **{f"de (?={_VOWEL})": "d'", f"que (?={_VOWEL})": "qu'"},
    },
    "it": {
        **{f"{word} {article}": f"{short}{end}" for word, short in (("di", "de"), ("a", "a"), ("in", "ne"))
           for article, end in _ITALIAN.items()},
        "a Il ": "al ",
    },
    "es": {"de el ": "del ", "río río ": "río "},
    "pt": {
        **{f"{word} {article} ": f"{short}{article} " for word, short in (("de", "d"), ("em", "n"))
           for article in ("o", "a", "os", "as")},
        "rio Rio ": "rio ",
    },
}  # fmt: skip
"""Language → a preposition and the text after it at the start of a slot → their contraction."""


@dataclass(frozen=True)
class Form:
    """A sentence form in six languages."""

    name: str
    texts: Texts
    slots: tuple[str, ...]
    phrases: Mapping[str, Mapping[str, Texts]]
    """Slot → English label → the label with its article."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Regex of this form's English sentences, with slots as groups."""
        pattern = re.escape(self.texts[SOURCE_LANGUAGE])
        for slot in self.slots:
            first, *others = pattern.split(re.escape(f"[{slot}]"))
            pattern = f"{first}(?P<{slot}>.+){f'(?P={slot})'.join(others)}"
        return re.compile(pattern)

    def fill(self, labels: Mapping[str, Texts]) -> dict[str, str]:
        """Return the sentence in six languages; `labels`: slot → label in six languages."""
        filled = dict(self.texts)
        for slot in self.slots:
            label = labels[slot]
            phrase = self.phrases.get(slot, {}).get(label[SOURCE_LANGUAGE], label)
            filled = {
                language: text.replace(f"[the {slot}]", _HERE + phrase[language]).replace(
                    f"[{slot}]", _HERE + label[language]
                )
                for language, text in filled.items()
            }
        return {language: _contract(text, language) for language, text in filled.items()}


def add_articles(fillers: Sequence[Texts], groups: Mapping[str, str | Sequence[str]]) -> dict[str, Texts]:
    """Return English label → the label with the article of its group; the group `others` has all unnamed labels."""
    articles = {label: group for group, named in groups.items() if named != "others" for label in named}
    others = next(group for group, named in groups.items() if named == "others")
    if unknown := articles.keys() - {label[SOURCE_LANGUAGE] for label in fillers}:
        raise ValueError(f"articles of labels that fill no such slot: {sorted(unknown)}")

    def add(label: Texts) -> Texts:
        cells = articles.get(label[SOURCE_LANGUAGE], others).split(" / ")
        result = zip(TARGET_LANGUAGES, cells, strict=True)
        return {**label, **{language: _add_article(cell, label[language], language) for language, cell in result}}

    return {label[SOURCE_LANGUAGE]: add(label) for label in fillers}


def _add_article(cell: str, label: str, language: str) -> str:
    if cell == "=":
        return label
    if " " in cell or "'" in cell:
        return cell
    elided = language in ("fr", "it") and cell in ("le", "la", "il", "lo") and re.match(_VOWEL, label)
    return f"l'{label}" if elided else f"{cell} {label}"


def _contract(text: str, language: str) -> str:
    """Return a filled form with prepositions and articles contracted: "de le Japon" becomes "du Japon"."""
    for parted, joined in _CONTRACTED.get(language, {}).items():
        word, article = parted.split(" ", 1)
        text = re.sub(rf"\b{word} {_HERE}{article}", joined, text)
    return text.replace(_HERE, "")
