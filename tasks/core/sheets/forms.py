"""File forms of sheets: which one a file has, the texts to write, and the rows read back from another tool's export.

Label Studio: JSON tasks to import, the labeling configuration next to them, and the JSON export. A task's `data` holds key, shown
and carried cells. Earlier decisions go out as `predictions`; what comes back is read from `annotations` alone, one per person,
in which a skipped task is marked `was_cancelled`.

Argilla: JSON that `dataset.records.from_json` reads, and the dataset's settings next to it. A record's `fields` are the shown
cells and its `id` is the key; carried cells are metadata. Earlier decisions go out as `suggestions`; what comes back is read from
`responses` alone: question → one value per user.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, Literal, get_args
from xml.sax.saxutils import quoteattr

from factmill.tasks.core.publishing.release_spec import CANARY_COLUMN
from factmill.tasks.core.review import format_formula_safe_csv, iterate_formula_safe_csv_records
from factmill.tasks.core.sheets.sheet import (
    SHOWN_DIGEST,
    FilledSheetRow,
    OnePersonsLabellingToolAnswers,
    Sheet,
    SheetLayout,
    SheetQuestion,
    TaskExportedByLabellingTool,
    digest_shown_cells,
    format_choice,
    get_row_answers_by_question,
    list_hidden_columns,
)
from factmill.tasks.errors import SourceError, UsageError
from factmill.tasks.text.sanitize import escape_control_characters, exceeds_json_depth, replace_surrogates_in_json

SheetForm = Literal["csv", "label-studio", "argilla"]
SHEET_FORMS: tuple[SheetForm, ...] = get_args(SheetForm)
_FORM_BY_ENDING: dict[str, SheetForm] = {".json": "label-studio", ".jsonl": "argilla"}
_MIN_VISIBLE_OPTIONS = 3
"""Least number of options for which Argilla accepts the number to show."""
_ARGILLA_STATES: Mapping[str, Literal["submitted", "skipped", "draft"]] = {"discarded": "skipped", "draft": "draft"}


def resolve_sheet_form_from_ending(path: PurePath, form: str = "") -> SheetForm:
    """Return the form of a file: the one given, else by its ending; CSV for any other ending. UsageError if unknown."""
    if form and form not in SHEET_FORMS:
        raise UsageError(f"--form {form}: expected one of {', '.join(SHEET_FORMS)}")
    return next((each for each in SHEET_FORMS if each == form), _FORM_BY_ENDING.get(path.suffix.lower(), "csv"))


def format_sheet_files(sheet: Sheet, path: PurePath, form: SheetForm) -> dict[str, str]:
    """Return name → text of the files that carry a sheet: the one at `path`, and the tool's set-up next to it."""
    if form == "csv":
        return {path.name: format_formula_safe_csv(sheet.layout.columns, sheet.rows)}
    if form == "label-studio":
        message = _format_label_studio_config(sheet.layout)
        tasks = [_make_label_studio_task(sheet.layout, row) for row in sheet.rows]
        return {path.name: _format_json_file(tasks), f"{path.stem}.label-studio.xml": message}
    records = [_make_argilla_record(sheet.layout, row) for row in sheet.rows]
    text = _format_json_file(records)
    if path.suffix.lower() == ".jsonl":
        text = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in records)
    return {
        path.name: text,
        f"{path.stem}.argilla-settings.json": _format_json_file(_make_argilla_settings(sheet.layout)),
    }


def parse_sheet_csv(layout: SheetLayout, text: str, file: str) -> list[FilledSheetRow]:
    """Parse the rows of a CSV with all columns of a layout, in any order; SourceError for other columns or no CSV."""
    records = iterate_formula_safe_csv_records(text, layout.columns, file, optional_columns=(CANARY_COLUMN,))
    return [FilledSheetRow(f"line {line}", line, cells) for line, cells in records]


def _format_json_file(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def resolve_sheet_form_from_text(text: str, path: PurePath, form: str = "") -> SheetForm:
    """Return the form of a file that came back; without `form`, JSON with `fields` is Argilla's whatever its ending."""
    resolved = resolve_sheet_form_from_ending(path, form)
    if form or resolved == "csv":
        return resolved
    first = next(iter(_parse_json_objects(text, path.name)), {})
    return "argilla" if "fields" in first else "label-studio" if "data" in first else resolved


def parse_labelling_tool_tasks(
    layout: SheetLayout, text: str, file: str, form: Literal["label-studio", "argilla"]
) -> list[TaskExportedByLabellingTool]:
    """Parse an export of Label Studio or Argilla; SourceError names file and place of what is no such export."""
    read = _iterate_label_studio_tasks if form == "label-studio" else _iterate_argilla_tasks
    return list(read(layout, _parse_json_objects(text, file), file))


def _parse_json_objects(text: str, file: str) -> list[dict[str, Any]]:
    """Return the objects of a JSON list or of JSON lines."""
    plain = text.removeprefix("\ufeff").strip()
    try:
        if plain.startswith("{"):
            found = [json.loads(line) for line in plain.split("\n") if line.strip()]
        else:
            found = json.loads(plain)
    except RecursionError as error:
        raise SourceError(f"{file}: nested too deeply; expected a list of tasks or records") from error
    except ValueError as error:
        raise SourceError(f"{file}: not valid JSON: {error}; export the tasks or records again, as JSON") from error
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found) or exceeds_json_depth(found):
        raise SourceError(f"{file}: expected a list of tasks (Label Studio, in the form JSON) or records (Argilla)")
    if not found:
        raise SourceError(f"{file}: it holds no task; Label Studio exports annotated tasks only, so label some first")
    clean: list[dict[str, Any]] = replace_surrogates_in_json(found)
    return clean


