"""Questions of several foundations united into the earliest; answers that refuse; the type of an answer (MultiHal §2.1, §2.2, Appendix B).

Embeddings hardly tell 2018 from 2019: most pairs of different questions above the paper's cosine differ in a number, a
code or a name, and united they would take each other's answers for right. Such pairs are distinguished by what they say,
and by the passages that they rest on. Foundations may still answer one question differently: then the answers that agree
with none of the first row's are kept as disputed ones, and count neither as right nor as wrong.

The foundation's own word counts where the answer bears it out: a "number" that cannot be read as one is looked for as
items. Where the foundation says nothing, a text that is a date as a whole is a date, one that is a number is a number,
but a number word with something else behind it is a name (One Direction) unless that something is a unit of measure.

Case does not matter, and typographic quotation marks are as good as plain ones; nothing else is made equal, so that an
answer which only begins like a refusal stays.
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
"""Which of the questions with near embeddings are one: those that agree in numbers, codes, names and passages, or all."""

_QUOTED = re.compile(r"[\"“„«](.+?)[\"”“»]|(?<!\w)['‘](.+?)['’](?!\w)")
_EDGES = "()[]{}.,;:!?\"'“”‘’«»"
_PASSAGE_WORDS = 5
"""Fewest words of a context that a question rests on; addresses and remarks such as "indexical" say where it is from."""


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
    """True when two questions say the same numbers, ordinals, codes and quoted names, and neither has a name of its own."""
    return _list_particulars(one) == _list_particulars(other) and _names_all(one, other) and _names_all(other, one)


def _list_particulars(question: str) -> tuple[list[object], list[str], list[str]]:
    """Return numbers and ordinals, codes (PS5, FIFA, B) and quoted names, each in the order of the text."""
    said = [each.value for each in read_amounts(question)]
    counted: list[object] = [value for value in said if is_number(value) or str(value)[0].isdigit()]
    words = [word.strip(_EDGES).removesuffix("'s").removesuffix("’s") for word in question.split()]
    quoted = [normalise(first or second) for first, second in _QUOTED.findall(question)]
    return counted, [word for at, word in enumerate(words) if _is_code(word) and (at or word != "A")], quoted


def _is_code(word: str) -> bool:
    letters = [character for character in word if character.isalpha()]
    return bool(letters) and (len(letters) < sum(map(str.isalnum, word)) or word == word.upper())


def _names_all(one: str, other: str) -> bool:
    """True when every capitalised word of a question but the first stands in the other, however it is written there."""
    told = {each.value for each in read_amounts(other)}
    return all(each.value in told for each in read_amounts(one[:1].lower() + one[1:]) if each.is_capital)


def unite_questions(
    questions: Sequence[FoundationQuestion], duplicates: Duplicates, union: Union = "ours"
) -> Iterator[FoundationQuestion | Merged]:
    """Yield what becomes of each question, in order: itself, with what its duplicates add, or Merged into the first.

    The first keeps its question and answer. The others' answers join its optional ones where they agree with an answer
    that is accepted already, else its disputed ones (with the paper's union all of them join the optional ones).
    Incorrect answers and contexts are put together, none twice (case and spaces aside); what any of them takes for
    right is not incorrect.
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
    """Return the passages that a question rests on; None when it rests on none."""
    texts = (text for text in question.context if "://" not in text and len(text.split()) >= _PASSAGE_WORDS)
    return frozenset(map(_fold, texts)) or None


def _unite(first: FoundationQuestion, group: Sequence[FoundationQuestion], union: Union) -> FoundationQuestion:
    given = [[row.output, *row.optional_output] for row in group]
    right = list(given.pop(0))
    # an answer that agrees with one may agree with what that one brings along
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
        # a row must be used as each foundation whose words it holds allows
        licence=" AND ".join(dict.fromkeys(row.licence for row in group)),
    )


def _agree(some: Sequence[str], others: Sequence[str]) -> bool:
    """True when an answer of one list is an answer of the other, or one contains it."""
    return any(
        normalise(one) == normalise(other)
        or find_answer(one, read_known_text(other)).found
        or find_answer(other, read_known_text(one)).found
        for one in some
        for other in others
    )


def _leave_out(texts: Iterable[str], others: Iterable[str]) -> list[str]:
    """Return the texts in order, without repeats and without the others."""
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
    """Return the phrases in the form in which answers are compared with them."""
    return frozenset(map(_flatten, phrases))


def is_refusal(answer: str, refusals: frozenset[str]) -> bool:
    """True when the answer as a whole is one of the phrases."""
    return _flatten(answer) in refusals


def _flatten(text: str) -> str:
    return " ".join(text.translate(_PLAIN_QUOTES).casefold().split())


@dataclass(frozen=True, slots=True)
class SettledType:
    """The type of an answer, and the value that is looked for."""

    answer_type: AnswerType
    value: Date | Number | None = None
    """None for what is looked for as items, and for a number in a unit that is not known, which nothing is."""


def settle_answer_type(answer: str, stated: AnswerType | None, units: Mapping[str, int], question: str) -> SettledType:
    """Return the type of an answer; `units` are those known by name (assets.load_units), the question may order dates and name what is counted."""
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
