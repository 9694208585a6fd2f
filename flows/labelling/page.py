"""What the labelling page shows and saves: one row at a time, its answers, and the progress; no HTTP here."""

import base64
import hashlib
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

from markupsafe import Markup

from factmill.flows.labelling.journal import Answers, DecisionJournal
from factmill.tasks.core.sheets.sheet import FilledSheetRow, Sheet, are_all_choices_made, get_row_answers_by_question
from factmill.tasks.errors import UsageError
from factmill.tasks.reports.formatting import load_template_text
from factmill.tasks.reports.rendering import render_html_template
from factmill.tasks.text.sanitize import escape_control_characters, replace_lone_surrogates_by_question_mark

_MAX_ANSWER_CHARACTERS = 100_000


class SheetLabellingSession:
    """The page of one sheet and one person; its methods may be called by several threads."""

    def __init__(
        self,
        sheet: Sheet,
        title: str,
        who: str,
        journal: DecisionJournal,
        check_row: Callable[[FilledSheetRow], object] = lambda _: None,
    ) -> None:
        """Make a page; `check_row` raises UsageError for a decided row that the command would refuse."""
        self._layout, self._title, self._who = sheet.layout, title, who
        # a key that is there twice is one row
        self._rows = list({row[sheet.layout.key]: row for row in sheet.rows}.values())
        self._places = {row[sheet.layout.key]: at for at, row in enumerate(self._rows)}
        self._earlier = {row[sheet.layout.key]: get_row_answers_by_question(sheet.layout, row) for row in sheet.rows}
        self._journal, self._check_row = journal, check_row
        self._lock = Lock()

    def render(self) -> str:
        """Return the page as HTML; its rows are fetched one by one."""
        script = load_template_text("label.js")
        return render_html_template(
            "label.html",
            title=self._title,
            warnings=(),
            who=self._who,
            instruction=self._layout.instruction,
            questions=self._layout.questions,
            keys={
                question.name: _assign_keyboard_keys_to_choices(question.choices) for question in self._layout.questions
            },
            more_style=Markup(load_template_text("label.css")),
            is_app=True,
            script=Markup(script),
            digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        )

    def show(self, at: int | None = None) -> dict[str, Any]:
        """Return the row at a position with its answers and the progress; without one, the first open row."""
        with self._lock:
            return self._describe(self._find_open(0) if at is None else at)

    def decide(self, key: str, given: Mapping[str, Any], stays: bool) -> dict[str, Any]:
        """Save answers about a row, and return the row to show next: with `stays`, the same one; ValueError says what is wrong
        with them."""
        if key not in self._places:
            raise ValueError(f"no row {key!r} on this page; reload it")
        answers = self._read_answers(given)
        with self._lock:
            at = self._places[key]
            is_done = are_all_choices_made(self._layout, answers)
            if is_done:
                self._check(at, answers)
            was_decided = are_all_choices_made(self._layout, self._get_answers(key))
            self._journal.record(key, answers)
            # a changed answer about a decided row leaves the reader there
            goes_on = is_done and not was_decided and not stays
            return self._describe(self._find_open(at) if goes_on else at)

    def undo(self) -> dict[str, Any]:
        """Take the latest decision back, and return its row; ValueError where there is none."""
        with self._lock:
            key = self._journal.undo()
            if key is None:
                raise ValueError("there is nothing to undo")
            return self._describe(self._places.get(key, 0))

    def list_decided_rows(self) -> list[FilledSheetRow]:
        """Return the rows that this person has decided, with all their cells."""
        with self._lock:
            return [
                self._make_row(at, self._journal.answers[row[self._layout.key]])
                for at, row in enumerate(self._rows)
                if are_all_choices_made(self._layout, self._journal.answers.get(row[self._layout.key], {}))
            ]

    def count_open(self) -> int:
        """Return the number of rows without a decision."""
        with self._lock:
            return sum(not are_all_choices_made(self._layout, self._get_answers(key)) for key in self._places)

    def _check(self, at: int, answers: Answers) -> None:
        try:
            self._check_row(self._make_row(at, answers))
        except UsageError as error:
            raise ValueError(f"not saved: {error}") from error

    def _make_row(self, at: int, answers: Answers) -> FilledSheetRow:
        blank = {question.name: "" for question in self._layout.questions}
        cells = {**self._rows[at], **blank, **answers, self._layout.who: self._who}
        return FilledSheetRow(f"row {at + 1} of the page", at + 1, cells)

    def _get_answers(self, key: str) -> Answers:
        """Return this person's answers about a row, else the earlier ones of the sheet."""
        return self._journal.answers.get(key) or self._earlier[key]

    def _find_open(self, after: int) -> int:
        """Return the position of the next open row, from `after` on and then from the beginning; `after` where none is open."""
        keys = list(self._places)
        order = [*range(after, len(keys)), *range(after)]
        return next((at for at in order if not are_all_choices_made(self._layout, self._get_answers(keys[at]))), after)

    def _describe(self, at: int) -> dict[str, Any]:
        at = min(max(at, 0), len(self._rows) - 1)
        row = self._rows[at]
        key = row[self._layout.key]
        shown = {name: escape_control_characters(row[name]) for name in self._layout.shown}
        done = sum(are_all_choices_made(self._layout, self._get_answers(each)) for each in self._places)
        return {
            "at": at,
            "total": len(self._rows),
            "done": done,
            "key": key,
            "shown": [[name.replace("_", " "), text or "–"] for name, text in shown.items()],
            "answers": dict(self._get_answers(key)),
        }

    def _read_answers(self, given: Mapping[str, Any]) -> dict[str, str]:
        """Return the non-empty answers that the page sent; ValueError for any that the sheet does not allow."""
        answers = {}
        for question in self._layout.questions:
            answer = given.get(question.name, "")
            if not isinstance(answer, str) or len(answer) > _MAX_ANSWER_CHARACTERS:
                raise ValueError(f"{question.name}: expected a text of {_MAX_ANSWER_CHARACTERS:,} characters at most")
            if question.choices and answer and answer not in question.choices:
                raise ValueError(f"{question.name}: expected one of {', '.join(question.choices)}")
            needed = question.needed_with
            if answer.strip() and (needed is None or given.get(needed[0]) == needed[1]):
                answers[question.name] = replace_lone_surrogates_by_question_mark(answer)
        return answers


def _assign_keyboard_keys_to_choices(choices: Mapping[str, str]) -> dict[str, str]:
    """Return choice → key that makes it: the choice itself where all are one character, else its position."""
    if all(len(value) == 1 for value in choices):
        return {value: value.lower() for value in choices}
    return {value: str(at) for at, value in enumerate(choices, 1)}
