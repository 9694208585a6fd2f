"""A sheet for people: rows with what they see and what they decide, whatever file form or page carries it.

`factmill label`, `audit` and `review` each make a sheet and read rows back; forms and the page know nothing about the three.
What a person saw is pinned by a digest of the shown cells, so that a text changed in another tool is noticed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from factmill.tasks.core.digests import digest_json

SHOWN_DIGEST = "shown_digest"
"""Name under which a form carries the digest of a row's shown cells."""


@dataclass(frozen=True, slots=True)
class SheetQuestion:
    """One thing that a person decides about a row."""

    name: str
    """Column of the answer."""
    title: str
    """Question to the person, one line."""
    choices: Mapping[str, str] = field(default_factory=dict)
    """Allowed answer → its meaning, which may be empty; no choices: any text, which may be left out."""
    needed_with: tuple[str, str] | None = None
    """(question, answer) with which this text is needed, and without which it has no meaning; None: it is optional."""


@dataclass(frozen=True, slots=True)
class SheetLayout:
    """Columns of a sheet, and who sees or fills in which."""

    columns: tuple[str, ...]
    """All columns, in the order of the CSV; those that are neither shown nor asked about are carried along."""
    key: str
    """Column that identifies a row."""
    who: str
    """Column of the person's name."""
    shown: tuple[str, ...]
    questions: tuple[SheetQuestion, ...]
    instruction: str
    """What people are asked to do, one line."""
    several_people: bool = False
    """True: each person's answers about a row count; False: a row has one decision."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A sheet to fill in."""

    layout: SheetLayout
    rows: Sequence[Mapping[str, str]]
    """Column → cell, for all columns of the layout; earlier answers are filled in."""


@dataclass(frozen=True, slots=True)
class FilledSheetRow:
    """One row that a person filled in, as read from a file or the page."""

    place: str
    """Place for messages: "row 3", "line 3", "task 17"."""
    number: int
    """Number of the line or task."""
    cells: Mapping[str, str]

    def get(self, name: str) -> str:
        """Return a cell without surrounding white space; empty where there is none."""
        return self.cells.get(name, "").strip()


SheetProblemKind = Literal[
    "missing", "skipped", "draft", "annotator", "unreadable", "doubled", "contradicting", "unknown", "changed"
]
HARMLESS_PROBLEMS = frozenset({"missing", "skipped", "draft", "doubled"})
"""Kinds that people may have meant: nothing of the file is wrong."""


@dataclass(frozen=True, slots=True)
class SheetProblem:
    """A problem with a row, which is left out."""

    kind: SheetProblemKind
    message: str
    """Message that begins with the row's place."""


