"""Find the part of a long answer that states a short answer's fact (Appendix A.4: the authors paired by hand).

A text that a person chose, from a file of pairs, comes first. If the long answer numbers its parts, the whole part with
the fact's number is next. Else a judge quotes the part if one is named; without a judge the best aligned part is used.
All but the last treat right and wrong answers alike. Alignment does not: a misaligned fact has one wrong answer, which
shares few words with the right one.

Alignment is local: equal words add to the score, content words and numbers more than function words; words of only one
answer subtract. So the part begins and ends with a word of the short answer, and may differ from it in between.
"""

import re
import unicodedata
from collections.abc import Collection, Mapping
from typing import Any

from factmill.tasks.core.completions import CompletionFormat, UnreadableCompletion
from factmill.tasks.slaq.core.mechanism.rows import FactAnsweredByOneModel, FactInShortAndLongAnswer, UnscoredFactReason
from factmill.tasks.slaq.core.pair_replies import PAIRS_PER_TOPIC

_WORD_OR_NUMBER = re.compile(r"\w+(?:[.,'’]\w+)*")
_CONTENT_MATCH_SCORE, _FUNCTION_MATCH_SCORE, _MISMATCH_SCORE, _GAP_SCORE = 4.0, 1.0, -1.0, -0.6
"""Alignment scores: an equal content word, an equal function word, a mismatch, a gap."""
_PART_NUMBER_PATTERNS = (
    re.compile(r"^[ \t>]*[*_#]*[ \t]*\(?([0-9]{1,2})(?:[.):]|\\\.)[*_]*[ \t]+[*_]*", re.MULTILINE),
    re.compile(r"(?:(?<=\s)|^)(?:\(([0-9]{1,2})\)|([0-9]{1,2})\))[ \t]+"),
)
"""Numbers of parts: at the start of a line (`1.`, `**2)**`, `(3)`, `4:`), or bracketed in a paragraph (`(1)`, `1)`)."""
QUOTED_PART_FORM = CompletionFormat(
    kind="lines", line_head="part", answer_extent="block", strips_quotes=True, keeps_citations=True
)
"""`Part: the words of the answer`, or `Part: none`."""


WordSpans = list[tuple[str, int, int]]
"""The words and numbers of a text, without case and accents, each with its start and end."""


def split_word_spans(text: str) -> WordSpans:
    """Split a text into words and numbers, with their spans."""
    plain = lambda word: "".join(  # noqa: E731
        each for each in unicodedata.normalize("NFKD", word.casefold()) if not unicodedata.combining(each)
    )
    return [(plain(found[0]), *found.span()) for found in _WORD_OR_NUMBER.finditer(text)]


def find_best_aligned_part(short: str, long: str, function_words: Collection[str]) -> tuple[int, int, float] | None:
    """Return start and end of the part of the long text that aligns best with the short text, and the share of the
    short text's content words in it; None if they share none.

    Of equally good parts the first wins. If the short text has only function words, these count as content.
    The algorithm is Smith and Waterman's local alignment.
    """
    sought, words = [word for word, *_ in split_word_spans(short)], split_word_spans(long)
    content = set(sought) - set(function_words) or set(sought)
    scores = [0.0] * (len(words) + 1)
    starts = list(range(len(words) + 1))
    best, first, last = 0.0, 0, -1
    for sought_word in sought:
        match = _CONTENT_MATCH_SCORE if sought_word in content else _FUNCTION_MATCH_SCORE
        above, begun = scores[:], starts[:]
        scores[0], starts[0] = 0.0, 0
        for at, (theirs, *_) in enumerate(words, 1):
            gain = match if sought_word == theirs else _MISMATCH_SCORE
            ways = (
                (above[at - 1] + gain, begun[at - 1] if above[at - 1] > 0 else at - 1),
                (above[at] + _GAP_SCORE, begun[at]),
                (scores[at - 1] + _GAP_SCORE, starts[at - 1]),
            )
            score, start = max(ways, key=lambda way: way[0])
            scores[at], starts[at] = (score, start) if score > 0 else (0.0, at)
            if sought_word == theirs and scores[at] > best:
                best, first, last = scores[at], starts[at], at - 1
    there = {word for word, *_ in words[first : last + 1]} & content
    return (words[first][1], words[last][2], round(len(there) / len(content), 6)) if there else None


