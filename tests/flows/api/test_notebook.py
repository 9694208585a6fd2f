"""Test the documentation's notebook in its own kernel, and interrupts of a build that Python started."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from support.webs.prepared import link_prepared

from factmill.tasks.assets import ASSETS_ROOT

NOTEBOOK = ASSETS_ROOT / "docs" / "notebook.ipynb"


@pytest.fixture
def home(session_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a home without builds, for processes that configure Prefect themselves as a reader's do."""
    for name in [name for name in os.environ if name.startswith("PREFECT_")]:
        monkeypatch.delenv(name)
    made = tmp_path / "home"
    made.mkdir()
    monkeypatch.setenv("FACTMILL_HOME", str(link_prepared(session_home, made)))
    return made


def test_notebook_runs_in_kernel(home: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    (tmp_path / "queue.py").write_text("raise RuntimeError('a module of the folder was imported')")
    NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path / "home"}}
    ).execute()
    outputs = [
        "".join(
            part.get("text", "")
            or part.get("data", {}).get("text/html", "")
            or part.get("data", {}).get("text/plain", "")
            for part in cell.outputs
        )
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]
    whole = "\n".join(outputs)
    assert "remove_trivial_answers: 20 rows" in outputs[1], "progress is shown"
    assert "20 source rows = 20 published + 0 rejected + 0 merged" in outputs[1]
    assert outputs[2].startswith("('granola-") and ".html'" in outputs[2]
    assert list((home / "reports").glob("granola-*.html"))
    assert "granola_eq of granola-" in whole and "remove_trivial_answers: neighbours" in whole
    assert "guesser on granola-" in whole
    assert "TimeoutError: no answer in time" in whole or "'answer': 'France'" in whole
    assert "my model (first) less guesser (second)" in whole
    assert "unknown option relation; there are: " in outputs[-1] and "; did you mean relations?" in outputs[-1]


def test_notebook_is_stored_without_outputs() -> None:
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    assert not [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")]


_BUILD = """
import sys, factmill
try:
    factmill.build("granola", limit=60)
except KeyboardInterrupt:
    print("interrupted", flush=True)
built = factmill.build("granola", limit=60, quiet=True)
print(built.rows + built.rejects, built.report.calls_replayed > 0)
"""


@pytest.mark.usefixtures("home")
def test_interrupt_stops_build_and_same_call_resumes_it() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _BUILD], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    assert process.stderr and process.stdout
    for line in process.stderr:
        if line.startswith("link_question_entities"):
            break
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n"
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (0, "60 True\n"), err
