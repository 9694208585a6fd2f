"""What is odd about a fan-out question by its tree or by one article, and which questions lie on the same side of dev and test (§3.1, Appendix B).

The paper flags two signs of a poor question: the top-level answer is not composed of the sub-answers, and two
sub-questions rest on one article. Five articles are the least that a question needs (§3.1). A flag asks a person to look,
so what can be composed in a simple way is let pass:

- A name, title or date of the answer stands in a sub-answer, in a sub-question, in the title of an article, or its words
  stand in a sub-question and its answer together ("liver" for a question about a kind of cancer).
- A number is one of the sub-answers, however it is written, or follows from them: sum, average, share or difference,
  a count up to as many as were asked about, years between two dates. A year may lie between those of the question.
- A number that a dict gives for a name must be that of a sub-question which names it, where one says a number: two
  values that changed places are seen.
- Yes and no, and prose, pass: whether they follow cannot be told by looking for them.

Of the thirty articles near a question hardly one holds its answers, and reading an article's words, dates and numbers
takes much longer than looking for some letters in it. So names are looked for first: an answer of words alone whose
longest word begins with letters that stand nowhere in a text is not said by it, whatever else there is.

The dev part shows its answers, so the test part must not ask about the same articles. Questions are twins when they share
at least half of the articles of the smaller one, since a test question about five of the ten countries of a dev question
is answered there too. A question lies on the side of the nearest twin before it (of equals, the first);
one without a twin before it on the side that the digest of one of its articles gives: of them all the one whose digest is
least, which questions about nearly the same articles have in common more often than not.

So a question's side follows from its own articles and those of the twins before it. What comes behind it moves nothing,
nor does what is dropped in review, which keeps its place here; what comes before it moves it only where it is a twin, and
then to that twin. Without an order no rule can do better: two twins that lay apart while each stood alone cannot come
together unless one moves. A question between two groups that lie apart joins the nearer one.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import Literal

from factmill.tasks.fanoutqa.core.questions import (
    LEAST_ARTICLES,
    FanOutQuestion,
    SubQuestion,
    list_leaves,
    list_sub_questions,
)
from factmill.tasks.fanoutqa.core.rows import Flag
from factmill.tasks.text.values.answers import (
    Answer,
    KnownText,
    find_answer,
    list_primitives,
    read_known_text,
    write_number,
)
from factmill.tasks.text.values.literals import Date
from factmill.tasks.text.values.words import Count, read_amounts

FLAGS: Mapping[str, str] = MappingProxyType(
    {
        "answer_not_composed": "A part of the answer neither stands in the sub-answers nor follows from them simply.",
        "same_article": "Two sub-questions rest on the same article.",
        "too_few_articles": f"The question rests on fewer than {LEAST_ARTICLES} different articles.",
        "answer_not_found": "An article does not say the sub-answer that rests on it.",
        "one_article_has_all": "One article near the question says all sub-answers, so no fanning out is needed.",
        "not_objective": "A model judged that the question has no single objective answer.",
        "wording": "A model proposes a better wording: grammar or units.",
        "unproven_unit": "A model proposes a wording with a unit that the evidence does not have beside the numbers.",
        "cannot_be_mended": "A model found the wording wrong and could not mend it.",
        "unscored": "A model's verdict could not be read, so this was not judged.",
        "duplicate": "Another question says nearly the same; or one of the two is generated and holds nearly all facts of the other.",
    }
)
"""Every flag of the benchmark and what it means."""

SAME_FACTS_FROM = 2 / 3
"""Share of the facts of the smaller question from which two ask the same of the same set (ours)."""
_PLACES_AT_MOST = 3
_NUMBERS_AT_MOST = 150
_YEARS = re.compile(r"(?<![\w.,])(?:1[0-9]|20)[0-9]{2}(?![\w.,][0-9])")
_DIGIT = re.compile(r"[0-9]")


def find_structure_flags(question: FanOutQuestion) -> list[Flag]:
    """Return what is odd about a question's answer and articles; without a decomposition only the articles are counted."""
    return [*_find_uncomposed(question), *_find_same_articles(question), *_find_few_articles(question)]


def find_same_facts(questions: Sequence[FanOutQuestion]) -> Iterator[tuple[int, int, float]]:
    """Yield pairs of places where one question holds nearly all facts of the other, and the share of the smaller one's facts.

    A fact is an article and what it answers. Embeddings do not find these: one question in other words is often further
    from itself than from another one about the same set. The answer of the larger question gives that of the smaller one.
    """
    seen: list[frozenset[tuple[str, frozenset[str]]]] = []
    using: dict[tuple[str, frozenset[str]], list[int]] = defaultdict(list)
    for at, question in enumerate(questions):
        facts = frozenset(
            (sub.evidence.title, frozenset(str(each).casefold() for each in list_primitives(sub.answer)))
            for _, sub in list_leaves(question)
            if sub.evidence
        )
        shared = Counter(other for fact in facts for other in using[fact])
        for other, count in shared.items():
            share = count / min(len(facts), len(seen[other]))
            if share >= SAME_FACTS_FROM:
                yield other, at, share
        seen.append(facts)
        for fact in facts:
            using[fact].append(at)


