"""Command options generated from the fields of a model, which alone defines name, help, default and bounds.

Values reach the model as typed. A value that it rejects is a usage error with the option's name and what was expected.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast, get_args, get_origin

import typer
from annotated_types import Ge, Le
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from factmill.tasks.errors import OutputError, UsageError
from factmill.tasks.options import Option, RunOptions, describe_range, warehouse_of
from factmill.tasks.text.ages import check_age
from factmill.tasks.text.whole import clean, suggest_name

M = TypeVar("M", bound=BaseModel)
_RUN = RunOptions.model_fields


def check_warehouse(given: Path | None) -> Path | None:
    """Return the warehouse that an option names for reading (the option's callback); UsageError if it does not exist.
    The default warehouse, given as None, need not exist yet."""
    if given is not None:
        from factmill.tasks.storage.warehouse import is_there

        path = warehouse_of(RunOptions(warehouse=given))
        if not is_there(path):
            raise UsageError(
                f"there is no warehouse {path}; name one that is there, or leave --warehouse out for the usual one"
            )
    return given


_HELP = _RUN["warehouse"].description
Warehouse = Annotated[Path | None, typer.Option(help=_HELP, metavar="FILE", callback=check_warehouse)]
"""Option for a warehouse that must exist."""
NewWarehouse = Annotated[Path | None, typer.Option(help=_HELP, metavar="FILE")]
"""Option for a warehouse that the command may create."""
BuildName = Annotated[
    str, typer.Argument(help="A build's id, the beginning of one, or latest:BENCHMARK.", metavar="BUILD")
]
OneBuild = Annotated[str | None, typer.Option("--build", help="A build; default: the latest.", metavar="BUILD")]
BenchmarkName = Annotated[str, typer.Argument(metavar="BENCHMARK")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
CONTEXT = ("context", typer.Context)
"""Field of an options record that holds the command's context, so that usage errors name the command."""


def check_given_age(given: str | None) -> str | None:
    """Return the age given to an option (the option's callback); BadParameter if it is no age."""
    try:
        return None if given is None else check_age(given)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    typer.echo(json.dumps(value, ensure_ascii=False, default=str))


def print_lines(lines: Iterable[str]) -> None:
    """Print lines, if there are any, without control characters that sources or models may have put into them."""
    if told := list(lines):
        typer.echo(clean("\n".join(told)))


def print_result(as_json: bool, told: Any, lines: Iterable[str], *notes: str) -> None:
    """Print a command's result as one JSON object, or as lines of text with the non-empty notes on standard error."""
    if as_json:
        print_json(told)
        return
    print_lines(lines)
    for note in filter(None, notes):
        typer.echo(clean(note), err=True)


def write_file(text: str, path: Path, option: str = "") -> Path:
    """Write text to a file and return its path. `option`: the option that named it; then also create its folder."""
    try:
        if option:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", newline="")
    except OSError as error:
        advice = f"; name another place with {option}" if option else ""
        raise OutputError(f"{path}: cannot be written: {error.strerror}{advice}") from error
    return path


def list_options(model: type[BaseModel], leave_out: Sequence[str] = ()) -> list[tuple[str, Any, Any]]:
    """Return (name, type with Typer's option, None) for each field of a model, as make_dataclass takes them."""
    return [
        (name, _make_option(name, field), None) for name, field in model.model_fields.items() if name not in leave_out
    ]


def add_command(
    app: typer.Typer, name: str, title: str, blocks: Mapping[str, Iterable[str]], fields: Iterable[Any], **own: Any
) -> None:
    """Add a command whose callback is a dataclass of its options; the app's result callback receives the instance.

    `blocks`: heading → lines of the help; `fields`: as make_dataclass takes them; `own`: further class attributes.
    """
    shared = [CONTEXT, *fields, ("as_json", AsJson, False)]
    shown = [
        line for head, lines in blocks.items() for line in ("", "\b", f"{head}:", *(f"  {each}" for each in lines))
    ]
    app.command(name, help="\n".join([f"{title}.", *shown]))(make_dataclass(name, shared, namespace=own, kw_only=True))


def read_options(model: type[M], given: object) -> M:
    """Return a model built from the options given, with defaults for the rest; BadParameter if validation fails.

    If `given` has a `context`, the error names that command.
    """
    with naming_options(model, getattr(given, "context", None)):
        return model(**list_given(model, given))


def list_given(model: type[BaseModel], given: object) -> dict[str, Any]:
    """Return field → value for the options that were given; False is a flag that was turned off."""
    found = {name: getattr(given, name, None) for name in model.model_fields}
    return {name: value for name, value in found.items() if value not in (None, [])}


def _make_option(name: str, field: FieldInfo) -> Any:
    # default and bounds in the form of the help: [default: 4; from 1 to 5]
    lowest = next((each.ge for each in field.metadata if isinstance(each, Ge)), None)
    highest = next((each.le for each in field.metadata if isinstance(each, Le)), None)
    told = [] if field.default in (None, (), False) else [f"default: {field.default}"]
    told += filter(None, [describe_range(cast(float | None, lowest), cast(float | None, highest))])
    help_text = " ".join(filter(None, [field.description, f"[{'; '.join(told)}]" if told else ""]))
    kind: Any = str | None
    if field.annotation is bool:
        kind = bool
    elif get_origin(field.annotation) is tuple:
        kind = list[str] | None
    named = _name_option(name, field)
    return Annotated[kind, typer.Option(named, help=help_text, metavar=_describe_value(field), show_default=False)]


@contextmanager
def naming_options(model: type[BaseModel], context: typer.Context | None = None) -> Iterator[None]:
    """Turn a model's validation error into BadParameter, with the option and what was expected (exit code 2)."""
    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        if not first["loc"]:
            raise typer.BadParameter(first["msg"].removeprefix("Value error, "), context) from error
        name = str(first["loc"][0])
        value = "" if first["type"] == "value_error" else f"{first['input']!r}: "
        said = f"{value}{first['msg'].removeprefix('Value error, ')}"
        if first["type"] == "literal_error":
            said += suggest_name(str(first["input"]), _list_choices(model.model_fields[name]))
        hint = f"'{_name_option(name, model.model_fields[name])}'"
        raise typer.BadParameter(said, context, param_hint=hint) from error


def _find_marker(field: FieldInfo) -> Option:
    return next((each for each in field.metadata if isinstance(each, Option)), Option())


def _name_option(name: str, field: FieldInfo) -> str:
    return _find_marker(field).name or f"--{name.replace('_', '-')}"


def _describe_value(field: FieldInfo) -> str | None:
    """Return the placeholder of a value in the help: its choices, or a word for its type."""
    if field.annotation is bool:
        return None
    if choices := _list_choices(field):
        return f"[{'|'.join(choices)}]"
    if metavar := _find_marker(field).metavar:
        return metavar
    return "NUMBER" if {int, float} & {field.annotation, *get_args(field.annotation)} else "TEXT"


def _list_choices(field: FieldInfo) -> tuple[str, ...]:
    """Return the allowed values of an option; empty if it is not limited to choices."""
    inner = get_args(field.annotation)[0] if get_origin(field.annotation) is tuple else field.annotation
    return get_args(inner) if get_origin(inner) is Literal else ()
