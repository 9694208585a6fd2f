"""What CTranslate2 computes on AMD's CPUs without AVX-512: the tests of bits once more, with oneDNN held to AVX2."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.models.devices import find_multiplier

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.skipif(find_multiplier("cpu") is None, reason="this CPU multiplies floats by other than oneDNN")
def test_bits_hang_on_no_neighbour() -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-k",
        "bits and not avx2",
    ]
    held = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    ended = subprocess.run(
        [*command, str(HERE)],
        env=held | {"ONEDNN_MAX_CPU_ISA": "AVX2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0 and "skipped" not in ended.stdout, ended.stdout
