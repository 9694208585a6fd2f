"""The command `factmill`: its subcommands and exit codes; the modules of flows/commands define them.

Exit codes: 0 success, 1 a build or a check failed, 2 wrong usage, 3 the run's budget is reached, 130 stopped with
Ctrl-C, 143 with SIGTERM, 129 with SIGHUP. Progress and messages go to standard error, results to standard output.
An error is one line, `factmill: MESSAGE [CODE]`, or with --json one object {"error": CODE, "message": MESSAGE}.
"""

import atexit
import errno
import json
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException
from typer.main import get_group

from factmill.flows.cli.entry import (
    INTERRUPTED_EXIT_CODE,
    find_stop_exit_code,
    install_signal_handlers,
    print_early_end_once,
)
from factmill.tasks.errors import FactmillError, UsageError
from factmill.tasks.memory import find_resource_shortage
from factmill.tasks.processes import find_recorded_thread_start_shortage, request_process_exit
from factmill.tasks.text.sanitize import (
    escape_control_characters,
    format_did_you_mean,
    replace_lone_surrogates_by_question_mark,
    shorten_middle,
)

COMMAND_GROUPS = {
    "Build and inspect": {
        "build": ("build", "Build a benchmark into the warehouse."),
        "show": ("builds", "Show rows of a benchmark's latest build, or list the builds."),
        "explain": ("provenance", "Show where a row comes from: source, items, calls, verdicts."),
        "diff": ("provenance", "Compare two builds row by row, with the cause of each change."),
        "verify": ("builds", "Repeat a build from its recorded calls and compare all bytes."),
        "doctor": ("doctor", "Check configuration, services and models, with advice."),
    },
    "Measure": {
        "evaluate": ("evaluate", "Measure a model on a benchmark."),
        "report": ("report", "Write a one-page report of a build, or of evaluations."),
        "audit": ("human_review", "Check a random sample of rows against their evidence."),
        "review": ("human_review", "Export flagged rows for people to decide on; import decisions."),
        "label": ("human_review", "Export answers for people to label, and import their labels."),
        "judge-card": ("judge_card", "Measure how often a judge agrees with people."),
        "mechanism": ("mechanism", "Find the components of a local model that carry a fact."),
    },
    "Publish": {
        "export": ("builds", "Write a build's tables as Parquet, CSV and JSON Lines."),
        "release": ("release", "Write a build as a dataset folder to publish."),
        "site": ("site", "Write a static site: benchmarks over time, models side by side."),
    },
    "Operate": {
        "serve": ("serve", "Run rebuilds on a schedule, or on demand from Prefect's UI."),
        "jobs": ("housekeeping", "List, cancel and forget batch jobs at model servers."),
        "gc": ("housekeeping", "Remove old builds, unused replies, and data of stopped runs."),
        "upgrade": ("housekeeping", "Convert a warehouse of an earlier factmill version."),
        "worker": ("serve", "Serve local models and graphs to a Dask cluster."),
    },
    "Local data": {
        "graph": ("local_data", "List local graphs (Wikidata dumps), load and remove them."),
        "models": ("local_data", "List local models (CTranslate2), convert and remove them."),
        "paths": ("paths", "Find paths of 1 or 2 hops from items to items or values."),
        "world": (
            "world",
            "Serve the offline services of the embedded world, or check them.",
        ),
        "prompts": ("prompts", "List, print and copy prompts, to replace them with your own."),
        "fanoutqa": ("fanoutqa", "Check files of questions, and find outdated answers."),
        "new": ("new", "Create a package for a new benchmark, ready to build and test."),
    },
}
"""Heading in `factmill --help` → name → (module in flows/commands, which defines NAME or NAME_app, and the line of the
help). A module is imported only when its command runs, so that no command waits for the imports of others."""
COMMANDS = {name: command for group in COMMAND_GROUPS.values() for name, command in group.items()}
"""Name → (module, line), in the order of the help."""
_HIDDEN_COMMANDS = {"builds": ("builds", "List the builds of the warehouse, oldest first.")}
"""Commands that the help does not list: `builds` is `show` without a benchmark."""
_NEW_SPELLINGS = {
    "compare": "diff A B",
    "list": "show",
    "eval": "evaluate BENCHMARK",
    "forecast": "build BENCHMARK --forecast",
    "compact": "gc --compact",
    "drift": "fanoutqa validate --drift",
    "fanoutqa drift": "fanoutqa validate --drift",
    "validate": "fanoutqa validate",
    "graph check": "graph --check --name NAME",
    "graph list": "graph",
    "models list": "models",
    "prepare": "doctor --prepare",
    "prompts copy": "prompts ID --copy-to FOLDER",
    "prompts list": "prompts",
    "prompts show": "prompts ID",
    "world serve": "world",
    "jobs cancel": "jobs --cancel JOB",
    "jobs forget": "jobs --forget JOB",
    "label export": "label EVALUATION --to FILE",
    "label import": "label --from FILE",
    "review export": "review BUILD --to FILE",
    "review import": "review --from FILE",
}
"""Spellings of earlier versions → today's, for error messages."""
_LONGEST_ARGUMENT = 4096
"""Maximum characters of an argument: the maximum length of a path."""
_LONGEST_MESSAGE = 4000
"""Maximum characters of an error message that are printed."""


