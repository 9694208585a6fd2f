"""Flag structural faults of fan-out questions, and assign questions to the dev and test splits (§3.1, Appendix B).

The paper flags two signs of a poor question: the top-level answer is not composed of the sub-answers, and two
sub-questions rest on one article. A question needs at least five articles (§3.1). A flag asks a person to look, so
answers that can be composed in a simple way pass:

- A name, title or date of the answer stands in a sub-answer, in a sub-question or in the title of an article; or its
  words stand in a sub-question and its answer together ("liver" for a question about a kind of cancer).
- A number is one of the sub-answers, in any notation, or follows from them: a sum, average, share or difference, a
  count up to the number of things asked about, years between two dates. A year may lie between those of the question.
- A number that a dict gives for a name must be the number of a sub-question which mentions that name, if one has a
  number. This reveals two swapped values.
- Yes and no, and prose, pass: a text search cannot decide whether they follow.

Of the thirty articles near a question hardly one holds its answers, and reading an article's words, dates and numbers
takes much longer than searching it for a few letters. So a prefix search runs first: if an answer consists of words
alone and the first letters of its longest word occur nowhere in a text, the text does not say it.

The dev split shows its answers, so the test split must not ask about the same articles. Two questions are twins if they
share at least half of the articles of the smaller one: a dev question about ten countries also answers a test question
about five of them. A question joins the split of the nearest twin before it (of equally near ones, the first). Without
an earlier twin, the split follows from the least digest among its articles, which questions about nearly the same
articles mostly have in common.

So a question's split depends on its own articles and those of earlier twins. Later questions never move it, nor do
questions dropped in review, which keep their place here; an earlier question moves it only if it is a twin, and then to
that twin's split. Without an order no rule can do better: two twins assigned to different splits while each stood alone
cannot come together unless one moves. A question between two groups in different splits joins the nearer one.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType

from factmill.tasks.fanoutqa.core.questions import (
    MIN_ARTICLES,
    FanOutQuestion,
    SubQuestion,
    list_leaf_sub_questions,
    list_sub_questions,
)
from factmill.tasks.fanoutqa.core.rows import QuestionFlag, Split
from factmill.tasks.text.values.answer_search import (
    AnswerValue,
    IndexedText,
    find_answer_and_missing_parts,
    format_number_without_exponent,
    index_text,
    iterate_answer_primitives,
)
from factmill.tasks.text.values.value_tokens import TokenValue, UnitlessNumberValue, tokenize_words_numbers_and_dates
from factmill.tasks.text.values.wikidata_literals import PartialDate

FLAGS: Mapping[str, str] = MappingProxyType(
    {
        "answer_not_composed": "A part of the answer is neither in the sub-answers nor follows from them directly.",
        "same_article": "Two sub-questions use the same article.",
        "too_few_articles": f"The question uses fewer than {MIN_ARTICLES} different articles.",
        "answer_not_found": "An article does not contain the sub-answer that is based on it.",
        "one_article_has_all": "One article near the question contains all sub-answers, so the question does not need several articles.",
        "not_objective": "A model judged that the question has no single objective answer.",
        "wording": "A model proposes a better wording: grammar or units.",
        "unproven_unit": "A model proposes a wording with a unit that the evidence does not have next to the numbers.",
        "cannot_be_mended": "A model found a fault in the wording and could not correct it.",
        "unscored": "The verdict of a model could not be read, so the question was not judged.",
        "duplicate": "Another question is nearly the same, or one of the two is generated and has nearly all facts of the other.",
    }
)
"""Flag code → meaning, for all flags of the benchmark."""

MIN_SHARED_FACTS = 2 / 3
"""Least share of the smaller question's facts that two questions share if they ask the same of the same set (ours)."""
_MAX_DECIMAL_PLACES = 3
_MAX_COMBINED_NUMBERS = 150
_YEAR_IN_TEXT = re.compile(r"(?<![\w.,])(?:1[0-9]|20)[0-9]{2}(?![\w.,][0-9])")
_DIGIT = re.compile(r"[0-9]")


