"""Sheets as tasks of Label Studio: JSON to import, the labeling configuration beside it, and its JSON export.

A task's `data` holds key, shown and carried cells. Earlier decisions go out as `predictions`; what comes back is read from
`annotations` alone, one per person, in which a skipped task is marked `was_cancelled`.
"""

from collections.abc import Iterator, Mapping
from typing import Any
from xml.sax.saxutils import quoteattr

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
from factmill.tasks.text.sanitize import escape_control_characters


def make_label_studio_tasks(sheet: Sheet) -> list[dict[str, Any]]:
    """Return the tasks to import into a project."""
    return [_make_task(sheet.layout, row) for row in sheet.rows]


def _make_task(layout: SheetLayout, row: Mapping[str, str]) -> dict[str, Any]:
    names = dict.fromkeys([*list_carried_columns(layout), *layout.shown])
    data = {name: row[name] for name in names} | {SHOWN_DIGEST: digest_shown_cells(layout, row)}
    earlier = list_earlier_answers(layout, row)
    result = [
        _make_result(layout, question, earlier[question.name])
        for question in layout.questions
        if question.name in earlier
    ]
    made_by = row.get(layout.who) or "earlier"
    return {"data": data, "predictions": [{"model_version": made_by, "result": result}]} if result else {"data": data}


def _make_result(layout: SheetLayout, question: SheetQuestion, answer: str) -> dict[str, Any]:
    kind, inner = ("choices", "choices") if question.choices else ("textarea", "text")
    return {
        "id": question.name,
        "from_name": question.name,
        "to_name": layout.shown[-1],
        "type": kind,
        "value": {inner: [answer]},
    }


def format_label_studio_config(layout: SheetLayout) -> str:
    """Format the labeling configuration of a project that holds such tasks, as XML."""
    lines = ["<View>", f"  <Header {_attributes(value=layout.instruction)}/>"]
    for name in layout.shown:
        lines.append(f"  <Header {_attributes(value=name.replace('_', ' '), size='5')}/>")
        # valueType: a text that looks like an address is not fetched
        lines.append(f"  <Text {_attributes(name=name, value=f'${name}', valueType='text')}/>")
    for question in layout.questions:
        lines.append(f"  <Header {_attributes(value=question.title, size='5')}/>")
        named = {"name": question.name, "toName": layout.shown[-1]}
        if not question.choices:
            lines.append(f"  <TextArea {_attributes(**named, rows='3', maxSubmissions='1', editable='true')}/>")
            continue
        lines.append(f"  <Choices {_attributes(**named, choice='single', required='true')}>")
        lines += [
            f"    <Choice {_attributes(value=format_choice(value, meaning), alias=value)}/>"
            for value, meaning in question.choices.items()
        ]
        lines.append("  </Choices>")
    return "\n".join([*lines, "</View>"]) + "\n"


def _attributes(**values: str) -> str:
    return " ".join(f"{name}={quoteattr(escape_control_characters(value))}" for name, value in values.items())


def iterate_label_studio_tasks(layout: SheetLayout, tasks: list[dict[str, Any]], file: str) -> Iterator[FormTask]:
    """Yield the tasks of an export in the form "JSON"; SourceError names file and task where it is no such export."""
    for number, task in enumerate(tasks, 1):
        place = f"task {task.get('id', number)}"
        data, annotations = task.get("data"), task.get("annotations", [])
        if not isinstance(data, dict) or not isinstance(annotations, list):
            raise SourceError(
                f"{file}, {place}: expected an object with data and annotations, as Label Studio exports them in the form JSON "
                "(not JSON_MIN); export the project again in that form"
            )
        # a project may hold numbers for texts that look like some
        cells = {name: str(data[name]) for name in layout.columns if data.get(name) is not None}
        answers = [_parse_annotation(each, file, place) for each in annotations]
        yield FormTask(place, number, cells, str(data.get(SHOWN_DIGEST) or ""), answers)


def _parse_annotation(annotation: Any, file: str, place: str) -> FormAnswer:
    results = annotation.get("result") if isinstance(annotation, dict) else None
    if not isinstance(results, list) or not all(
        isinstance(each, dict) and isinstance(each.get("value"), dict) for each in results
    ):
        raise SourceError(
            f"{file}, {place}: expected annotations with a result; export the project again in the form JSON"
        )
    answers = {}
    for each in results:
        value = each["value"].get("choices", each["value"].get("text", []))
        answers[str(each.get("from_name"))] = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    who = _name_annotator(annotation.get("completed_by"))
    return FormAnswer(who, answers, "skipped" if annotation.get("was_cancelled") else "submitted")


def _name_annotator(given: Any) -> str:
    """Return the name of who annotated: exports give a number, or a record with an address; empty where neither is there."""
    if isinstance(given, dict):
        given = given.get("email") or given.get("id")
    return "" if given is None else f"user {given}" if isinstance(given, int) else str(given)
