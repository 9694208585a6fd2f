"""Which items a question is about, by the names in it: the baseline's retrieval and re-ranking (paper §3.1, §3.2).

There is no model of named entities: every run of words from one capital to another may be a name, and is one where an item
of the class bears it as label or alias, the longest first. Of several bearers the one counts whose neighbours the question
names most often, word for word; among equals the one known by this label, then that of the smaller number.
"""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from tasks.core.calls.knowledge import Candidate, Fact, Qid
from tasks.text.folded import fold_text, has_words
from tasks.text.ids import id_number

LONGEST = 6
"""Words of the longest name looked for."""
_AROUND = "\"'“”‘’«»„()[]{}¿¡,;:!?…"
_POSSESSIVE = re.compile(r"(?<=[\w.])(?:['’]s|(?<=s)['’])$")


@dataclass(frozen=True, slots=True)
class Span:
    """A run of words that may be a name."""

    start: int
    """Number of the first word."""
    stop: int
    spellings: tuple[str, ...]
    """As written, then without what a sentence adds to a name: a possessive, a full stop."""


@dataclass(frozen=True, slots=True)
class Name:
    """A name in a question, and the items of the class that bear it."""

    text: str
    candidates: tuple[Candidate, ...]


def list_spans(question: str, shortest: int, function_words: Set[str]) -> list[Span]:
    """Return the runs of words that begin and end with a word in capitals, `shortest` words at least.

    A function word alone is none. Scripts without capitals count as written in them.
    """
    words = question.split()
    marked = [at for at, word in enumerate(words) if any(each.isalpha() and not each.islower() for each in word)]
    spans = []
    for start in marked:
        for stop in (end + 1 for end in marked if shortest <= end + 1 - start <= LONGEST):
            spellings = _spell(" ".join(words[start:stop]))
            if spellings and spellings[0].lower() not in function_words:
                spans.append(Span(start, stop, spellings))
    return spans


def _spell(written: str) -> tuple[str, ...]:
    name = written.strip(_AROUND)
    bare = name.rstrip("." + _AROUND)
    return tuple(filter(None, dict.fromkeys([name, bare, _POSSESSIVE.sub("", bare)])))


def choose_names(spans: Sequence[Span], bearers: Mapping[str, Sequence[Candidate]]) -> list[Name]:
    """Return the names among spans, in the order of the text: the longest first, none inside or across another.

    `bearers`: spelling → items of the class that bear it.
    """
    taken: set[int] = set()
    chosen: list[tuple[int, Name]] = []
    for span in sorted(spans, key=lambda span: (span.start - span.stop, span.start)):
        text = next((each for each in span.spellings if bearers.get(each)), None)
        if text is not None and taken.isdisjoint(range(span.start, span.stop)):
            taken.update(range(span.start, span.stop))
            chosen.append((span.start, Name(text, tuple(bearers[text]))))
    return [name for _, name in sorted(chosen, key=lambda pair: pair[0])]


def choose_item(question: str, name: Name, facts: Mapping[str, Sequence[Fact]]) -> Qid:
    """Return which of a name's bearers a question means (§3.2, exact match of neighbours)."""
    folded, own = fold_text(question), fold_text(name.text)

    def rank(candidate: Candidate) -> tuple[int, bool, int]:
        labels = {fold_text(fact.value) for fact in facts[candidate.qid] if fact.qid and fact.value} - {own}
        matched = sum(has_words(folded, label) for label in labels)
        return -matched, candidate.via != "label", id_number(candidate.qid)

    return min(name.candidates, key=rank).qid
