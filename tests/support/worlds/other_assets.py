"""Replace the project's prompts, queries and lists inside a block."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from factmill.tasks import assets


@contextmanager
def assets_at(root: Path) -> Iterator[None]:
    """Read prompts, queries and lists from `root`, and empty the caches before and after."""
    before = assets.ASSETS_ROOT
    assets.ASSETS_ROOT = root
    forget_assets()
    try:
        yield
    finally:
        assets.ASSETS_ROOT = before
        forget_assets()


def forget_assets() -> None:
    """Empty every cache of the module that reads assets, so that no test sees another test's files."""
    for loader in vars(assets).values():
        if hasattr(loader, "cache_clear"):
            loader.cache_clear()
