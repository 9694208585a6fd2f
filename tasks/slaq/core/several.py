"""Whether a question has a second right answer in its article (SLAQ, Appendix A.1: one fact, one answer).

A program can tell two cases: the answer is one of two names that the article joins where it says what is asked, and the
question leaves open which of several numbered things it means (the English edition, where there are a first and a second).
"""

import re
from collections.abc import Iterator, Sequence

from tasks.slaq.core.known_text import CheckLists, KnownText, list_content, list_values, tell
from tasks.text.folded import fold_text, has_words
from tasks.text.values.words import Value, is_kin

_WORD = r"[^\W\d_a-zß-öø-ÿ][\w’'.-]*"
_NAME = rf"{_WORD}(?: (?:(?:al|de|der|di|du|la|van|von) )?{_WORD})*"
_ORDINAL = re.compile(r"[0-9]+(?:st|nd|rd|th)")
_LONGEST_PHRASE = 3
_BETWEEN = 1
"""So many words may stand between an ordinal and what it numbers: the first complete translation."""


def find_other_answer(question: str, answer: str, article: KnownText, lists: CheckLists) -> str | None:
    """Return in a sentence for whom wrote the question what else could be answered; None where nothing is seen."""
    if other := _find_joined_name(question, answer, article, lists):
        return f"the article names {answer!r} together with {other!r}; ask for something that has one answer"
    if phrase := _find_numbered(question, article, lists):
        return f"the article tells of a first and a second {phrase!r}; say in {question!r} which one is meant"
    return None


def _find_joined_name(question: str, answer: str, article: KnownText, lists: CheckLists) -> str | None:
    """Return the name that "and" or "or" joins to the answer in the sentence that says most of what is asked."""
    if not re.fullmatch(_NAME, answer):
        return None
    holding = [sentence for sentence in article.written if re.search(rf"\b{re.escape(answer)}\b", sentence)]
    asked = list_content(question, lists)
    best = max(holding, key=lambda sentence: _count_shared(asked, list_content(sentence, lists)), default="")
    joined = [
        *re.findall(rf"\b{re.escape(answer)},? (?:and|or) ({_NAME})", best),
        *re.findall(rf"({_NAME}),? (?:and|or) {re.escape(answer)}\b", best),
    ]
    folded = fold_text(question)
    return next((name for name in joined if not any(has_words(folded, fold_text(word)) for word in name.split())), None)


def _count_shared(asked: Sequence[Value], said: Sequence[Value]) -> int:
    return sum(any(is_kin(each, value) for each in said) for value in asked)


def _find_numbered(question: str, article: KnownText, lists: CheckLists) -> str | None:
    """Return the phrase behind "the" of which the article numbers several, where the question has no number at all."""
    values = list_values(question)
    if any(not isinstance(value, str) or _ORDINAL.fullmatch(value) for value in values):
        return None
    for phrase in _list_phrases(question, lists):
        if len({ordinal for sentence in article.sentences for ordinal in _find_ordinals(sentence, phrase)}) > 1:
            return " ".join(phrase)
    return None


def _list_phrases(question: str, lists: CheckLists) -> Iterator[tuple[str, ...]]:
    """Yield the words behind each "the" up to the next function word, where the last is a noun for one thing, no name.

    Of "the English edition" also the adjective alone: a first English translation and a second English version are two.
    """
    words = tell(question)
    for at, word in enumerate(words):
        phrase: list[str] = []
        first = last = ""
        for said, value in words[at + 1 : at + 1 + _LONGEST_PHRASE] if word.value == "the" else ():
            if not isinstance(value, str) or value in lists.function_words:
                break
            phrase.append(value)
            first, last = first or said, said
        if last.islower() and last == phrase[-1]:
            yield tuple(phrase)
            if first[0].isupper():
                yield (phrase[0],)


def _find_ordinals(sentence: Sequence[Value], phrase: Sequence[str]) -> Iterator[str]:
    for at in range(len(sentence) - len(phrase) + 1):
        if list(sentence[at : at + len(phrase)]) == list(phrase):
            before = sentence[max(0, at - 1 - _BETWEEN) : at]
            yield from (value for value in before if isinstance(value, str) and _ORDINAL.fullmatch(value))
