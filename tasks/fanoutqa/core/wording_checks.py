"""Check what a question's wording adds to its pieces, and the units that a judge adds to it (FanOutQA, Appendix B).

A wording with all its pieces can still ask something else: through an added number, name or unit, a second question, or
another added statement or instruction. A model may add words of its own, but only a few.

A judge guesses the unit of bare numbers, and may be wrong: "in feet" for 252 metres turns a right answer into a wrong
one. So for every sub-answer that is a number, the article must give the number with the added unit. A number alone in
a table cell confirms no unit; then a person has to look.
"""

import re
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher

from factmill.tasks.core.authoring.question_wording import PiecesToWordQuestionFrom
from factmill.tasks.text.sentences import split_sentences
from factmill.tasks.text.values.answer_search import (
    AnswerValue,
    find_answer_and_missing_parts,
    index_text,
    iterate_answer_primitives,
)
from factmill.tasks.text.values.value_tokens import (
    NORMALIZED_UNITS,
    UnitlessNumberValue,
    drop_stop_words,
    is_same_or_related_word,
    tokenize_values,
    tokenize_words_numbers_and_dates,
)
from factmill.tasks.text.values.wikidata_literals import PartialDate

MAX_ADDED_WORDS = 4
_FUNCTION_WORDS = frozenset({
    "how", "what", "which", "who", "whom", "whose", "when", "where", "why", "many", "much", "far", "long", "is",
    "are", "was", "were", "be", "been", "do", "does", "did", "has", "have", "had", "each", "every", "all",
    "any", "both", "this", "that", "these", "those", "them", "they", "their", "it", "its", "he", "she", "his",
    "her", "one", "among", "out", "follow", "following", "consider", "respectively", "and", "as", "than", "also",
})  # fmt: skip


def find_addition_to_parts(question: str, wording: PiecesToWordQuestionFrom) -> str | None:
    """Return what a question adds to its pieces, as a phrase; None if it adds at most a few words."""
    pieces = " ".join(
        [wording.group, wording.owner, *wording.names, wording.format_choice(), wording.asked, wording.month]
    )
    if question.count("?") > 1 + pieces.count("?"):
        return "asks more than once, expected one question"
    counts = {UnitlessNumberValue(str(wording.count)), UnitlessNumberValue(str(len(wording.names)))}
    known = {each.value for each in tokenize_values(f"{pieces} {wording.unit}")} | counts
    own = [
        (before, each)
        for tokens in map(tokenize_values, split_sentences(question))
        for before, each in zip([None, *tokens], tokens, strict=False)
        if each.value not in _FUNCTION_WORDS
        and drop_stop_words([each.value, ""]) != [""]
        and not any(is_same_or_related_word(each.value, value) for value in known)
    ]
    for before, each in own:
        if not isinstance(each.value, str) or each.value[0].isdigit():
            return f"says {each.source}, which no piece says; expected no other numbers and dates"
        if before and each.source[0].isupper():
            return f"names {each.source}, which no piece names; expected no other names"
        if before and (before.value == "in" or not (isinstance(before.value, str) or before.value in counts)):
            return f"has {before.source} {each.source}, which no piece has; expected no other units"
    if len(own) > MAX_ADDED_WORDS:
        added = ", ".join(each.source for _, each in own)
        return f"adds {added}; expected the pieces and at most {MAX_ADDED_WORDS} words of your own"
    return None


_MAX_PASSAGE_CHARACTERS = 300
_UNIT_PHRASE = re.compile(
    r"(?:\((?:in\s+)?|\b(?:in|many|much)\s+)"
    r"(?!(?:which|what|whose|the|an?|each|every|all|order|total|addition|this|that|these|those|their|its|more|of)\b)"
    r"(?P<unit>[^\W\d_][^,;:?!()]*)"
)
_NUMERIC_CELL = re.compile(r"[\d\s.,+−–-]+")
_POSSIBLE_YEARS = range(1000, 2101)


def find_added_units(question: str, rewrite: str) -> list[str]:
    """Return the units that only the rewritten question names: in metres, how many feet, (km)."""
    before, after = question.split(), rewrite.split()
    known = [each.value for each in tokenize_words_numbers_and_dates(question)]
    # the word before an addition shows whether it is a unit ("in", "many")
    additions = [
        " ".join(after[max(0, low - 1) : high])
        for kind, _, _, low, high in SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        if kind in ("insert", "replace")
    ]
    found = [
        unit
        for added in additions
        for unit in _list_added_units(added)
        if any(part.value not in known for part in tokenize_words_numbers_and_dates(unit))
    ]
    return list(dict.fromkeys(found))


def _list_added_units(added: str) -> Iterator[str]:
    named = [each["unit"].strip(" .") for each in _UNIT_PHRASE.finditer(added)]
    yield from (each for each in named if each.split()[-1][0].islower() or _names_unit(each))
    if not named and _names_unit(added):
        yield next(word for word in added.split() if _names_unit(word)).strip(".,;:?!()")


def _names_unit(text: str) -> bool:
    return any(each.value in NORMALIZED_UNITS for each in tokenize_words_numbers_and_dates(text))


def find_unit_support_problem(unit: str, evidence: Iterable[tuple[str, AnswerValue, str]]) -> str | None:
    """Return why a unit is unsupported; None if all articles support it. `evidence`: (title, sub-answer, text) each.

    Dates need no unit; nor does a possible year, provided that another number has the unit.
    """
    proven, maybe_year = False, ""
    for title, answer, text in evidence:
        if numbers := list(_list_answer_numbers_outside_dates(answer)):
            known = index_text("\n\n".join(each for each in text.split("\n\n") if not _NUMERIC_CELL.fullmatch(each)))
        for number in numbers:
            problem = f'{title} does not say "{number} {unit}"'
            if find_answer_and_missing_parts(f"{number} {unit}", known).found:
                proven = True
            elif number.isdigit() and int(number) in _POSSIBLE_YEARS:
                maybe_year = maybe_year or problem
            else:
                return problem
    return None if proven else maybe_year or f'no sub-answer is a number, which "{unit}" could stand beside'


def _list_answer_numbers_outside_dates(answer: AnswerValue) -> Iterator[str]:
    for part in iterate_answer_primitives(answer):
        values = [] if isinstance(part, bool) else [each.value for each in tokenize_words_numbers_and_dates(part)]
        if not any(isinstance(value, PartialDate) for value in values):
            yield from (value.number for value in values if isinstance(value, UnitlessNumberValue))


def find_numeric_answer_passage(answer: AnswerValue, text: str) -> str:
    """Return the sentence or cell of a text that says a numeric answer; empty if there is none, or no number."""

    def says_answer(part: str) -> bool:
        return find_answer_and_missing_parts(answer, index_text(part)).found is True

    if not any(_list_answer_numbers_outside_dates(answer)):
        return ""
    lines = (line for line in text.split("\n\n") if any(map(str.isdigit, line)))
    line = next(filter(says_answer, lines), "")
    return next(filter(says_answer, split_sentences(line)), line)[:_MAX_PASSAGE_CHARACTERS]
