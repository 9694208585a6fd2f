"""The command `factmill`: what it is made of, and how it ends; what each command does is in its module in flows/commands.

Exit codes: 0 right, 1 a build or a check failed, 2 wrong usage, 3 a bound on what a run may spend is reached, 130 stopped
with Ctrl-C, 143 with SIGTERM, 129 with SIGHUP. Progress and messages go to standard error, results to standard output.
"""

import atexit
import errno
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from factmill.flows.cli.entry import INTERRUPTED, catch_signals, find_stop, report_early_end
from factmill.tasks.errors import FactmillError, UsageError
from factmill.tasks.memory import find_shortage
from factmill.tasks.processes import end_soon, find_noted_shortage
from factmill.tasks.text.whole import clean, shorten_middle, whole_text

COMMANDS = {
    "audit": ("people", "Check rows by reading, as the paper's authors did: a seeded sample with its evidence."),
    "diff": ("diff", "Tell what changed from one build to another, row by row, and why: source, world, epoch."),
    "gc": ("gc", "Remove old builds, records that no build and no run rests on, folders of stopped runs."),
    "compact": ("gc", "Write the warehouse, and Prefect's database in factmill's home, anew without spare room."),
    "upgrade": ("gc", "Carry a warehouse of an earlier factmill over into today's tables, with builds and calls."),
    "judge-card": ("judge_card", "Say how far a judge agrees with people: accuracy, Cohen's kappa, confusion."),
    "mechanism": ("mechanism", "Find out which components of a local model carry a fact in its answers."),
    "new": ("new", "Write the package of a benchmark of your own, which installs, builds and passes tests."),
    "paths": ("paths", "Find the paths of one and two hops between items, or from items to dates and numbers."),
    "release": ("release", "Write a build as a dataset to publish: tables that `datasets` and others load."),
    "report": ("report", "Write what was built or measured as one page to read, Markdown or JSON."),
    "serve": ("serve", "Serve rebuilds by a schedule, and runs from Prefect's UI, until Ctrl-C, SIGTERM or SIGHUP."),
    "worker": ("worker", "Answer for local models and graphs as a worker of a Dask cluster, until Ctrl-C or SIGTERM."),
    "builds": ("builds", "List the builds of the warehouse, oldest first."),
    "show": ("builds", "Show rows of a benchmark's latest build."),
    "explain": ("explain", "Show where a row comes from: source, items, statements, calls, verdicts."),
    "verify": ("builds", "Build again from recorded calls alone and compare the bytes of every published table."),
    "export": ("builds", "Write a build's tables as Parquet, CSV and JSON Lines, and its rejects as Parquet."),
    "prepare": ("builds", "Make once what every build needs (Prefect's database, the embedded world's store)."),
    "doctor": ("doctor", "Say what is configured, reachable or missing, and what to do about it."),
    "build": ("build", "Build a benchmark into the warehouse."),
    "drift": ("fanoutqa", "What published questions would lose or gain at another moment."),
    "evaluate": ("evaluate", "Measure a model on a benchmark."),
    "forecast": ("spending", "Forecast requests, tokens, money and hours of a build or an evaluation."),
    "graph": ("graphs", "Local graphs: Wikidata dumps on this machine."),
    "jobs": ("spending", "Batch jobs at servers of models, handed in by builds and evaluations whose world says so."),
    "label": ("people", "Answers for people to label, by which judges are checked."),
    "models": ("models", "Local models: converted for CTranslate2."),
    "review": ("people", "Rows that checks flagged, for people to decide on."),
    "validate": ("fanoutqa", "Check files of questions before a build."),
    "world": ("world", "The embedded world."),
}
"""Name → its module in flows/commands, which has NAME or NAME_app, and the line of `factmill --help`: modules are imported when
their command is given, so that no command waits for what others need."""
_LONGEST_ARGUMENT = 4096
"""Characters of an argument, at most: as many as a path has."""
_LONGEST_MESSAGE = 4000
"""Characters of an error's message that are printed."""


