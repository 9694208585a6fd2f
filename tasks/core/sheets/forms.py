"""File forms of sheets: which one a file has, the texts to write, and the rows read back from another tool's export."""

import json
from pathlib import PurePath
from typing import Any, Literal, get_args

from factmill.tasks.core.publishing.release_spec import CANARY_COLUMN
from factmill.tasks.core.review import format_formula_safe_csv, iterate_formula_safe_csv_records
from factmill.tasks.core.sheets.argilla import iterate_argilla_tasks, make_argilla_records, make_argilla_settings
from factmill.tasks.core.sheets.label_studio import (
    format_label_studio_config,
    iterate_label_studio_tasks,
    make_label_studio_tasks,
)
from factmill.tasks.core.sheets.sheet import FormTask, Sheet, SheetLayout, SheetRow
from factmill.tasks.errors import SourceError, UsageError
from factmill.tasks.text.sanitize import exceeds_json_depth, replace_surrogates_in_json

SheetForm = Literal["csv", "label-studio", "argilla"]
SHEET_FORMS: tuple[SheetForm, ...] = get_args(SheetForm)
_FORM_BY_ENDING: dict[str, SheetForm] = {".json": "label-studio", ".jsonl": "argilla"}


def resolve_sheet_form(path: PurePath, form: str = "") -> SheetForm:
    """Return the form of a file: the one given, else by its ending; CSV for any other ending. UsageError if unknown."""
    if form and form not in SHEET_FORMS:
        raise UsageError(f"--form {form}: expected one of {', '.join(SHEET_FORMS)}")
    return next((each for each in SHEET_FORMS if each == form), _FORM_BY_ENDING.get(path.suffix.lower(), "csv"))


def format_sheet_files(sheet: Sheet, path: PurePath, form: SheetForm) -> dict[str, str]:
    """Return name → text of the files that carry a sheet: the one asked for, and beside it what the tool has to be set up with.

    `path`: the file; records of Argilla are lines if it ends in `.jsonl`, else one list.
    """
    if form == "csv":
        return {path.name: format_formula_safe_csv(sheet.layout.columns, sheet.rows)}
    if form == "label-studio":
        beside = format_label_studio_config(sheet.layout)
        return {path.name: _format_json(make_label_studio_tasks(sheet)), f"{path.stem}.label-studio.xml": beside}
    records = make_argilla_records(sheet)
    is_lines = path.suffix.lower() == ".jsonl"
    text = (
        "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in records) if is_lines else _format_json(records)
    )
    return {path.name: text, f"{path.stem}.argilla-settings.json": _format_json(make_argilla_settings(sheet.layout))}


def parse_sheet_csv(layout: SheetLayout, text: str, file: str) -> list[SheetRow]:
    """Parse the rows of a CSV with all columns of a layout, in any order; SourceError for other columns or no CSV."""
    records = iterate_formula_safe_csv_records(text, layout.columns, file, optional_columns=(CANARY_COLUMN,))
    return [SheetRow(f"line {line}", line, cells) for line, cells in records]


def _format_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def find_form_of_text(text: str, path: PurePath, form: str = "") -> SheetForm:
    """Return the form of a file that came back; without `form`, JSON with `fields` is Argilla's whatever its ending."""
    resolved = resolve_sheet_form(path, form)
    if form or resolved == "csv":
        return resolved
    first = next(iter(_parse_json_objects(text, path.name)), {})
    return "argilla" if "fields" in first else "label-studio" if "data" in first else resolved


def parse_form_tasks(
    layout: SheetLayout, text: str, file: str, form: Literal["label-studio", "argilla"]
) -> list[FormTask]:
    """Parse an export of Label Studio or Argilla; SourceError names file and place of what is no such export."""
    read = iterate_label_studio_tasks if form == "label-studio" else iterate_argilla_tasks
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