def _find_uncomposed(question: FanOutQuestion) -> Iterator[Flag]:
    if question.answer is None or not question.decomposition:
        return
    missing = _list_uncomposed(question.answer, question)
    if missing:
        parts = ", ".join(f"{part!r}" for part in missing)
        detail = f"{parts} in the answer: expected among the sub-answers or as a number that follows from them."
        yield Flag(code="answer_not_composed", path="", detail=detail)
    for key, value, said in _list_swapped(question.answer, question):
        if value not in missing:
            detail = f"{value!r} for {key!r} in the answer: expected {said!r}, as the sub-question about it says."
            yield Flag(code="answer_not_composed", path="", detail=detail)


def _list_uncomposed(answer: Answer, question: FanOutQuestion) -> list[str]:
    subs = [sub for _, sub in list_sub_questions(question)]
    answers = read_known_text("\n\n".join(_list_cells(subs)))
    asked = [*(sub.question for sub in subs), *(sub.evidence.title for sub in subs if sub.evidence)]
    names = read_known_text("\n\n".join([*_list_cells(subs), *asked]))
    missing: list[str] = []
    numbers: KnownText | None = None
    for is_key, part in _list_parts(answer):
        is_number = not isinstance(part, bool) and bool(_DIGIT.search(part))
        lacking = find_answer(part, answers if is_number and not is_key else names).missing
        if not lacking or (is_key and _is_between(part, [question.question, *asked])):
            continue
        if is_number and numbers is None:
            numbers = read_known_text("\n\n".join(_list_derived(question.decomposition)))
        missing += [each for each in lacking if not _is_composed(each, numbers, subs)]
    return list(dict.fromkeys(missing))


def _list_swapped(answer: Answer, question: FanOutQuestion) -> Iterator[tuple[str, str, str]]:
    """Yield the keys of a dict with a number that no sub-question which names the key says, and what one says.

    Names are left out: what is asked about a name first is often a step on the way to its answer.
    """
    numbers = (
        {key: str(value) for key, value in answer.items() if _has_number(value)} if isinstance(answer, dict) else {}
    )
    subs = [sub for _, sub in list_sub_questions(question) if numbers and _has_number(sub.answer)]
    titles = [sub.evidence.title if sub.evidence else "" for sub in subs]
    asked = [read_known_text(f"{sub.question}\n\n{title}") for sub, title in zip(subs, titles, strict=True)]
    for key, value in numbers.items():
        own = [sub for sub, text in zip(subs, asked, strict=True) if find_answer(key, text).found]
        if own and find_answer(value, read_known_text("\n\n".join([*_list_cells(own), *_list_derived(own)]))).missing:
            yield key, value, str(own[0].answer)


def _has_number(answer: Answer) -> bool:
    """True for a primitive that holds a number."""
    return not isinstance(answer, bool | list | dict) and bool(_DIGIT.search(str(answer)))


def _list_parts(answer: Answer) -> Iterator[tuple[bool, str | bool]]:
    """Yield the parts of an answer, each with whether it is the key of a dict."""
    if isinstance(answer, Mapping):
        for key, value in answer.items():
            yield True, str(key)
            yield from _list_parts(value)
    elif isinstance(answer, list):
        for entry in answer:
            yield from _list_parts(entry)
    else:
        yield from ((False, part) for part in list_primitives(answer))


def _list_cells(subs: Sequence[SubQuestion]) -> Iterator[str]:
    """Yield the parts of the sub-answers, each to stand in a paragraph of its own."""
    for sub in subs:
        yield from (str(part) for part in list_primitives(sub.answer))


def _is_between(key: str | bool, texts: Sequence[str]) -> bool:
    """True for a year that lies between two of the questions: "from 1996 to 2000" asks for 1999."""
    years = [int(found) for text in texts for found in _YEARS.findall(text)]
    return isinstance(key, str) and bool(_YEARS.fullmatch(key) and years) and min(years) <= int(key) <= max(years)


def _is_composed(part: str, numbers: KnownText | None, subs: Sequence[SubQuestion]) -> bool:
    """True when a number follows from others, or all words stand in a sub-question with its answer."""
    if _DIGIT.search(part):
        return numbers is not None and find_answer(part, numbers).found is not False
    words = {each.value for each in read_amounts(part)}
    return any(
        words <= {each.value for each in read_amounts(" ".join([sub.question, *_list_cells([sub])]))} for sub in subs
    )


def _list_derived(subs: Sequence[SubQuestion]) -> Iterator[str]:
    """Yield the numbers that follow from sub-answers, each rounded to a few places, for a paragraph of its own."""
    for group in _list_groups(subs):
        truths = [sub.answer for sub in group if isinstance(sub.answer, bool)]
        lengths = [len(sub.answer) for sub in group if isinstance(sub.answer, list | dict)]
        yield from map(str, range(max([len(group), *lengths]) + 1))
        if truths:
            yield from _round(100 * truths.count(True) / len(truths))
        for numbers in _list_numbers(group):
            yield from _calculate(numbers[:_NUMBERS_AT_MOST])


