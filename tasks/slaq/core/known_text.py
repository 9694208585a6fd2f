"""Articles normalised for SLAQ's checks, and matching of answers in them (Appendix A.1: the text grounds the answers).

Texts are compared by value (text/values/words.py): "1.02 metres" equals "1.02 m", "4.5 million dollars" equals
"US$4.5 million", "United States of America" equals "United States". A word that makes a number approximate (about,
roughly) is part of the value.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from factmill.tasks.text.matching import fold_text, has_words
from factmill.tasks.text.sentences import split_sentences
from factmill.tasks.text.values.words import (
    Told,
    Value,
    drop_light,
    find_capitals,
    has_sequence,
    read_amounts,
    read_values,
    says,
    spell_amounts,
)

ROUGHLY = "roughly"
"""Replaces every word that makes a number approximate."""
_INEXACT = frozenset({ROUGHLY, "almost", "least", "nearly", "than"})
"""Values that may precede an inexact number: nearly, at least, more than."""
_QUALIFIER = re.compile(r"(?<=\S) *\([^()]*\)$")
_HEDGE = re.compile(
    r"\b(?:about|approx\.|approximately|around|ca\.|circa|roughly|some) (?=([^\s,;]+))|≈ ?(?=([0-9]))", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class CheckLists:
    """Folded word lists for the checks; `read_lists` makes them."""

    source_phrases: tuple[str, ...]
    one_of_many: tuple[str, ...]
    function_words: frozenset[str]


@dataclass(frozen=True, slots=True)
class KnownText:
    """An article normalised for the checks; `read_article` makes it."""

    folded: str
    sentences: tuple[tuple[Value, ...], ...]
    """Values of each sentence, without small words."""
    written: tuple[str, ...]
    """The same sentences as text."""
    capitals: frozenset[str]
    """Words with a capital anywhere."""
    inner_capitals: frozenset[str]
    """Words with a capital inside a sentence."""
    small: frozenset[Value]
    """Words in lower case anywhere."""


def read_lists(source_phrases: Iterable[str], one_of_many: Iterable[str], function_words: Iterable[str]) -> CheckLists:
    """Fold the lines of data/lists/source_phrases.txt, one_of_many.txt and function_words.txt for the checks."""
    words = [fold_text(word) for word in function_words]
    # both as written and as read_values gives them (it takes "does" for a plural)
    values = {part.value for word in words for part in read_values(word) if isinstance(part.value, str)}
    return CheckLists(
        tuple(map(fold_text, source_phrases)), tuple(map(fold_text, one_of_many)), frozenset({*words, *values})
    )


def read_article(text: str) -> KnownText:
    """Normalise an article's text for the checks; lines are paragraphs."""
    written = tuple(sentence for line in text.splitlines() for sentence in split_sentences(line))
    told = [tell(sentence) for sentence in written]
    capitals = [(opens, value) for each in told for opens, _, value in find_capitals(each)]
    return KnownText(
        fold_text(text),
        tuple(tuple(list_values(sentence)) for sentence in written),
        written,
        frozenset(value for _, value in capitals),
        frozenset(value for opens, value in capitals if not opens),
        frozenset(part.value for each in told for part in each if part.said[0].islower()),
    )


def tell(text: str) -> list[Told]:
    """Return the words of a text with their values; money and countries get one form."""
    return read_values(spell_amounts(text))


def list_values(text: str) -> list[Value]:
    """Return a text's values without small words; units and money get one form, ROUGHLY marks rough numbers."""
    return drop_light([said.value for said in read_amounts(_HEDGE.sub(_mark_hedge, text))])


def list_said(text: str) -> list[Value]:
    """Return all values of a text, small words included, without marks of approximation."""
    return [said.value for said in read_amounts(text)]


def _mark_hedge(found: re.Match[str]) -> str:
    follows = read_values(spell_amounts(found[1] or found[2]))
    return f"{ROUGHLY} " if follows and not isinstance(follows[0].value, str) else found[0]


def list_content(text: str, lists: CheckLists) -> list[Value]:
    """Return a text's values that are no function words, each once."""
    values = dict.fromkeys(list_said(text))
    return [value for value in values if value not in lists.function_words]


def is_in_article(answer: str, article: KnownText) -> bool:
    """True if a sentence of the article contains the answer, small words aside, numbers and dates by value."""
    # an answer with digits is compared by value alone, since "5" is no part of 3.5
    if not any(map(str.isdigit, answer)) and has_words(article.folded, fold_text(answer).strip(" .!?")):
        return True
    wanted = list_values(answer)
    return any(has_sequence(sentence, wanted) for sentence in article.sentences)


def is_only_rough(answer: str, article: KnownText) -> bool:
    """True if an answer begins with a number that the article always calls inexact: about, more than."""
    wanted = list_values(answer)
    before = list(_find_before(wanted, article)) if wanted and not isinstance(wanted[0], str) else []
    return bool(before) and _INEXACT.issuperset(before)


def _find_before(wanted: Sequence[Value], article: KnownText) -> Iterator[Value]:
    """Yield the value before each occurrence of the wanted values; "" where they open a sentence."""
    for sentence in article.sentences:
        for at in range(len(sentence) - len(wanted) + 1):
            if all(map(says, sentence[at : at + len(wanted)], wanted)):
                yield sentence[at - 1] if at else ""


def bare_title(topic: str) -> str:
    """Return a title without its qualifier in brackets."""
    return _QUALIFIER.sub("", topic)
