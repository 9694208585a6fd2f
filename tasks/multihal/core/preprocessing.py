"""Merge duplicate questions into the first, detect refusals, classify answers (MultiHal §2.1, §2.2, Appendix B).

Embeddings hardly distinguish 2018 from 2019: most pairs of different questions above the paper's cosine differ in a
number, a code or a name. Merged, they would accept each other's answers as right. So the wording and the supporting
passages of such pairs are compared too. Foundations may still answer one question differently: answers that agree with
none of the first row's are kept as disputed and count neither as right nor as wrong.

The type stated by the foundation counts if the answer confirms it: a "number" that cannot be parsed is searched for as
items. If no type is stated, a text that is a date as a whole is a date, and one that is a number is a number. A number
word followed by something else is a name (One Direction) unless a unit of measure follows.

Refusals are compared without regard to case, and typographic quotation marks equal plain ones; nothing else is
normalised, so an answer that only begins like a refusal stays.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from factmill.tasks.core.embedding_similarity import DuplicatePairs
from factmill.tasks.core.rows import MergedAway
from factmill.tasks.multihal.core.rows import AnswerType, FoundationQuestion
from factmill.tasks.text.text_normalization import normalize_answer
from factmill.tasks.text.values.answer_search import find_answer_and_missing_parts, index_text
from factmill.tasks.text.values.dates_and_numbers import parse_answer_as_date, parse_written_number, resolve_number_unit
from factmill.tasks.text.values.value_tokens import is_number_or_date, tokenize_words_numbers_and_dates
from factmill.tasks.text.values.wikidata_literals import PartialDate, WantedNumberWithUnit

DuplicateRule = Literal["ours", "paper"]
"""Which questions with near embeddings are duplicates: those with equal numbers, codes, names and passages, or all."""

_QUOTED_NAME = re.compile(r"[\"“„«](.+?)[\"”“»]|(?<!\w)['‘](.+?)['’](?!\w)")
_EDGE_PUNCTUATION = "()[]{}.,;:!?\"'“”‘’«»"
_MIN_PASSAGE_WORDS = 5
"""Least number of words of a supporting passage; addresses and remarks such as "indexical" only name the origin."""


def filter_duplicates_by_names_and_numbers(
    questions: Sequence[FoundationQuestion], duplicates: DuplicatePairs
) -> DuplicatePairs:
    """Return the duplicates without pairs of questions that differ in a number, year, code or name."""
    pairs = zip(duplicates.first.tolist(), duplicates.second.tolist(), strict=True)
    both = ((questions[one].input, questions[other].input) for one, other in pairs)
    alike = np.array([have_same_names_and_numbers(one, other) for one, other in both], bool)
    return replace(duplicates, **{name: getattr(duplicates, name)[alike] for name in ("first", "second", "cosine")})


def have_same_names_and_numbers(one: str, other: str) -> bool:
    """True if both questions have the same numbers, ordinals, codes, quoted names and capitalised words."""
    return (
        _list_numbers_codes_and_quoted_names(one) == _list_numbers_codes_and_quoted_names(other)
        and _are_capitalised_words_in_other(one, other)
        and _are_capitalised_words_in_other(other, one)
    )


def _list_numbers_codes_and_quoted_names(question: str) -> tuple[list[object], list[str], list[str]]:
    """Return numbers and ordinals, codes (PS5, FIFA, B), and quoted names, each in text order."""
    amounts = [each.value for each in tokenize_words_numbers_and_dates(question)]
    counted: list[object] = [value for value in amounts if is_number_or_date(value) or str(value)[0].isdigit()]
    words = [word.strip(_EDGE_PUNCTUATION).removesuffix("'s").removesuffix("’s") for word in question.split()]
    quoted = [normalize_answer(first or second) for first, second in _QUOTED_NAME.findall(question)]
    return (
        counted,
        [word for at, word in enumerate(words) if _is_acronym_or_alphanumeric_code(word) and (at or word != "A")],
        quoted,
    )


def _is_acronym_or_alphanumeric_code(word: str) -> bool:
    letters = [character for character in word if character.isalpha()]
    return bool(letters) and (len(letters) < sum(map(str.isalnum, word)) or word == word.upper())


def _are_capitalised_words_in_other(one: str, other: str) -> bool:
    """True if every capitalised word of `one`, except its first, occurs in `other` in any case."""
    other_values = {each.value for each in tokenize_words_numbers_and_dates(other)}
    return all(
        each.value in other_values
        for each in tokenize_words_numbers_and_dates(one[:1].lower() + one[1:])
        if each.is_capital
    )


def merge_duplicate_questions(
    questions: Sequence[FoundationQuestion], duplicates: DuplicatePairs, rule: DuplicateRule = "ours"
) -> Iterator[FoundationQuestion | MergedAway]:
    """Yield each question's outcome, in order: the question extended by its duplicates, or Merged into the first.

    The first keeps its question and answer. The others' answers become optional if they agree with an answer already
    accepted, else disputed (by the paper's rule all become optional). Incorrect answers and contexts are combined
    without repeats (ignoring case and spaces); an answer that any duplicate counts as right is not incorrect.
    """
    if duplicates.count != len(questions):
        raise ValueError(
            f"{len(questions)} questions, but the duplicates are of {duplicates.count} rows; expected the same number"
        )
    if rule == "ours":
        duplicates = filter_duplicates_by_names_and_numbers(questions, duplicates)
    passages = None if rule == "paper" else [_find_supporting_passages(each) for each in questions]
    leaders = duplicates.list_group_leaders(passages)
    groups: dict[int, list[FoundationQuestion]] = {}
    for question, leader in zip(questions, leaders, strict=True):
        groups.setdefault(leader, []).append(question)
    for number, (question, leader) in enumerate(zip(questions, leaders, strict=True)):
        if leader != number:
            yield MergedAway(question.id, questions[leader].id)
        elif len(groups[number]) == 1:
            yield question
        else:
            yield _merge_group(question, groups[number], rule)


def _find_supporting_passages(question: FoundationQuestion) -> frozenset[str] | None:
    """Return a question's supporting passages; None if it has none."""
    texts = (text for text in question.context if "://" not in text and len(text.split()) >= _MIN_PASSAGE_WORDS)
    return frozenset(map(_fold_case_and_spaces, texts)) or None


def _merge_group(
    first: FoundationQuestion, group: Sequence[FoundationQuestion], union: DuplicateRule
) -> FoundationQuestion:
    given = [[row.output, *row.optional_output] for row in group]
    right = given.pop(0)
    # repeat: an answer may agree with one that was only just added
    while joining := [
        answers for answers in given if union == "paper" or _do_any_answers_match_or_contain(right, answers)
    ]:
        right += [answer for answers in joining for answer in answers]
        given = [answers for answers in given if answers not in joining]
    disputed = [answer for answers in given for answer in answers]
    incorrect = [answer for row in group for answer in row.incorrect_answers]
    return first.replace(
        optional_output=_deduplicate_excluding(right, [first.output]),
        incorrect_answers=_deduplicate_excluding(incorrect, [*right, *disputed]),
        disputed_answers=_deduplicate_excluding(disputed, right),
        context=_deduplicate_excluding((passage for row in group for passage in row.context), []),
        # a merged row is subject to the licence of every foundation it contains text of
        licence=" AND ".join(dict.fromkeys(row.licence for row in group)),
    )


def _do_any_answers_match_or_contain(some: Sequence[str], others: Sequence[str]) -> bool:
    """True if an answer of one list equals, contains or is contained in an answer of the other."""
    return any(
        normalize_answer(one) == normalize_answer(other)
        or find_answer_and_missing_parts(one, index_text(other)).found
        or find_answer_and_missing_parts(other, index_text(one)).found
        for one in some
        for other in others
    )


def _deduplicate_excluding(texts: Iterable[str], others: Iterable[str]) -> list[str]:
    """Return the texts in order, without repeats and without those in `others` (case and spaces aside)."""
    seen = {_fold_case_and_spaces(text) for text in others}
    left: dict[str, str] = {}
    for text in texts:
        if _fold_case_and_spaces(text) not in seen:
            left.setdefault(_fold_case_and_spaces(text), text)
    return list(left.values())


def _fold_case_and_spaces(text: str) -> str:
    return " ".join(text.split()).casefold()


_PLAIN_QUOTES = str.maketrans("‘’‚‛“”„‟", "''''\"\"\"\"")


def normalise_refusals(phrases: Iterable[str]) -> frozenset[str]:
    """Return the phrases normalised for comparison with answers."""
    return frozenset(map(_fold_case_spaces_and_quotes, phrases))


def is_refusal(answer: str, refusals: frozenset[str]) -> bool:
    """True if the whole answer is one of the normalised phrases."""
    return _fold_case_spaces_and_quotes(answer) in refusals


def _fold_case_spaces_and_quotes(text: str) -> str:
    return " ".join(text.translate(_PLAIN_QUOTES).casefold().split())


@dataclass(frozen=True, slots=True)
class ClassifiedAnswer:
    """Type of an answer and the value to look for."""

    answer_type: AnswerType
    value: PartialDate | WantedNumberWithUnit | None = None
    """None if the answer is searched for as items, and for a number in an unknown unit, which matches nothing."""


def classify_answer(
    answer: str, stated: AnswerType | None, units: Mapping[str, int], question: str
) -> ClassifiedAnswer:
    """Classify an answer as date, rank, numerical or other.

    `units`: name → QID number (assets.load_units); `question` may decide the order of day and month and name the unit.
    """
    if stated in (None, "date") and (date := parse_answer_as_date(answer, question)):
        return ClassifiedAnswer("date", date)
    written = None if stated in ("other", "date") else parse_written_number(answer)
    if written is None:
        return ClassifiedAnswer("other")
    wanted = resolve_number_unit(written, units, question)
    if stated == "rank":
        is_rank = written.number.isdigit() and int(written.number) >= 1
        return ClassifiedAnswer("rank", WantedNumberWithUnit(written.number)) if is_rank else ClassifiedAnswer("other")
    if stated is None and wanted is None and "." not in written.number:
        # One Direction, 10 Rillington Place
        return ClassifiedAnswer("other")
    return ClassifiedAnswer("numerical", wanted)
