"""Entries of the item browser: single answers, the worst first, limited to what a page can hold."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from factmill.tasks.evaluation.definition import AnswerShownInReport, sort_answers_worst_first
from factmill.tasks.reports.formatting import MAX_NAME_CHARACTERS
from factmill.tasks.reports.page_frame import MAX_INDEXED_ROWS, SearchablePageRows, pack_rows_for_page_search
from factmill.tasks.text.sanitize import escape_control_characters

MAX_ITEM_ENTRIES = 500
MAX_ITEM_ENTRY_BYTES = 1_500_000
"""Maximum bytes of the entries' texts on a page."""
_MAX_ANSWER_CHARACTERS = 1_000
"""Maximum characters of a question, an answer or a gold answer."""


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """The answer of one model, with verdict and score."""

    model: str
    answer: str
    verdict: str
    score: float | None


@dataclass(frozen=True, slots=True)
class QuestionWithModelAnswers:
    """One question in one setting, with the answer of each model."""

    answer_id: str
    setting: str
    question: str
    gold: str
    given: tuple[ModelAnswer, ...]
    row_id: str
    explain: str
    """Command that shows the provenance of the row."""
    groups: Mapping[str, str]

    @property
    def filter_values(self) -> dict[str, str | list[str]]:
        """Filter of the page → the entry's values."""
        verdicts = sorted({each.verdict for each in self.given})
        return {"setting": self.setting, "verdict": verdicts, **self.groups}


def list_item_entries_and_count_all(
    items: Mapping[str, Sequence[AnswerShownInReport]], benchmark: str, build: str, most: int = MAX_ITEM_ENTRIES
) -> tuple[list[QuestionWithModelAnswers], int]:
    """Return the entries that fit on a page, and the total number of entries.

    `items`: model → its answers. For one model: unscored answers, then the lowest scores. For several: questions that
    all models were asked, sorted by the largest difference between scores.
    """
    first, *others = items.values()
    known = [{item.answer_id: item for item in each} for each in others]
    shared = [item for item in sort_answers_worst_first(first) if all(item.answer_id in each for each in known)]
    rows = [(item, *(each[item.answer_id] for each in known)) for item in shared]
    if others:
        rows.sort(key=lambda row: -_compute_score_spread(row))
    kept: list[QuestionWithModelAnswers] = []
    room = MAX_ITEM_ENTRY_BYTES
    for row in rows[:most]:
        entry = _make_item_entry(row, list(items), benchmark, build)
        texts = (entry.question, entry.gold, entry.explain, *(each.answer for each in entry.given))
        room -= sum(len(escape(text).encode()) for text in texts)
        if room < 0 and kept:
            break
        kept.append(entry)
    return kept, len(rows)


def pack_item_entries_for_search(items: Mapping[str, Sequence[AnswerShownInReport]]) -> SearchablePageRows:
    """Return the items of the first model, with the answers of all, for the page's search."""
    first, *others = items.values()
    known = [{item.answer_id: item for item in each} for each in others]
    groups = list(dict.fromkeys(by for item in first for by in item.groups))
    answers = [heading for model in items for heading in ((f"{model}: " if others else "") + "answer",)]
    return pack_rows_for_page_search(
        ["row", "question", "gold", *answers],
        ["setting", "verdict", *groups],
        (
            [
                item.row_id,
                item.question,
                item.gold,
                *(f"{found.answer} [{found.verdict}]" if found else "–" for found in each),
                item.setting,
                sorted({shorten_with_note(found.verdict, 200) for found in each if found}),
                *(item.groups.get(by) or "–" for by in groups),
            ]
            for item in sort_answers_worst_first(first)[:MAX_INDEXED_ROWS]
            for each in [[item, *(of.get(item.answer_id) for of in known)]]
        ),
    )


def shorten_with_note(text: str, longest: int = _MAX_ANSWER_CHARACTERS) -> str:
    """Return a cleaned text, cut to `longest` characters with a note of the original length."""
    if len(text) <= longest:
        return escape_control_characters(text)
    return f"{escape_control_characters(text[:longest])} … [shortened: {len(text):,} characters in all]"


def _make_item_entry(
    row: Sequence[AnswerShownInReport], models: Sequence[str], benchmark: str, build: str
) -> QuestionWithModelAnswers:
    item = row[0]
    return QuestionWithModelAnswers(
        answer_id=item.answer_id,
        setting=item.setting,
        question=shorten_with_note(item.question),
        gold=shorten_with_note(item.gold),
        given=tuple(
            ModelAnswer(model, shorten_with_note(each.answer), shorten_with_note(each.verdict, 200), each.score)
            for model, each in zip(models, row, strict=True)
        ),
        row_id=item.row_id,
        explain=f"factmill explain {benchmark} {shlex.quote(item.row_id)} --build {build}",
        groups={by: shorten_with_note(group, MAX_NAME_CHARACTERS) for by, group in item.groups.items() if group},
    )


def _compute_score_spread(row: Sequence[AnswerShownInReport]) -> float:
    scores = [item.score for item in row if item.score is not None]
    return max(scores) - min(scores) if scores else 0.0
