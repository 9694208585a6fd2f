"""An article as the checks of SLAQ look at it, and what stands in it (Appendix A.1: answers are grounded in the text).

Texts are compared by what they say (text/values/words.py): "1.02 metres" is "1.02 m", "4.5 million dollars" is
"US$4.5 million", "United States of America" is "United States". A word that makes a number an approximate one (about,
roughly) is part of what is said.
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
"""What stands for every word that makes a number an approximate one."""
_INEXACT = frozenset({ROUGHLY, "almost", "least", "nearly", "than"})
"""What stands before a number that is not exact: nearly, at least, more than."""
_QUALIFIER = re.compile(r"(?<=\S) *\([^()]*\)$")
_HEDGE = re.compile(
    r"\b(?:about|approx\.|approximately|around|ca\.|circa|roughly|some) (?=([^\s,;]+))|≈ ?(?=([0-9]))", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class CheckLists:
    """The word lists that checks go by, folded; `read_lists` makes them."""

    source_phrases: tuple[str, ...]
    one_of_many: tuple[str, ...]
    function_words: frozenset[str]


@dataclass(frozen=True, slots=True)
class KnownText:
    """An article as the checks look at it; `read_article` makes it."""

    folded: str
    sentences: tuple[tuple[Value, ...], ...]
    """What each sentence says, small words left out."""
    written: tuple[str, ...]
    """The same sentences as they stand."""
    capitals: frozenset[str]
    """Words that are written with a capital somewhere."""
    inner_capitals: frozenset[str]
    """Those that are so inside a sentence."""
    small: frozenset[Value]
    """Words that are written small somewhere."""


def read_lists(source_phrases: Iterable[str], one_of_many: Iterable[str], function_words: Iterable[str]) -> CheckLists:
    """Return data/lists/source_phrases.txt, one_of_many.txt and function_words.txt in the form of the checks."""
    words = [fold_text(word) for word in function_words]
    # as they stand and as read_values has them ("does" is taken for a plural)
    values = {part.value for word in words for part in read_values(word) if isinstance(part.value, str)}
    return CheckLists(
        tuple(map(fold_text, source_phrases)), tuple(map(fold_text, one_of_many)), frozenset({*words, *values})
    )


def read_article(text: str) -> KnownText:
    """Return an article's text in the form of the checks; lines are paragraphs."""
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
    """Return what the parts of a text say, word by word, money and countries in one form."""
    return read_values(spell_amounts(text))


def list_values(text: str) -> list[Value]:
    """Return what a text says, without small words, units and money in one form, approximate numbers behind ROUGHLY."""
    return drop_light([said.value for said in read_amounts(_HEDGE.sub(_mark_hedge, text))])


def list_said(text: str) -> list[Value]:
    """Return all that a text says, words that make numbers approximate left out."""
    return [said.value for said in read_amounts(text)]


def _mark_hedge(found: re.Match[str]) -> str:
    follows = read_values(spell_amounts(found[1] or found[2]))
    return f"{ROUGHLY} " if follows and not isinstance(follows[0].value, str) else found[0]


def list_content(text: str, lists: CheckLists) -> list[Value]:
    """Return what a text says beyond function words, each once."""
    values = dict.fromkeys(list_said(text))
    return [value for value in values if value not in lists.function_words]


def is_in_article(answer: str, article: KnownText) -> bool:
    """True when an answer stands in one sentence of the article, small words aside, numbers and dates by value."""
    # "5" is no part of 3.5: what has digits is looked for by value alone
    if not any(map(str.isdigit, answer)) and has_words(article.folded, fold_text(answer).strip(" .!?")):
        return True
    wanted = list_values(answer)
    return any(has_sequence(sentence, wanted) for sentence in article.sentences)


def is_only_rough(answer: str, article: KnownText) -> bool:
    """True when an answer begins with a number that the article calls inexact wherever it stands: about, more than."""
    wanted = list_values(answer)
    before = list(_find_before(wanted, article)) if wanted and not isinstance(wanted[0], str) else []
    return bool(before) and _INEXACT.issuperset(before)


def _find_before(wanted: Sequence[Value], article: KnownText) -> Iterator[Value]:
    """Yield what stands before the wanted values, wherever they stand; an empty text where they open a sentence."""
    for sentence in article.sentences:
        for at in range(len(sentence) - len(wanted) + 1):
            if all(map(says, sentence[at : at + len(wanted)], wanted)):
                yield sentence[at - 1] if at else ""


def bare_title(topic: str) -> str:
    """Return a title without what stands behind it in brackets."""
    return _QUALIFIER.sub("", topic)