def find_composition_and_article_flags(question: FanOutQuestion) -> list[QuestionFlag]:
    """Return the flags on a question's answer and articles; without a decomposition, only on the number of articles."""
    flags = list(_flag_answer_not_from_sub_answers(question))
    first: dict[str, str] = {}
    for path, sub in list_leaf_sub_questions(question):
        title = _capitalise_title(sub.evidence.title if sub.evidence else "")
        if first.setdefault(title, path) != path:
            detail = (
                f"It rests on {title!r} like {first[title]}; each sub-question is expected to have its own article."
            )
            flags.append(QuestionFlag(code="same_article", path=path, detail=detail))
    count = len(set(map(_capitalise_title, question.articles)))
    if count < MIN_ARTICLES:
        detail = f"It rests on {count} different articles; at least {MIN_ARTICLES} are expected."
        flags.append(QuestionFlag(code="too_few_articles", path="", detail=detail))
    return flags


def find_questions_sharing_facts(questions: Sequence[FanOutQuestion]) -> Iterator[tuple[int, int, float]]:
    """Yield (index, index, share) of questions that share nearly all facts of the smaller one; `share` is that share.

    A fact is an article and its sub-answer. Embeddings do not find these pairs: a question is often further from its
    own paraphrase than from another question about the same set. The larger question's answer reveals the other's.
    """
    seen: list[frozenset[tuple[str, frozenset[str]]]] = []
    using: dict[tuple[str, frozenset[str]], list[int]] = defaultdict(list)
    for at, question in enumerate(questions):
        facts = frozenset(
            (sub.evidence.title, frozenset(str(each).casefold() for each in iterate_answer_primitives(sub.answer)))
            for _, sub in list_leaf_sub_questions(question)
            if sub.evidence
        )
        shared = Counter(other for fact in facts for other in using[fact])
        for other, count in shared.items():
            share = count / min(len(facts), len(seen[other]))
            if share >= MIN_SHARED_FACTS:
                yield other, at, share
        seen.append(facts)
        for fact in facts:
            using[fact].append(at)


def _flag_answer_not_from_sub_answers(question: FanOutQuestion) -> Iterator[QuestionFlag]:
    if question.answer is None or not question.decomposition:
        return
    if missing := _list_parts_missing_in_sub_answers(question.answer, question):
        parts = ", ".join(map(repr, missing))
        detail = f"{parts} in the answer: expected among the sub-answers or as a number that follows from them."
        yield QuestionFlag(code="answer_not_composed", path="", detail=detail)
    for key, value, expected in _list_numbers_contradicting_sub_answers(question.answer, question):
        if value not in missing:
            detail = f"{value!r} for {key!r} in the answer: expected {expected!r}, as the sub-question about it says."
            yield QuestionFlag(code="answer_not_composed", path="", detail=detail)


def _list_parts_missing_in_sub_answers(answer: AnswerValue, question: FanOutQuestion) -> list[str]:
    subs = [sub for _, sub in list_sub_questions(question)]
    sub_answers = list(_iterate_sub_answer_primitives_as_text(subs))
    asked = [*(sub.question for sub in subs), *(sub.evidence.title for sub in subs if sub.evidence)]
    answers, names = _index_paragraphs(sub_answers), _index_paragraphs([*sub_answers, *asked])
    years = [int(found) for text in (question.question, *asked) for found in _YEAR_IN_TEXT.findall(text)]
    missing: list[str] = []
    numbers: IndexedText | None = None
    for is_key, part in _list_answer_keys_and_values(answer):
        is_number = not isinstance(part, bool) and bool(_DIGIT.search(part))
        lacking = find_answer_and_missing_parts(part, answers if is_number and not is_key else names).missing
        # a year between two years of the questions: "from 1996 to 2000" covers 1999
        is_year = is_key and isinstance(part, str) and years and _YEAR_IN_TEXT.fullmatch(part)
        if not lacking or (is_year and min(years) <= int(part) <= max(years)):
            continue
        if is_number and numbers is None:
            numbers = _index_paragraphs(_list_derived_numbers(question.decomposition))
        for each in lacking:
            if _DIGIT.search(each):
                follows = numbers is not None and find_answer_and_missing_parts(each, numbers).found is not False
            else:
                said = (
                    _tokenize_to_values(" ".join([sub.question, *_iterate_sub_answer_primitives_as_text([sub])]))
                    for sub in subs
                )
                follows = any(_tokenize_to_values(each) <= words for words in said)
            missing += [] if follows else [each]
    return list(dict.fromkeys(missing))


