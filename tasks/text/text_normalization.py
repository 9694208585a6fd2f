"""Text normalisation for comparing short answers, and for finding names as a reader would.

Answers are compared as in the paper (§2.1, footnote on normalisation, after SQuAD): case, punctuation, articles and
spacing do not matter. Unlike the original script this works for any alphabet: Unicode defines punctuation, and letters
outside ASCII stay.

A model that writes Łódź as Lodz, or a curly apostrophe for a straight one, still gives the same name.
"""

import re
import unicodedata
from functools import lru_cache

_ARTICLES = frozenset({"a", "an", "the"})
_ASCII_PUNCTUATION = {number: None for number in range(128) if not chr(number).isalnum() and not chr(number).isspace()}
"""Characters removed from ASCII text: punctuation, symbols and control characters."""
_NON_PLURAL_ENDING = re.compile(r"(?:ss|us|is)$")


@lru_cache(maxsize=65536)
def normalize_answer(text: str) -> str:
    """Return text case-folded, without punctuation, symbols and English articles, with single spaces between words."""
    if text.isascii():
        bare = text.lower().translate(_ASCII_PUNCTUATION)
    else:
        folded = unicodedata.normalize("NFKC", text).casefold()
        kept = (char for char in folded if unicodedata.category(char)[0] not in "PSC" or char.isspace())
        bare = unicodedata.normalize("NFKC", "".join(kept))
    return " ".join([word for word in bare.split() if word not in _ARTICLES])


def normalized_words(text: str) -> list[str]:
    """Return the words of the normalised text, in order."""
    return normalize_answer(text).split()


@lru_cache(maxsize=16384)
def normalize_answer_to_singular(text: str) -> str:
    """Return the normalised text with English plurals in the singular, for look-ups in word lists."""
    words = normalized_words(text)
    for at, word in enumerate(words):
        if len(word) < 4 or not word.endswith("s") or _NON_PLURAL_ENDING.search(word):
            continue
        if word.endswith("ies"):
            words[at] = word[:-3] + "y"
        else:
            words[at] = word[: -2 if word.endswith(("ches", "shes", "xes", "sses")) else -1]
    return " ".join(words)


_SINGLE_QUOTES = "’‘ʼʻ‛`´′＇"
_DOUBLE_QUOTES = '"“”„‟«»″＂'
_DASHES = "-‐‑‒–—−"
_LATIN_LETTER_FOLDING = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d"}
)
_PUNCTUATION_FOLDING = str.maketrans(
    {**dict.fromkeys(_SINGLE_QUOTES, "'"), **dict.fromkeys(_DOUBLE_QUOTES), **dict.fromkeys(_DASHES, " ")}
)
_UNSPACED_SCRIPTS = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")
"""Prefixes of the Unicode names of letters that are written without spaces between words."""


def fold_case_accents_and_punctuation(text: str) -> str:
    """Return a text in lower case without accents and double quotes, with other quotes and dashes unified."""
    plain = unicodedata.normalize("NFKD", text.translate(_PUNCTUATION_FOLDING)).casefold()
    bare = "".join(character for character in plain if not unicodedata.combining(character))
    return " ".join(unicodedata.normalize("NFC", bare).translate(_LATIN_LETTER_FOLDING).split())


def contains_whole_words(folded_sentence: str, folded_words: str) -> bool:
    """True when the sentence contains the words as whole words; both are folded."""
    at = folded_sentence.find(folded_words) if folded_words else -1
    while at >= 0:
        end = at + len(folded_words)
        if _is_word_boundary(folded_sentence[at - 1 : at], folded_words[0]) and _is_word_boundary(
            folded_words[-1], folded_sentence[end : end + 1]
        ):
            return True
        at = folded_sentence.find(folded_words, at + 1)
    return False


def _is_word_boundary(left: str, right: str) -> bool:
    """True when a word can end between two characters; either may be empty."""
    return (
        not (_is_letter_digit_or_accent(left) and _is_letter_digit_or_accent(right))
        or _is_unspaced_script(left)
        or _is_unspaced_script(right)
    )


def _is_letter_digit_or_accent(character: str) -> bool:
    return bool(character) and (character.isalnum() or unicodedata.category(character)[0] == "M")


def _is_unspaced_script(character: str) -> bool:
    return unicodedata.name(character, "").startswith(_UNSPACED_SCRIPTS)
