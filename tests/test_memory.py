"""How a process of ours takes memory."""

import errno
import os
import subprocess
import sys

import pyarrow as pa
import pytest
from support.processes.ready import ROOT

from tasks.errors import ServiceUnreachable, WorldError
from tasks.memory import find_shortage

SETTLED = """
import gc, os, sys
from tasks.memory import COLLECT_AFTER, give_back_memory, settle_memory
settle_memory()
give_back_memory()
import pyarrow as pa
assert gc.get_threshold() == COLLECT_AFTER
print(pa.default_memory_pool().backend_name)
"""


@pytest.mark.parametrize(("told", "backend"), [({}, "system"), ({"ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}, "mimalloc")])
def test_arrow_takes_the_systems_memory_unless_the_environment_says_otherwise(
    told: dict[str, str], backend: str
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"} | told
    command = [sys.executable, "-c", SETTLED]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout == f"{backend}\n"


def _behind(error: Exception) -> Exception:
    try:
        raise ValueError("no flow") from error
    except ValueError as outer:
        return outer


@pytest.mark.parametrize(
    ("error", "short"),
    [
        (MemoryError(), "memory"),
        (pa.ArrowMemoryError("malloc of size 64 failed"), "memory"),
        (OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), "memory"),
        (RuntimeError("std::bad_alloc"), "memory"),
        (RuntimeError("can't start new thread"), "threads"),
        (BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)), "threads"),
        (WorldError("oxigraph did not start on port 1: what():  Resource temporarily unavailable"), "threads"),
        (ExceptionGroup("two", [ValueError("x"), _behind(MemoryError())]), "memory"),
        (ServiceUnreachable("author: http_500: CUDA: Cannot allocate memory"), ""),
        (RuntimeError("no running event loop"), ""),
        (FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "x"), ""),
    ],
)
def test_a_shortage_is_found_behind_an_error(error: Exception, short: str) -> None:
    found = find_shortage(error)
    assert f"no more {short}" in found if short else not found
