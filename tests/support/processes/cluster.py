"""Run a Dask cluster on loopback: a scheduler in this process or its own, and workers, each a process."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import distributed

from factmill.tasks.compute_settings import CLUSTER_VARIABLE

ROOT = Path(__file__).resolve().parents[3]
_COMMAND = "from factmill.flows.cli.main import main; main()"


@dataclass
class LoopbackCluster:
    """A scheduler and the workers that a test starts."""

    address: str
    home: Path
    """The workers' home."""
    workers: list["subprocess.Popen[str]"] = field(default_factory=list)

    def start(self, *options: str) -> "subprocess.Popen[str]":
        """Start a worker on one thread and return its process, without waiting for it."""
        environment = {**os.environ, "FACTMILL_HOME": str(self.home), "PYTHONPATH": str(ROOT)}
        environment.pop(CLUSTER_VARIABLE, None)
        command = [sys.executable, "-c", _COMMAND, "worker", "--address", self.address, "--threads", "1", *options]
        worker = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.workers.append(worker)
        return worker

    def wait_joined(self, worker: "subprocess.Popen[str]") -> str:
        """Return a worker's output up to its joining."""
        said = ""
        assert worker.stderr is not None
        while "joined" not in said:
            line = worker.stderr.readline()
            assert line, f"ended before it joined: {said}"
            said += line
        return said

    def kill(self, worker: "subprocess.Popen[str]") -> None:
        """Kill a worker's process at once."""
        worker.send_signal(signal.SIGKILL)
        worker.wait()

    def find_left(self, worker: "subprocess.Popen[str]") -> list[Path]:
        """Return the folders that a worker has made for passing files."""
        return list(Path(tempfile.gettempdir()).glob(f"factmill-{worker.pid}-worker-*"))


@contextmanager
def loopback_cluster(home: Path) -> Iterator[LoopbackCluster]:
    """Yield a cluster without workers, whose scheduler runs in this process."""
    with distributed.LocalCluster(
        n_workers=0, processes=False, host="127.0.0.1", protocol="tcp://", dashboard_address=":0"
    ) as scheduler:
        cluster = LoopbackCluster(scheduler.scheduler_address, home)
        try:
            yield cluster
        finally:
            for worker in cluster.workers:
                worker.kill()
                worker.wait()
                assert worker.stderr is not None
                worker.stderr.close()
                for folder in cluster.find_left(worker):
                    shutil.rmtree(folder)
