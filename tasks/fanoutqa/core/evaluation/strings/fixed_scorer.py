"""Corrected string accuracy: the share of the gold answer's strings that an answer says as whole words (§4.1, eq. 1–2).

Counted are all keys and values of the gold answer at any depth, as often as they occur (golds.py). Loose is the share
found; strict is 1 if all are found. If there is nothing to find, there is no score.

Texts are compared after ftfy, in lower case, both as lemmas and as written, without punctuation, but
- a number is one word, with its decimals, its minus and the colon of a time: 5.2 is neither 52 nor 5, -5 is not 5, 3:58
  is not 358; only separators of thousands are dropped (1,234,567; non-breaking spaces, apostrophes); digits of other
  scripts become ASCII digits,
- currency signs, %, ‰, °, #, & and + are words of their own: a text with "$87 billion" says both "$87 billion" and "87
  billion"; a text with "87 billion" does not say "$87 billion",
- in scripts without spaces a word may end anywhere.
An answer that repeats the gold answer scores 1.0: text between line ends or spaces is read alike wherever it stands.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from factmill.tasks.fanoutqa.core.evaluation.strings.rule_lemmatizer import TextBatchLemmatizer
from factmill.tasks.fanoutqa.core.evaluation.strings.upstream_scorer import fix_encoding
from factmill.tasks.text.text_normalization import contains_whole_words

_SIGN_WORDS = frozenset("%‰°#&+")
_SEPARATORS_TO_ASCII = str.maketrans("٫٬−", ".,-")
"""Arabic decimal and thousands separators and the minus sign, mapped to ASCII."""
_NUMBER_IN_GROUPS = re.compile(r"(?<!\d)(?<!\d[.,])\d{1,3}([,'’\u00a0\u2009\u202f])\d{3}(?:\1\d{3}){0,9}(?!\1?\d)")
_NON_ASCII_DIGIT = re.compile(r"(?![0-9])\d")
_SIGNED_AMOUNT = re.compile(r"(?<!\w)-([$€£¥])(?=\d)")
_PUNCTUATION = re.compile(
    r"(?P<kept>(?<=\d)[.:](?=\d)|(?<![\d.,])\d++,\d{1,2}(?![.,]?\d))"  # 5.2, 3:58, and the comma of 1,5
    r"|(?P<minus>(?<!\w)-(?=\.?\d))"
    r"|(?P<nought>(?<![\w.])\.(?=\d))"  # .5
    r"|(?P<inner>(?<=\w)['’](?=\w)|(?<=[^\W\d_])\.(?=[^\W\d_])(?![A-Z][a-z]))"  # Ocean's, U.S, but not end.Next
    r"|[^\w\s]|_"
)
_UNSPACED_SCRIPT = re.compile(
    "[\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Letters of scripts that are written without spaces."""


@dataclass(frozen=True, slots=True)
class ComparableText:
    """A text prepared for comparison."""

    readings: tuple[str, str]
    """As lemmas and as written; with a space before, between and after the words."""
    casefolded: str
    """Casefolded text, for references that consist of marks alone."""
    is_unspaced: bool
    """True if it has letters of a script without spaces, so that words may end anywhere."""


def make_comparable_texts(texts: Sequence[str], lemmatize: TextBatchLemmatizer) -> list[ComparableText]:
    """Prepare texts for comparison."""
    written = [casefold_words_and_unify_numbers(text) for text in texts]
    mended = ((fix_encoding(text), text) for text in texts)
    to_lemmatize = [
        words if fixed is text else casefold_words_and_unify_numbers(fixed)
        for (fixed, text), words in zip(mended, written, strict=True)
    ]
    return [
        ComparableText(
            (f" {lemmas.strip()} ", f" {words} "),
            text.casefold(),
            not text.isascii() and bool(_UNSPACED_SCRIPT.search(text)),
        )
        for text, words, lemmas in zip(texts, written, lemmatize(to_lemmatize), strict=True)
    ]


def casefold_words_and_unify_numbers(text: str) -> str:
    """Return the casefolded words of a text, with a space between them."""
    if not text.isascii():
        text = unicodedata.normalize(
            "NFKC", _NUMBER_IN_GROUPS.sub(_drop_digit_group_separators, text.translate(_SEPARATORS_TO_ASCII))
        )
        text = _NON_ASCII_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)
    plain = _SIGNED_AMOUNT.sub(r"\1-", _NUMBER_IN_GROUPS.sub(_drop_digit_group_separators, text))
    return " ".join(_PUNCTUATION.sub(_replace_punctuation, plain).casefold().split())


def _drop_digit_group_separators(found: re.Match[str]) -> str:
    return found[0].replace(found[1], "")


_MARK_REPLACEMENTS = {"minus": " minus", "nought": "0.", "inner": ""}
"""A minus becomes letters, so that no lemmatizer separates it from its number."""


def _replace_punctuation(found: re.Match[str]) -> str:
    kind = found.lastgroup
    return _MARK_REPLACEMENTS.get(kind, found[0]) if kind else _pad_sign_or_blank_other_mark(found[0])


@cache
def _pad_sign_or_blank_other_mark(mark: str) -> str:
    category = unicodedata.category(mark)
    if category == "Sc" or mark in _SIGN_WORDS:
        return f" {mark} "
    if category[0] == "M":
        return mark
    return "" if category == "Cf" else " "


def score_gold_strings_in_answer(
    references: Sequence[tuple[str, ...]], answer: ComparableText, known: Mapping[str, ComparableText]
) -> tuple[float, float]:
    """Return the loose share and the strict 0 or 1 of an answer; NaN if there is nothing to find.

    `known`: text of a reference → its prepared form.
    """
    if not references:
        return float("nan"), float("nan")
    found = sum(any(says_reference(known[way], answer) for way in ways) for ways in references)
    return found / len(references), float(found == len(references))


def says_reference(reference: ComparableText, answer: ComparableText) -> bool:
    """True if an answer says a reference, as whole words."""
    if reference.readings[1].isspace():
        return reference.casefolded.strip() in answer.casefolded
    return any(
        words in said or (answer.is_unspaced and contains_whole_words(said.strip(), words.strip()))
        for words, said in zip(reference.readings, answer.readings, strict=True)
    )
