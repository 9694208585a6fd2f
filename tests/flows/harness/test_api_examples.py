"""`import factmill`: what its documentation shows."""

import doctest
from pathlib import Path
from typing import Any

import pytest

import factmill as api


def test_examples_of_the_documentation_hold(
    embedded_builds: dict[str, Any], session_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert embedded_builds
    monkeypatch.setenv("FACTMILL_HOME", str(session_home))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found = doctest.testmod(api, extraglobs={"factmill": api})
    assert found.attempted > 10
    assert not found.failed
