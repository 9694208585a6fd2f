"""What `factmill prepare` makes of the embedded world, where the checkout has it: making it takes seconds."""

import shutil
from pathlib import Path

from support.work.standing_prefect import PREPARED


def copy_prepared(home: Path) -> Path:
    """Give a home the loaded store and graph of the embedded world, which are remade if they are of another state of it."""
    for name in ("world-cache", "world-graphs"):
        if (PREPARED / name).is_dir():
            shutil.copytree(PREPARED / name, home / name, symlinks=True)
    return home
