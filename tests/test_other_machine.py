"""The embedded builds have the bytes that data/world/digests.json names, under everything that may differ between machines."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.work.command import Factmill
from support.work.standing_prefect import QUIET, copy_history

from flows.digests import collect_digests, read_digests

GENERIC = {
    # what CTranslate2, the C library and numpy compute with: nothing that an old CPU lacks
    "CT2_FORCE_CPU_ISA": "GENERIC",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F,-AVX2_Usable,-FMA_Usable",
    "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F",
    "OMP_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "PYTHONHASHSEED": "12345",
    "TZ": "Pacific/Kiritimati",
}


def make_turkish_locale(folder: Path) -> dict[str, str]:
    """Return the environment of a Turkish locale in an 8-bit encoding, or of plain C where none can be made."""
    if shutil.which("localedef") and Path("/usr/share/i18n/locales/tr_TR").exists():
        made = folder / "tr_TR.ISO-8859-9"
        command = ["localedef", "-i", "tr_TR", "-f", "ISO-8859-9", str(made)]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return {"LOCPATH": str(folder), "LC_ALL": made.name}
    print("no Turkish locale can be made here (localedef, /usr/share/i18n): LC_ALL=C stands in for it")
    return {"LC_ALL": "C"}


def test_another_machine_s_builds_have_the_same_bytes(tmp_path: Path) -> None:
    """Generic code, one thread, another hash seed, time zone, locale, umask, home, batch size and concurrency at once."""
    if not (published := read_digests()):
        pytest.skip("another pyarrow than that of data/world/digests.json is installed; it writes other bytes")
    home = tmp_path / "Über uns ığüş"
    copy_history(home)
    environment = {**GENERIC, **QUIET, **make_turkish_locale(tmp_path)}
    # every benchmark has some batches of 20 in each stage: this is also where other batches give the same rows
    options = ["--batch-size", "20", "--concurrency", "2", "--json"]
    before = os.umask(0o077)
    try:
        ran = Factmill(home).run_process("build", "all", *options, **environment)
    finally:
        os.umask(before)
    assert ran.code == 0, ran.err
    assert collect_digests(map(json.loads, ran.out.splitlines())) == published
