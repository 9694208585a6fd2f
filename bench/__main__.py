"""Run a benchmark (`speed`) or a fault trial (`trials`); `python bench` alone lists them.

    python bench                                     list the scripts with what each one shows
    python bench speed.builds.rows --rows 10000      run the function `main` of one script

A script and the processes it starts can import the other scripts, `tests/support` and this checkout's factmill.
"""

import ast
import os
import sys
from importlib import import_module

from scripts import ROOT

PATHS = [str(ROOT / folder) for folder in ("", "bench", "tests", "data/models")]


def list_scripts() -> None:
    """Print each script that can be run, with the first line of its docstring."""
    for path in sorted((ROOT / "bench").glob("*/**/*.py")):
        text = path.read_text("utf-8")
        if "\ndef main(" in text:
            module = ".".join(path.relative_to(ROOT / "bench").with_suffix("").parts)
            print(f"{module:34} {(ast.get_docstring(ast.parse(text)) or '').splitlines()[0]}")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        list_scripts()
    else:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*PATHS, os.environ.get("PYTHONPATH")]))
        sys.path[:1] = PATHS
        del sys.argv[0]
        sys.exit(import_module(sys.argv[0]).main())
