"""Program checks of five question-answer pairs and a long pair (SLAQ, Appendix A.1), each with its own code.

| code | what is wrong |
|---|---|
| same_question, same_fact | a question repeats an earlier one; in other words, with the same answer |
| answer_too_long | ten words or more |
| source_phrase | words refer to the article as a text |
| answer_not_in_article | no sentence of the article contains the answer (numbers and dates by value) |
| approximation_lost | the article qualifies the number (about, more than, …), the answer does not |
| several_answers | the article has a second right answer (`find_other_answer`) |
| subject_missing | the question names neither the topic nor any name or term of the article |
| one_of_many | the question asks for any one of several |
| no_question_mark, not_self_contained | no question mark; a pronoun without antecedent |
| long_question_lacks, long_answer_lacks | one of the five is not covered |
| long_answer_adds | a number or name that is in none of the five |
| long_answer_repeats | every sentence names the subject |

Checks prefer false alarms, since a second attempt is cheap. They pass what only a reader can judge: the second model's
check and the review queue follow.

`several_answers` covers two cases: the sentence that the question is about joins the answer to another name, or the
question leaves open which of several numbered things it means (the English edition, of a first and a second).
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from factmill.tasks.slaq.core.known_text import (
    ROUGHLY,
    CheckLists,
    KnownText,
    bare_title,
    is_in_article,
    is_only_rough,
    list_content,
    list_said,
    list_values,
    read_article,
    tell,
)
from factmill.tasks.slaq.core.replies import Generated, Pair
from factmill.tasks.text.matching import fold_text, has_words, normalise
from factmill.tasks.text.sentences import split_sentences
from factmill.tasks.text.values.literals import Date
from factmill.tasks.text.values.words import (
    Count,
    DayOfYear,
    Value,
    find_capitals,
    has_sequence,
    is_kin,
    is_year,
    says,
)

_WORD = r"[^\W\d_a-zß-öø-ÿ][\w’'.-]*"
_NAME = rf"{_WORD}(?: (?:(?:al|de|der|di|du|la|van|von) )?{_WORD})*"
_ORDINAL = re.compile(r"[0-9]+(?:st|nd|rd|th)")
_LONGEST_PHRASE = 3
_BETWEEN = 1
"""Words allowed between an ordinal and the noun it numbers: the first complete translation."""


def find_other_answer(question: str, answer: str, article: KnownText, lists: CheckLists) -> str | None:
    """Return a sentence for the question's author about a second possible answer; None if none is found."""
    if re.fullmatch(_NAME, answer):
        # the name that "and" or "or" joins to the answer, in the sentence that shares most words with the question
        asked, folded, name = list_content(question, lists), fold_text(question), re.escape(answer)
        best, most = "", -1
        for sentence in article.written:
            if re.search(rf"\b{name}\b", sentence):
                said = list_content(sentence, lists)
                shared = sum(any(is_kin(each, value) for each in said) for value in asked)
                best, most = (sentence, shared) if shared > most else (best, most)
        joined = re.findall(rf"\b{name},? (?:and|or) ({_NAME})", best)
        for other in (*joined, *re.findall(rf"({_NAME}),? (?:and|or) {name}\b", best)):
            if not any(has_words(folded, fold_text(word)) for word in other.split()):
                return f"the article names {answer!r} together with {other!r}; ask for something that has one answer"
    if any(not isinstance(value, str) or _ORDINAL.fullmatch(value) for value in list_values(question)):
        return None
    for phrase in _list_phrases(question, lists):
        numbers = {ordinal for sentence in article.sentences for ordinal in _find_ordinals(sentence, phrase)}
        if len(numbers) > 1:
            return f"the article tells of a first and a second {' '.join(phrase)!r}; say in {question!r} which one is meant"
    return None


