"""String accuracy as it is meant: the share of what a gold answer says that an answer says, as whole words (§4.1, equations 1 and 2).

What it counts: every key and every value of the gold answer, however deep it lies, once each time that it stands there
(golds.py); loose is the share found, strict is 1 where all is found. Where there is nothing to find there is no score.

How texts are compared: mended (ftfy), in small letters, by lemmas or as they are written, without marks, but
- a number is one word with its decimals, its minus and what parts hours from minutes: 5.2 is not 52 nor 5, -5 is not 5,
  3:58 is not 358; only what groups its thousands is dropped (1,234,567; spaces that do not break, apostrophes); digits of
  other scripts are those of ours,
- signs of currencies, %, ‰, °, #, & and + are words of their own: "$87 billion" is found where that is written, and
  "87 billion" there too, but not the other way round,
- in scripts without spaces a word ends anywhere.
An answer that repeats the gold answer has 1.0: what stands between line ends or spaces is read alike wherever it stands.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from factmill.tasks.fanoutqa.core.evaluation.strings.lemmas import Lemmatizer
from factmill.tasks.fanoutqa.core.evaluation.strings.upstream import mend
from factmill.tasks.text.matching import has_words

_SIGNS = frozenset("%‰°#&+")
_OTHER_MARKS = str.maketrans("٫٬−", ".,-")
"""Arabic separators of decimals and thousands, the minus sign."""
_GROUPED = re.compile(r"(?<!\d)(?<!\d[.,])\d{1,3}([,'’\u00a0\u2009\u202f])\d{3}(?:\1\d{3}){0,9}(?!\1?\d)")
_OTHER_DIGIT = re.compile(r"(?![0-9])\d")
_SIGNED_AMOUNT = re.compile(r"(?<!\w)-([$€£¥])(?=\d)")
_MARK = re.compile(
    r"(?P<kept>(?<=\d)[.:](?=\d)|(?<![\d.,])\d++,\d{1,2}(?![.,]?\d))"  # 5.2, 3:58, and the comma of 1,5
    r"|(?P<minus>(?<!\w)-(?=\.?\d))"
    r"|(?P<nought>(?<![\w.])\.(?=\d))"  # .5
    r"|(?P<inner>(?<=\w)['’](?=\w)|(?<=[^\W\d_])\.(?=[^\W\d_])(?![A-Z][a-z]))"  # Ocean's, U.S, but not end.Next
    r"|[^\w\s]|_"
)
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Letters of scripts that are written without spaces."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text as it is compared."""

    readings: tuple[str, str]
    """By lemmas and as written; a space before, between and behind the words."""
    bare: str
    """In small letters: where what is looked for is nothing but marks."""
    is_unspaced: bool
    """Words end anywhere in it."""


def read_texts(texts: Sequence[str], lemmatize: Lemmatizer) -> list[Text]:
    """Return texts as they are compared."""
    written = [write_words(text) for text in texts]
    mended = [mend(text) for text in texts]
    whole = [
        write_words(new) if new is not old else known for new, old, known in zip(mended, texts, written, strict=True)
    ]
    return [
        Text(
            (f" {lemmas.strip()} ", f" {words} "), text.casefold(), not text.isascii() and bool(_UNSPACED.search(text))
        )
        for text, words, lemmas in zip(texts, written, lemmatize(whole), strict=True)
    ]


def write_words(text: str) -> str:
    """Return the words of a text in small letters, a space between them."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _GROUPED.sub(_join_digits, text.translate(_OTHER_MARKS)))
        text = _OTHER_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)
    plain = _SIGNED_AMOUNT.sub(r"\1-", _GROUPED.sub(_join_digits, text))
    return " ".join(_MARK.sub(_write_mark, plain).casefold().split())


def _join_digits(found: re.Match[str]) -> str:
    return found[0].replace(found[1], "")


_INSTEAD = {"minus": " minus", "nought": "0.", "inner": ""}
"""A minus is made of letters, so that no lemmatizer parts it from its number."""


def _write_mark(found: re.Match[str]) -> str:
    kind = found.lastgroup
    return _write_alone(found[0]) if kind is None else _INSTEAD.get(kind, found[0])


@cache
def _write_alone(mark: str) -> str:
    category = unicodedata.category(mark)
    if category == "Sc" or mark in _SIGNS:
        return f" {mark} "
    if category[0] == "M":
        return mark
    return "" if category == "Cf" else " "


def score(references: Sequence[tuple[str, ...]], answer: Text, known: Mapping[str, Text]) -> tuple[float, float]:
    """Return loose share and strict 0 or 1 of an answer; NaN where there is nothing to find.

    `known`: text of a reference → as it is compared.
    """
    if not references:
        return float("nan"), float("nan")
    found = sum(any(is_found(known[way], answer) for way in ways) for ways in references)
    return found / len(references), float(found == len(references))


def is_found(reference: Text, answer: Text) -> bool:
    """True where an answer says a reference, as whole words."""
    if reference.readings[1].isspace():
        return reference.bare.strip() in answer.bare
    for words, said in zip(reference.readings, answer.readings, strict=True):
        if words in said or (answer.is_unspaced and has_words(said.strip(), words.strip())):
            return True
    return False