def _index_paragraphs(texts: Iterable[str]) -> IndexedText:
    return index_text("\n\n".join(texts))


def _tokenize_to_values(text: str) -> set[TokenValue]:
    return {each.value for each in tokenize_words_numbers_and_dates(text)}


def _list_numbers_contradicting_sub_answers(
    answer: AnswerValue, question: FanOutQuestion
) -> Iterator[tuple[str, str, str]]:
    """Yield (key, number, number of a sub-question) for dict entries whose number no sub-question on the key gives.

    Values without a number are left out: the first sub-question on a key is often a step on the way to its answer.
    """
    if not isinstance(answer, dict):
        return
    numbers = {key: str(value) for key, value in answer.items() if _is_primitive_with_digit(value)}
    asked = [
        (sub, index_text(f"{sub.question}\n\n{sub.evidence.title if sub.evidence else ''}"))
        for _, sub in list_sub_questions(question)
        if numbers and _is_primitive_with_digit(sub.answer)
    ]
    for key, value in numbers.items():
        own = [sub for sub, text in asked if find_answer_and_missing_parts(key, text).found]
        given = (
            _index_paragraphs([*_iterate_sub_answer_primitives_as_text(own), *_list_derived_numbers(own)])
            if own
            else None
        )
        if given and find_answer_and_missing_parts(value, given).missing:
            yield key, value, str(own[0].answer)


def _is_primitive_with_digit(answer: AnswerValue) -> bool:
    return not isinstance(answer, bool | list | dict) and bool(_DIGIT.search(str(answer)))


def _list_answer_keys_and_values(answer: AnswerValue) -> Iterator[tuple[bool, str | bool]]:
    """Yield (whether it is a dict key, part) for each part of an answer."""
    if isinstance(answer, dict):
        for key, value in answer.items():
            yield True, str(key)
            yield from _list_answer_keys_and_values(value)
    else:
        yield from ((False, part) for part in iterate_answer_primitives(answer))


def _iterate_sub_answer_primitives_as_text(subs: Sequence[SubQuestion]) -> Iterator[str]:
    """Yield the parts of the sub-answers; callers give each its own paragraph."""
    for sub in subs:
        yield from (str(part) for part in iterate_answer_primitives(sub.answer))


def _list_derived_numbers(subs: Sequence[SubQuestion]) -> Iterator[str]:
    """Yield the numbers that follow from sub-answers, a level before those below it; each with 0 up to 3 decimals."""
    truths = [sub.answer for sub in subs if isinstance(sub.answer, bool)]
    lengths = [len(sub.answer) for sub in subs if isinstance(sub.answer, list | dict)]
    yield from map(str, range(max([len(subs), *lengths]) + 1))
    if truths:
        yield from _list_roundings_to_decimals(100 * truths.count(True) / len(truths))
    for numbers in _list_combinable_numbers(subs):
        yield from _compute_sums_differences_and_ratios(numbers[:_MAX_COMBINED_NUMBERS])
    for sub in subs:
        if sub.decomposition:
            yield from _list_derived_numbers(sub.decomposition)


def _list_combinable_numbers(group: Sequence[SubQuestion]) -> Iterator[list[float]]:
    """Yield groups of numbers to combine: one of each sub-question, all, those of one answer, the years of dates."""
    read = [
        [
            each.value
            for part in _iterate_sub_answer_primitives_as_text([sub])
            for each in tokenize_words_numbers_and_dates(part)
        ]
        for sub in group
    ]
    found = [[float(value.number) for value in values if isinstance(value, UnitlessNumberValue)] for values in read]
    yield [numbers[0] for numbers in found if len(numbers) == 1]
    yield [number for numbers in found for number in numbers]
    yield from (numbers for numbers in found if len(numbers) > 1)
    yield [float(value.year) for values in read for value in values if isinstance(value, PartialDate)]


