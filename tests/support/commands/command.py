"""Run `factmill`: in this process to test a command, or in its own process to test how it ends."""

import io
import json
import os
import signal
import subprocess
import sys
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from prefect.context import SettingsContext, get_settings_context
from prefect.settings import PREFECT_API_URL, Settings
from support.commands.plain_engine import without_prefect
from support.processes.ready import ReadyProcess, start_ready
from typer.main import get_command

from factmill.flows.cli import main as cli
from factmill.tasks import progress

ROOT = Path(__file__).resolve().parents[3]
_ADDRESS = "PREFECT_API_URL"
_WIDTH = "200"
"""Columns of the output, so that messages are not wrapped."""
FEW_QUESTIONS = (
    *("--source", str(ROOT / "data/world/sources/fanoutqa/places.json")),
    *("--source", "wikidata", "--sets", "P40", "--sets", "P57", "--sets-a-kind", "1"),
)
"""Options of a FanOutQA build with some human questions and some from a graph."""
Process = subprocess.Popen[str] | ReadyProcess


@dataclass(frozen=True)
class Ran:
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out.strip().splitlines()[-1])


@dataclass(frozen=True)
class Factmill:
    """The command, with a home."""

    home: Path
    prefect_api: str = ""
    """Address of a running Prefect server; empty: a build starts its own, which only a separate process can."""
    program: str = "from factmill.flows.cli.entry import main; main()"
    """The Python code of a separate process."""
    on_prefect: bool = True
    """False: flows of this process run without Prefect."""

    def __call__(self, *arguments: str | Path, stdin: bytes = b"", **environment: str) -> Ran:
        """Run a command in this process, as `main` does except for ending the process.

        `stdin`: input of at most 64 KiB.
        """
        out, err = io.StringIO(), io.StringIO()
        piped, writer = os.pipe()
        os.write(writer, stdin)
        os.close(writer)
        style, on_interrupt = progress._progress_style, signal.getsignal(signal.SIGINT)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {**self._environment(), **environment}.items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", ["factmill", *map(str, arguments)])
            patch.setattr("typer.main.get_command", _commands)
            with (
                nullcontext() if self.on_prefect else without_prefect(),
                os.fdopen(piped, encoding="utf-8") as reader,
                SettingsContext(profile=get_settings_context().profile, settings=_prefect_settings(self.prefect_api)),
                redirect_stdout(out),
                redirect_stderr(err),
            ):
                patch.setattr(sys, "stdin", reader)
                code = cli._run_and_get_exit_code()
        progress._progress_style = style
        signal.signal(signal.SIGINT, on_interrupt)
        return Ran(code, out.getvalue(), err.getvalue())

    def get_json(self, *arguments: str | Path, **environment: str) -> Any:
        """Run a command with --json, which must succeed, and return its output."""
        ran = self(*arguments, "--json", **environment)
        assert ran.code == 0, ran.err
        return ran.json

    def run_process(self, *arguments: str | Path, **environment: str) -> Ran:
        """Run a command as its own process, with its own hash seeds."""
        process = self.start(*arguments, **environment)
        out, err = process.communicate()
        return Ran(process.returncode, out, err)

    def start(self, *arguments: str | Path, **environment: str) -> Process:
        """Start a command as its own process, without waiting for it.

        It is a new Python if Prefect must read its settings again, as with its own server, and if the command serves,
        since it then starts other processes by its own entry point.
        """
        result = {**inherited(), **self._environment(), **environment}
        is_new = "serve" in arguments or any(name.startswith("PREFECT_") for name in {*environment} - {_ADDRESS})
        if result[_ADDRESS] and not is_new:
            return start_ready(self.program, [*map(str, arguments)], result, ROOT)
        return subprocess.Popen(
            [sys.executable, "-c", self.program, *map(str, arguments)],
            env=result,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def _environment(self) -> dict[str, str]:
        return {
            "FACTMILL_HOME": str(self.home),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
            "COLUMNS": _WIDTH,
            _ADDRESS: self.prefect_api,
        }


_commands = cache(get_command)
"""Typer's app → its commands, which it would otherwise rebuild for each call."""


@cache
def _prefect_settings(api: str) -> Settings:
    """Return Prefect's settings with this server, cached because reading the environment is slower than some commands."""
    return get_settings_context().settings.copy_with_update({PREFECT_API_URL: api} if api else {})


def inherited() -> dict[str, str]:
    """Return this process's environment without the tests' Prefect settings: a command makes its own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
