"""Run the `factmill` of any checkout, in one process that runs command after command without Prefect."""

import json
import os
import subprocess
import sys
from pathlib import Path

from support.commands.command import ROOT, Ran, inherited

from factmill.flows.prefect_server import make_prefect_environment

_PROGRAM = """
import json, sys
from pathlib import Path
from typing import get_args
from support.commands.command import Factmill
from factmill.tasks.settings import World
factmill = Factmill(Path(sys.argv[1]), sys.argv[2], on_prefect=False)
_, model = get_args(World.model_fields["models"].annotation)
print(json.dumps(sorted(model.model_fields)), flush=True)
for line in sys.stdin:
    arguments, environment = json.loads(line)
    ran = factmill(*arguments, **environment)
    print(json.dumps([ran.code, ran.out, ran.err]), flush=True)
"""


class OtherCommand:
    """The process; each command is a call."""

    def __init__(self, program: Path | None, home: Path, prefect_api: str) -> None:
        """Start the process.

        `prefect_api`: address of a running Prefect server; `program`: the `factmill` of a virtual environment, or None
        for the checkout of this file.
        """
        python, self.root = sys.executable, ROOT
        if program:
            python = str(program.parent / "python")
            find = "import factmill.flows.cli, pathlib; print(pathlib.Path(factmill.flows.cli.__file__).parents[2])"
            self.root = Path(subprocess.check_output([python, "-c", find], text=True, cwd="/").strip())
        environment = (
            inherited()
            | make_prefect_environment(home)
            | {"PYTHONPATH": f"{self.root}{os.pathsep}{self.root / 'tests'}"}
        )
        (home / "prefect").mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            [python, "-c", _PROGRAM, str(home), prefect_api],
            env=environment,
            cwd=self.root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.model_settings = frozenset(json.loads(self._read()))
        """Model settings that a world's file may have."""

    def __call__(self, *arguments: str | Path, **environment: str) -> Ran:
        """Run a command."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps([[*map(str, arguments)], environment]) + "\n")
        self._process.stdin.flush()
        return Ran(*json.loads(self._read()))

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()

    def _read(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"factmill of {self.root} ended with {self._process.wait()}")
        return line
