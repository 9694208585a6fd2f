"""Other prompts, queries and lists in place of the project's own, for as long as a block lasts."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from factmill.tasks import assets


@contextmanager
def assets_at(root: Path) -> Iterator[None]:
    """Read prompts, queries and lists from `root`; what was read of either root is forgotten at both ends."""
    before = assets.ASSETS_ROOT
    assets.ASSETS_ROOT = root
    forget_assets()
    try:
        yield
    finally:
        assets.ASSETS_ROOT = before
        forget_assets()


def forget_assets() -> None:
    """Empty every cache of the module that reads assets, so that no test sees the files of another one."""
    for loader in vars(assets).values():
        if hasattr(loader, "cache_clear"):
            loader.cache_clear()
