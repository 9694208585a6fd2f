"""How much of the house a command walks through: our functions and files that it enters, and how deep our frames stand.

    python bench speed.entered [--checkout FOLDER …] [--lines]

For each checkout (this one, where none is named): `build granola`, then `evaluate granola --model oracle`, each in a home of
its own. "To a row" is the deepest stack of our own functions when a shard of rows is written, "to an interval" when one is computed;
functions are counted by definition, frames in one thread, and other processes are not seen. `--lines` states the lines and
files of the checkout as well, by folder.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

COMMANDS = ("build granola", "evaluate granola --model oracle")
PLACES = {
    "to a row": ("storage/shards.py", ("write_shard",)),
    "to an interval": (
        "measures/intervals.py",
        ("bootstrap", "wilson", "bootstrap_cluster_mean_interval", "compute_wilson_interval"),
    ),
}
"""What is looked for on the stack: the end of a file's path, and its functions, of earlier commits too."""


def observe(checkout: Path, report: Path, command: list[str]) -> None:
    """Run the command in this process and write what it entered to a file when it ends."""
    sys.path.insert(0, str(checkout))
    roots = tuple(str(checkout / folder) + os.sep for folder in ("flows", "tasks"))
    ours: dict[Any, str | None] = {}
    deepest: Counter[str] = Counter()

    def place_of(code: Any) -> str | None:
        """Return a function's file below the checkout; None where it is not ours."""
        if code not in ours:
            path = os.path.realpath(code.co_filename)
            ours[code] = path.removeprefix(str(checkout) + os.sep) if path.startswith(roots) else None
        return ours[code]

    def enter(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not (path := place_of(frame.f_code)):
            return
        for place, (file, names) in PLACES.items():
            if frame.f_code.co_name in names and path.endswith(file):
                above: FrameType | None = frame
                depth = 0
                while above:
                    depth += place_of(above.f_code) is not None and above.f_code.co_name[:1] != "<"
                    above = above.f_back
                deepest[place] = max(deepest[place], depth)

    def end(code: int) -> None:
        entered = {(path, code.co_qualname) for code, path in ours.items() if path and code.co_name[:1] != "<"}
        report.write_text(
            json.dumps({"functions": len(entered), "files": len({path for path, _ in entered}), **deepest}), "utf-8"
        )
        leave(code)

    leave, os._exit = os._exit, end  # the command ends there, without what Python does at its end
    sys.argv = ["factmill", *command]
    threading.setprofile(enter)
    sys.setprofile(enter)
    try:
        from factmill.flows.cli.entry import main

        main()
    finally:
        sys.setprofile(None)
        end(0)


def show_entered(checkout: Path) -> None:
    """Print a line for each command."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "FACTMILL_HOME": str(Path(folder) / "home")}
        for command in COMMANDS:
            report = Path(folder) / "entered.json"
            arguments = ["--observe", str(report), "--checkout", str(checkout), *command.split()]
            subprocess.run(
                [sys.executable, __file__, *arguments], env=environment, cwd=checkout, capture_output=True, check=True
            )
            entered = json.loads(report.read_text("utf-8"))
            print(f"{command}: " + ", ".join(f"{count:,} {what}" for what, count in entered.items()))


def show_lines(checkout: Path) -> None:
    """Print lines and files by folder; empty `__init__.py` do not count."""
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=checkout, capture_output=True, text=True, check=True)
    lines: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for name in listed.stdout.splitlines():
        top, *rest = name.split("/")
        if text := (checkout / name).read_text("utf-8"):
            is_product = top in ("flows", "tasks", "factmill")
            folders = [
                f"{top}/{rest[0]}" if top == "tasks" and len(rest) > 1 else top,
                "product" if is_product else "others",
            ]
            for folder in folders:
                lines[folder] += text.count("\n")
                files[folder] += 1
    for folder in sorted(lines):
        print(f"{folder:20} {lines[folder]:7,} lines {files[folder]:4} files")


def main() -> int:
    """Show every checkout."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--checkout", type=Path, action="append")
    parser.add_argument("--lines", action="store_true")
    parser.add_argument("--observe", type=Path, help=argparse.SUPPRESS)
    options, command = parser.parse_known_args()
    checkouts = [each.resolve() for each in options.checkout or [Path(__file__).parents[2]]]
    if options.observe:
        observe(checkouts[0], options.observe, command)
    for checkout in checkouts:
        print(checkout)
        if options.lines:
            show_lines(checkout)
        show_entered(checkout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
