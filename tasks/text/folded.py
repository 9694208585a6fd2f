"""Texts as a reader compares them: small letters without accents, one form of quotes and dashes, words whole.

A model that writes Łódź as Lodz, or a curly apostrophe for a straight one, still says the same name.
"""

import unicodedata

_SINGLE_QUOTES = "’‘ʼʻ‛`´′＇"
_DOUBLE_QUOTES = '"“”„‟«»″＂'
_DASHES = "-‐‑‒–—−"
_LATIN = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d"})
_MARKS = str.maketrans(
    {**dict.fromkeys(_SINGLE_QUOTES, "'"), **dict.fromkeys(_DOUBLE_QUOTES), **dict.fromkeys(_DASHES, " ")}
)
_WITHOUT_SPACES = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")
"""Beginnings of the Unicode names of letters that are written without spaces between words."""


def fold_text(text: str) -> str:
    """Return a text in small letters without accents and double quotes, other quotes and dashes in one form."""
    plain = unicodedata.normalize("NFKD", text.translate(_MARKS)).casefold()
    bare = "".join(character for character in plain if not unicodedata.combining(character))
    return " ".join(unicodedata.normalize("NFC", bare).translate(_LATIN).split())


def has_words(sentence: str, words: str) -> bool:
    """True when the words stand in the sentence, both folded, and cut no other word."""
    at = sentence.find(words) if words else -1
    while at >= 0:
        end = at + len(words)
        if _parts(sentence[at - 1 : at], words[0]) and _parts(words[-1], sentence[end : end + 1]):
            return True
        at = sentence.find(words, at + 1)
    return False


def _parts(left: str, right: str) -> bool:
    """True when a word can end between two characters, either of which may be none."""
    return not (_is_letter(left) and _is_letter(right)) or _has_no_spaces(left) or _has_no_spaces(right)


def _is_letter(character: str) -> bool:
    return bool(character) and (character.isalnum() or unicodedata.category(character)[0] == "M")


def _has_no_spaces(character: str) -> bool:
    return unicodedata.name(character, "").startswith(_WITHOUT_SPACES)