def _list_phrases(question: str, lists: CheckLists) -> Iterator[tuple[str, ...]]:
    """Yield the words after each "the", up to the next function word, if the last one is a singular common noun.

    Of "the English edition" also yields "English": a first English translation and a second English version are two.
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


ANSWER_WORDS_BELOW = 10
"""Every answer has fewer words than this (Appendix A.1)."""
_SHARED_AT_LEAST = 0.5
"""Least share of content words for two questions of one answer to ask the same, or a long question to cover a short."""

_SENTENCES_THAT_REPEAT = 3
"""A long answer of fewer sentences may name its subject in each."""
_QUOTED = re.compile(r"[\"“«„]([^\"“”«»„]+)[\"”»“]")
_PRONOUNS = frozenset(
    {"he", "him", "himself", "herself", "it", "itself", "she", "them", "themselves", "these", "they", "this", "those"}
)
_POSSESSIVES = frozenset({"her", "his", "its", "their"})
_BEFORE_NOUNS = frozenset(
    {
        *("a", "am", "an", "are", "can", "could", "did", "do", "does", "had", "has", "have", "is", "may", "might"),
        *("must", "shall", "should", "the", "was", "were", "will", "would"),
    }
)
"""Articles and auxiliaries."""
_VAGUE = frozenset(
    {"best", "early", "great", "large", "late", "later", "main", "new", "old", "original", "present", "whole"}
)
"""Adjectives with which a noun is not a term: the main study."""
_EMPTY_IT = re.compile(
    r"\bit (?:costs?|hails?|means?|rains?|snows?|takes?|took|taken)\b"
    r"|\b(?:is|was) it (?:\w+ )?\w+ (?:for|that|to|when)\b|\bit is \w+ (?:for|that|to)\b",
    re.IGNORECASE,
)
"""An "it" that refers to nothing: how long does it take to …, why is it important that …"""
_NOT_NAMES = frozenset(
    {
        *("january", "february", "march", "april", "may", "june", "july", "august", "september", "october"),
        *("november", "december", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    }
)


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault that a check found."""

    code: str
    which: int
    """Number of the pair, 1 to 5; 0 for the long question and answer."""
    sentence: str
    """What is wrong, for the model's second attempt and for people."""


def check_all(generated: Generated, topic: str, article_text: str, lists: CheckLists) -> list[Problem]:
    """Run every check; return the problems pair by pair, then those of the long pair (spec, step 4)."""
    article = read_article(article_text)
    problems: list[Problem] = []
    for which, pair in enumerate(generated.short, 1):
        problems += (replace(each, which=which) for each in check_question(pair.question, topic, article, lists))
        problems += (replace(each, which=which) for each in check_answer(pair.answer, article, lists))
        if other := find_other_answer(pair.question, pair.answer, article, lists):
            problems.append(Problem("several_answers", which, other))
    problems += check_distinct(generated.short, lists)
    problems += check_long_question(generated, topic, lists)
    problems += check_long_answer(generated, topic, article, lists)
    return problems


def mend_pairs(first: Generated, faulty: Collection[int], second: Generated) -> Generated:
    """Return the second reply with the first one's pairs in place of all but the `faulty` ones (numbered from 1)."""
    pairs = [
        new if which in faulty else old
        for which, (old, new) in enumerate(zip(first.short, second.short, strict=True), 1)
    ]
    return replace(second, short=tuple(pairs))  # type: ignore[arg-type]


def format_problems(problems: Sequence[Problem]) -> str:
    """Format problems as one clause that a model can act on (Unreadable.correction); "" for none."""
    return "; ".join(
        f"{f'pair {problem.which}' if problem.which else 'long'}: {problem.sentence}" for problem in problems
    )


def check_question(question: str, topic: str, article: KnownText, lists: CheckLists) -> Iterator[Problem]:
    """Yield the problems of one short question by itself, with `which` 0."""
    folded = fold_text(question)
    if not question.rstrip().endswith("?"):
        yield Problem("no_question_mark", 0, f"the question {question!r} does not end with a question mark")
    yield from _check_phrases(question, "question", lists)
    for phrase in lists.one_of_many:
        opening = phrase.removeprefix("^")
        if f"{folded} ".startswith(f"{opening} ") or (opening == phrase and has_words(folded, phrase)):
            yield Problem(
                "one_of_many", 0, f"the question says {opening!r}; ask for something that has one answer and no other"
            )
            break
    if not names_subject(question, topic, article, lists):
        yield Problem(
            "subject_missing",
            0,
            f"the question {question!r} names neither {bare_title(topic)!r} nor another name or term that the article has",
        )
    if pronoun := find_loose_pronoun(question, topic, article, lists):
        yield Problem(
            "not_self_contained", 0, f"{pronoun!r} in {question!r} stands for something that is not named before it"
        )


