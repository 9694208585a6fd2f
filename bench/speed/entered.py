"""Count the factmill functions and files that a command enters, and measure the depth of its call stack.

    python bench speed.entered [--checkout FOLDER …] [--lines]

For each checkout (this one by default), runs `build granola` and then `evaluate granola --model oracle`, each with
its own home. "To a row" is the deepest stack of factmill's functions when a shard of rows is written; "to an
interval" is the same when an interval is computed. Functions count by definition and frames in one thread; other
processes are not observed. `--lines` also prints the checkout's lines and files by folder.
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
    "to a row": ("storage/shards.py", ("write_shard_and_digest_rows_file",)),
    "to an interval": (
        "measures/intervals.py",
        ("bootstrap", "wilson", "bootstrap_cluster_mean_interval", "compute_wilson_interval"),
    ),
}
"""Where stack depth is measured: the end of a file's path, and function names, including those of earlier commits."""


def observe(checkout: Path, report: Path, command: list[str]) -> None:
    """Run the command in this process; when it ends, write what it entered to `report`."""
    sys.path.insert(0, str(checkout))
    roots = tuple(str(checkout / folder) + os.sep for folder in ("flows", "tasks"))
    ours: dict[Any, str | None] = {}
    deepest: Counter[str] = Counter()

    def place_of(code: Any) -> str | None:
        """Return a function's file relative to the checkout; None when it is not factmill's."""
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

    leave, os._exit = os._exit, end  # the command ends with os._exit, which skips Python's exit handlers
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
    """Print lines and files by folder; empty `__init__.py` files do not count."""
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
    """Print the figures of each checkout."""
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