def _list_groups(subs: Sequence[SubQuestion]) -> Iterator[Sequence[SubQuestion]]:
    """Yield the sub-questions beside each other, level by level."""
    yield subs
    for sub in subs:
        if sub.decomposition:
            yield from _list_groups(sub.decomposition)


def _list_numbers(group: Sequence[SubQuestion]) -> Iterator[list[float]]:
    """Yield numbers that may be reckoned with: one of each sub-question, those of one answer, all; and years of dates."""
    read = [[each.value for cell in _list_cells([sub]) for each in read_amounts(cell)] for sub in group]
    found = [[float(value.number) for value in values if isinstance(value, Count)] for values in read]
    yield [numbers[0] for numbers in found if len(numbers) == 1]
    yield [number for numbers in found for number in numbers]
    yield from (numbers for numbers in found if len(numbers) > 1)
    yield [float(value.year) for values in read for value in values if isinstance(value, Date)]


def _calculate(numbers: Sequence[float]) -> Iterator[str]:
    if len(numbers) < 2:
        return
    total = sum(numbers)
    yield from _round(total)
    yield from _round(total / len(numbers))
    for one, other in combinations(numbers, 2):
        yield from _round(abs(one - other))
        for part, whole in ((one, other), (other, one)):
            if whole:
                yield from _round(part / whole)
                yield from _round(100 * part / whole)


def _round(number: float) -> Iterator[str]:
    """Yield a number rounded to 0 and more places."""
    yield from dict.fromkeys(write_number(round(number, places)) for places in range(_PLACES_AT_MOST + 1))


def _find_same_articles(question: FanOutQuestion) -> Iterator[Flag]:
    first: dict[str, str] = {}
    for path, sub in list_leaves(question):
        if sub.evidence is None:
            continue
        title = _first_large(sub.evidence.title)
        if title in first:
            detail = (
                f"It rests on {title!r} like {first[title]}; each sub-question is expected to have its own article."
            )
            yield Flag(code="same_article", path=path, detail=detail)
        else:
            first[title] = path


def _find_few_articles(question: FanOutQuestion) -> Iterator[Flag]:
    count = len({_first_large(title) for title in question.articles})
    if count < LEAST_ARTICLES:
        detail = f"It rests on {count} different articles; at least {LEAST_ARTICLES} are expected."
        yield Flag(code="too_few_articles", path="", detail=detail)


def _first_large(title: str) -> str:
    """Return a title as MediaWiki files it: its first letter is large."""
    return title[:1].upper() + title[1:]


_BRACKETS = re.compile(r"[(\[][^()\[\]]*[)\]]")
_LEAST_LETTERS, _BEGINNING = 6, 4
"""Letters of a word that counts, and those of its beginning that no plural or possessive changes."""
_OTHERWISE_WRITTEN = frozenset({"percent", "january", "february", "september", "october", "november", "december"})


def list_beginnings(answers: Iterable[Answer]) -> frozenset[str]:
    """Return letters that a folded text must hold, all of them, to say the answers; none where nothing can be told so."""
    found = set()
    for answer in answers:
        for part in list_primitives(answer):
            # what stands in brackets may be left out, and numbers and dates are written in many ways
            values = [] if isinstance(part, bool) else [said.value for said in read_amounts(_BRACKETS.sub(" ", part))]
            words = [value for value in values if isinstance(value, str)]
            longest = max(words, key=len, default="")
            is_sure = len(words) == len(values) and longest.isascii() and longest.isalpha()
            if is_sure and len(longest) >= _LEAST_LETTERS and longest not in _OTHERWISE_WRITTEN:
                found.add(longest[:_BEGINNING])
    return frozenset(found)


def could_hold(beginnings: Iterable[str], folded_text: str) -> bool:
    """True unless some of the letters stand nowhere in a text (`fold_text`)."""
    return all(each in folded_text for each in beginnings)


Side = Literal["dev", "test"]
DEV_SHARE = 0.3
"""The paper's: 310 of 1,034."""


def split_questions(
    questions: Iterable[tuple[str, Iterable[str], Side | None]], seed: int, dev_share: float = DEV_SHARE
) -> dict[str, Side]:
    """Return id → side of questions, given as id, articles and the side that a release has put it on, in their order.

    Over many questions `dev_share` of the groups are dev.
    """
    sides: dict[str, Side] = {}
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
        beside = sides[seen[min(twins)[1]][0]] if twins else None
        sides[question_id] = published or beside or _draw_side(own, seed, dev_share)
        seen.append((question_id, own))
        for title in own:
            using[title].append(at)
    return sides


def _draw_side(articles: Iterable[str], seed: int, dev_share: float) -> Side:
    least = min((_digest(f"fanoutqa {seed} {title}") for title in articles), default=b"")
    # digested once more, since a least digest is small
    return "dev" if int.from_bytes(_digest(f"fanoutqa {seed} {least.hex()}")[:8], "big") < dev_share * 2**64 else "test"


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
