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

from factmill.tasks.core.nearest import Duplicates
from factmill.tasks.core.rows import Merged
from factmill.tasks.multihal.core.rows import AnswerType, FoundationQuestion
from factmill.tasks.text.matching import normalise
from factmill.tasks.text.values.answers import find_answer, read_known_text
from factmill.tasks.text.values.literals import Date, Number
from factmill.tasks.text.values.words import is_number, read_amounts
from factmill.tasks.text.values.written import look_for, read_answer_date, read_number

Union = Literal["ours", "paper"]
"""Which questions with near embeddings are duplicates: those with equal numbers, codes, names and passages, or all."""

_QUOTED = re.compile(r"[\"“„«](.+?)[\"”“»]|(?<!\w)['‘](.+?)['’](?!\w)")
_EDGES = "()[]{}.,;:!?\"'“”‘’«»"
_PASSAGE_WORDS = 5
"""Least number of words of a supporting passage; addresses and remarks such as "indexical" only name the origin."""


def keep_alike(questions: Sequence[FoundationQuestion], duplicates: Duplicates) -> Duplicates:
    """Return the duplicates without pairs of questions that differ in a number, year, code or name."""
    pairs = zip(duplicates.first.tolist(), duplicates.second.tolist(), strict=True)
    alike = np.array([is_alike(questions[one].input, questions[other].input) for one, other in pairs], bool)
    return replace(
        duplicates,
        first=duplicates.first[alike],
        second=duplicates.second[alike],
        cosine=duplicates.cosine[alike],
    )


def is_alike(one: str, other: str) -> bool:
    """True if both questions have the same numbers, ordinals, codes, quoted names and capitalised words."""
    return _list_particulars(one) == _list_particulars(other) and _names_all(one, other) and _names_all(other, one)


def _list_particulars(question: str) -> tuple[list[object], list[str], list[str]]:
    """Return numbers and ordinals, codes (PS5, FIFA, B), and quoted names, each in text order."""
    said = [each.value for each in read_amounts(question)]
    counted: list[object] = [value for value in said if is_number(value) or str(value)[0].isdigit()]
    words = [word.strip(_EDGES).removesuffix("'s").removesuffix("’s") for word in question.split()]
    quoted = [normalise(first or second) for first, second in _QUOTED.findall(question)]
    return counted, [word for at, word in enumerate(words) if _is_code(word) and (at or word != "A")], quoted


def _is_code(word: str) -> bool:
    letters = [character for character in word if character.isalpha()]
    return bool(letters) and (len(letters) < sum(map(str.isalnum, word)) or word == word.upper())


def _names_all(one: str, other: str) -> bool:
    """True if every capitalised word of `one`, except its first, occurs in `other` in any case."""
    told = {each.value for each in read_amounts(other)}
    return all(each.value in told for each in read_amounts(one[:1].lower() + one[1:]) if each.is_capital)


def unite_questions(
    questions: Sequence[FoundationQuestion], duplicates: Duplicates, union: Union = "ours"
) -> Iterator[FoundationQuestion | Merged]:
    """Yield each question's outcome, in order: the question extended by its duplicates, or Merged into the first.

    The first keeps its question and answer. The others' answers become optional if they agree with an answer already
    accepted, else disputed (by the paper's rule all become optional). Incorrect answers and contexts are combined
    without repeats (ignoring case and spaces); an answer that any duplicate counts as right is not incorrect.
    """
    if duplicates.count != len(questions):
        raise ValueError(f"{len(questions)} questions, but duplicates among {duplicates.count} rows")
    if union == "ours":
        duplicates = keep_alike(questions, duplicates)
    leaders = duplicates.find_leaders(None if union == "paper" else [_list_passages(each) for each in questions])
    groups: dict[int, list[FoundationQuestion]] = {}
    for question, leader in zip(questions, leaders, strict=True):
        groups.setdefault(leader, []).append(question)
    for number, (question, leader) in enumerate(zip(questions, leaders, strict=True)):
        if leader != number:
            yield Merged(question.id, questions[leader].id)
        elif len(groups[number]) == 1:
            yield question
        else:
            yield _unite(question, groups[number], union)