def check_answer(answer: str, article: KnownText, lists: CheckLists) -> Iterator[Problem]:
    """Yield the problems of one short answer by itself, with `which` 0."""
    words = len(answer.split())
    if words >= ANSWER_WORDS_BELOW:
        yield Problem("answer_too_long", 0, f"the answer has {words} words; expected fewer than {ANSWER_WORDS_BELOW}")
    yield from _check_phrases(answer, "answer", lists)
    if not is_in_article(answer, article):
        yield Problem(
            "answer_not_in_article",
            0,
            f"the answer {answer!r} does not stand in the article; use the article's own words",
        )
    elif is_only_rough(answer, article):
        yield Problem(
            "approximation_lost",
            0,
            f"the article says {answer!r} with a word like about, roughly or more than before it; keep that word",
        )


def names_subject(question: str, topic: str, article: KnownText, lists: CheckLists) -> bool:
    """True if a question contains the topic, or a name, term or quotation from the article.

    A term is two content words after an article or auxiliary that also follow each other in the article (the
    achromatic lens).
    """
    if _has_title(list_values(question), topic):
        return True
    if any(has_words(article.folded, fold_text(quoted).strip(" .,")) for quoted in _QUOTED.findall(question)):
        return True
    told = tell(question)
    for opens, _, value in find_capitals(told):
        names = article.inner_capitals - article.small if opens else article.capitals
        if value in names and value not in lists.function_words and value not in _NOT_NAMES:
            return True
    values = [part.value for part in told]
    for at, before in enumerate(values[:-2]):
        term = values[at + 1 : at + 3] if before in _BEFORE_NOUNS else []
        is_term = bool(term) and all(
            isinstance(word, str) and word.isalpha() and word not in lists.function_words for word in term
        )
        is_there = is_term and any(has_sequence(sentence, term) for sentence in article.sentences)
        if is_there and not _VAGUE.intersection(term):
            return True
    return False


def find_loose_pronoun(question: str, topic: str, article: KnownText, lists: CheckLists) -> str | None:
    """Return the first pronoun without a possible antecedent before it; None if there is none.

    An antecedent is a name, quoted words, or a noun after an article or auxiliary ("does light … when it").
    A possessive may come before its name ("In his Elements, what did Euclid …").
    """
    empty = {found.start() + found[0].lower().find("it") for found in _EMPTY_IT.finditer(question)}
    for found in re.finditer(r"[^\W_]+(?:['’][^\W_]+)?", question):
        word, before = found[0].lower(), question[: found.start()]
        # a capital inside a question marks part of a name: Who wrote It?
        if word not in _PRONOUNS | _POSSESSIVES or found.start() in empty or (before and found[0][0].isupper()):
            continue
        words = re.findall(r"[^\W_]+", fold_text(before))
        has_noun = any(one in _BEFORE_NOUNS and other not in lists.function_words for one, other in pairwise(words))
        if not has_noun and not names_subject(question if word in _POSSESSIVES else before, topic, article, lists):
            return word
    return None


def check_distinct(pairs: Sequence[Pair], lists: CheckLists) -> Iterator[Problem]:
    """Yield questions that repeat an earlier one, literally or in other words with the same answer."""
    for which, pair in enumerate(pairs, 1):
        for earlier, other in enumerate(pairs[: which - 1], 1):
            if normalise(pair.question) == normalise(other.question):
                yield Problem("same_question", which, f"the question is the same as question {earlier}")
                break
            if list_values(pair.answer) != list_values(other.answer):
                continue
            one, second = (set(list_content(each.question, lists)) for each in (pair, other))
            if len(one & second) >= _SHARED_AT_LEAST * len(one | second):
                yield Problem("same_fact", which, f"question and answer ask for the same fact as pair {earlier}")
                break


