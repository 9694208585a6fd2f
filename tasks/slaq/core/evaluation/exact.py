"""The judge `exact`: a program, not a model, that looks for the gold answer's words and values in an answer.

It errs on both sides. It compares numbers, dates and amounts by value, names with an initial more or less, lists in any
order (text/values/answers.py). It misses answers that the paper's conditions (Table A.4) accept: paraphrases, vague but
right answers, and answers by general knowledge. A sentence does not count if it denies the gold answer ("not Paris",
"Paris would be wrong", "I do not think it is Paris"), leaves it open ("Paris or Lyon") or gives a rough number for an
exact one. Questions, heaps of words and repetitions of the question never count. It wrongly accepts a gold answer with
something untrue added, and one that a sentence reports of others or of another time ("some say Paris").

In a long answer a number may belong to another fact. So a sentence whose only value is a number counts in three cases:
it has a word of the fact's question; it is the list item of that fact; or it ends with the number, has no word of any
question, and the sentence before it shares most words with this question ("How long is it? 2,850.").
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from factmill.tasks.slaq.core.evaluation.answers import SlaqAnswer
from factmill.tasks.slaq.core.evaluation.verdicts import Verdicts
from factmill.tasks.slaq.core.known_text import CheckLists, is_only_rough, list_content, list_values, read_article
from factmill.tasks.text.matching import fold_text, has_words, normalise
from factmill.tasks.text.sentences import split_sentences
from factmill.tasks.text.values.answers import KnownText, find_answer, read_known_text
from factmill.tasks.text.values.words import Value, is_kin, is_number

_DENIAL = re.compile(r"not|no|never|nor|neither|without|nobody|none|nothing|instead|unlike|\w+n['’]t|cannot")
_NEGATED = re.compile(r"\b(?:not|never|neither|\w+n['’]t|cannot)\b(?! (?:only|just|merely))")
"""Denies the answer when it follows the answer and its verb."""
_VERB = re.compile(
    r"is|was|are|were|be|will|would|could|can|cannot|may|might|must|should|has|had|have|do|does|did|\w+n['’]t"
)
_WRONG = re.compile(
    r"wrong(?:ly)?|incorrect(?:ly)?|false(?:ly)?|untrue|mistake|mistaken(?:ly)?|inaccurate|erroneous(?:ly)?|misconception|myth|error"
)
_RIGHT = re.compile(r"true|right|correct|accurate|think|believe|say|sure|certain|knows?|known|case|likely|possible")
_FAR = 3
"""Reach of a denial: the most words between it and the denied word, plus one."""
_CLAUSE_END = re.compile(r".*[,;:)][\"'”’*]*|[–—-]+")
_JOINS = frozenset({"and", "but", "because", "although", "though", "while", "whereas", "so"})
_OPEN = re.compile(r"or|either|than")
_BEFORE = 2
"""Words before the answer, not counting small words, in which a denial concerns the answer."""
_REPEATED = 5
"""Least words of a sentence that counts as a repetition when the question contains it."""
_LONGEST = 200
"""Most words of a sentence; a longer one is a heap of words that may contain any gold answer."""
_ITEM = re.compile(r"\W*([0-9]{1,2})[.):]\s+(?=\S)")
"""The number of a list item."""
_MARKS = '.,;:!?()[]"“”*_'
_SMALL = frozenset({"a", "an", "the", "in", "on", "at", "of"})


def compare_answer(row: SlaqAnswer, lists: CheckLists) -> Verdicts:
    """Return 1 for each fact (short question and gold answer) that an answer states, else 0.

    `lists`: only the function words are used.
    """
    read = _read(row.answer_read, row.question)
    asked = [frozenset(list_content(question, lists)) for question in row.questions]
    own = [words - frozenset.intersection(*asked) for words in asked]
    verdicts = []
    for at, (question, gold) in enumerate(zip(row.questions, row.golds, strict=True)):
        found = _find_saying(read, question, gold)
        if len(own) > 1:
            item = at + 1 if re.search(rf"(?<![0-9]){at + 1}[.)]", row.question) else None
            found = (each for each in found if _is_told_apart(each, read.sentences[each], gold, at, item, own, lists))
        verdicts.append(int(any(True for _ in found)))
    return tuple(verdicts)


@dataclass(frozen=True, slots=True)
class _Read:
    sentences: Mapping[str, str]
    """Sentences that state something, each once → the sentence before it, of any kind."""
    folded: str
    known: KnownText
    """All of them together, for a quick first check."""


def _read(answer: str, question: str) -> _Read:
    """Return the sentences of an answer without questions, repetitions of the question and heaps of words."""
    asked, before = f" {normalise(question)} ", ""
    sentences: dict[str, str] = {}
    for sentence in (each for line in answer.splitlines() for each in split_sentences(line)):
        words = len(sentence.split())
        is_repeated = words >= _REPEATED and f" {normalise(sentence)} " in asked
        if words <= _LONGEST and not is_repeated and not sentence.rstrip(" \"'”’)*").endswith("?"):
            sentences.setdefault(sentence, before)
        before = sentence
    text = "\n\n".join(sentences)
    return _Read(sentences, fold_text(text), read_known_text(text))


def _find_saying(read: _Read, question: str, gold: str) -> Iterator[str]:
    """Yield the sentences that state the gold answer."""
    if _holds(read.folded, read.known, gold):
        for sentence in read.sentences:
            if (
                _has(sentence, gold)
                and not _is_doubted(sentence, question, gold)
                and not (any(map(is_number, list_values(gold)[:1])) and is_only_rough(gold, read_article(sentence)))
            ):
                yield sentence


def _is_told_apart(
    sentence: str,
    before: str,
    gold: str,
    at: int,
    item: int | None,
    own: Sequence[Collection[Value]],
    lists: CheckLists,
) -> bool:
    """True if a sentence or the gold answer is more than one number, or the number belongs to question `at`.

    `item`: number of that question in the long one; `own`: each question's words that not all questions have.
    """
    if not any(len(values) == 1 and is_number(values[0]) for values in (list_values(gold), list_values(sentence))):
        return True
    marker = _ITEM.match(sentence)
    body = sentence[marker.end() :] if marker else sentence
    counts = _count_words(body, own, lists)
    if counts[at] or marker:
        return _has(body, gold) and bool(counts[at] or (marker and int(marker[1]) == item))
    ends = _has(" ".join(body.split()[-len(gold.split()) :]), gold)
    others = _count_words(before, own, lists)
    return ends and not any(counts) and others[at] > max(others[:at] + others[at + 1 :])


def _count_words(text: str, own: Sequence[Collection[Value]], lists: CheckLists) -> list[int]:
    """Count, for each question, the words of a text that are among its own."""
    content = list_content(text, lists)
    return [sum(any(is_kin(each, word) for word in words) for each in content) for words in own]


def _has(text: str, gold: str) -> bool:
    return _holds(fold_text(text), read_known_text(text), gold)


def _holds(folded: str, known: KnownText, gold: str) -> bool:
    found = find_answer(gold, known).found
    # yes, none and the like have no value to compare
    return has_words(folded, fold_text(gold).strip(" .!?")) if found is None else found


def _is_doubted(sentence: str, question: str, gold: str) -> bool:
    """True if a sentence's clauses deny its gold answer, call it wrong, or leave it one of several.

    If the question denies ("What does it not contain?"), the answer may deny too.
    """
    words = sentence.split()
    signs = (_DENIAL, _OPEN, _WRONG)
    if not any(sign.fullmatch(word) for word in _list_words(sentence) for sign in signs):
        return False
    end = _find_first(len(words), lambda at: _has(" ".join(words[:at]), gold))
    start = end - _find_first(end, lambda at: _has(" ".join(words[end - at : end]), gold))
    asked, own = frozenset(_list_words(question)), frozenset(_list_words(gold))
    while end < len(words) and words[end].strip(_MARKS).lower() in own - _JOINS:
        # find_answer stops at a number, before the noun that it counts
        end += 1
    before = _split_clauses([*words[:start], gold])[-1][:-1]
    first, *others = _split_clauses(words[end - 1 :])
    behind, following = first[1:], others[0] if others else []
    near = [word for word in before if word not in _SMALL.union(own)][-_BEFORE:]
    if not (behind and _VERB.fullmatch(behind[0])):
        # another verb, so the words are not about the answer: "Brooks calls the man-month a myth"
        behind = []
    is_negated = bool(_NEGATED.search(" ".join(behind)))
    is_denied = any(map(_DENIAL.fullmatch, near)) or is_negated
    # the following clause may be about the answer: "which is wrong", "but that is wrong", "wrong"
    is_about = len(following) == 1 or following[:1] in (["which"], ["that"], ["this"])
    is_about = is_about or following[:2] in (["but", "that"], ["but", "it"])
    is_wrong = any(_calls_wrong(each, asked) for each in (before, behind, following if is_about else []))
    is_open = any(map(_OPEN.fullmatch, [*near[-1:], *_list_words(" ".join(words[end : end + 1]))]))
    return is_open or is_wrong or (is_denied and not any(map(_DENIAL.fullmatch, asked)))


def _split_clauses(words: Sequence[str]) -> list[list[str]]:
    """Split words into clauses at commas, colons, brackets, dashes and conjunctions."""
    clauses: list[list[str]] = [[]]
    for word in words:
        plain = word.strip(_MARKS).lower()
        if clauses[-1] and (word.startswith("(") or plain in _JOINS):
            clauses.append([])
        clauses[-1].append(plain)
        if _CLAUSE_END.fullmatch(word):
            clauses.append([])
    return [clause for clause in clauses if clause]


def _calls_wrong(clause: Sequence[str], asked: Collection[str]) -> bool:
    """True if a clause calls something wrong, or not right, sure or known."""
    return any(
        word not in asked
        and (_RIGHT if any(map(_DENIAL.fullmatch, clause[max(0, at - _FAR) : at])) else _WRONG).fullmatch(word)
        for at, word in enumerate(clause)
    )


def _list_words(text: str) -> list[str]:
    return [word.strip(_MARKS).lower() for word in text.split()]


def _find_first(most: int, holds: Callable[[int], bool]) -> int:
    """Return the least number up to `most` for which `holds` is true; `holds` is monotone and true for `most`."""
    return bisect_left(range(most), True, key=holds)
