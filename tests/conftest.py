"""Fixtures that many tests share."""

from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


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
    "tests/world",
    "tests/mediawikis",
    "tests/test_parity.py",
    "tests/test_path_parity.py",
    "tests/test_clients_on_world.py",
)
"""Tests that start servers or make whole builds; `make test-quick` leaves them out."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow tests by their place."""
    root = Path(__file__).resolve().parent.parent
    for item in items:
        if item.path.relative_to(root).as_posix().startswith(SLOW):
            item.add_marker(pytest.mark.slow)
