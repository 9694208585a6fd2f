"""Plant small faults one at a time in code changed since a revision, and check that the module's tests fail.

    python bench trials.mutants --base REVISION [--number 50] [--seed 1] [--only tasks/slaq …]

A fault inverts a comparison or a connective, removes a `not`, or changes a number or truth value, on a line added since
the revision. Tests that import the module run first, then those of its folder; slow tests do not run. Prints each fault
that survives with its location, and exits 1 if there is one.
"""

import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts import ROOT, read_options

TURNED = {
    **{ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">=")},
    **{ast.GtE: (">=", ">"), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"), ast.Is: ("is", "is not")},
    **{
        ast.IsNot: ("is not", "is"),
        ast.And: ("and", "or"),
        ast.Or: ("or", "and"),
        ast.Add: ("+", "-"),
        ast.Sub: ("-", "+"),
    },
}
TIMEOUT_S = 300.0
"""A test run that exceeds this time counts as a failure."""


@dataclass(frozen=True)
class Fault:
    """One change of a file's text."""

    path: str
    line: int
    start: int
    end: int
    """End of the replaced characters."""
    new: str


def list_added(base: str) -> dict[str, set[int]]:
    """Return product file → numbers of the lines added since a revision."""
    command = ["git", "diff", "-U0", base, "--", "tasks", "flows"]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    added: dict[str, set[int]] = {}
    path = ""
    for line in output.splitlines():
        if line.startswith("+++ "):
            path = line.removeprefix("+++ b/")
        elif (found := re.match(r"@@ .* \+(\d+)(?:,(\d+))? @@", line)) and path.endswith(".py"):
            first, count = int(found[1]), int(found[2] or 1)
            added.setdefault(path, set()).update(range(first, first + count))
    return added


def find_faults(path: str, lines: set[int]) -> Iterator[Fault]:
    """Yield the faults that can be planted on these lines of a file."""
    text = (ROOT / path).read_text("utf-8")
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def place(line: int, column: int) -> int:
        """Return the character position of an offset that `ast` gives in bytes."""
        start = starts[line - 1]
        return start + len(text[start : starts[line]].encode()[:column].decode())

    def turn(operator: ast.AST, left: ast.expr, right: ast.expr) -> Iterator[Fault]:
        if type(operator) in TURNED:
            old, new = TURNED[type(operator)]
            start, end = place(left.end_lineno or 0, left.end_col_offset or 0), place(right.lineno, right.col_offset)
            if found := re.search(rf"(?<!\w){re.escape(old)}(?!\w)", text[start:end]):
                yield Fault(path, left.lineno, start + found.start(), start + found.end(), new)

    for node in ast.walk(ast.parse(text)):
        if getattr(node, "lineno", 0) not in lines:
            continue
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from turn(node.ops[0], node.left, node.comparators[0])
        elif isinstance(node, ast.BoolOp):
            yield from turn(node.op, node.values[0], node.values[1])
        elif isinstance(node, ast.BinOp) and not isinstance(node.left, ast.JoinedStr):
            yield from turn(node.op, node.left, node.right)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            start = place(node.lineno, node.col_offset)
            yield Fault(path, node.lineno, start, start + len("not "), "")
        elif isinstance(node, ast.Constant) and type(node.value) in (bool, int):
            start, end = place(node.lineno, node.col_offset), place(node.lineno, node.end_col_offset or 0)
            yield Fault(
                path, node.lineno, start, end, str(not node.value if isinstance(node.value, bool) else node.value + 1)
            )


def list_tests(copy: Path, path: str) -> list[list[str]]:
    """Return the tests of a module, in the order they run."""
    module = path.removesuffix(".py").replace("/", ".")
    package, _, name = module.rpartition(".")
    imports = re.compile(rf"factmill\.{re.escape(module)}\b|from factmill\.{re.escape(package)} import .*\b{name}\b")
    files = [each for each in sorted((copy / "tests").rglob("test_*.py")) if imports.search(each.read_text("utf-8"))]
    folder = (
        copy / "tests" / Path(path).relative_to("tasks").parts[0] if path.startswith("tasks/") else copy / "tests/flows"
    )
    return [list(map(str, files)), [str(folder)] if folder.is_dir() else []]


def is_noticed(copy: Path, fault: Fault) -> bool:
    """Return whether a test fails in a copy of the checkout that has the fault."""
    file = copy / fault.path
    whole = file.read_text("utf-8")
    file.write_text(whole[: fault.start] + fault.new + whole[fault.end :], "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-qx",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-m",
        "not llm and not slow",
    ]
    try:
        for tests in filter(None, list_tests(copy, fault.path)):
            ran = subprocess.run(
                [*command, *tests], cwd=copy, env=environment, capture_output=True, timeout=TIMEOUT_S, check=False
            )
            if ran.returncode not in (0, 5):  # 5: no test was selected
                return True
    except subprocess.TimeoutExpired:
        return True
    finally:
        file.write_text(whole, "utf-8")
    return False


def main() -> int:
    """Plant the faults and print those that survive."""
    options = read_options(
        (__doc__ or "").splitlines()[0], base={"required": True}, number=50, seed=1, only=([""], "Beginnings of paths.")
    )
    added = {path: lines for path, lines in list_added(options.base).items() if path.startswith(tuple(options.only))}
    faults = [fault for path, lines in sorted(added.items()) for fault in find_faults(path, lines)]
    drawn = random.Random(options.seed).sample(faults, min(options.number, len(faults)))
    survived = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "main"
        shutil.copytree(ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(".venv", ".git", "*.duckdb"))
        for number, fault in enumerate(drawn, 1):
            line = (ROOT / fault.path).read_text("utf-8").splitlines()[fault.line - 1].strip()
            if not is_noticed(copy, fault):
                survived += 1
                print(f"{number}: SURVIVED {fault.path}:{fault.line} → {fault.new or '(nothing)'}: {line}", flush=True)
    print(f"{len(drawn)} of {len(faults)} faults planted, {survived} survived")
    return 1 if survived else 0
