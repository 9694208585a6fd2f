"""Articles normalised for SLAQ's checks, and matching of answers in them (Appendix A.1: the text grounds the answers).

Texts are compared by value (text/values/value_tokens.py): "1.02 metres" equals "1.02 m", "4.5 million dollars" equals
"US$4.5 million", "United States of America" equals "United States". A word that makes a number approximate (about,
roughly) is part of the value.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from factmill.tasks.text.sentences import split_sentences
from factmill.tasks.text.text_normalization import contains_whole_words, fold_case_accents_and_punctuation
from factmill.tasks.text.values.value_tokens import (
    TextPartWithValue,
    TokenValue,
    contains_value_sequence,
    drop_stop_words,
    iterate_capitalized_words_with_values,
    normalize_amount_and_name_spelling,
    states_wanted_value,
    tokenize_values,
    tokenize_words_numbers_and_dates,
)

APPROXIMATION_MARK = "roughly"
"""Replaces every word that makes a number approximate."""
_INEXACT_MARKS = frozenset({APPROXIMATION_MARK, "almost", "least", "nearly", "than"})
"""Values that may precede an inexact number: nearly, at least, more than."""
_TITLE_QUALIFIER = re.compile(r"(?<=\S) *\([^()]*\)$")
_HEDGE = re.compile(
    r"\b(?:about|approx\.|approximately|around|ca\.|circa|roughly|some) (?=([^\s,;]+))|≈ ?(?=([0-9]))", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class QuestionCheckWordLists:
    """Folded word lists for the checks; `make_question_check_word_lists` makes them."""

    source_phrases: tuple[str, ...]
    one_of_many: tuple[str, ...]
    function_words: frozenset[str]


@dataclass(frozen=True, slots=True)
class NormalisedArticle:
    """An article normalised for the checks; `normalise_article` makes it."""

    folded: str
    sentence_values: tuple[tuple[TokenValue, ...], ...]
    """Values of each sentence, without small words."""
    sentence_texts: tuple[str, ...]
    """The same sentences as text."""
    capitalised_words: frozenset[str]
    """Words with a capital anywhere."""
    capitalised_inside_sentences: frozenset[str]
    """Words with a capital inside a sentence."""
    lowercase_words: frozenset[TokenValue]
    """Words in lower case anywhere."""


def make_question_check_word_lists(
    source_phrases: Iterable[str], one_of_many: Iterable[str], function_words: Iterable[str]
) -> QuestionCheckWordLists:
    """Fold the lines of data/lists/source_phrases.txt, one_of_many.txt and function_words.txt for the checks."""
    words = [fold_case_accents_and_punctuation(word) for word in function_words]
    # both as written and as read_values gives them (it takes "does" for a plural)
    values = {part.value for word in words for part in tokenize_values(word) if isinstance(part.value, str)}
    return QuestionCheckWordLists(
        tuple(map(fold_case_accents_and_punctuation, source_phrases)),
        tuple(map(fold_case_accents_and_punctuation, one_of_many)),
        frozenset({*words, *values}),
    )


def normalise_article(text: str) -> NormalisedArticle:
    """Normalise an article's text for the checks; lines are paragraphs."""
    written = tuple(sentence for line in text.splitlines() for sentence in split_sentences(line))
    sentence_values = [tokenize_words_with_values(sentence) for sentence in written]
    capitals = [
        (opens, value) for each in sentence_values for opens, _, value in iterate_capitalized_words_with_values(each)
    ]
    return NormalisedArticle(
        fold_case_accents_and_punctuation(text),
        tuple(tuple(list_content_values_with_hedge_marks(sentence)) for sentence in written),
        written,
        frozenset(value for _, value in capitals),
        frozenset(value for opens, value in capitals if not opens),
        frozenset(part.value for each in sentence_values for part in each if part.source[0].islower()),
    )


def tokenize_words_with_values(text: str) -> list[TextPartWithValue]:
    """Return the words of a text with their values; money and countries get one form."""
    return tokenize_values(normalize_amount_and_name_spelling(text))


def list_content_values_with_hedge_marks(text: str) -> list[TokenValue]:
    """Return a text's values without small words; units and money get one form, ROUGHLY marks rough numbers."""
    return drop_stop_words(
        [token.value for token in tokenize_words_numbers_and_dates(_HEDGE.sub(_unify_hedge_before_number, text))]
    )


def list_word_and_number_values(text: str) -> list[TokenValue]:
    """Return all values of a text, small words included, without marks of approximation."""
    return [token.value for token in tokenize_words_numbers_and_dates(text)]


def _unify_hedge_before_number(found: re.Match[str]) -> str:
    follows = tokenize_values(normalize_amount_and_name_spelling(found[1] or found[2]))
    return f"{APPROXIMATION_MARK} " if follows and not isinstance(follows[0].value, str) else found[0]


def list_distinct_content_values(text: str, lists: QuestionCheckWordLists) -> list[TokenValue]:
    """Return a text's values that are no function words, each once."""
    values = dict.fromkeys(list_word_and_number_values(text))
    return [value for value in values if value not in lists.function_words]


def is_answer_in_article(answer: str, article: NormalisedArticle) -> bool:
    """True if a sentence of the article contains the answer, small words aside, numbers and dates by value."""
    # an answer with digits is compared by value alone, since "5" is no part of 3.5
    folded = fold_case_accents_and_punctuation(answer).strip(" .!?")
    if not any(map(str.isdigit, answer)) and contains_whole_words(article.folded, folded):
        return True
    wanted = list_content_values_with_hedge_marks(answer)
    return any(contains_value_sequence(sentence, wanted) for sentence in article.sentence_values)


def is_number_always_inexact_in_article(answer: str, article: NormalisedArticle) -> bool:
    """True if an answer begins with a number that the article always calls inexact: about, more than."""
    wanted = list_content_values_with_hedge_marks(answer)
    if not wanted or isinstance(wanted[0], str):
        return False
    # the value before each occurrence; "" where it opens a sentence
    before = {
        sentence[at - 1] if at else ""
        for sentence in article.sentence_values
        for at in range(len(sentence) - len(wanted) + 1)
        if all(map(states_wanted_value, sentence[at : at + len(wanted)], wanted))
    }
    return bool(before) and before <= _INEXACT_MARKS


def strip_title_qualifier(topic: str) -> str:
    """Return a title without its qualifier in brackets."""
    return _TITLE_QUALIFIER.sub("", topic)