def check_long_question(generated: Generated, topic: str, lists: CheckLists) -> Iterator[Problem]:
    """Yield the short questions that the long one does not cover, by number with words after it or by content."""
    long = generated.long_question
    yield from _check_phrases(long, "long question", lists)
    asked = list_said(long)
    known = set(list_said(bare_title(topic)))
    for which, pair in enumerate(generated.short, 1):
        if re.search(rf"\({which}\)[^()]*?[^\W\d_]{{2}}", long):
            continue
        content = list_content(pair.question, lists)
        content = [value for value in content if value not in known] or content
        covered = [value for value in content if any(is_kin(found, value) for found in asked)]
        if len(covered) < len(content) * _SHARED_AT_LEAST or not content:
            yield Problem(
                "long_question_lacks", which, f"the long question does not ask {pair.question!r}; list it as ({which})"
            )


def check_long_answer(generated: Generated, topic: str, article: KnownText, lists: CheckLists) -> Iterator[Problem]:
    """Yield the short answers that the long one lacks, and the numbers and names that it adds to the five pairs."""
    long = generated.long_answer
    yield from _check_phrases(long, "long answer", lists)
    sentences = [list_values(sentence) for sentence in split_sentences(long)]
    if len(sentences) >= _SENTENCES_THAT_REPEAT and all(_has_title(values, topic) for values in sentences):
        yield Problem(
            "long_answer_repeats",
            0,
            f"each sentence of the long answer names {bare_title(topic)!r} anew; write one flowing paragraph",
        )
    told, values = list_said(long), list_values(long)
    for which, pair in enumerate(generated.short, 1):
        wanted, exact = list_content(pair.answer, lists) or list_said(pair.answer), list_values(pair.answer)
        is_there = has_words(fold_text(long), fold_text(pair.answer).strip(" .!?"))
        is_there = is_there or bool(wanted and all(any(is_kin(found, value) for found in told) for value in wanted))
        # numbers that an answer calls approximate must be approximate in the long answer too
        rough = [exact[at : at + 2] for at, value in enumerate(exact[:-1]) if value == ROUGHLY]
        if not is_there or not all(has_sequence(values, each) for each in rough):
            yield Problem("long_answer_lacks", which, f"the long answer does not hold the answer {pair.answer!r}")
    texts = [topic, *(text for pair in generated.short for text in (pair.question, pair.answer))]
    known = [part.value for text in texts for part in tell(text)]
    added = dict.fromkeys([*_find_added_numbers(long, known), *_find_added_names(long, known, article, lists)])
    for said in added:
        yield Problem(
            "long_answer_adds", 0, f"the long answer says {said!r}, which is in none of the five questions and answers"
        )


def _find_added_numbers(text: str, known: Sequence[Value]) -> Iterator[str]:
    for said, value in tell(text):
        # in running text "one" and "first" are rarely numbers; 10^5 and 5th are
        is_number = any(map(str.isdigit, said)) or (not isinstance(value, str) and said.lower() != "one")
        if is_number and not any(says(found, value) for found in known) and not _is_put_together(value, known):
            yield said


def _is_put_together(value: Value, known: Sequence[Value]) -> bool:
    """True if known values add up to a date: 8 March and 1917; or 264, if its era is given with another year."""
    if not isinstance(value, Date):
        return False
    if not any(isinstance(found, Count) and says(value, found) for found in known):
        return False
    return is_year(value) or any(isinstance(found, DayOfYear) and says(value, found) for found in known)


def _find_added_names(text: str, known: Sequence[Value], article: KnownText, lists: CheckLists) -> Iterator[str]:
    """Yield new capitalised words; a sentence's first word counts if the article uses it as a name."""
    for sentence in split_sentences(text):
        for opens, word, value in find_capitals(tell(sentence)):
            if opens and (value not in article.inner_capitals or value in article.small):
                continue
            if (
                isinstance(value, str)
                and value not in lists.function_words
                and not any(is_kin(each, value) for each in known)
            ):
                yield word


def _check_phrases(text: str, name: str, lists: CheckLists) -> Iterator[Problem]:
    folded = fold_text(text)
    if phrase := next((phrase for phrase in lists.source_phrases if has_words(folded, phrase)), None):
        yield Problem("source_phrase", 0, f"the {name} points at its source by {phrase!r}; leave that out")


def _has_title(values: Sequence[Value], topic: str) -> bool:
    return has_sequence(values, list_values(bare_title(topic)))
