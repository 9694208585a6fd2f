"""Run `factmill` in a process whose lists include the toy benchmarks and an evaluation, from modules of a folder."""

import json
import os
import shutil
import signal
from pathlib import Path

from support.commands.command import ROOT, Factmill, Ran
from support.processes.ready import start_ready

_WITH_THE_RECORDS = """
import json, sys
from importlib import import_module
from pathlib import Path
from factmill.flows.benchmarks import BENCHMARKS
from factmill.flows.evaluate.evaluations import EVALUATIONS
from toy_benchmark import COUNTRIES
module, _, record = sys.argv[4].partition(":")
BENCHMARKS[COUNTRIES.name] = COUNTRIES
EVALUATIONS[COUNTRIES.name] = getattr(import_module(module), record)
for name in [name for name in sys.modules if name.startswith(("factmill.flows.cli", "factmill.flows.commands"))]:
    del sys.modules[name]  # commands are made of the lists when they are imported
from support.commands.command import Factmill
factmill = Factmill(Path(sys.argv[1]), sys.argv[2], on_prefect=sys.argv[3] == "True")
for line in sys.stdin:
    ran = factmill(*json.loads(line))
    print(json.dumps([ran.code, ran.out, ran.err]), flush=True)
"""


class ToyCommand:
    """The process, which reads each command as a line of JSON. `evaluation`: the definition of the evaluation."""

    def __init__(
        self, factmill: Factmill, folder: Path, evaluation: str = "toy_evaluation:COUNTRIES_EVALUATION"
    ) -> None:
        self.warehouse = folder / "w.duckdb"
        for name in ("toy_benchmark.py", "toy_evaluation.py", "toy_closed_book.py"):
            shutil.copy(ROOT / "tests" / "support" / name, folder)
        path = os.pathsep.join(map(str, (ROOT, ROOT / "tests", folder)))
        self._process = start_ready(
            _WITH_THE_RECORDS,
            [str(factmill.home), factmill.prefect_api, str(factmill.on_prefect), evaluation],
            os.environ | {"PYTHONPATH": path, "PREFECT_API_URL": factmill.prefect_api, "TEST_KEY": "k"},
            folder,
            takes_input=True,
            shows_errors=True,
        )

    def __call__(self, *arguments: str | Path, code: int = 0) -> Ran:
        """Run a command on the folder's warehouse; it must end with this code."""
        self.begin(*arguments)
        assert self._process.stdout
        ran = Ran(*json.loads(self._process.stdout.readline()))
        assert ran.code == code, ran
        return ran

    def begin(self, *arguments: str | Path) -> None:
        """Start a command without waiting for it."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps([*map(str, arguments), "--warehouse", str(self.warehouse)]) + "\n")
        self._process.stdin.flush()

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill the process, as `kill -9` does."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()