def find_numbered_parts(answer: str) -> list[tuple[int, int]]:
    """Return start and end of the parts of an answer that numbers them from 1 to 5; empty for any other answer.

    A paragraph after the last part belongs to that part only if other parts have several paragraphs too.
    """
    for marker in _PART_NUMBER_PATTERNS:
        found = list(marker.finditer(answer))
        if [int(each[1] or each[2]) for each in found] != [*range(1, PAIRS_PER_TOPIC + 1)]:
            continue
        ends = [each.start() for each in found[1:]]
        parts = [answer[each.end() : end].rstrip() for each, end in zip(found, [*ends, len(answer)], strict=True)]
        if not any("\n\n" in each for each in parts[:-1]):
            parts[-1] = parts[-1].partition("\n\n")[0].rstrip()
        return [(each.end(), each.end() + len(part)) for each, part in zip(found, parts, strict=True)]
    return []


def read_span_quoted_from_answer(text: str, answer: str) -> tuple[int, int] | UnreadableCompletion | None:
    """Return the span in an answer of the part that a judge quotes; None if the judge finds none.

    All white space matches alike.
    """
    lines = re.findall(r"^part:(.*)$", text, re.IGNORECASE | re.MULTILINE)
    if len(lines) != 1:
        return UnreadableCompletion(f'there are {len(lines)} lines of the form "Part: …", expected one')
    quote = lines[0].strip()
    if quote.casefold().rstrip(".") == "none":
        return None
    found = re.search(r"\s+".join(map(re.escape, quote.split())), answer) if quote else None
    return found.span() if found else UnreadableCompletion(f"{quote[:60]!r} does not stand in the answer word for word")


def pair_fact_answers(
    fact: FactAnsweredByOneModel,
    function_words: Collection[str],
    least_matched: float,
    human_paired_texts_by_id: Mapping[str, tuple[str, str]],
) -> FactInShortAndLongAnswer:
    """Return a fact with the parts of both answers that state it, found without a judge.

    `chosen`: id → the texts of both answers that a person paired; an empty text means the whole short answer, or the
    part found here. `least_matched`: least share of the short text's content words in the best aligned part.
    """
    start = len(fact.short_answer) - len(fact.short_answer.lstrip())
    fields = {"short_text": fact.short_answer.strip(), "short_start": start}

    def pair(by: str, **more: Any) -> FactInShortAndLongAnswer:
        none = {"long_text": "", "long_start": 0, "matched": None, "unscored": "", "detail": ""}
        return fact.extend_to(FactInShortAndLongAnswer, **{**none, **fields, **more, "paired_by": by})

    def leave(reason: UnscoredFactReason, detail: str) -> FactInShortAndLongAnswer:
        fields.update(short_text=fact.short_answer.strip(), short_start=start)
        return pair("", unscored=reason, detail=detail)

    if not split_word_spans(fact.short_answer) or not split_word_spans(fact.long_answer):
        side = "long" if split_word_spans(fact.short_answer) else "short"
        return leave("no_answer", f"the {side} answer has no word")
    short, long = human_paired_texts_by_id.get(fact.id, ("", ""))
    for side, text, answer in (("short", short, fact.short_answer), ("long", long, fact.long_answer)):
        if text not in answer:
            return leave("text_not_found", f"the {side} answer does not hold {text!r}, which the file of pairs names")
    if short:
        fields |= {"short_text": short, "short_start": fact.short_answer.index(short)}
    if long:
        return pair("file", long_text=long, long_start=fact.long_answer.index(long))
    parts = find_numbered_parts(fact.long_answer)
    if parts and split_word_spans(part := fact.long_answer[slice(*parts[fact.number - 1])]):
        return pair("position", long_text=part, long_start=parts[fact.number - 1][0])
    found = find_best_aligned_part(str(fields["short_text"]), fact.long_answer, function_words)
    if found is None or found[2] < least_matched:
        share = f"{found[2] if found else 0.0:.0%} of its content words, expected {least_matched:.0%} or more"
        problem = f"the part of the long answer that is most like the short one has {share}"
        return leave("not_in_long_answer", f"{problem}; name the part in a file of pairs, or name a judge")
    start, end, matched = found
    by = "file" if short else "alignment"
    return pair(by, long_text=fact.long_answer[start:end], long_start=start, matched=matched)


def replace_pair_by_judged_span(
    row: FactInShortAndLongAnswer, part: tuple[int, int] | None
) -> FactInShortAndLongAnswer:
    """Replace a fact's alignment, or missing pair, by the span that a judge quotes (None: there is none)."""
    if part is None:
        detail = "the judge finds no part of the long answer that answers the question"
        fields = {"long_text": "", "long_start": 0, "paired_by": "", "unscored": "not_in_long_answer", "detail": detail}
    else:
        text = row.long_answer[slice(*part)]
        fields = {"long_text": text, "long_start": part[0], "paired_by": "judge", "unscored": "", "detail": ""}
    return row.model_copy(update={**fields, "matched": None})