def _list_passages(question: FoundationQuestion) -> frozenset[str] | None:
    """Return a question's supporting passages; None if it has none."""
    texts = (text for text in question.context if "://" not in text and len(text.split()) >= _PASSAGE_WORDS)
    return frozenset(map(_fold, texts)) or None


def _unite(first: FoundationQuestion, group: Sequence[FoundationQuestion], union: Union) -> FoundationQuestion:
    given = [[row.output, *row.optional_output] for row in group]
    right = list(given.pop(0))
    # repeat: an answer may agree with one that was only just added
    while joining := [answers for answers in given if union == "paper" or _agree(right, answers)]:
        right += [answer for answers in joining for answer in answers]
        given = [answers for answers in given if answers not in joining]
    disputed = [answer for answers in given for answer in answers]
    incorrect = _leave_out((answer for row in group for answer in row.incorrect_answers), [*right, *disputed])
    context = _leave_out((passage for row in group for passage in row.context), [])
    return first.replace(
        optional_output=_leave_out(right, [first.output]),
        incorrect_answers=incorrect,
        disputed_answers=_leave_out(disputed, right),
        context=context,
        # a merged row is subject to the licence of every foundation it contains text of
        licence=" AND ".join(dict.fromkeys(row.licence for row in group)),
    )


def _agree(some: Sequence[str], others: Sequence[str]) -> bool:
    """True if an answer of one list equals, contains or is contained in an answer of the other."""
    return any(
        normalise(one) == normalise(other)
        or find_answer(one, read_known_text(other)).found
        or find_answer(other, read_known_text(one)).found
        for one in some
        for other in others
    )


def _leave_out(texts: Iterable[str], others: Iterable[str]) -> list[str]:
    """Return the texts in order, without repeats and without those in `others` (case and spaces aside)."""
    seen = {_fold(text) for text in others}
    left: dict[str, str] = {}
    for text in texts:
        if _fold(text) not in seen:
            left.setdefault(_fold(text), text)
    return list(left.values())


def _fold(text: str) -> str:
    return " ".join(text.split()).casefold()


_PLAIN_QUOTES = str.maketrans("‘’‚‛“”„‟", "''''\"\"\"\"")


def read_refusals(phrases: Iterable[str]) -> frozenset[str]:
    """Return the phrases normalised for comparison with answers."""
    return frozenset(map(_flatten, phrases))


def is_refusal(answer: str, refusals: frozenset[str]) -> bool:
    """True if the whole answer is one of the normalised phrases."""
    return _flatten(answer) in refusals


def _flatten(text: str) -> str:
    return " ".join(text.translate(_PLAIN_QUOTES).casefold().split())


@dataclass(frozen=True, slots=True)
class SettledType:
    """Type of an answer and the value to look for."""

    answer_type: AnswerType
    value: Date | Number | None = None
    """None if the answer is searched for as items, and for a number in an unknown unit, which matches nothing."""


def settle_answer_type(answer: str, stated: AnswerType | None, units: Mapping[str, int], question: str) -> SettledType:
    """Classify an answer as date, rank, numerical or other.

    `units`: name → QID number (assets.load_units); `question` may decide the order of day and month and name the unit.
    """
    if stated in (None, "date") and (date := read_answer_date(answer, question)):
        return SettledType("date", date)
    written = None if stated in ("other", "date") else read_number(answer)
    if written is None:
        return SettledType("other")
    wanted = look_for(written, units, question)
    if stated == "rank":
        is_rank = written.number.isdigit() and int(written.number) >= 1
        return SettledType("rank", Number(written.number)) if is_rank else SettledType("other")
    if stated is None and wanted is None and "." not in written.number:
        # One Direction, 10 Rillington Place
        return SettledType("other")
    return SettledType("numerical", wanted)
