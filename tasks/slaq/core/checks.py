"""Program checks of five question-answer pairs and a long pair (SLAQ, Appendix A.1), each with its own code.

| code | what is wrong |
|---|---|
| same_question, same_fact | a question repeats an earlier one; in other words, with the same answer |
| answer_too_long | ten words or more |
| source_phrase | words refer to the article as a text |
| answer_not_in_article | no sentence of the article contains the answer (numbers and dates by value) |
| approximation_lost | the article qualifies the number (about, more than, …), the answer does not |
| several_answers | the article has a second right answer (`find_second_possible_answer_problem`) |
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
from itertools import chain, pairwise

from factmill.tasks.slaq.core.article_matching import (
    APPROXIMATION_MARK,
    NormalisedArticle,
    QuestionCheckWordLists,
    is_answer_in_article,
    is_number_always_inexact_in_article,
    list_content_values_with_hedge_marks,
    list_distinct_content_values,
    list_word_and_number_values,
    normalise_article,
    strip_title_qualifier,
    tokenize_words_with_values,
)
from factmill.tasks.slaq.core.pair_replies import GeneratedQuestionAnswerPairs, ShortQuestionAnswerPair
from factmill.tasks.text.sentences import split_sentences
from factmill.tasks.text.text_normalization import (
    contains_whole_words,
    fold_case_accents_and_punctuation,
    normalize_answer,
)
from factmill.tasks.text.values.value_tokens import (
    DayWithoutYear,
    TokenValue,
    UnitlessNumberValue,
    contains_value_sequence,
    is_same_or_related_word,
    is_year_only_date,
    iterate_capitalized_words_with_values,
    states_wanted_value,
)
from factmill.tasks.text.values.wikidata_literals import PartialDate

_CAPITALISED_WORD = r"[^\W\d_a-zß-öø-ÿ][\w’'.-]*"
_PROPER_NAME = rf"{_CAPITALISED_WORD}(?: (?:(?:al|de|der|di|du|la|van|von) )?{_CAPITALISED_WORD})*"
_ORDINAL = re.compile(r"[0-9]+(?:st|nd|rd|th)")
_MAX_PHRASE_WORDS = 3
_MAX_WORDS_AFTER_ORDINAL = 1
"""Words allowed between an ordinal and the noun it numbers: the first complete translation."""


def find_second_possible_answer_problem(
    question: str, answer: str, article: NormalisedArticle, lists: QuestionCheckWordLists
) -> str | None:
    """Return a sentence for the question's author about a second possible answer; None if none is found."""
    if re.fullmatch(_PROPER_NAME, answer):
        # the name that "and" or "or" joins to the answer, in the sentence that shares most words with the question
        asked, folded, name = (
            list_distinct_content_values(question, lists),
            fold_case_accents_and_punctuation(question),
            re.escape(answer),
        )
        best, most = "", -1
        for sentence in article.sentence_texts:
            if re.search(rf"\b{name}\b", sentence):
                sentence_values = list_distinct_content_values(sentence, lists)
                shared = sum(any(is_same_or_related_word(each, value) for each in sentence_values) for value in asked)
                best, most = (sentence, shared) if shared > most else (best, most)
        joined = re.findall(rf"\b{name},? (?:and|or) ({_PROPER_NAME})", best)
        for other in (*joined, *re.findall(rf"({_PROPER_NAME}),? (?:and|or) {name}\b", best)):
            if not any(contains_whole_words(folded, fold_case_accents_and_punctuation(word)) for word in other.split()):
                return f"the article names {answer!r} together with {other!r}; ask for something that has one answer"
    if any(
        not isinstance(value, str) or _ORDINAL.fullmatch(value)
        for value in list_content_values_with_hedge_marks(question)
    ):
        return None
    for phrase in _iterate_definite_noun_phrases(question, lists):
        found = (_iterate_ordinals_before_phrase(sentence, phrase) for sentence in article.sentence_values)
        if len(set(chain.from_iterable(found))) > 1:
            return f"the article tells of a first and a second {' '.join(phrase)!r}; say in {question!r} which one is meant"
    return None


