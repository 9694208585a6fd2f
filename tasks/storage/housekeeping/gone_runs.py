"""Runs whose process is gone, told by the files that they hold.

A run of Prefect's holds a file of its own in factmill's home, named by its id, for as long as its process lives; the
kernel lets go of it however that ends. In it stands the server that knows the run. A file that nobody holds is of a run
that is over, or whose process was killed.
"""

from pathlib import Path

from tasks.processes import is_held
from tasks.settings import environment

OUR_OWN = "our own"
"""Stands for the servers that builds start for themselves; they share one history."""


def files_of_runs(home: Path) -> Path:
    """Return the folder of these files in a home."""
    return home / "prefect" / "runs"


def name_server() -> str:
    """Return the server that runs of this environment go to: an address, or OUR_OWN."""
    return environment("PREFECT_API_URL") or OUR_OWN


def find_gone_runs(home: Path) -> dict[Path, str]:
    """Return the files that nobody holds, each with its server: an address, or OUR_OWN."""
    gone = {}
    for path in sorted(files_of_runs(home).glob("*-*")):
        if is_held(path):
            continue
        try:
            server = path.read_text("utf-8")
        except FileNotFoundError:
            continue
        if server:  # one that is empty is just being made
            gone[path] = server
    return gone
