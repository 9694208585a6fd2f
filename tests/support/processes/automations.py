"""Make the automations of data/automations on a server, as their comments explain."""

import os
import subprocess
import sys
from pathlib import Path

from support.commands.command import ROOT

_MAKE = """
import sys
from prefect.blocks.webhook import Webhook
from prefect.cli import app

block = str(Webhook(url=sys.argv[1]).save("factmill-alarm", overwrite=True))
for name in list(sys.argv[2:]):
    with open(name) as file:
        text = file.read().replace("BLOCK", block)
    with open(name, "w") as file:
        file.write(text)
    try:
        sys.argv[1:] = ["automation", "create", "--from-file", name]
        app()
    except SystemExit as end:
        if end.code:
            raise
"""


def make_automations(tmp_path: Path, url: str, pattern: str = "*.yaml", api: str = "") -> int:
    """Make an automation with its block from each file of data/automations, and return their number.

    The server is the environment's by default.
    """
    files = []
    for path in sorted((ROOT / "data" / "automations").glob(pattern)):
        files.append(tmp_path / path.name)
        files[-1].write_text(path.read_text("utf-8"), "utf-8")
    result = {**os.environ, "PREFECT_HOME": str(tmp_path / "prefect")} | ({"PREFECT_API_URL": api} if api else {})
    ran = subprocess.run(
        [sys.executable, "-c", _MAKE, url, *map(str, files)], env=result, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return len(files)
