"""Run a command and make the start of a thread or process fail, as when the system has no resources left.

    python -m trials.failing_starts LOG NUMBER once|lasting COMMAND...

Start NUMBER fails, and with `lasting` all later ones too; 0 fails none. LOG lists all starts with their location.
"""

import errno
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def run_starved(log: str, at: int, lasts: bool) -> None:
    """Run the command with start number `at` failing, and with `lasts` all later ones; 0 fails none."""
    import _posixsubprocess

    count, lock = 0, threading.Lock()

    def failing(start: Callable[..., Any], error: Callable[[], Exception]) -> Callable[..., Any]:
        def begin(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            with lock:
                count += 1
                number = count
                with Path(log).open("a", encoding="utf-8") as file:
                    file.write(f"{number} {_find_place()}\n")
            if number == at or (lasts and 0 < at < number):
                raise error()
            return start(*args, **kwargs)

        return begin

    for name in ("_start_new_thread", "_start_joinable_thread"):
        if hasattr(threading, name):
            setattr(threading, name, failing(getattr(threading, name), lambda: RuntimeError("can't start new thread")))
    no_process = lambda: BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))  # noqa: E731
    subprocess._fork_exec = failing(_posixsubprocess.fork_exec, no_process)  # type: ignore[attr-defined]
    os.fork = failing(os.fork, no_process)
    del sys.argv[1:3]
    from factmill.flows.cli.entry import main

    main()


def _find_place() -> str:
    """Return the location of a start: the innermost line of factmill, and the line of the library that starts it."""
    frames = [
        each
        for each in traceback.extract_stack()[:-2]
        if not each.filename.endswith(("threading.py", "failing_starts.py"))
    ]
    shown = [
        each
        for each in frames
        if "site-packages" in each.filename or (str(ROOT) in each.filename and ".venv" not in each.filename)
    ]
    ours = [each for each in shown if "site-packages" not in each.filename]
    last = (shown or frames)[-1]
    lines = [
        f"{Path(each.filename).parent.name}/{Path(each.filename).name}:{each.lineno}" for each in (*ours[-1:], last)
    ]
    return " ".join(dict.fromkeys(lines))


if __name__ == "__main__":
    run_starved(sys.argv[1], int(sys.argv[2]), sys.argv.pop(3) == "lasting")