def _iterate_definite_noun_phrases(question: str, lists: QuestionCheckWordLists) -> Iterator[tuple[str, ...]]:
    """Yield the words after each "the", up to the next function word, if the last one is a singular common noun.

    Of "the English edition" also yields "English": a first English translation and a second English version are two.
    """
    words = tokenize_words_with_values(question)
    for at, word in enumerate(words):
        phrase: list[str] = []
        first = last = ""
        for source, value in words[at + 1 : at + 1 + _MAX_PHRASE_WORDS] if word.value == "the" else ():
            if not isinstance(value, str) or value in lists.function_words:
                break
            phrase.append(value)
            first, last = first or source, source
        if last.islower() and last == phrase[-1]:
            yield tuple(phrase)
            if first[0].isupper():
                yield (phrase[0],)


def _iterate_ordinals_before_phrase(sentence: Sequence[TokenValue], phrase: Sequence[str]) -> Iterator[str]:
    for at in range(len(sentence) - len(phrase) + 1):
        if list(sentence[at : at + len(phrase)]) == list(phrase):
            before = sentence[max(0, at - 1 - _MAX_WORDS_AFTER_ORDINAL) : at]
            yield from (value for value in before if isinstance(value, str) and _ORDINAL.fullmatch(value))


ANSWER_WORD_LIMIT = 10
"""Every answer has fewer words than this (Appendix A.1)."""
_MIN_SHARED_CONTENT = 0.5
"""Least share of content words for two questions of one answer to ask the same, or a long question to cover a short."""

