"""Imitate another machine: change everything that may differ, at once."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

HOME = "Über uns ığüş"
"""A home's name with spaces and non-ASCII letters."""
_GENERIC = {
    # what CTranslate2, the C library and numpy compute with: only instructions of an old CPU
    "CT2_FORCE_CPU_ISA": "GENERIC",
    "CT2_USE_MKL": "0",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F,-AVX2_Usable,-FMA_Usable",
    "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F",
    "OMP_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "PYTHONHASHSEED": "12345",
    "TZ": "Pacific/Kiritimati",
}


@contextmanager
def other_machine(folder: Path) -> Iterator[Mapping[str, str]]:
    """Yield an environment with generic code, one thread, another hash seed, time zone and locale, and a strict umask."""
    before = os.umask(0o077)
    try:
        yield {**_GENERIC, **_make_turkish_locale(folder)}
    finally:
        os.umask(before)


def _make_turkish_locale(folder: Path) -> dict[str, str]:
    """Return the environment of a Turkish locale in an 8-bit encoding, or of plain C if none can be made."""
    if shutil.which("localedef") and Path("/usr/share/i18n/locales/tr_TR").exists():
        made = folder / "tr_TR.ISO-8859-9"
        command = ["localedef", "-i", "tr_TR", "-f", "ISO-8859-9", str(made)]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return {"LOCPATH": str(folder), "LC_ALL": made.name}
    print("no Turkish locale can be made here (localedef, /usr/share/i18n): LC_ALL=C stands in for it")
    return {"LC_ALL": "C"}
