"""What of the long answer states the fact of a short one: the part that aligns with it best (Appendix A.4: the authors paired by hand).

The words of both answers are aligned locally, as in a search for like stretches of text: equal words count for it, content
words and numbers more than function words; words that only one of them has count against it. So the part begins and ends
with a word of the short answer, and may differ from it within. Texts that people chose come from a file of pairs.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from tasks.slaq.core.mechanism.rows import Fact, PairedFact

_WORD = re.compile(r"\w+(?:[.,'’]\w+)*")
_CONTENT, _FUNCTION, _OTHER, _SKIPPED = 4.0, 1.0, -1.0, -0.6
"""What an equal content word and function word, two different words side by side and a word without another count."""


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


def pair_fact(
    fact: Fact, function_words: Collection[str], least_matched: float, chosen: Mapping[str, tuple[str, str]]
) -> PairedFact:
    """Return a fact with what of both answers states it.

    `chosen`: id → the texts of both answers that a person paired; an empty one stands for the whole short answer, or for
    what aligns best. `least_matched`: share of the short text's content words that the part must have.
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
    found = align_answer(str(told["short_text"]), fact.long_answer, function_words)
    if found is None or found.matched < least_matched:
        share = 0.0 if found is None else found.matched
        detail = (
            f"the part of the long answer that is most like the short one has {share:.0%} of its content words, expected "
            f"{least_matched:.0%} or more; name the part in a file of pairs"
        )
        return fact.extend(PairedFact, **bare, unscored="not_in_long_answer", detail=detail)
    told |= {"long_text": fact.long_answer[found.start : found.end], "long_start": found.start}
    return fact.extend(
        PairedFact, **told, matched=found.matched, paired_by="file" if short else "alignment", unscored="", detail=""
    )


def _fold(word: str) -> str:
    plain = unicodedata.normalize("NFKD", word.casefold())
    return "".join(each for each in plain if not unicodedata.combining(each))
