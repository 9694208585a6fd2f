"""Copy the output of `factmill doctor --prepare` for the embedded world from the checkout: making it takes seconds."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from support.processes.standing_prefect import PREPARED

_LARGE = 100_000
"""Minimum size in bytes of a large file."""


def copy_prepared(home: Path) -> Path:
    """Copy the loaded store and graph of the embedded world into a home; they are remade if they are out of date."""
    return link_prepared(PREPARED, home)


def link_prepared(made: Path, home: Path) -> Path:
    """Copy the prepared files of another home, with hard links for large files on the same disk."""
    for name in ("world-cache", "world-graphs", "local-models"):
        if (made / name).is_dir():
            shutil.copytree(made / name, home / name, symlinks=True, copy_function=_link)
    return home


def _link(source: str, target: str) -> None:
    """Link files that are never rewritten; locks and logs are small."""
    if Path(source).stat().st_size > _LARGE:
        with suppress(OSError):  # another disk
            os.link(source, target)
            return
    shutil.copy2(source, target)
