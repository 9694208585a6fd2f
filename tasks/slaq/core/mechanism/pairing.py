"""What of the long answer states the fact of a short one (Appendix A.4: the authors paired by hand).

A text that a person chose comes first, from a file of pairs. Where the long answer numbers its parts, the part with the
fact's number is taken whole. Else a judge quotes the part, where one is named, and without a judge the part is taken that
aligns best. Each of these but the last treats right and wrong answers alike. Alignment does not: a misaligned fact has one
wrong answer, which shares few words with the right one.

The words of both answers are aligned locally, as in a search for like stretches of text: equal words count for it, content
words and numbers more than function words; words that only one of them has count against it. So the part begins and ends
with a word of the short answer, and may differ from it within.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from tasks.core.replies import Form, Unreadable
from tasks.slaq.core.mechanism.rows import Fact, PairedFact
from tasks.slaq.core.replies import PAIRS

_WORD = re.compile(r"\w+(?:[.,'’]\w+)*")
_CONTENT, _FUNCTION, _OTHER, _SKIPPED = 4.0, 1.0, -1.0, -0.6
"""What an equal content word and function word, two different words side by side and a word without another count."""
_MARKERS = (
    re.compile(r"^[ \t>]*[*_#]*[ \t]*\(?([0-9]{1,2})(?:[.):]|\\\.)[*_]*[ \t]+[*_]*", re.MULTILINE),
    re.compile(r"(?:(?<=\s)|^)(?:\(([0-9]{1,2})\)|([0-9]{1,2})\))[ \t]+"),
)
"""What numbers a part: at the beginning of a line (`1.`, `**2)**`, `(3)`, `4:`), or within a paragraph in brackets (`(1)`, `1)`)."""
PART_LINE = Form(kind="lines", head="part", reach="block", quotes=True, cites=True)
"""`Part: the words of the answer`, or `Part: none`."""
_NONE = "none"


@dataclass(frozen=True, slots=True)
class Word:
    """A word of an answer, and where it stands."""

    text: str
    """Without case and accents."""
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Aligned:
    """The part of a text that aligns best."""

    start: int
    end: int
    matched: float
    """Share of the sought content words that it has."""


def split_words(text: str) -> list[Word]:
    """Return the words and numbers of a text."""
    return [Word(_fold(found[0]), *found.span()) for found in _WORD.finditer(text)]


def align_answer(short: str, long: str, function_words: Collection[str]) -> Aligned | None:
    """Return the part of the long text that aligns best with the short one; None where they share no content word.

    Of parts that align equally well the first is taken. A short text of function words alone is sought by these.
    """
    sought, words = split_words(short), split_words(long)
    content = {word.text for word in sought} - set(function_words) or {word.text for word in sought}
    if not sought or not words:
        return None
    first, last = _find_best(
        [word.text for word in sought],
        [word.text for word in words],
        lambda word: _CONTENT if word in content else _FUNCTION,
    )
    there = {word.text for word in words[first : last + 1]} & content
    return Aligned(words[first].start, words[last].end, round(len(there) / len(content), 6)) if there else None


def _find_best(sought: Sequence[str], words: Sequence[str], weigh: Callable[[str], float]) -> tuple[int, int]:
    """Return first and last word of the part that aligns best (Smith and Waterman's local alignment)."""
    scores = [0.0] * (len(words) + 1)
    starts = list(range(len(words) + 1))
    best, found = 0.0, (0, -1)
    for mine in sought:
        above, begun = scores[:], starts[:]
        scores[0], starts[0] = 0.0, 0
        for at, theirs in enumerate(words, 1):
            equal = mine == theirs
            ways = (
                (above[at - 1] + (weigh(mine) if equal else _OTHER), begun[at - 1] if above[at - 1] > 0 else at - 1),
                (above[at] + _SKIPPED, begun[at]),
                (scores[at - 1] + _SKIPPED, starts[at - 1]),
            )
            score, start = max(ways, key=lambda way: way[0])
            scores[at], starts[at] = (score, start) if score > 0 else (0.0, at)
            if equal and scores[at] > best:
                best, found = scores[at], (starts[at], at - 1)
    return found


def split_numbered(answer: str) -> list[tuple[int, int]]:
    """Return where the parts of an answer begin and end that numbers them from 1 to 5; nothing where it does not.

    What follows the last part in a paragraph of its own belongs to it only where other parts have several paragraphs too.
    """
    for marker in _MARKERS:
        found = list(marker.finditer(answer))
        if [int(each[1] or each[2]) for each in found] != [*range(1, PAIRS + 1)]:
            continue
        ends = [each.start() for each in found[1:]]
        parts = [answer[each.end() : end].rstrip() for each, end in zip(found, [*ends, len(answer)], strict=True)]
        if not any("\n\n" in each for each in parts[:-1]):
            parts[-1] = parts[-1].partition("\n\n")[0].rstrip()
        return [(each.end(), each.end() + len(part)) for each, part in zip(found, parts, strict=True)]
    return []


def find_quote(quote: str, answer: str) -> tuple[int, int] | None:
    """Return where a text stands in an answer, any white space being as good as another; None where it does not."""
    found = re.search(r"\s+".join(map(re.escape, quote.split())), answer) if quote.strip() else None
    return found.span() if found else None


def read_part(text: str, answer: str) -> tuple[int, int] | Unreadable | None:
    """Return where the part that a judge quotes stands in an answer; None where it says that there is none."""
    lines = re.findall(r"^part:(.*)$", text, re.IGNORECASE | re.MULTILINE)
    if len(lines) != 1:
        return Unreadable(f'there are {len(lines)} lines of the form "Part: …", expected one')
    (quote,) = lines
    if quote.strip().casefold().rstrip(".") == _NONE:
        return None
    span = find_quote(quote, answer)
    return span or Unreadable(f"{quote.strip()[:60]!r} does not stand in the answer word for word")


def pair_fact(
    fact: Fact, function_words: Collection[str], least_matched: float, chosen: Mapping[str, tuple[str, str]]
) -> PairedFact:
    """Return a fact with what of both answers states it, as far as no judge is asked.

    `chosen`: id → the texts of both answers that a person paired; an empty one stands for the whole short answer, or for
    what is found. `least_matched`: share of the short text's content words that the part that aligns best must have.
    """
    short, long = chosen.get(fact.id, ("", ""))
    told = {"short_text": fact.short_answer.strip(), "long_text": "", "short_start": 0, "long_start": 0}
    told["short_start"] = len(fact.short_answer) - len(fact.short_answer.lstrip())
    bare = {**told, "matched": None, "paired_by": ""}
    if not split_words(fact.short_answer) or not split_words(fact.long_answer):
        side = "long" if split_words(fact.short_answer) else "short"
        return fact.extend(PairedFact, **bare, unscored="no_answer", detail=f"the {side} answer has no word")
    for side, text, answer in (("short", short, fact.short_answer), ("long", long, fact.long_answer)):
        if text and text not in answer:
            detail = f"the {side} answer does not hold {text!r}, which the file of pairs names"
            return fact.extend(PairedFact, **bare, unscored="text_not_found", detail=detail)
        if text:
            told |= {f"{side}_text": text, f"{side}_start": answer.index(text)}
    if long:
        return fact.extend(PairedFact, **told, matched=None, paired_by="file", unscored="", detail="")
    parts = split_numbered(fact.long_answer)
    if parts and split_words(part := fact.long_answer[slice(*parts[fact.number - 1])]):
        told |= {"long_text": part, "long_start": parts[fact.number - 1][0]}
        return fact.extend(PairedFact, **told, matched=None, paired_by="position", unscored="", detail="")
    found = align_answer(str(told["short_text"]), fact.long_answer, function_words)
    if found is None or found.matched < least_matched:
        share = 0.0 if found is None else found.matched
        detail = (
            f"the part of the long answer that is most like the short one has {share:.0%} of its content words, expected "
            f"{least_matched:.0%} or more; name the part in a file of pairs, or name a judge"
        )
        return fact.extend(PairedFact, **bare, unscored="not_in_long_answer", detail=detail)
    told |= {"long_text": fact.long_answer[found.start : found.end], "long_start": found.start}
    return fact.extend(
        PairedFact, **told, matched=found.matched, paired_by="file" if short else "alignment", unscored="", detail=""
    )


def pair_by_judge(row: PairedFact, part: tuple[int, int] | None) -> PairedFact:
    """Return a fact that was paired by alignment, or not at all, with the part of the long answer that a judge quotes."""
    if part is None:
        bare = {"long_text": "", "long_start": 0, "matched": None, "paired_by": ""}
        detail = "the judge finds no part of the long answer that answers the question"
        return row.model_copy(update={**bare, "unscored": "not_in_long_answer", "detail": detail})
    told = {"long_text": row.long_answer[slice(*part)], "long_start": part[0], "matched": None, "paired_by": "judge"}
    return row.model_copy(update={**told, "unscored": "", "detail": ""})


def _fold(word: str) -> str:
    plain = unicodedata.normalize("NFKD", word.casefold())
    return "".join(each for each in plain if not unicodedata.combining(each))
