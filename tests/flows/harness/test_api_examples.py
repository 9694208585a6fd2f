"""Run the documented examples of `import factmill` unchanged."""

import doctest
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.docs.documents import list_blocks
from support.webs.prepared import link_prepared

import factmill as api


@pytest.fixture
def home_of_reader(
    embedded_builds: dict[str, Any],
    session_home: Path,
    prefect_api: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """Make the home of a reader who has run `make build`."""
    assert embedded_builds
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(session_home / "factmill.duckdb", home)
    link_prepared(session_home, home)
    monkeypatch.setenv("FACTMILL_HOME", str(home))
    monkeypatch.setenv("PREFECT_API_URL", prefect_api)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return home


@pytest.mark.usefixtures("home_of_reader")
def test_documentation_examples_run() -> None:
    found = doctest.testmod(api, extraglobs={"factmill": api, "granola": api.load("granola")})
    assert found.attempted > 25
    assert not found.failed


@pytest.mark.usefixtures("home_of_reader")
def test_python_page_examples_run() -> None:
    page = "docs/measure/python.md"
    blocks = list_blocks(page, "pycon")
    assert len(blocks) == 3
    assert not list_blocks(page, "python"), "a block that no test runs"
    found = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page, page, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert runner.run(found).failed == 0
