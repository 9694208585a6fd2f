"""The judge `exact`: a program, no model, that looks whether an answer says the gold answer, in its words and values.

It is a lexical lower bound. Numbers, dates and amounts count by value, names with an initial more or less, lists in any
order (text/values/answers.py). The same in other words, a vague answer that is right and what is known besides do not
count, though the paper's conditions (Table A.4) have them right. On the other side a sentence does not say what it denies
("not Paris") or leaves open ("Paris or Lyon"), nor a rough number where the gold answer is exact; and none says anything
that asks, heaps up words or is the question's. In a long answer a number alone is found only beside a word of its question,
since it may belong to another fact. Of the paper's ways to be wrong it does not see one: the
gold answer with something untrue added.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from tasks.slaq.core.evaluation.answers import SlaqAnswer
from tasks.slaq.core.evaluation.verdicts import Verdicts
from tasks.slaq.core.known_text import CheckLists, is_only_rough, list_content, list_values, read_article
from tasks.text.folded import fold_text, has_words
from tasks.text.matching import normalise
from tasks.text.sentences import split_sentences
from tasks.text.values.amounts import is_number
from tasks.text.values.answers import KnownText, find_answer, read_known_text
from tasks.text.values.words import Value, is_kin

_DENIAL = re.compile(r"not|no|never|nor|neither|without|\w+n['’]t|cannot")
_OPEN = re.compile(r"or|either|than")
_BEFORE = 2
"""Words before the answer, articles and small words aside, among which a denial is of it."""
_REPEATED = 5
"""Words at least that are the question's own when they stand in it so."""
_LONGEST = 200
"""Words of a sentence; a longer one is a heap, in which any gold answer may lie."""
_SMALL = frozenset({"a", "an", "the", "in", "on", "at", "of"})


def compare_answer(row: SlaqAnswer, lists: CheckLists) -> Verdicts:
    """Return 1 for each fact, a short question and its gold answer, that an answer says, else 0.

    `lists`: for their function words.
    """
    read = _read(row.answer_read, row.question)
    asked = [frozenset(list_content(question, lists)) for question in row.questions]
    shared = frozenset.intersection(*asked)
    verdicts = []
    for question, gold, words in zip(row.questions, row.golds, asked, strict=True):
        found = _find_saying(read, question, gold)
        if len(asked) > 1:
            found = (each for each in found if _is_told_apart(each, gold, words - shared, lists))
        verdicts.append(int(any(True for _ in found)))
    return tuple(verdicts)


@dataclass(frozen=True, slots=True)
class _Read:
    sentences: tuple[str, ...]
    """Those that say something, each once."""
    folded: str
    known: KnownText
    """All of them, for a first look."""


def _read(answer: str, question: str) -> _Read:
    sentences = tuple(dict.fromkeys(_list_sentences(answer, question)))
    text = "\n\n".join(sentences)
    return _Read(sentences, fold_text(text), read_known_text(text))


def _list_sentences(answer: str, question: str) -> Iterator[str]:
    """Yield the sentences of an answer that say something: none that asks, none that is the question's."""
    asked = f" {normalise(question)} "
    for line in answer.splitlines():
        for sentence in split_sentences(line):
            words = len(sentence.split())
            is_repeated = words >= _REPEATED and f" {normalise(sentence)} " in asked
            if words <= _LONGEST and not is_repeated and not sentence.rstrip(" \"'”’)*").endswith("?"):
                yield sentence


def _find_saying(read: _Read, question: str, gold: str) -> Iterator[str]:
    """Yield the sentences that say the gold answer."""
    if _holds(read.folded, read.known, gold):
        for sentence in read.sentences:
            if (
                _has(sentence, gold)
                and not _is_doubted(sentence, question, gold)
                and not (any(map(is_number, list_values(gold)[:1])) and is_only_rough(gold, read_article(sentence)))
            ):
                yield sentence


def _is_number_alone(gold: str) -> bool:
    values = list_values(gold)
    return len(values) == 1 and is_number(values[0])


def _is_told_apart(sentence: str, gold: str, words: Collection[Value], lists: CheckLists) -> bool:
    """True where a sentence says more than a number, or says one of the words that belong to the question."""
    if not (_is_number_alone(gold) or _is_number_alone(sentence)):
        return True
    return any(is_kin(each, word) for each in list_content(sentence, lists) for word in words)


def _has(text: str, gold: str) -> bool:
    return _holds(fold_text(text), read_known_text(text), gold)


def _holds(folded: str, known: KnownText, gold: str) -> bool:
    found = find_answer(gold, known).found
    # yes, none and the like are no values
    return has_words(folded, fold_text(gold).strip(" .!?")) if found is None else found


def _is_doubted(sentence: str, question: str, gold: str) -> bool:
    """True where the answer that a sentence holds is denied, or one of several: judged by the words next to it.

    Where the question denies ("What does it not contain?"), so may its answer.
    """
    words = sentence.split()
    if not any(_DENIAL.fullmatch(word) or _OPEN.fullmatch(word) for word in _list_words(sentence)):
        return False
    end = _find_first(len(words), lambda at: _has(" ".join(words[:at]), gold))
    start = end - _find_first(end, lambda at: _has(" ".join(words[end - at : end]), gold))
    passed = _SMALL.union(_list_words(gold))
    before = [word for word in _list_words(" ".join(words[:start])) if word not in passed][-_BEFORE:]
    after = _list_words(" ".join(words[end : end + 1]))
    is_denied = any(map(_DENIAL.fullmatch, before)) and not any(map(_DENIAL.fullmatch, _list_words(question)))
    return is_denied or any(map(_OPEN.fullmatch, [*before[-1:], *after]))


def _list_words(text: str) -> list[str]:
    return [word.strip('.,;:!?()[]"“”*_').lower() for word in text.split()]


def _find_first(most: int, holds: Callable[[int], bool]) -> int:
    """Return the least number for which something holds that holds for all greater ones, and for `most`."""
    return bisect_left(range(most), True, key=holds)
