"""When two short answers count as the same.

Answers are compared as the paper does (§2.1, footnote on normalisation, after SQuAD): case, punctuation, articles and
spacing do not matter. Unlike the original script this works on any alphabet: punctuation is what Unicode says it is,
and letters outside ASCII stay.
"""

import re
import unicodedata
from functools import lru_cache

_ARTICLES = frozenset({"a", "an", "the"})
_ASCII_MARKS = {number: None for number in range(128) if not chr(number).isalnum() and not chr(number).isspace()}
"""What goes of an ASCII text: its punctuation, symbols and control characters."""
_DOUBLE_S = re.compile(r"(?:ss|us|is)$")


@lru_cache(maxsize=65536)
def normalise(text: str) -> str:
    """Return text case-folded, without punctuation, symbols and English articles, words one space apart."""
    if text.isascii():
        return _join_words(text.lower().translate(_ASCII_MARKS))
    folded = unicodedata.normalize("NFKC", text).casefold()
    bare = "".join(char for char in folded if unicodedata.category(char)[0] not in "PSC" or char.isspace())
    return _join_words(unicodedata.normalize("NFKC", bare))


def _join_words(text: str) -> str:
    return " ".join([word for word in text.split() if word not in _ARTICLES])


def normal_words(text: str) -> list[str]:
    """Return the words of the normalised text, in order."""
    return normalise(text).split()


@lru_cache(maxsize=16384)
def singular_form(text: str) -> str:
    """Return the normalised text with each English plural word reduced to its singular, for look-ups in word lists."""
    return " ".join(_singular(word) for word in normal_words(text))


def _singular(word: str) -> str:
    if len(word) < 4 or not word.endswith("s") or _DOUBLE_S.search(word):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "xes", "sses")):
        return word[:-2]
    return word[:-1]
