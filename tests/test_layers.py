"""Test that each benchmark's package, ours and others', respects the layers."""

from pathlib import Path

import pytest

from factmill.flows.benchmarks import BENCHMARKS
from factmill.tasks.engine.naming.code_versions import load_source_code
from factmill.testing import check_layers


@pytest.mark.parametrize("name", BENCHMARKS)
def test_packages_respect_layers(name: str) -> None:
    check_layers(name)


@pytest.mark.parametrize(
    ("module", "text", "said"),
    [
        ("steps.py", "import duckdb\n", "toyroom.steps imports duckdb: tables are"),
        ("steps.py", "from httpx import get\n", "toyroom.steps imports httpx: services are asked"),
        ("steps.py", "def ask():\n    import urllib.request\n", "toyroom.steps imports urllib.request: services"),
        ("steps.py", "from factmill.tasks.slaq import check\n", "factmill.tasks.slaq: benchmarks do not know"),
        (
            "core/rows.py",
            "from factmill.tasks.engine import batches\n",
            "toyroom.core.rows imports factmill.tasks.engine",
        ),
        ("core/rows.py", "from prefect import task\n", "toyroom.core.rows imports prefect: what is in core is pure"),
        ("core/rows.py", "from ..steps import ask\nimport requests\n", "toyroom.core.rows imports requests"),
    ],
)
def test_forbidden_import_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, text: str, said: str
) -> None:
    """The package is found by its entry point; its modules are read, not run."""
    found = tmp_path / "toyroom-1.dist-info"
    for name, content in {
        "toyroom/__init__.py": "",
        "toyroom/benchmark.py": "from factmill.tasks.lookups import labels\n",
        "toyroom/core/__init__.py": "",
        f"{found.name}/METADATA": "Metadata-Version: 2.1\nName: toyroom\nVersion: 1\n",
        f"{found.name}/entry_points.txt": "[factmill.benchmarks]\ntoyroom = toyroom.benchmark:TOY\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    load_source_code.cache_clear()
    check_layers("toyroom")
    (tmp_path / "toyroom" / module).write_text(text)
    load_source_code.cache_clear()
    with pytest.raises(AssertionError, match=said):
        check_layers("toyroom")