class _LazyCommands(Mapping[str, Any]):
    """Name → command; each command is created on first access."""

    def __getitem__(self, name: str) -> Any:
        return _load_command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


@cache
def _load_command(name: str) -> Any:
    module = import_module(f"factmill.flows.commands.{(COMMANDS | _HIDDEN_COMMANDS)[name][0]}")
    found = getattr(module, f"{name}_app", None) or getattr(module, name.replace("-", "_"))
    made = typer.Typer(rich_markup_mode=None)
    if isinstance(found, typer.Typer):
        made.add_typer(found, name=name)
    else:
        made.command(name)(found)
    command = get_group(made).commands[name]
    _phrase_number_ranges_in_help(command)
    return command


def _phrase_number_ranges_in_help(command: Any) -> None:
    """Make the help of a command and its subcommands state the bounds of numbers as `1 or more`, not as `x>=1`."""
    from factmill.tasks.options import format_number_range

    for subcommand in getattr(command, "commands", {}).values():
        _phrase_number_ranges_in_help(subcommand)
    for parameter in command.params:
        if getattr(parameter, "min", None) is not None or getattr(parameter, "max", None) is not None:
            # Typer's own hook for this part of the help
            parameter._get_number_range_help_str = partial(format_number_range, parameter.min, parameter.max)


class CommandLineError(UsageError):
    """A command line that Typer rejects."""

    code = UsageError.code

    def __init__(self, message: str, usage: str) -> None:
        super().__init__(message)
        self.usage = usage
        """Lines that show how the command is used; empty if no command is known."""


@contextmanager
def _translating_typer_errors() -> Iterator[None]:
    """Turn an error of Typer into CommandLineError; the help that is printed for lack of arguments stays as it is."""
    try:
        yield
    except TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        context: Any = getattr(error, "ctx", None)
        usage = f"{context.get_usage()}\nTry '{context.command_path} --help' for help.\n" if context else ""
        raise CommandLineError(_format_usage_error(error, context), usage) from error


def _format_usage_error(error: TyperException, context: Any) -> str:
    """Return Typer's message with what was expected."""
    message = error.format_message()
    command: Any = getattr(context, "command", None)
    is_group = isinstance(command, TyperGroup)
    if is_group and error.message.startswith("No such command"):
        if context.info_name in ("build", "evaluate"):
            message = message.replace("No such command", "No such benchmark", 1)
        return f"{message} Expected one of: {', '.join(context.command.list_commands(context))}."
    if error.message.startswith("No such option") and context is not None:
        option = str(getattr(error, "option_name", ""))
        if is_group and context.parent is not None and not command.invoke_without_command:
            names = context.command.list_commands(context)
            return (
                f"{option} is given before a subcommand; expected one of {', '.join(names)} first: "
                f"{context.command_path} {names[0]} {option}"
            )
        known = [name for parameter in command.params for name in parameter.opts if name.startswith("--")]
        return f"No such option: {option}{format_did_you_mean(option, known)}"
    parameter: Any = getattr(error, "param", None)
    cause: Any = error.__cause__
    if hasattr(cause, "errors") and parameter is not None:  # pydantic's ValidationError
        from factmill.flows.cli.options import format_expected_number

        first = cause.errors()[0]
        lowest, highest = getattr(parameter, "min", None), getattr(parameter, "max", None)
        if expected := format_expected_number(first["type"], type(lowest), lowest, highest):
            return message.replace(first["msg"], f"{str(first['input'])!r}: {expected}")
    if message.startswith("Missing") and (help_text := getattr(parameter, "help", "")):
        return f"{message} Expected: {help_text}"
    return message


