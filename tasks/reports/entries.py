"""Entries of the item browser: single answers, the worst first, limited to what a page can hold."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from factmill.tasks.evaluation.record import Item, pick_worst
from factmill.tasks.reports.texts import LONGEST_NAME
from factmill.tasks.text.whole import clean

MOST_ENTRIES = 500
MOST_BYTES = 1_500_000
"""Maximum bytes of the entries' texts on a page."""
_LONGEST = 1_000
"""Maximum characters of a question, an answer or a gold answer."""


@dataclass(frozen=True, slots=True)
class Given:
    """The answer of one model, with verdict and score."""

    model: str
    answer: str
    verdict: str
    score: float | None


@dataclass(frozen=True, slots=True)
class Entry:
    """One question in one setting, with the answer of each model."""

    answer_id: str
    setting: str
    question: str
    gold: str
    given: tuple[Given, ...]
    row_id: str
    explain: str
    """Command that shows the provenance of the row."""
    groups: Mapping[str, str]


def list_entries(
    items: Mapping[str, Sequence[Item]], benchmark: str, build: str, most: int = MOST_ENTRIES
) -> tuple[list[Entry], int]:
    """Return the entries that fit on a page, and the total number of entries.

    `items`: model → its answers. For one model: unscored answers, then the lowest scores. For several: questions that
    all models were asked, sorted by the largest difference between scores.
    """
    first, *others = items.values()
    known = [{item.answer_id: item for item in each} for each in others]
    shared = [item for item in pick_worst(first) if all(item.answer_id in each for each in known)]
    rows = [(item, *(each[item.answer_id] for each in known)) for item in shared]
    if others:
        rows.sort(key=lambda row: -_spread(row))
    kept: list[Entry] = []
    room = MOST_BYTES
    for row in rows[:most]:
        entry = _describe(row, list(items), benchmark, build)
        texts = (entry.question, entry.gold, entry.explain, *(each.answer for each in entry.given))
        room -= sum(len(escape(text).encode()) for text in texts)
        if room < 0 and kept:
            break
        kept.append(entry)
    return kept, len(rows)


def shorten(text: str, longest: int = _LONGEST) -> str:
    """Return a cleaned text, cut to `longest` characters with a note of the original length."""
    if len(text) <= longest:
        return clean(text)
    return f"{clean(text[:longest])} … [shortened: {len(text):,} characters in all]"


def _describe(row: Sequence[Item], models: Sequence[str], benchmark: str, build: str) -> Entry:
    item = row[0]
    return Entry(
        answer_id=item.answer_id,
        setting=item.setting,
        question=shorten(item.question),
        gold=shorten(item.gold),
        given=tuple(
            Given(model, shorten(each.answer), shorten(each.verdict, 200), each.score)
            for model, each in zip(models, row, strict=True)
        ),
        row_id=item.row_id,
        explain=f"factmill explain {benchmark} {shlex.quote(item.row_id)} --build {build}",
        groups={by: shorten(group, LONGEST_NAME) for by, group in item.groups.items() if group},
    )


def _spread(row: Sequence[Item]) -> float:
    scores = [item.score for item in row if item.score is not None]
    return max(scores) - min(scores) if scores else 0.0
