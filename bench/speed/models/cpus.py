"""Describe the CPU that speed is measured on, and limit libraries to AVX2 without VNNI.

Most AMD and older Intel CPUs have AVX2 but not VNNI.

A program that imports this module and was started with `--avx2` restarts with all libraries limited to AVX2.
"""

import os
import platform
import sys
from pathlib import Path

from scripts import ROOT

AVX2 = {
    "CT2_FORCE_CPU_ISA": "AVX2",
    "CT2_USE_MKL": "0",
    "DNNL_MAX_CPU_ISA": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
}
"""Variables that limit CTranslate2 (with oneDNN, as on AMD) and torch (with MKL and oneDNN) to AVX2."""


def hold_to_avx2() -> None:
    """Restart this program with all libraries limited to AVX2, unless they already are."""
    if any(os.environ.get(name) != value for name, value in AVX2.items()):
        os.execve(sys.executable, [sys.executable, str(ROOT / "bench"), *sys.argv], os.environ | AVX2)


if "--avx2" in sys.argv:
    hold_to_avx2()


def describe_cpu() -> str:
    """Return the CPU's name, whether it has VNNI, and the variables that limit libraries."""
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines() if Path("/proc/cpuinfo").is_file() else []
    result = dict(line.split(":", 1) for line in lines if ":" in line)
    names = {name.strip(): value.strip() for name, value in result.items()}
    has_vnni = bool({"avx512_vnni", "avx_vnni"} & set(names.get("flags", "").split()))
    name = f"{names.get('model name', platform.machine())}, {'with' if has_vnni else 'without'} VNNI"
    held = [f"{each}={os.environ[each]}" for each in AVX2 if each in os.environ]
    return f"{name}; {' '.join(held) or 'as it is'}"
