"""Fixtures that many tests share."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from flows.prefect_server import prefect_settings

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

PREFECT_HOME = Path(tempfile.mkdtemp(prefix="factmill-tests-"))


def pytest_configure() -> None:
    """Settle Prefect as the command does, before a test imports it: it reads its settings only once; and Hypothesis."""
    for name in [name for name in os.environ if name.startswith("PREFECT_")]:
        del os.environ[name]  # those of the process that shares out the tests
    os.environ.update(prefect_settings(PREFECT_HOME))
    # no example of Hypothesis fails for being slow: machines are, at times
    settings.register_profile("patient", deadline=None)
    settings.load_profile("patient")


def pytest_unconfigure() -> None:
    shutil.rmtree(PREFECT_HOME, ignore_errors=True)


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test a home of its own, so that nothing is written into the checkout."""
    home = tmp_path / "home"
    monkeypatch.setenv("FACTMILL_HOME", str(home))
    return home


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real inputs, or skip with the reason."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"real inputs are not at hand: {SHARED_DATA} is missing")
    return SHARED_DATA


SLOW = (
    "tests/flows",
    "tests/graph/test_parity.py",
    "tests/graph/test_real.py",
    "tests/world",
    "tests/mediawikis",
    "tests/test_parity.py",
    "tests/test_path_parity.py",
    "tests/clients/test_clients_on_world.py",
)
"""Tests that start servers, make whole builds or load whole dumps; `make test-quick` leaves them out, and those that are
marked where they stand."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow tests by their place, and begin with those that share a home with all builds.

    Where several processes share the tests (`--dist loadgroup`), one of them gets all that share this home, and each
    file goes to one process.
    """
    root = Path(__file__).resolve().parent.parent
    for item in items:
        file = item.path.relative_to(root).as_posix()
        if file.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
        item.add_marker(pytest.mark.xdist_group("builds" if _shares_builds(item) else file))
    items.sort(key=_shares_builds, reverse=True)


def _shares_builds(item: pytest.Item) -> bool:
    return "session_home" in getattr(item, "fixturenames", ())
