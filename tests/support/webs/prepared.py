"""What `factmill doctor --prepare` makes of the embedded world, where the checkout has it: making it takes seconds."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from support.processes.standing_prefect import PREPARED

_LARGE = 100_000
"""Bytes."""


def copy_prepared(home: Path) -> Path:
    """Give a home the loaded store and graph of the embedded world, which are remade if they are of another state of it."""
    return link_prepared(PREPARED, home)


def link_prepared(made: Path, home: Path) -> Path:
    """Give a home what another has of it: of what is large the same files, where both lie on one disk."""
    for name in ("world-cache", "world-graphs", "local-models"):
        if (made / name).is_dir():
            shutil.copytree(made / name, home / name, symlinks=True, copy_function=_link)
    return home


def _link(source: str, target: str) -> None:
    """Link what is never written again; locks and logs are small."""
    if Path(source).stat().st_size > _LARGE:
        with suppress(OSError):  # another disk
            os.link(source, target)
            return
    shutil.copy2(source, target)