class _Commands(Mapping[str, Any]):
    """The commands by name, each made when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        return _load_command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


@cache
def _load_command(name: str) -> Any:
    module = import_module(f"factmill.flows.commands.{COMMANDS[name][0]}")
    found = getattr(module, f"{name}_app", None) or getattr(module, name.replace("-", "_"))
    made = typer.Typer(rich_markup_mode=None)
    if isinstance(found, typer.Typer):
        made.add_typer(found, name=name)
    else:
        made.command(name)(found)
    return get_group(made).commands[name]


class CommandGroup(TyperGroup):
    """`factmill`: lists its commands without making them."""

    def __init__(self, **told: Any) -> None:
        super().__init__(**told | {"commands": _Commands()})

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - Typer's
        """Return the names, in the order of the help."""
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - Typer's
        """Write the lines of the help."""
        limit = formatter.width - 6 - max(map(len, COMMANDS))
        lines = [
            (name, TyperCommand(name, help=line).get_short_help_str(limit)) for name, (_, line) in COMMANDS.items()
        ]
        with formatter.section("Commands"):
            formatter.write_dl(lines)


app = typer.Typer(
    cls=CommandGroup,
    help="Rebuild factuality benchmarks from Wikipedia and Wikidata. Try: factmill build granola",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)
app.callback()(lambda: None)


def main() -> NoReturn:
    """Run the command; errors are told in one line, without a traceback."""
    catch_signals()
    if sys.getfilesystemencoding() != "utf-8":
        # Start over in Python's UTF-8 mode: names of files are UTF-8 everywhere else. Arrow, DuckDB and the tools that
        # Prefect starts take names in UTF-8, and the digest of the embedded world holds names.
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, "PYTHONUTF8": "1"})
    code = _run_command()
    # Prefect's daemon threads outlive the flow, and DuckDB's bindings then complain of leaks for pages while the
    # interpreter is taken down; everything is closed by now, so exit handlers run and the process ends at once.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _check_arguments(arguments: Sequence[str]) -> None:
    """UsageError for an argument that no command can use: what refuses it would repeat all of it."""
    for each in arguments:
        if len(each) > _LONGEST_ARGUMENT:
            raise UsageError(
                f"an argument has {len(each):,} characters; expected {_LONGEST_ARGUMENT:,} at most: {shorten_middle(each)!r}"
            )
        if whole_text(each) != each:
            raise UsageError(f"an argument is not UTF-8: {each!r}; expected UTF-8 in names of files and all else")


def _run_command() -> int:
    code = 0
    try:
        _check_arguments(sys.argv[1:])
        app(standalone_mode=True)
    except BrokenPipeError:
        code = 1
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except Exception as error:  # noqa: BLE001 - a fault of ours, or of the system
        _report_error(error)
        code = error.exit_code if isinstance(error, FactmillError) else 1
    if code == INTERRUPTED or find_stop():
        report_early_end()
        code = find_stop() or INTERRUPTED
    return code


def _report_error(error: Exception) -> None:
    """Print an error in a line; a fault of ours with its whole traceback."""
    is_named = isinstance(error, FactmillError)
    if short := find_shortage(error) or ("" if is_named else find_noted_shortage()):
        # what Prefect does at the end of a process may wait for a thread that never started
        end_soon(short)
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
        report_early_end(short)
    elif is_named:
        sys.stderr.write(f"factmill: {clean(shorten_middle(str(error), _LONGEST_MESSAGE))}\n")
    elif isinstance(error, OSError) and (error.filename is not None or error.errno == errno.ENOSPC):
        told = f"cannot read or write {error.filename}: {error.strerror}" if error.filename else f"{error.strerror}"
        if error.errno == errno.ENOSPC:
            told += "; make room (`factmill gc` says what can go) and run the same command again"
        sys.stderr.write(f"factmill: {clean(told)}\n")
    elif not find_stop():  # what an interrupted library makes of a stop is no fault
        traceback.print_exc()
