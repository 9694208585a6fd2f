"""The builds of this machine, with its best instructions, all cores and the defaults, have the published bytes."""

from typing import Any

import pytest

from flows.digests import collect_digests, read_digests


def test_builds_have_the_bytes_that_the_project_names(embedded_builds: dict[str, Any]) -> None:
    if not (published := read_digests()):
        pytest.skip("another pyarrow than that of data/world/digests.json is installed; it writes other bytes")
    assert collect_digests(embedded_builds.values()) == published