@dataclass(slots=True)
class ParsedSheet:
    """Rows of a file with a decision, and the problems with others."""

    rows: list[FilledSheetRow] = field(default_factory=list)
    problems: list[SheetProblem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class OnePersonsLabellingToolAnswers:
    """What one person answered about a task of another tool."""

    who: str
    """Empty: the tool does not say."""
    answers: Mapping[str, str]
    """Question → answer; several choices are joined with commas, which no choice allows."""
    state: Literal["submitted", "skipped", "draft"] = "submitted"


@dataclass(frozen=True, slots=True)
class TaskExportedByLabellingTool:
    """One task as another tool exported it, before any check."""

    place: str
    number: int
    cells: Mapping[str, str]
    """Key, shown and carried cells."""
    digest: str
    """Digest of the shown cells when the task was written; empty: the tool dropped it."""
    answers: Sequence[OnePersonsLabellingToolAnswers]


def digest_shown_cells(layout: SheetLayout, cells: Mapping[str, str]) -> str:
    """Return a digest of what a person sees of a row, and of its key."""
    return digest_json([cells.get(name, "") for name in (layout.key, *layout.shown)])[:16]


def list_hidden_columns(layout: SheetLayout) -> list[str]:
    """Return the columns that people neither see nor fill in, but that come back with the row."""
    asked = {question.name for question in layout.questions}
    return [name for name in layout.columns if name not in asked and name != layout.who and name not in layout.shown]


def get_row_answers_by_question(layout: SheetLayout, row: Mapping[str, str]) -> dict[str, str]:
    """Return question → answer that a row already has."""
    return {question.name: row[question.name] for question in layout.questions if row.get(question.name)}


def are_all_choices_made(layout: SheetLayout, answers: Mapping[str, str]) -> bool:
    """True when all choices are made and every text that they need is there."""
    return all(
        answers.get(question.name, "").strip()
        for question in layout.questions
        if question.choices
        or (question.needed_with and answers.get(question.needed_with[0]) == question.needed_with[1])
    )


def format_choice(value: str, meaning: str) -> str:
    """Format a choice as people see it."""
    return f"{value}: {meaning}" if meaning else value


def check_labelling_tool_tasks(
    layout: SheetLayout, tasks: Iterable[TaskExportedByLabellingTool], default_who: str, who_option: str
) -> ParsedSheet:
    """Return the decided rows of tasks, and problems; `default_who`: who answered, if unnamed (`who_option`)."""
    found = ParsedSheet()
    for task in tasks:
        is_same = task.digest == digest_shown_cells(layout, task.cells)
        if not task.cells.get(layout.key, ""):
            why = f"it has no {layout.key}; label the tasks that factmill wrote, and export all data"
            _add_task_problem(found, "unknown", task, why)
        elif not is_same:
            what = "what was shown is not what factmill wrote" if task.digest else f"its {SHOWN_DIGEST} is missing"
            why = f"{what}; import factmill's file again and label that, since the answer may be about another text"
            _add_task_problem(found, "changed", task, why)
        elif not task.answers:
            _add_task_problem(found, "missing", task, "nobody has answered it; answer it in the tool and export again")
        for answer in task.answers if is_same else ():
            _add_answer_row_or_problem(layout, task, answer, answer.who or default_who, who_option, found)
    return found if layout.several_people else _merge_equal_drop_conflicting_decisions(layout, found)


def _add_task_problem(
    parsed: ParsedSheet, kind: SheetProblemKind, task: TaskExportedByLabellingTool, message: str
) -> None:
    parsed.problems.append(SheetProblem(kind, f"{task.place}: {message}"))


def _add_answer_row_or_problem(
    layout: SheetLayout,
    task: TaskExportedByLabellingTool,
    answer: OnePersonsLabellingToolAnswers,
    who: str,
    who_option: str,
    parsed: ParsedSheet,
) -> None:
    """Add a person's answer as a row, or the problem with it."""
    by = f" by {who}" if who else ""
    if answer.state != "submitted":
        done = "was skipped" if answer.state == "skipped" else "is a draft"
        _add_task_problem(
            parsed, answer.state, task, f"it {done}{by}; answer and submit it in the tool if it should count"
        )
        return
    if not who:
        _add_task_problem(
            parsed, "annotator", task, f"the answer names no person; say who it was with {who_option} NAME"
        )
        return
    for question in layout.questions:
        given = answer.answers.get(question.name, "").strip()
        if question.choices and given not in question.choices:
            expected = ", ".join(question.choices)
            kind: SheetProblemKind = "unreadable" if given else "missing"
            what = f"the {question.name}{by} is {given!r}" if given else f"no {question.name}{by}"
            _add_task_problem(
                parsed, kind, task, f"{what}; expected one of {expected}; correct it in the tool and export again"
            )
            return
        asked, needed = question.needed_with or ("", "")
        if asked and bool(given) != (answer.answers.get(asked) == needed):
            what = f"{'a text' if given else 'no text'} for {question.name}{by}, but the {asked} is {answer.answers.get(asked)!r}"
            expected = f"a text with {needed}, and none with any other"
            _add_task_problem(
                parsed, "unreadable", task, f"{what}; expected {expected}; correct it in the tool and export again"
            )
            return
    blank = {question.name: "" for question in layout.questions}
    cells = {**task.cells, **blank, **answer.answers, layout.who: who}
    named = dict.fromkeys([*layout.columns, layout.who])
    parsed.rows.append(FilledSheetRow(task.place, task.number, {name: cells.get(name, "") for name in named}))


def _merge_equal_drop_conflicting_decisions(layout: SheetLayout, parsed: ParsedSheet) -> ParsedSheet:
    """Return one row per key: of people who decided alike with all their names, of people who did not, none."""
    by_key: dict[str, list[FilledSheetRow]] = {}
    for row in parsed.rows:
        by_key.setdefault(row.get(layout.key), []).append(row)
    kept = ParsedSheet(problems=parsed.problems)
    choices = [question.name for question in layout.questions if question.name != "note"]
    for key, rows in by_key.items():
        names = list(dict.fromkeys(row.get(layout.who) for row in rows))
        if len({tuple(row.get(name) for name in choices) for row in rows}) == 1:
            kept.rows.append(
                FilledSheetRow(rows[0].place, rows[0].number, {**rows[0].cells, layout.who: ", ".join(names)})
            )
            continue
        places = " and ".join(dict.fromkeys(row.place for row in rows))
        message = (
            f"{places}: {' and '.join(names)} decided differently on {key}; none is used; agree on one answer in the tool and "
            "export again"
        )
        kept.problems.append(SheetProblem("contradicting", message))
    return kept