def _make_label_studio_task(layout: SheetLayout, row: Mapping[str, str]) -> dict[str, Any]:
    names = dict.fromkeys([*list_hidden_columns(layout), *layout.shown])
    data = {name: row[name] for name in names} | {SHOWN_DIGEST: digest_shown_cells(layout, row)}
    earlier = get_row_answers_by_question(layout, row)
    result = []
    for question in layout.questions:
        kind, inner = ("choices", "choices") if question.choices else ("textarea", "text")
        named = {"id": question.name, "from_name": question.name, "to_name": layout.shown[-1], "type": kind}
        if question.name in earlier:
            result.append({**named, "value": {inner: [earlier[question.name]]}})
    made_by = row.get(layout.who) or "earlier"
    return {"data": data, "predictions": [{"model_version": made_by, "result": result}]} if result else {"data": data}


def _format_label_studio_config(layout: SheetLayout) -> str:
    """Format the labeling configuration of a project that holds such tasks, as XML."""
    lines = ["<View>", f"  <Header {_format_xml_attributes(value=layout.instruction)}/>"]
    for name in layout.shown:
        lines.append(f"  <Header {_format_xml_attributes(value=name.replace('_', ' '), size='5')}/>")
        # valueType: a text that looks like an address is not fetched
        lines.append(f"  <Text {_format_xml_attributes(name=name, value=f'${name}', valueType='text')}/>")
    for question in layout.questions:
        lines.append(f"  <Header {_format_xml_attributes(value=question.title, size='5')}/>")
        named = {"name": question.name, "toName": layout.shown[-1]}
        if not question.choices:
            lines.append(
                f"  <TextArea {_format_xml_attributes(**named, rows='3', maxSubmissions='1', editable='true')}/>"
            )
            continue
        lines.append(f"  <Choices {_format_xml_attributes(**named, choice='single', required='true')}>")
        lines += [
            f"    <Choice {_format_xml_attributes(value=format_choice(value, meaning), alias=value)}/>"
            for value, meaning in question.choices.items()
        ]
        lines.append("  </Choices>")
    return "\n".join([*lines, "</View>"]) + "\n"


def _format_xml_attributes(**values: str) -> str:
    return " ".join(f"{name}={quoteattr(escape_control_characters(value))}" for name, value in values.items())


def _iterate_label_studio_tasks(
    layout: SheetLayout, tasks: list[dict[str, Any]], file: str
) -> Iterator[TaskExportedByLabellingTool]:
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
        yield TaskExportedByLabellingTool(place, number, cells, str(data.get(SHOWN_DIGEST) or ""), answers)


def _parse_annotation(annotation: Any, file: str, place: str) -> OnePersonsLabellingToolAnswers:
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
    by = annotation.get("completed_by")  # a number, or a record with an address
    if isinstance(by, dict):
        by = by.get("email") or by.get("id")
    who = "" if by is None else f"user {by}" if isinstance(by, int) else str(by)
    return OnePersonsLabellingToolAnswers(who, answers, "skipped" if annotation.get("was_cancelled") else "submitted")


def _make_argilla_record(layout: SheetLayout, row: Mapping[str, str]) -> dict[str, Any]:
    """Return a record as `Record.from_dict` reads it."""
    carried = {name: row[name] for name in list_hidden_columns(layout) if name != layout.key}
    earlier = get_row_answers_by_question(layout, row)
    return {
        "id": row[layout.key],
        "fields": {name: row[name] for name in layout.shown if row[name]},
        "metadata": carried | {SHOWN_DIGEST: digest_shown_cells(layout, row)},
        "suggestions": {name: {"value": answer, "score": None, "agent": None} for name, answer in earlier.items()},
        "responses": {},
        "vectors": {},
    }


def _make_argilla_settings(layout: SheetLayout) -> dict[str, Any]:
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
        "questions": [_make_argilla_question(question) for question in layout.questions],
        "metadata": [],
        "vectors": [],
    }


def _make_argilla_question(question: SheetQuestion) -> dict[str, Any]:
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


def _iterate_argilla_tasks(
    layout: SheetLayout, records: list[dict[str, Any]], file: str
) -> Iterator[TaskExportedByLabellingTool]:
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
        yield TaskExportedByLabellingTool(
            place, number, cells, digest, list(_iterate_argilla_answers(responses, file, place))
        )


def _iterate_argilla_answers(
    responses: Mapping[str, Any], file: str, place: str
) -> Iterator[OnePersonsLabellingToolAnswers]:
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
        yield OnePersonsLabellingToolAnswers(who, of_user, _ARGILLA_STATES.get(states[who], "submitted"))
