"""Test the registry of operations."""

import re
import subprocess
import sys
from pathlib import Path

from factmill.tasks.core.calls import operation
from factmill.tasks.core.calls.operation import list_operations


def test_bare_process_knows_every_operation() -> None:
    """The settings name operations before any client exists, so the registry imports the modules that define them."""
    script = (
        "from factmill.tasks.core.calls.operation import list_operations; print(*(o.name for o in list_operations()))"
    )
    listed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    folder = Path(operation.__file__).parent
    made = [
        path.stem for path in folder.glob("*.py") if re.search(r"^[A-Z_]+ = Operation\(", path.read_text("utf-8"), re.M)
    ]
    assert {each.name for each in list_operations()} >= set(listed)
    assert set(made) == set(operation._OPERATION_MODULES)
    assert {"chat", "page_text", "item_facts", "world_contents"} <= set(listed)