class LazyCommandGroup(TyperGroup):
    """The group `factmill`, which lists its commands without importing them."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options | {"commands": _LazyCommands()})

    def make_context(self, *given: Any, **named: Any) -> Any:
        """Parse the command line up to the command; CommandLineError if that fails."""
        with _translating_typer_errors():
            return super().make_context(*given, **named)

    def invoke(self, ctx: Any) -> Any:
        """Parse the rest and run the command; CommandLineError if it is wrong usage."""
        with _translating_typer_errors():
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name, the command and its arguments; CommandLineError names the new spelling of a renamed command."""
        for old in (" ".join(args[:2]), args[0]):
            if new := _NEW_SPELLINGS.get(old):
                if named := [word for word in args[1:2] if not word.startswith("-")]:
                    new = new.replace("BENCHMARK", named[0])
                hint = (
                    " Without an earlier build, add --pilot 20: it sends the requests of 20 rows to the world's services and models."
                    if old == "forecast"
                    else ""
                )
                message = f"No such command '{old}'. Did you mean 'factmill {new}'?{hint}"
                raise CommandLineError(message, f"{ctx.get_usage()}\nTry '{ctx.command_path} --help' for help.\n")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - Typer's
        """Return the command names in the order of the help."""
        return list(COMMANDS)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return the commands and options that begin with `incomplete`, without importing the commands."""
        item = typer.core.CompletionItem  # type: ignore[attr-defined]
        found = [item(name, help=line) for name, (_, line) in COMMANDS.items() if name.startswith(incomplete)]
        return [*found, *TyperCommand.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - Typer's
        """Write one help line for each command, group by group, with names in one column."""
        width = max(map(len, COMMANDS))
        for heading, group in COMMAND_GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), line) for name, (_, line) in group.items()])


app = typer.Typer(
    cls=LazyCommandGroup,
    help="Rebuild factuality benchmarks from Wikipedia and Wikidata. Try: factmill build granola",
    no_args_is_help=True,
    context_settings={"max_content_width": 100},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version_and_exit(is_asked: bool) -> None:
    if is_asked:
        typer.echo(format_version())
        raise typer.Exit


@app.callback()
def _declare_root_options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version_and_exit, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    pass


def format_version() -> str:
    """Return the versions of factmill and Python, and the commit if factmill runs from a checkout."""
    from importlib.metadata import version

    python = ".".join(map(str, sys.version_info[:3]))
    commit = find_commit(Path(__file__).resolve().parents[2])
    return f"factmill {version('factmill')} (Python {python}{f', commit {commit}' if commit else ''})"


def find_commit(root: Path) -> str:
    """Return the commit of a checkout, with `-dirty` if files were changed; empty without a checkout or git."""
    if not (root / ".git").exists():
        return ""
    import subprocess

    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def main() -> NoReturn:
    """Run the command and end the process; an error prints one line, without a traceback."""
    install_signal_handlers()
    if sys.getfilesystemencoding() != "utf-8":
        # Restart in Python's UTF-8 mode. Arrow, DuckDB and the tools that Prefect starts expect file names in UTF-8,
        # and the digest of the embedded world includes file names.
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, "PYTHONUTF8": "1"})
    code = _run_and_get_exit_code()
    # Prefect's daemon threads outlive the flow, and DuckDB's bindings then print pages of leak warnings at interpreter
    # shutdown. Everything is closed by now, so run the exit handlers and end the process at once.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _check_argument_length_and_encoding(arguments: Sequence[str]) -> None:
    """Raise UsageError for an argument too long or not UTF-8, before an error message repeats all of it."""
    for each in arguments:
        if len(each) > _LONGEST_ARGUMENT:
            raise UsageError(
                f"an argument has {len(each):,} characters; expected at most {_LONGEST_ARGUMENT:,}: {shorten_middle(each)!r}"
            )
        if replace_lone_surrogates_by_question_mark(each) != each:
            raise UsageError(
                f"an argument is not UTF-8: {each!r}; expected UTF-8 in every argument, file names included"
            )


def _run_and_get_exit_code() -> int:
    code = 0
    try:
        _check_argument_length_and_encoding(sys.argv[1:])
        app(prog_name="factmill", standalone_mode=True)
    except BrokenPipeError:
        code = 1
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except Exception as error:  # noqa: BLE001 - an internal error, or one of the system
        _report_error(error)
        code = error.exit_code if isinstance(error, FactmillError) else 1
    if code == INTERRUPTED_EXIT_CODE or find_stop_exit_code():
        print_early_end_once()
        code = find_stop_exit_code() or INTERRUPTED_EXIT_CODE
    return code


def _report_error(error: Exception) -> None:
    """Print an error in one line, or as JSON with --json; an internal error with its full traceback first."""
    is_named = isinstance(error, FactmillError)
    if short := find_resource_shortage(error) or ("" if is_named else find_recorded_thread_start_shortage()):
        # Prefect's exit handlers may wait for a thread that never started
        request_process_exit(short)
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
        print_early_end_once(short)
    elif isinstance(error, FactmillError):
        _print_error(error.code, str(error), getattr(error, "usage", ""))
    elif isinstance(error, OSError) and (error.filename is not None or error.errno == errno.ENOSPC):
        message = f"cannot read or write {error.filename}: {error.strerror}" if error.filename else f"{error.strerror}"
        if error.errno == errno.ENOSPC:
            message += "; free disk space (`factmill gc` lists what can be removed) and run the same command again"
        _print_error("file-system", message)
    elif not find_stop_exit_code():  # an interrupted library may raise any error
        traceback.print_exc()
        if _is_json_asked():
            _print_error("internal", f"{type(error).__name__}: {error}")


def _print_error(code: str, message: str, usage: str = "") -> None:
    """Print an error on standard error: `factmill: FIRST LINE [CODE]` after the lines of usage, or an object with --json."""
    text = escape_control_characters(shorten_middle(message, _LONGEST_MESSAGE))
    if _is_json_asked():
        sys.stderr.write(f"{json.dumps({'error': code, 'message': text}, ensure_ascii=False)}\n")
    else:
        first, *more = text.split("\n", 1)  # the code stands apart from what may be copied
        sys.stderr.write("\n".join([f"{usage}{usage and chr(10)}factmill: {first} [{code}]", *more, ""]))


def _is_json_asked() -> bool:
    return "--json" in sys.argv[1:]
