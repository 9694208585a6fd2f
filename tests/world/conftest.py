"""Fixtures with the sample world, read and served once for all tests of this folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mwclient
import pytest
import requests

from factmill.tasks.world.data import WorldData
from factmill.tasks.world.files import load_world_data
from factmill.tasks.world.serving import RunningWorld, running_world

SAMPLE = Path(__file__).parent / "sample"


@pytest.fixture(scope="session")
def sample_folder() -> Path:
    return SAMPLE


@pytest.fixture(scope="session")
def sample() -> WorldData:
    return load_world_data(SAMPLE)


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorld]:
    with running_world(tmp_path_factory.mktemp("world"), SAMPLE) as running:
        yield running


@pytest.fixture(scope="session")
def site(world: RunningWorld) -> mwclient.Site:
    """Return mwclient unchanged, except for short retries."""
    host = world.endpoints["wikipedia"].removeprefix("http://")
    return mwclient.Site(host, scheme="http", max_retries=2, retry_timeout=0)


class Asking:
    """Short functions that query the running world."""

    def __init__(self, world: RunningWorld) -> None:
        self.world = world
        self.session = requests.Session()

    def api(self, version: int = 1, **params: Any) -> Any:
        given = {"format": "json", "formatversion": version, **params}
        return self.session.get(f"{self.world.app_url}/w/api.php", params=given, timeout=10).json()

    def get(self, path: str) -> requests.Response:
        return self.session.get(self.world.app_url + path, timeout=10)

    def order_fault(self, **fault: Any) -> None:
        self.session.post(f"{self.world.app_url}/faults", json=fault, timeout=10).raise_for_status()


@pytest.fixture
def ask(world: RunningWorld) -> Iterator[Asking]:
    asking = Asking(world)
    yield asking
    asking.session.delete(f"{world.app_url}/faults", timeout=10)
    asking.session.close()
