"""The judge `exact`: a program, not a model, that looks for the gold answer's words and values in an answer.

It errs on both sides. It compares numbers, dates and amounts by value, names with an initial more or less, lists in any
order (text/values/answer_search.py). It misses answers that the paper's conditions (Table A.4) accept: paraphrases, vague but
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

from factmill.tasks.slaq.core.article_matching import (
    QuestionCheckWordLists,
    is_number_always_inexact_in_article,
    list_content_values_with_hedge_marks,
    list_distinct_content_values,
    normalise_article,
)
from factmill.tasks.slaq.core.evaluation.answers import SlaqPrediction
from factmill.tasks.slaq.core.evaluation.verdicts import Verdicts
from factmill.tasks.text.sentences import split_sentences
from factmill.tasks.text.text_normalization import (
    contains_whole_words,
    fold_case_accents_and_punctuation,
    normalize_answer,
)
from factmill.tasks.text.values.answer_search import IndexedText, find_answer_and_missing_parts, index_text
from factmill.tasks.text.values.value_tokens import TokenValue, is_number_or_date, is_same_or_related_word

_DENIAL_WORD = re.compile(r"not|no|never|nor|neither|without|nobody|none|nothing|instead|unlike|\w+n['’]t|cannot")
_NEGATION_PATTERN = re.compile(r"\b(?:not|never|neither|\w+n['’]t|cannot)\b(?! (?:only|just|merely))")
"""Denies the answer when it follows the answer and its verb."""
_AUXILIARY_VERB = re.compile(
    r"is|was|are|were|be|will|would|could|can|cannot|may|might|must|should|has|had|have|do|does|did|\w+n['’]t"
)
_WRONG_WORD = re.compile(
    r"wrong(?:ly)?|incorrect(?:ly)?|false(?:ly)?|untrue|mistake|mistaken(?:ly)?|inaccurate|erroneous(?:ly)?|misconception|myth|error"
)
_RIGHT_WORD = re.compile(
    r"true|right|correct|accurate|think|believe|say|sure|certain|knows?|known|case|likely|possible"
)
_DENIAL_REACH_WORDS = 3
"""Reach of a denial: the most words between it and the denied word, plus one."""
_CLAUSE_END = re.compile(r".*[,;:)][\"'”’*]*|[–—-]+")
_CLAUSE_CONJUNCTIONS = frozenset({"and", "but", "because", "although", "though", "while", "whereas", "so"})
_ALTERNATIVE_WORD = re.compile(r"or|either|than")
_DENIAL_WINDOW_WORDS = 2
"""Words before the answer, not counting small words, in which a denial concerns the answer."""
_MIN_REPEATED_WORDS = 5
"""Least words of a sentence that counts as a repetition when the question contains it."""
_MAX_SENTENCE_WORDS = 200
"""Most words of a sentence; a longer one is a heap of words that may contain any gold answer."""
_ANSWER_ITEM_NUMBER = re.compile(r"\W*([0-9]{1,2})[.):]\s+(?=\S)")
"""The number of a list item."""
_PUNCTUATION_MARKS = '.,;:!?()[]"“”*_'
_ARTICLES_AND_PREPOSITIONS = frozenset({"a", "an", "the", "in", "on", "at", "of"})


def judge_stated_facts_by_program(row: SlaqPrediction, lists: QuestionCheckWordLists) -> Verdicts:
    """Return 1 for each fact (short question and gold answer) that an answer states, else 0.

    `lists`: only the function words are used.
    """
    read = _read_answer_without_questions(row.answer_read, row.question)
    asked = [frozenset(list_distinct_content_values(question, lists)) for question in row.questions]
    own = [words - frozenset.intersection(*asked) for words in asked]
    verdicts = []
    for at, (question, gold) in enumerate(zip(row.questions, row.golds, strict=True)):
        found = _iterate_answer_sentences_stating_gold(read, question, gold)
        if len(own) > 1:
            item = at + 1 if re.search(rf"(?<![0-9]){at + 1}[.)]", row.question) else None
            both = ((each, read.sentences[each]) for each in found)
            found = (
                each
                for each, before in both
                if _may_sentence_answer_this_question(each, before, gold, at, item, own, lists)
            )
        verdicts.append(int(any(True for _ in found)))
    return tuple(verdicts)


@dataclass(frozen=True, slots=True)
class _StatingSentencesOfAnswer:
    sentences: Mapping[str, str]
    """Sentences that state something, each once → the sentence before it, of any kind."""
    folded: str
    known: IndexedText
    """All of them together, for a quick first check."""


def _read_answer_without_questions(answer: str, question: str) -> _StatingSentencesOfAnswer:
    """Return the sentences of an answer without questions, repetitions of the question and heaps of words."""
    asked, before = f" {normalize_answer(question)} ", ""
    sentences: dict[str, str] = {}
    for sentence in (each for line in answer.splitlines() for each in split_sentences(line)):
        words = len(sentence.split())
        is_repeated = words >= _MIN_REPEATED_WORDS and f" {normalize_answer(sentence)} " in asked
        if words <= _MAX_SENTENCE_WORDS and not is_repeated and not sentence.rstrip(" \"'”’)*").endswith("?"):
            sentences.setdefault(sentence, before)
        before = sentence
    text = "\n\n".join(sentences)
    return _StatingSentencesOfAnswer(sentences, fold_case_accents_and_punctuation(text), index_text(text))


def _iterate_answer_sentences_stating_gold(
    statements: _StatingSentencesOfAnswer, question: str, gold: str
) -> Iterator[str]:
    """Yield the sentences that state the gold answer."""
    if _has_gold_in_indexed_text(statements.folded, statements.known, gold):
        is_exact = any(map(is_number_or_date, list_content_values_with_hedge_marks(gold)[:1]))
        for sentence in statements.sentences:
            if not _has_gold(sentence, gold) or _is_gold_denied_or_one_of_several(sentence, question, gold):
                continue
            if not (is_exact and is_number_always_inexact_in_article(gold, normalise_article(sentence))):
                yield sentence


def _may_sentence_answer_this_question(
    sentence: str,
    before: str,
    gold: str,
    question_index: int,
    item_number: int | None,
    own_words_by_question: Sequence[Collection[TokenValue]],
    lists: QuestionCheckWordLists,
) -> bool:
    """True if a sentence or the gold answer is more than one number, or the number belongs to this question.

    `item_number`: number of the question in the long one; `own_words_by_question`: each question's words that not all questions have.
    """
    both = map(list_content_values_with_hedge_marks, (gold, sentence))
    if not any(len(values) == 1 and is_number_or_date(values[0]) for values in both):
        return True
    marker = _ANSWER_ITEM_NUMBER.match(sentence)
    body = sentence[marker.end() :] if marker else sentence
    counts = _count_own_words_by_question(body, own_words_by_question, lists)
    if counts[question_index] or marker:
        return _has_gold(body, gold) and bool(counts[question_index] or (marker and int(marker[1]) == item_number))
    ends = _has_gold(" ".join(body.split()[-len(gold.split()) :]), gold)
    others = _count_own_words_by_question(before, own_words_by_question, lists)
    return (
        ends
        and not any(counts)
        and others[question_index] > max(others[:question_index] + others[question_index + 1 :])
    )


def _count_own_words_by_question(
    text: str, own_words_by_question: Sequence[Collection[TokenValue]], lists: QuestionCheckWordLists
) -> list[int]:
    """Count, for each question, the words of a text that are among its own."""
    content = list_distinct_content_values(text, lists)
    return [
        sum(any(is_same_or_related_word(each, word) for word in words) for each in content)
        for words in own_words_by_question
    ]


def _has_gold(text: str, gold: str) -> bool:
    return _has_gold_in_indexed_text(fold_case_accents_and_punctuation(text), index_text(text), gold)


def _has_gold_in_indexed_text(folded: str, known: IndexedText, gold: str) -> bool:
    found = find_answer_and_missing_parts(gold, known).found
    # yes, none and the like have no value to compare
    return (
        contains_whole_words(folded, fold_case_accents_and_punctuation(gold).strip(" .!?")) if found is None else found
    )


def _is_gold_denied_or_one_of_several(sentence: str, question: str, gold: str) -> bool:
    """True if a sentence's clauses deny its gold answer, call it wrong, or leave it one of several.

    If the question denies ("What does it not contain?"), the answer may deny too.
    """
    words = sentence.split()
    signs = (_DENIAL_WORD, _ALTERNATIVE_WORD, _WRONG_WORD)
    if not any(sign.fullmatch(word) for word in _split_lower_unpunctuated_words(sentence) for sign in signs):
        return False
    end = _bisect_least_true(len(words), lambda at: _has_gold(" ".join(words[:at]), gold))
    start = end - _bisect_least_true(end, lambda at: _has_gold(" ".join(words[end - at : end]), gold))
    asked, own = frozenset(_split_lower_unpunctuated_words(question)), frozenset(_split_lower_unpunctuated_words(gold))
    while end < len(words) and words[end].strip(_PUNCTUATION_MARKS).lower() in own - _CLAUSE_CONJUNCTIONS:
        # find_answer_and_missing_parts stops at a number, before the noun that it counts
        end += 1
    before = _split_clauses([*words[:start], gold])[-1][:-1]
    first, *others = _split_clauses(words[end - 1 :])
    behind, following = first[1:], others[0] if others else []
    near = [word for word in before if word not in _ARTICLES_AND_PREPOSITIONS.union(own)][-_DENIAL_WINDOW_WORDS:]
    if not (behind and _AUXILIARY_VERB.fullmatch(behind[0])):
        # another verb, so the words are not about the answer: "Brooks calls the man-month a myth"
        behind = []
    is_negated = bool(_NEGATION_PATTERN.search(" ".join(behind)))
    is_denied = any(map(_DENIAL_WORD.fullmatch, near)) or is_negated
    # the following clause may be about the answer: "which is wrong", "but that is wrong", "wrong"
    is_about = len(following) == 1 or following[:1] in (["which"], ["that"], ["this"])
    is_about = is_about or following[:2] in (["but", "that"], ["but", "it"])
    is_wrong = any(_is_clause_calling_wrong(each, asked) for each in (before, behind, following if is_about else []))
    lines = [*near[-1:], *_split_lower_unpunctuated_words(" ".join(words[end : end + 1]))]
    is_open = any(map(_ALTERNATIVE_WORD.fullmatch, lines))
    return is_open or is_wrong or (is_denied and not any(map(_DENIAL_WORD.fullmatch, asked)))


def _split_clauses(words: Sequence[str]) -> list[list[str]]:
    """Split words into clauses at commas, colons, brackets, dashes and conjunctions."""
    clauses: list[list[str]] = [[]]
    for word in words:
        plain = word.strip(_PUNCTUATION_MARKS).lower()
        if clauses[-1] and (word.startswith("(") or plain in _CLAUSE_CONJUNCTIONS):
            clauses.append([])
        clauses[-1].append(plain)
        if _CLAUSE_END.fullmatch(word):
            clauses.append([])
    return [clause for clause in clauses if clause]


def _is_clause_calling_wrong(clause: Sequence[str], question_words: Collection[str]) -> bool:
    """True if a clause calls something wrong, or not right, sure or known."""
    return any(
        word not in question_words
        and (
            _RIGHT_WORD
            if any(map(_DENIAL_WORD.fullmatch, clause[max(0, at - _DENIAL_REACH_WORDS) : at]))
            else _WRONG_WORD
        ).fullmatch(word)
        for at, word in enumerate(clause)
    )


def _split_lower_unpunctuated_words(text: str) -> list[str]:
    return [word.strip(_PUNCTUATION_MARKS).lower() for word in text.split()]


def _bisect_least_true(most: int, holds: Callable[[int], bool]) -> int:
    """Return the least number up to `most` for which `holds` is true; `holds` is monotone and true for `most`."""
    return bisect_left(range(most), True, key=holds)