_MIN_SENTENCES_FOR_REPETITION = 3
"""A long answer of fewer sentences may name its subject in each."""
_QUOTED = re.compile(r"[\"“«„]([^\"“”«»„]+)[\"”»“]")
_PRONOUNS = frozenset(
    {"he", "him", "himself", "herself", "it", "itself", "she", "them", "themselves", "these", "they", "this", "those"}
)
_POSSESSIVES = frozenset({"her", "his", "its", "their"})
_ARTICLES_AND_AUXILIARIES = frozenset(
    {
        *("a", "am", "an", "are", "can", "could", "did", "do", "does", "had", "has", "have", "is", "may", "might"),
        *("must", "shall", "should", "the", "was", "were", "will", "would"),
    }
)
"""Articles and auxiliaries."""
_VAGUE_ADJECTIVES = frozenset(
    {"best", "early", "great", "large", "late", "later", "main", "new", "old", "original", "present", "whole"}
)
"""Adjectives with which a noun is not a term: the main study."""
_EXPLETIVE_IT_PATTERN = re.compile(
    r"\bit (?:costs?|hails?|means?|rains?|snows?|takes?|took|taken)\b"
    r"|\b(?:is|was) it (?:\w+ )?\w+ (?:for|that|to|when)\b|\bit is \w+ (?:for|that|to)\b",
    re.IGNORECASE,
)
"""An "it" that refers to nothing: how long does it take to …, why is it important that …"""
_MONTHS_AND_WEEKDAYS = frozenset(
    {
        *("january", "february", "march", "april", "may", "june", "july", "august", "september", "october"),
        *("november", "december", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    }
)


@dataclass(frozen=True, slots=True)
class QuestionAnswerPairProblem:
    """A fault that a check found."""

    code: str
    pair_number: int
    """Number of the pair, 1 to 5; 0 for the long question and answer."""
    message: str
    """What is wrong, for the model's second attempt and for people."""


def check_generated_pairs(
    generated: GeneratedQuestionAnswerPairs, topic: str, article_text: str, lists: QuestionCheckWordLists
) -> list[QuestionAnswerPairProblem]:
    """Run every check; return the problems pair by pair, then those of the long pair (spec, step 4)."""
    article = normalise_article(article_text)
    problems: list[QuestionAnswerPairProblem] = []
    for which, pair in enumerate(generated.short, 1):
        found = (
            *check_short_question(pair.question, topic, article, lists),
            *check_short_answer(pair.answer, article, lists),
        )
        problems += [replace(each, pair_number=which) for each in found]
        if other := find_second_possible_answer_problem(pair.question, pair.answer, article, lists):
            problems.append(QuestionAnswerPairProblem("several_answers", which, other))
    problems += check_distinct_questions(generated.short, lists)
    problems += check_long_question_covers_short_ones(generated, topic, lists)
    problems += check_long_answer_against_short_pairs(generated, topic, article, lists)
    return problems


def restore_sound_pairs(
    first: GeneratedQuestionAnswerPairs, faulty: Collection[int], second: GeneratedQuestionAnswerPairs
) -> GeneratedQuestionAnswerPairs:
    """Return the second reply with the first one's pairs in place of all but the `faulty` ones (numbered from 1)."""
    both = enumerate(zip(first.short, second.short, strict=True), 1)
    pairs = [new if which in faulty else old for which, (old, new) in both]
    return replace(second, short=tuple(pairs))  # type: ignore[arg-type]


def format_problems(problems: Sequence[QuestionAnswerPairProblem]) -> str:
    """Format problems as one clause that a model can act on (Unreadable.correction); "" for none."""
    return "; ".join(
        f"{f'pair {problem.pair_number}' if problem.pair_number else 'long'}: {problem.message}" for problem in problems
    )


def check_short_question(
    question: str, topic: str, article: NormalisedArticle, lists: QuestionCheckWordLists
) -> Iterator[QuestionAnswerPairProblem]:
    """Yield the problems of one short question by itself, with `pair_number` 0."""
    folded = fold_case_accents_and_punctuation(question)
    if not question.rstrip().endswith("?"):
        yield QuestionAnswerPairProblem(
            "no_question_mark", 0, f"the question {question!r} does not end with a question mark"
        )
    yield from _check_no_source_phrases(question, "question", lists)
    for phrase in lists.one_of_many:
        opening = phrase.removeprefix("^")
        if f"{folded} ".startswith(f"{opening} ") or (opening == phrase and contains_whole_words(folded, phrase)):
            message = f"the question says {opening!r}; ask for something that has one answer and no other"
            yield QuestionAnswerPairProblem("one_of_many", 0, message)
            break
    if not names_subject_or_article_term(question, topic, article, lists):
        subject = f"neither {strip_title_qualifier(topic)!r} nor another name or term that the article has"
        yield QuestionAnswerPairProblem("subject_missing", 0, f"the question {question!r} names {subject}")
    if pronoun := find_unresolved_pronoun(question, topic, article, lists):
        message = f"{pronoun!r} in {question!r} stands for something that is not named before it"
        yield QuestionAnswerPairProblem("not_self_contained", 0, message)


def check_short_answer(
    answer: str, article: NormalisedArticle, lists: QuestionCheckWordLists
) -> Iterator[QuestionAnswerPairProblem]:
    """Yield the problems of one short answer by itself, with `pair_number` 0."""
    words = len(answer.split())
    if words >= ANSWER_WORD_LIMIT:
        message = f"the answer has {words} words; expected fewer than {ANSWER_WORD_LIMIT}"
        yield QuestionAnswerPairProblem("answer_too_long", 0, message)
    yield from _check_no_source_phrases(answer, "answer", lists)
    if not is_answer_in_article(answer, article):
        message = f"the answer {answer!r} does not stand in the article; use the article's own words"
        yield QuestionAnswerPairProblem("answer_not_in_article", 0, message)
    elif is_number_always_inexact_in_article(answer, article):
        message = f"the article says {answer!r} with a word like about, roughly or more than before it; keep that word"
        yield QuestionAnswerPairProblem("approximation_lost", 0, message)


def names_subject_or_article_term(
    question: str, topic: str, article: NormalisedArticle, lists: QuestionCheckWordLists
) -> bool:
    """True if a question contains the topic, or a name, term or quotation from the article.

    A term is two content words after an article or auxiliary that also follow each other in the article (the
    achromatic lens).
    """
    if _contains_topic_title(list_content_values_with_hedge_marks(question), topic):
        return True
    quotations = (fold_case_accents_and_punctuation(quoted).strip(" .,") for quoted in _QUOTED.findall(question))
    if any(contains_whole_words(article.folded, quoted) for quoted in quotations):
        return True
    words = tokenize_words_with_values(question)
    for opens, _, value in iterate_capitalized_words_with_values(words):
        names = article.capitalised_inside_sentences - article.lowercase_words if opens else article.capitalised_words
        if value in names and value not in lists.function_words and value not in _MONTHS_AND_WEEKDAYS:
            return True
    values = [part.value for part in words]
    no_terms = lists.function_words | _VAGUE_ADJECTIVES
    for at, before in enumerate(values[:-2]):
        term = values[at + 1 : at + 3]
        if (
            before in _ARTICLES_AND_AUXILIARIES
            and all(isinstance(word, str) and word.isalpha() and word not in no_terms for word in term)
            and any(contains_value_sequence(sentence, term) for sentence in article.sentence_values)
        ):
            return True
    return False


def find_unresolved_pronoun(
    question: str, topic: str, article: NormalisedArticle, lists: QuestionCheckWordLists
) -> str | None:
    """Return the first pronoun without a possible antecedent before it; None if there is none.

    An antecedent is a name, quoted words, or a noun after an article or auxiliary ("does light … when it").
    A possessive may come before its name ("In his Elements, what did Euclid …").
    """
    empty = {found.start() + found[0].lower().find("it") for found in _EXPLETIVE_IT_PATTERN.finditer(question)}
    for found in re.finditer(r"[^\W_]+(?:['’][^\W_]+)?", question):
        word, before = found[0].lower(), question[: found.start()]
        # a capital inside a question marks part of a name: Who wrote It?
        if word not in _PRONOUNS | _POSSESSIVES or found.start() in empty or (before and found[0][0].isupper()):
            continue
        words = re.findall(r"[^\W_]+", fold_case_accents_and_punctuation(before))
        follow = [other for one, other in pairwise(words) if one in _ARTICLES_AND_AUXILIARIES]
        searched = question if word in _POSSESSIVES else before
        if lists.function_words.issuperset(follow) and not names_subject_or_article_term(
            searched, topic, article, lists
        ):
            return word
    return None


def check_distinct_questions(
    pairs: Sequence[ShortQuestionAnswerPair], lists: QuestionCheckWordLists
) -> Iterator[QuestionAnswerPairProblem]:
    """Yield questions that repeat an earlier one, literally or in other words with the same answer."""
    for which, pair in enumerate(pairs, 1):
        for earlier, other in enumerate(pairs[: which - 1], 1):
            if normalize_answer(pair.question) == normalize_answer(other.question):
                yield QuestionAnswerPairProblem(
                    "same_question", which, f"the question is the same as question {earlier}"
                )
                break
            if list_content_values_with_hedge_marks(pair.answer) != list_content_values_with_hedge_marks(other.answer):
                continue
            one, second = (set(list_distinct_content_values(each.question, lists)) for each in (pair, other))
            if len(one & second) >= _MIN_SHARED_CONTENT * len(one | second):
                yield QuestionAnswerPairProblem(
                    "same_fact", which, f"question and answer ask for the same fact as pair {earlier}"
                )
                break


def check_long_question_covers_short_ones(
    generated: GeneratedQuestionAnswerPairs, topic: str, lists: QuestionCheckWordLists
) -> Iterator[QuestionAnswerPairProblem]:
    """Yield the short questions that the long one does not cover, by number with words after it or by content."""
    long = generated.long_question
    yield from _check_no_source_phrases(long, "long question", lists)
    asked = list_word_and_number_values(long)
    known = set(list_word_and_number_values(strip_title_qualifier(topic)))
    for which, pair in enumerate(generated.short, 1):
        if re.search(rf"\({which}\)[^()]*?[^\W\d_]{{2}}", long):
            continue
        content = list_distinct_content_values(pair.question, lists)
        content = [value for value in content if value not in known] or content
        covered = [value for value in content if any(is_same_or_related_word(found, value) for found in asked)]
        if len(covered) < len(content) * _MIN_SHARED_CONTENT or not content:
            message = f"the long question does not ask {pair.question!r}; list it as ({which})"
            yield QuestionAnswerPairProblem("long_question_lacks", which, message)


def check_long_answer_against_short_pairs(
    generated: GeneratedQuestionAnswerPairs, topic: str, article: NormalisedArticle, lists: QuestionCheckWordLists
) -> Iterator[QuestionAnswerPairProblem]:
    """Yield the short answers that the long one lacks, and the numbers and names that it adds to the five pairs."""
    long = generated.long_answer
    yield from _check_no_source_phrases(long, "long answer", lists)
    sentences = [list_content_values_with_hedge_marks(sentence) for sentence in split_sentences(long)]
    names_topic = (_contains_topic_title(values, topic) for values in sentences)
    if len(sentences) >= _MIN_SENTENCES_FOR_REPETITION and all(names_topic):
        title = strip_title_qualifier(topic)
        message = f"each sentence of the long answer names {title!r} anew; write one flowing paragraph"
        yield QuestionAnswerPairProblem("long_answer_repeats", 0, message)
    all_values, values = list_word_and_number_values(long), list_content_values_with_hedge_marks(long)
    for which, pair in enumerate(generated.short, 1):
        wanted = list_distinct_content_values(pair.answer, lists) or list_word_and_number_values(pair.answer)
        exact = list_content_values_with_hedge_marks(pair.answer)
        is_there = contains_whole_words(
            fold_case_accents_and_punctuation(long), fold_case_accents_and_punctuation(pair.answer).strip(" .!?")
        )
        is_there = is_there or bool(
            wanted and all(any(is_same_or_related_word(found, value) for found in all_values) for value in wanted)
        )
        # numbers that an answer calls approximate must be approximate in the long answer too
        rough = [exact[at : at + 2] for at, value in enumerate(exact[:-1]) if value == APPROXIMATION_MARK]
        if not is_there or not all(contains_value_sequence(values, each) for each in rough):
            yield QuestionAnswerPairProblem(
                "long_answer_lacks", which, f"the long answer does not hold the answer {pair.answer!r}"
            )
    texts = [topic, *(text for pair in generated.short for text in (pair.question, pair.answer))]
    known = [part.value for text in texts for part in tokenize_words_with_values(text)]
    added = dict.fromkeys(
        [*_find_added_numbers(long, known), *_find_names_not_in_known_words(long, known, article, lists)]
    )
    for each in added:
        message = f"the long answer says {each!r}, which is in none of the five questions and answers"
        yield QuestionAnswerPairProblem("long_answer_adds", 0, message)


def _find_added_numbers(text: str, known: Sequence[TokenValue]) -> Iterator[str]:
    for source, value in tokenize_words_with_values(text):
        # in running text "one" and "first" are rarely numbers; 10^5 and 5th are
        is_number = any(map(str.isdigit, source)) or (not isinstance(value, str) and source.lower() != "one")
        is_known = any(states_wanted_value(found, value) for found in known) or _is_date_from_known_parts(value, known)
        if is_number and not is_known:
            yield source


def _is_date_from_known_parts(value: TokenValue, known: Sequence[TokenValue]) -> bool:
    """True if known values add up to a date: 8 March and 1917; or 264, if its era is given with another year."""
    if not isinstance(value, PartialDate):
        return False
    stated = [found for found in known if states_wanted_value(value, found)]
    if not any(isinstance(found, UnitlessNumberValue) for found in stated):
        return False
    return is_year_only_date(value) or any(isinstance(found, DayWithoutYear) for found in stated)


def _find_names_not_in_known_words(
    text: str, known: Sequence[TokenValue], article: NormalisedArticle, lists: QuestionCheckWordLists
) -> Iterator[str]:
    """Yield new capitalised words; a sentence's first word counts if the article uses it as a name."""
    for sentence in split_sentences(text):
        for opens, word, value in iterate_capitalized_words_with_values(tokenize_words_with_values(sentence)):
            if opens and (value not in article.capitalised_inside_sentences or value in article.lowercase_words):
                continue
            is_known = value in lists.function_words or any(is_same_or_related_word(each, value) for each in known)
            if isinstance(value, str) and not is_known:
                yield word


def _check_no_source_phrases(
    text: str, name: str, lists: QuestionCheckWordLists
) -> Iterator[QuestionAnswerPairProblem]:
    folded = fold_case_accents_and_punctuation(text)
    if phrase := next((phrase for phrase in lists.source_phrases if contains_whole_words(folded, phrase)), None):
        yield QuestionAnswerPairProblem(
            "source_phrase", 0, f"the {name} points at its source by {phrase!r}; leave that out"
        )


def _contains_topic_title(values: Sequence[TokenValue], topic: str) -> bool:
    return contains_value_sequence(values, list_content_values_with_hedge_marks(strip_title_qualifier(topic)))
