"""Sheets as records of an Argilla dataset: JSON that `dataset.records.from_json` reads, and the dataset's settings beside it.

A record's `fields` are the shown cells and its `id` is the key; carried cells are metadata. Earlier decisions go out as
`suggestions`; what comes back is read from `responses` alone: question → one value per user.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from factmill.tasks.core.sheets.sheet import (
    SHOWN_DIGEST,
    FormAnswer,
    FormTask,
    Sheet,
    SheetLayout,
    SheetQuestion,
    digest_shown_cells,
    format_choice,
    list_carried_columns,
    list_earlier_answers,
)
from factmill.tasks.errors import SourceError

_MIN_VISIBLE_OPTIONS = 3
"""Least number of options for which Argilla accepts the number to show."""
_STATES: Mapping[str, Literal["submitted", "skipped", "draft"]] = {"discarded": "skipped", "draft": "draft"}


def make_argilla_records(sheet: Sheet) -> list[dict[str, Any]]:
    """Return the records of a dataset, as `Record.from_dict` reads them."""
    return [_make_record(sheet.layout, row) for row in sheet.rows]


def _make_record(layout: SheetLayout, row: Mapping[str, str]) -> dict[str, Any]:
    carried = {name: row[name] for name in list_carried_columns(layout) if name != layout.key}
    earlier = list_earlier_answers(layout, row)
    return {
        "id": row[layout.key],
        "fields": {name: row[name] for name in layout.shown if row[name]},
        "metadata": carried | {SHOWN_DIGEST: digest_shown_cells(layout, row)},
        "suggestions": {name: {"value": answer, "score": None, "agent": None} for name, answer in earlier.items()},
        "responses": {},
        "vectors": {},
    }


def make_argilla_settings(layout: SheetLayout) -> dict[str, Any]:
    """Return the settings of the dataset, as `Settings.from_json` reads them."""
    return {
        "guidelines": layout.instruction,
        "allow_extra_metadata": True,
        "fields": [
            {
                "name": name,
                "title": name.replace("_", " "),
                # a text may be empty, but a dataset needs a field that is there
                "required": at == 0,
                "settings": {"type": "text", "use_markdown": False},
            }
            for at, name in enumerate(layout.shown)
        ],
        "questions": [_make_question(question) for question in layout.questions],
        "metadata": [],
        "vectors": [],
    }


def _make_question(question: SheetQuestion) -> dict[str, Any]:
    settings: dict[str, Any] = {"type": "text", "use_markdown": False}
    if question.choices:
        options = [
            {"value": value, "text": format_choice(value, meaning), "description": None}
            for value, meaning in question.choices.items()
        ]
        visible = len(options) if len(options) >= _MIN_VISIBLE_OPTIONS else None
        settings = {"type": "label_selection", "options": options, "visible_options": visible}
    named = {"name": question.name, "title": question.title, "description": None}
    return {**named, "required": bool(question.choices), "settings": settings}


def iterate_argilla_tasks(layout: SheetLayout, records: list[dict[str, Any]], file: str) -> Iterator[FormTask]:
    """Yield the records that `dataset.records.to_json` wrote; SourceError names file and record where it is no such file."""
    for number, record in enumerate(records, 1):
        key = record.get("id")
        place = f"record {number if key is None else key}"
        fields, metadata, responses = (record.get(name) or {} for name in ("fields", "metadata", "responses"))
        if not all(isinstance(each, dict) for each in (fields, metadata, responses)):
            raise SourceError(
                f"{file}, {place}: expected fields, metadata and responses by name; export with dataset.records(with_responses=True)"
                ".to_json(FILE)"
            )
        known = {**metadata, **fields, layout.key: key}
        cells = {name: str(known[name]) for name in layout.columns if known.get(name) is not None}
        digest = str(metadata.get(SHOWN_DIGEST) or "")
        yield FormTask(place, number, cells, digest, list(_iterate_answers(responses, file, place)))


def _iterate_answers(responses: Mapping[str, Any], file: str, place: str) -> Iterator[FormAnswer]:
    """Yield one answer per user of a record's responses."""
    answers: dict[str, dict[str, str]] = {}
    states: dict[str, str] = {}
    for question, given in responses.items():
        if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
            raise SourceError(
                f"{file}, {place}: expected a list of responses to {question}, each with value and user_id"
            )
        for each in given:
            # the client writes the text None where it knows no user
            who = str(each.get("user_id") or "").replace("None", "")
            value = each.get("value")
            answers.setdefault(who, {})[question] = "" if value is None else str(value)
            states[who] = str(each.get("status") or "")
    for who, of_user in answers.items():
        yield FormAnswer(who, of_user, _STATES.get(states[who], "submitted"))
