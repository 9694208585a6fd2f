"""Write sheets to files of a form, and load the rows of files that people filled in, with the problems in them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from factmill.flows.cli.options import write_text_file
from factmill.tasks.core.digests import digest_bytes
from factmill.tasks.core.sheets.forms import (
    SHEET_FORMS,
    format_sheet_files,
    parse_labelling_tool_tasks,
    parse_sheet_csv,
    resolve_sheet_form_from_ending,
    resolve_sheet_form_from_text,
)
from factmill.tasks.core.sheets.sheet import (
    FilledSheetRow,
    ParsedSheet,
    Sheet,
    SheetLayout,
    SheetProblem,
    check_labelling_tool_tasks,
)
from factmill.tasks.errors import UsageError
from factmill.tasks.files import load_file_bytes

FormOption = Annotated[
    str,
    typer.Option(
        "--form",
        help=f"Format of the file: {', '.join(SHEET_FORMS)}. Default: label-studio for .json, argilla for .jsonl, else csv. "
        "--from detects the format.",
        metavar="FORM",
    ),
]
_MAX_PROBLEM_ROWS = 20
"""Maximum number of problem rows that are listed; the rest are counted."""


def write_sheet_files(sheet: Sheet, sheet_path: Path, form: str) -> list[Path]:
    """Write a sheet and the set-up files of the form's tool next to it; return the files, the sheet first."""
    texts = format_sheet_files(sheet, sheet_path, resolve_sheet_form_from_ending(sheet_path, form))
    return [write_text_file(text, sheet_path.with_name(name)) for name, text in texts.items()]


def format_labelling_tool_setup_note(files: Sequence[Path]) -> list[str]:
    """Return a line about the files next to a sheet; none for a CSV."""
    return [f"  set the project or dataset up with {file}" for file in files[1:]]


def load_sheet_text_and_digest(path: Path, export: str = "label EVALUATION") -> tuple[str, str]:
    """Return a file's text and the SHA-256 of its bytes; UTF-8, with or without a BOM, or a spreadsheet's UTF-16.

    `export`: the command that writes such a file. UsageError if the file cannot be read.
    """
    try:
        data = load_file_bytes(path)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file; factmill {export} --to {path} writes one") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"), digest_bytes(data)
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path}: not UTF-8 text: {error}; save it as CSV in UTF-8, or export its JSON again"
        ) from error


def load_filled_sheet_and_digest(
    path: Path,
    form: str,
    layout: SheetLayout,
    who: str,
    export: str,
    parse_csv: Callable[[SheetLayout, str, str], list[FilledSheetRow]] = parse_sheet_csv,
) -> tuple[ParsedSheet, str]:
    """Return the rows of a file that people filled in, and the file's digest.

    `who`: the person where another tool's export names none, the option --labeller or --reviewer; `export`: the
    command that writes such a file; `parse_csv`: layout, text and name of a CSV → its rows.
    """
    text, digest = load_sheet_text_and_digest(path, export)
    found = resolve_sheet_form_from_text(text, path, form)
    if found == "csv":
        return ParsedSheet(parse_csv(layout, text, path.name)), digest
    tasks = parse_labelling_tool_tasks(layout, text, path.name, found)
    return check_labelling_tool_tasks(layout, tasks, who, f"--{layout.who}"), digest


def format_sheet_problems(problems: Sequence[SheetProblem], file: str = "") -> list[str]:
    """Return the problems of a file, row by row; rows without an answer share one line."""
    missing = [problem for problem in problems if problem.kind == "missing"]
    others = [problem for problem in problems if problem.kind != "missing"]
    rows = [problem.message.partition(":")[0].removeprefix("row ") for problem in missing]
    more = f" and {len(rows) - _MAX_PROBLEM_ROWS} more" if len(rows) > _MAX_PROBLEM_ROWS else ""
    at = f"{file}, " if file else ""
    lines = [f"  {problem.kind}: {at}{problem.message}" for problem in others[:_MAX_PROBLEM_ROWS]]
    lines += [f"  … and {len(others) - _MAX_PROBLEM_ROWS} more"] if len(others) > _MAX_PROBLEM_ROWS else []
    lines += (
        [f"  missing: {len(rows)} rows are not filled in: {', '.join(rows[:_MAX_PROBLEM_ROWS])}{more}"] if rows else []
    )
    return lines
