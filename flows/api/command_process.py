"""Commands of factmill for Python programs, each in a process of its own.

A build starts servers and threads, sets Prefect's settings and reacts to signals: in a notebook these belong to the kernel,
whose event loop runs all the time. So the command itself runs, with --json: its progress lines come from standard error, its
result and its errors as objects. It ends with this process; an interrupt (Ctrl-C, a notebook's stop button) stops it as it does
on a terminal.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from factmill.flows.cli.options import get_option_name
from factmill.tasks.errors import BudgetExhausted, BuildError, FactmillError, NoRowsPublished, UsageError
from factmill.tasks.options import BuildReport, format_invalid_option, format_unknown_option

_PROGRAM = (
    "from factmill.tasks.processes import terminate_with_parent; terminate_with_parent({pid}); "
    "from factmill.flows.cli.entry import main; main()"
)
"""Runs the command; it is stopped when the thread that started it ends."""
_STOP_TIMEOUT_S = 30.0
"""Seconds that an interrupted command has to end."""
_TERMINAL_VARIABLES = ("FORCE_COLOR", "CLICOLOR_FORCE")
"""Variables by which notebooks ask for colours, which progress lines do without."""


def make_command_line_arguments(
    subject: str, models: Sequence[type[BaseModel]], options: Mapping[str, Any], without: Iterable[str] = ()
) -> list[str]:
    """Return options, under the Python names of the fields of `models`, as words of the command line.

    `subject`: of error messages; `without`: fields that are no options of the command. UsageError for an unknown option, with
    all that are known, and for a value that its model rejects.
    """
    fields = {name: field for model in models for name, field in model.model_fields.items() if name not in without}
    for name in options:
        if name not in fields:
            raise UsageError(f"{subject}: {format_unknown_option(name, fields)}")
    given = {
        name: _convert_option_value_for_model(fields[name], value)
        for name, value in options.items()
        if value is not None
    }
    for model in models:
        try:
            model(**{name: value for name, value in given.items() if name in model.model_fields})
        except ValidationError as error:
            raise UsageError(f"{subject}: {format_invalid_option(error)}") from error
    return [word for name, value in given.items() for word in _format_option(name, fields[name], value)]


def _convert_option_value_for_model(field: FieldInfo, value: Any) -> Any:
    """Return a value as its model takes it: a path as text, and a single entry of a list as a list."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if get_origin(field.annotation) is not tuple:
        return value
    listed = [value] if isinstance(value, str) else value
    return (
        [os.fspath(each) if isinstance(each, os.PathLike) else each for each in listed]
        if _is_list_tuple_or_set(listed)
        else value
    )


def _is_list_tuple_or_set(value: Any) -> bool:
    return isinstance(value, list | tuple | set | frozenset)


def _format_option(name: str, field: FieldInfo, value: Any) -> list[str]:
    option = get_option_name(name, field)
    if field.annotation is bool:
        return [option] if value else []
    if isinstance(value, Mapping):
        value = [f"{key}={part}" for key, part in value.items()]
    return [f"{option}={each}" for each in (value if _is_list_tuple_or_set(value) else [value])]


def run_json_command(words: Sequence[str], quiet: bool) -> list[dict[str, Any]]:
    """Run a command with --json and return the objects that it printed; its error is raised under its own class.

    `quiet`: do not print its progress on standard error.
    """
    environment = {name: value for name, value in os.environ.items() if name not in _TERMINAL_VARIABLES}
    # -P: modules in the folder of a notebook are none of the command's
    command = [sys.executable, "-P", "-c", _PROGRAM.format(pid=os.getpid()), *words, "--json"]
    error: dict[str, str] = {}
    tail = ""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as printed:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.PIPE,
            env=environment | {"PYTHONIOENCODING": "utf-8"},
            start_new_session=True,  # an interrupt comes through this process alone, once
            encoding="utf-8",
            errors="replace",
        )
        assert process.stderr
        try:
            for line in process.stderr:
                if line.startswith('{"error": '):
                    error = json.loads(line)
                    continue
                tail = line.strip() or tail
                if not quiet:
                    sys.stderr.write(line)
            code = process.wait()
        except BaseException:  # however the wait ends, the command ends with it; re-raised
            _interrupt_or_kill_process(process)
            raise
        finally:
            process.stderr.close()
        printed.seek(0)
        results = [json.loads(line) for line in printed if line.startswith("{")]
    if code:
        raise _make_command_error(words, code, error, tail, results)
    return results


def _interrupt_or_kill_process(process: "subprocess.Popen[str]") -> None:
    """Interrupt a command, and kill it if it does not end."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _make_command_error(
    words: Sequence[str], code: int, error: Mapping[str, str], tail: str, results: Sequence[Mapping[str, Any]]
) -> FactmillError:
    """Return the error that a command ended with, of its own class, without a constructor that would format it again."""
    if not error:
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return BuildError(
            f"factmill {' '.join(words[:2])} {how}{f': {tail}' if tail else ''}; what was done is kept: the same call goes on"
        )
    kind = _list_error_classes_by_code().get(error["error"], BuildError)
    made = kind.__new__(kind)
    made.args = (error["message"],)
    if isinstance(made, BudgetExhausted):
        made.limit = error["message"]
    if isinstance(made, NoRowsPublished):
        made.report = BuildReport.model_validate(results[-1]) if results else None
    return made


def _list_error_classes_by_code() -> dict[str, type[FactmillError]]:
    left, found = [FactmillError], dict[str, type[FactmillError]]()
    while left:
        each = left.pop()
        found.setdefault(each.code, each)
        left += each.__subclasses__()
    return found