def _compute_sums_differences_and_ratios(numbers: Sequence[float]) -> Iterator[str]:
    if len(numbers) < 2:
        return
    total = sum(numbers)
    yield from _list_roundings_to_decimals(total)
    yield from _list_roundings_to_decimals(total / len(numbers))
    for one, other in combinations(numbers, 2):
        yield from _list_roundings_to_decimals(abs(one - other))
        for part, base in ((one, other), (other, one)):
            if base:
                yield from _list_roundings_to_decimals(part / base)
                yield from _list_roundings_to_decimals(100 * part / base)


def _list_roundings_to_decimals(number: float) -> Iterator[str]:
    """Yield a number rounded to each of 0 to 3 decimals, without repeats."""
    roundings = (round(number, places) for places in range(_MAX_DECIMAL_PLACES + 1))
    yield from dict.fromkeys(map(format_number_without_exponent, roundings))


def _capitalise_title(title: str) -> str:
    """Return a title as MediaWiki stores it: with a capital first letter."""
    return title[:1].upper() + title[1:]


_BRACKETED = re.compile(r"[(\[][^()\[\]]*[)\]]")
_MIN_WORD_LETTERS, _PREFIX_LETTERS = 6, 4
"""Least letters of a word to search for, and letters of its prefix, which no plural or possessive changes."""
_WORDS_WITH_VARIANTS = frozenset({"percent", "january", "february", "september", "october", "november", "december"})


def list_required_word_prefixes(answers: Iterable[AnswerValue]) -> frozenset[str]:
    """Return prefixes that a folded text must all contain to say the answers; empty if no answer has a safe prefix."""
    found = set()
    for part in (part for answer in answers for part in iterate_answer_primitives(answer)):
        if isinstance(part, bool):
            continue
        # a text may leave out bracketed words, and write numbers and dates in many ways
        values = [amount.value for amount in tokenize_words_numbers_and_dates(_BRACKETED.sub(" ", part))]
        longest = max((value for value in values if isinstance(value, str)), key=len, default="")
        is_sure = all(isinstance(value, str) for value in values) and longest.isascii() and longest.isalpha()
        if is_sure and len(longest) >= _MIN_WORD_LETTERS and longest not in _WORDS_WITH_VARIANTS:
            found.add(longest[:_PREFIX_LETTERS])
    return frozenset(found)


def contains_all_substrings(substrings: Iterable[str], folded_text: str) -> bool:
    """True if a text, folded by `fold_case_accents_and_punctuation`, contains all the prefixes."""
    return all(each in folded_text for each in substrings)


DEV_SHARE = 0.3
"""As in the paper: 310 of 1,034."""


def assign_splits_by_shared_articles(
    questions: Iterable[tuple[str, Iterable[str], Split | None]], seed: int, dev_share: float = DEV_SHARE
) -> dict[str, Split]:
    """Return id → split of questions, which are given in order as (id, article titles, split in a release).

    Over many questions, a share `dev_share` of the groups is dev.
    """
    sides: dict[str, Split] = {}
    seen: list[tuple[str, frozenset[str]]] = []
    using: dict[str, list[int]] = defaultdict(list)
    for at, (question_id, titles, published) in enumerate(questions):
        own = frozenset(titles)
        shared = Counter(other for title in own for other in using[title])
        twins = [
            (-count / len(own | seen[other][1]), other)
            for other, count in shared.items()
            if 2 * count >= min(len(own), len(seen[other][1]))
        ]
        twin_split = sides[seen[min(twins)[1]][0]] if twins else None
        sides[question_id] = published or twin_split or _draw_split(own, seed, dev_share)
        seen.append((question_id, own))
        for title in own:
            using[title].append(at)
    return sides


def _draw_split(articles: Iterable[str], seed: int, dev_share: float) -> Split:
    least = min((_compute_sha256(f"fanoutqa {seed} {title}") for title in articles), default=b"")
    # hashed once more, since the least of several digests is not uniform
    drawn = int.from_bytes(_compute_sha256(f"fanoutqa {seed} {least.hex()}")[:8], "big")
    return "dev" if drawn < dev_share * 2**64 else "test"


def _compute_sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
