"""How a process of ours takes memory."""

import os
import subprocess
import sys

import pytest
from support.processes.ready import ROOT

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
