"""Processes that end with the one that started them."""

import os
import signal
import subprocess
import sys

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells of a parent's death on Linux alone")
@pytest.mark.parametrize(("parent", "end"), [(os.getpid(), 0), (2**22 + 1, -signal.SIGTERM)], ids=["there", "gone"])
def test_a_process_whose_parent_is_gone_before_it_looked_ends(parent: int, end: int) -> None:
    code = f"from tasks.processes import die_with_parent; die_with_parent({parent})"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == end
