"""Command options generated from the fields of a model, which alone defines name, help, default and bounds.

Values reach the model as typed. A value that it rejects is a usage error with the option's name and what was expected.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast, get_args, get_origin

import typer
from annotated_types import Ge, Le
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from factmill.tasks.errors import OutputError, UsageError
from factmill.tasks.options import CliOption, RunOptions, format_number_range, resolve_warehouse_path
from factmill.tasks.text.durations import validate_duration
from factmill.tasks.text.sanitize import escape_control_characters, format_did_you_mean

M = TypeVar("M", bound=BaseModel)
_RUN = RunOptions.model_fields


def check_warehouse_exists(given: Path | None) -> Path | None:
    """Return the warehouse that an option names for reading (the option's callback); UsageError if it does not exist.
    The default warehouse, given as None, need not exist yet."""
    if given is not None:
        from factmill.tasks.storage.warehouse import warehouse_exists

        path = resolve_warehouse_path(RunOptions(warehouse=given))
        if not warehouse_exists(path):
            raise UsageError(
                f"{path}: no such warehouse; give the path of an existing DuckDB file, or omit --warehouse for the default one"
            )
    return given


_WAREHOUSE_HELP = _RUN["warehouse"].description
WarehouseOption = Annotated[
    Path | None, typer.Option(help=_WAREHOUSE_HELP, metavar="FILE", callback=check_warehouse_exists)
]
"""Option for a warehouse that must exist."""
NewWarehouseOption = Annotated[Path | None, typer.Option(help=_WAREHOUSE_HELP, metavar="FILE")]
"""Option for a warehouse that the command may create."""
LATEST_RULE = "latest:BENCHMARK is the newest full build, made from the default source without options of `factmill build` such as --source and --limit. If there is none, it is the newest of all the benchmark's builds."
"""Which build `latest` is, for help texts; `EvaluationParams.build` says the same."""
BuildArgument = Annotated[
    str,
    typer.Argument(help=f"Build: its id, the start of its id, or latest:BENCHMARK. {LATEST_RULE}", metavar="BUILD"),
]
BuildOption = Annotated[
    str | None,
    typer.Option(
        "--build",
        help=f"Build: its id, the start of its id, or latest:BENCHMARK. {LATEST_RULE} Default: latest:BENCHMARK.",
        metavar="BUILD",
    ),
]
BenchmarkArgument = Annotated[
    str,
    typer.Argument(metavar="BENCHMARK", help="Name of the benchmark, such as granola (latest:granola means the same)."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
CONTEXT_FIELD = ("context", typer.Context)
"""Field of an options record that holds the command's context, so that usage errors name the command."""


def resolve_benchmark_and_build_name(named: str, build_name: str | None) -> tuple[str, str | None]:
    """Return the benchmark and the build (None: the latest) of an argument that names either, `granola` or
    `latest:granola`, and of --build; UsageError if they name two builds."""
    from factmill.tasks.storage.builds import LATEST_PREFIX

    if not named.startswith(LATEST_PREFIX):
        return named, None if build_name == "latest" else build_name
    benchmark = named.removeprefix(LATEST_PREFIX)
    if build_name not in (None, named, "latest"):
        raise UsageError(
            f"{named} and --build {build_name} both name a build; give {benchmark} and --build {build_name}"
        )
    return benchmark, named


def list_given_options(context: typer.Context) -> list[str]:
    """Return the options that the command line gives, as the help names them."""
    sources = {each.opts[-1]: context.get_parameter_source(each.name or "") for each in context.command.params}
    return [option for option, source in sources.items() if source and source.name == "COMMANDLINE"]


def has_subcommand(context: typer.Context) -> bool:
    """Return whether a subcommand follows (for the callback of a group); UsageError for options given before it."""
    if context.invoked_subcommand and (given := list_given_options(context)):
        raise UsageError(
            f"{given[0]} stands before the subcommand; expected it after: {context.command_path} {context.invoked_subcommand} {given[0]}"
        )
    return context.invoked_subcommand is not None


def check_age_option(given: str | None) -> str | None:
    """Return the age given to an option (the option's callback); BadParameter if it is no age."""
    try:
        return None if given is None else validate_duration(given)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    typer.echo(json.dumps(value, ensure_ascii=False, default=str))


def print_lines_escaping_control_characters(lines: Iterable[str]) -> None:
    """Print lines, if there are any, without control characters that sources or models may have put into them."""
    if printed := list(lines):
        typer.echo(escape_control_characters("\n".join(printed)))


def print_result(as_json: bool, result: Any, lines: Iterable[str], *notes: str) -> None:
    """Print a command's result as one JSON object, or as lines of text with the non-empty notes on standard error."""
    if as_json:
        print_json(result)
        return
    print_lines_escaping_control_characters(lines)
    for note in filter(None, notes):
        typer.echo(escape_control_characters(note), err=True)


def print_build_choice_note(note: str) -> None:
    """Print which builds `latest` passed over, if any, on standard error: the last line of a command, also with --json."""
    if note:
        typer.echo(escape_control_characters(f"note: {note}"), err=True)


def write_text_file(text: str, path: Path, option: str = "") -> Path:
    """Write text to a file and return its path. `option`: the option that named it; then also create its folder."""
    try:
        if option:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", newline="")
    except OSError as error:
        advice = f"; give another path with {option}" if option else ""
        raise OutputError(f"{path}: cannot be written: {error.strerror}{advice}") from error
    return path


def write_report_files(
    report: Any, renderers: Mapping[str, Callable[[Any], str]], folder: Path, name: str
) -> list[Path]:
    """Write a report, card or page in each form of `renderers` (ending → renderer) into a folder, and return its files."""
    return [
        write_text_file(render(report), folder / f"{name}{ending}", "--reports") for ending, render in renderers.items()
    ]


def make_option_dataclass_fields(model: type[BaseModel], leave_out: Sequence[str] = ()) -> list[tuple[str, Any, Any]]:
    """Return (name, type with Typer's option, None) for each field of a model, as make_dataclass takes them."""
    return [
        (name, _make_option_type(name, field), None)
        for name, field in model.model_fields.items()
        if name not in leave_out
    ]


def add_dataclass_command(
    app: typer.Typer, name: str, title: str, blocks: Mapping[str, Iterable[str]], fields: Iterable[Any], **own: Any
) -> None:
    """Add a command whose callback is a dataclass of its options; the app's result callback receives the instance.

    `blocks`: heading → lines of the help; `fields`: as make_dataclass takes them; `own`: further class attributes.
    """
    shared = [CONTEXT_FIELD, *fields, ("as_json", JsonOption, False)]
    shown = [
        line for head, lines in blocks.items() for line in ("", "\b", f"{head}:", *(f"  {each}" for each in lines))
    ]
    app.command(name, help="\n".join([f"{title}.", *shown]))(make_dataclass(name, shared, namespace=own, kw_only=True))


def make_model_from_options(model: type[M], options: object) -> M:
    """Return a model built from the options given, with defaults for the rest; BadParameter if validation fails.

    If `given` has a `context`, the error names that command.
    """
    with raising_bad_parameter(model, getattr(options, "context", None)):
        return model(**collect_given_option_values(model, options))


def collect_given_option_values(model: type[BaseModel], options: object) -> dict[str, Any]:
    """Return field → value for the options that were given; False is a flag that was turned off."""
    found = {name: getattr(options, name, None) for name in model.model_fields}
    return {name: value for name, value in found.items() if value not in (None, [])}


def _make_option_type(name: str, field: FieldInfo) -> Any:
    # default and bounds in the form of the help: [default: 4; from 1 to 5]
    named = get_option_name(name, field)
    default = named.partition("/")[0] if field.default is True else field.default
    details = [] if field.default in (None, (), False, "") else [f"default: {default}"]
    details += filter(None, [format_number_range(*_find_bounds(field))])
    help_text = " ".join(filter(None, [field.description, f"[{'; '.join(details)}]" if details else ""]))
    kind: Any = str | None
    if field.annotation is bool:
        kind = bool
    elif get_origin(field.annotation) is tuple:
        kind = list[str] | None
    return Annotated[kind, typer.Option(named, help=help_text, metavar=_make_option_metavar(field), show_default=False)]


_EXPECTED_NUMBERS = {int: "expected a whole number", float: "expected a number"}
_NUMBER_ERRORS = {"int_parsing": int, "float_parsing": float, "int_from_float": int}
_BOUND_ERRORS = frozenset({"greater_than_equal", "less_than_equal"})


def format_expected_number(
    error_type: str, number_type: type | None, minimum: float | None, maximum: float | None
) -> str:
    """Return what an option for a number expected, for a type of pydantic's validation errors; empty for another type.

    Bounds are stated for a number outside of them.
    """
    if error_type in _NUMBER_ERRORS:
        return _EXPECTED_NUMBERS[_NUMBER_ERRORS[error_type]]
    bounds = format_number_range(minimum, maximum)
    if error_type not in _BOUND_ERRORS or not bounds or number_type not in _EXPECTED_NUMBERS:
        return ""
    return f"{_EXPECTED_NUMBERS[number_type]}{' ' if bounds.startswith('from') else ', '}{bounds}"


@contextmanager
def raising_bad_parameter(model: type[BaseModel], context: typer.Context | None = None) -> Iterator[None]:
    """Turn a model's validation error into BadParameter, with the option and what was expected (exit code 2)."""
    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        if not first["loc"]:
            raise typer.BadParameter(first["msg"].removeprefix("Value error, "), context) from error
        name = str(first["loc"][0])
        value = "" if first["type"] == "value_error" else f"{first['input']!r}: "
        field = model.model_fields[name]
        number_type = next(
            (kind for kind in (int, float) if kind in {field.annotation, *get_args(field.annotation)}), None
        )
        expected = format_expected_number(first["type"], number_type, *_find_bounds(field))
        message = expected or first["msg"].removeprefix("Value error, ")
        text = f"{value}{message}"
        if first["type"] == "literal_error":
            choices = _list_option_choices(field)
            text = f"{value}expected one of {', '.join(choices)}{format_did_you_mean(str(first['input']), choices)}"
        hint = f"'{get_option_name(name, field)}'"
        raise typer.BadParameter(text, context, param_hint=hint) from error


def _find_bounds(field: FieldInfo) -> tuple[float | None, float | None]:
    """Return the least and the greatest value that a field allows, None where it is not bounded."""
    lowest = next((each.ge for each in field.metadata if isinstance(each, Ge)), None)
    highest = next((each.le for each in field.metadata if isinstance(each, Le)), None)
    return cast(float | None, lowest), cast(float | None, highest)


def _find_option_marker(field: FieldInfo) -> CliOption:
    return next((each for each in field.metadata if isinstance(each, CliOption)), CliOption())


def get_option_name(name: str, field: FieldInfo) -> str:
    """Return the option of a field, with its dashes."""
    return _find_option_marker(field).name or f"--{name.replace('_', '-')}"


def _make_option_metavar(field: FieldInfo) -> str | None:
    """Return the placeholder of a value in the help: its choices, or a word for its type."""
    if field.annotation is bool:
        return None
    if choices := _list_option_choices(field):
        return f"[{'|'.join(choices)}]"
    if metavar := _find_option_marker(field).metavar:
        return metavar
    return "NUMBER" if {int, float} & {field.annotation, *get_args(field.annotation)} else "TEXT"


def _list_option_choices(field: FieldInfo) -> tuple[str, ...]:
    """Return the allowed values of an option; empty if it is not limited to choices."""
    inner = get_args(field.annotation)[0] if get_origin(field.annotation) is tuple else field.annotation
    return get_args(inner) if get_origin(inner) is Literal else ()
