"""A rule-based lemmatizer, for use without a spaCy model: approximate dictionary forms of English words.

It treats each word alone, without the part of speech that spaCy knows: "left" and "leave" become the same, names in -s
lose it. Reference and answer are treated alike, so a wrong lemma hardly ever separates equal words; it may equate
different ones.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

_WORD_OR_MARK = re.compile(
    r"(?P<space>\s+)"
    r"|[^\W\d_]\.(?!\w)"  # initials
    r"|(?:(?<!\w)\+)?\d+(?:[.,:/–]\d+)*(?:(?!\w)|(?=(?:km|[cmk]?m|[mk]?g|lbs?|mph|mi|ft|am|pm)\b))"
    r"|n['’]t\b|['’](?:s|re|ve|ll|d|m)\b"
    r"|\w+?(?=n['’]t\b)"
    r"|\w+(?:(?:[.&]|['’](?!(?:s|re|ve|ll|d|m)\b))\w+)*"
    r"|(?P<run>[^\w\s])(?P=run)*"
)
"""A word or mark, split about as spaCy does."""
_VOWEL = re.compile("[aeiouy]")
_NO_PLURAL_S = re.compile(r"(?:ss|us|is)$")
_ES_PLURAL_ENDINGS = ("ches", "shes", "xes", "sses", "zzes")
_DOUBLED_CONSONANT = re.compile(r"([bdgmnprt])\1$")
_NEEDS_FINAL_E = re.compile(r"(?:[^aeiou][aeiou][ck]|[cgsuvz]|[ai]t|[^aeiou][aeiou][bdgmnpr]|[^aeiou]l)$")
_MAX_CACHED_LEMMAS = 1_000_000
"""Most lemmas cached for further texts."""


class TextBatchLemmatizer(Protocol):
    """Turns the words of texts into their dictionary forms, with a space between them."""

    @property
    def name(self) -> str:
        """Name in reports."""
        ...

    def __call__(self, texts: Sequence[str]) -> list[str]:
        """Return each text, in lower case, with a lemma for each of its words and marks."""
        ...


class _LemmaCache(dict[str, str]):
    def __missing__(self, word: str) -> str:
        lemma = self[word] = lemmatize_word(word)
        return lemma


class RuleLemmatizer:
    """Lemmatizes English plurals and verb forms by rules, irregular ones by a list (data/lists/irregular_forms.csv)."""

    name = "rules"

    def __init__(self, irregular: Mapping[str, str]) -> None:
        """`irregular`: form → lemma, both in lower case."""
        self._known = _LemmaCache(irregular)
        self._given = len(self._known)

    def __call__(self, texts: Sequence[str]) -> list[str]:
        """Return each text with the lemmas of its words; marks are separate tokens, as in spaCy."""
        return [self._lemmatize_text(text) for text in texts]

    def _lemmatize_text(self, text: str) -> str:
        known = self._known
        if len(known) > self._given + _MAX_CACHED_LEMMAS:
            for word in list(known)[self._given :]:
                del known[word]
        # spaCy keeps space beyond a single one as a token of its own
        before = " " if text[:1].isspace() else ""
        after = " " if text[-1:].isspace() and (text[-1:] != " " or text[-2:-1].isspace()) else ""
        return f"{before}{' '.join(map(known.__getitem__, split_words_and_marks(text)))}{after}"


def split_words_and_marks(text: str) -> list[str]:
    """Return the words and marks of a text in lower case: 5.2, 3:58, $, %, jr, 's; spaces are dropped."""
    return [found[0] for found in _WORD_OR_MARK.finditer(text) if not found["space"]]


def lemmatize_word(word: str) -> str:
    """Return the lemma of a word by its ending; numbers, marks and non-ASCII words stay unchanged."""
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    if word.endswith("s"):
        return _strip_plural(word)
    if word.endswith(("ied", "ying")) and len(word) > 5:
        return word[:-3] + "y" if word.endswith("ied") else word[:-3]
    stem = word.removesuffix("ing" if word.endswith("ing") else "ed")
    return _restore_base_form(stem) if stem != word and len(stem) > 2 and _VOWEL.search(stem) else word


def _strip_plural(word: str) -> str:
    if _NO_PLURAL_S.search(word):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y" if len(word) > 4 else word[:-1]
    return word[:-2] if word.endswith(_ES_PLURAL_ENDINGS) else word[:-1]


def _restore_base_form(stem: str) -> str:
    """Return the base form of a stem before -ing or -ed: stopp → stop, mak → make."""
    if _DOUBLED_CONSONANT.search(stem):
        return stem[:-1]
    lacks_e = _NEEDS_FINAL_E.search(stem) and not stem.endswith(("er", "en", "on", "or", "it", "ew"))
    return f"{stem}e" if lacks_e else stem
