"""Which modules a module rests on: itself, what it imports, and what these import in turn.

Everything is told from the text of modules, so that the answer is the same in every process and needs no module to be
run. Imports inside functions and those for types alone count. Parsing whole modules takes more than a second, so only
statements that import are cut out and parsed; where these do not parse, the whole module is.

Code is a mapping of dotted name → text, in which a package's own module is called `package.__init__`.
"""

import ast
import re
from collections.abc import Iterable, Mapping
from functools import cache

from tasks.core.fingerprints import combine_digests, digest_bytes
from tasks.errors import BuildError

_STATEMENT = re.compile(
    r"(?:^|[;:])[ \t]*((?:import\s|from\s+[.\w]+\s+import\b)(?:\\\n|[^\n;(])*(?:\([^)]*\))?)", re.MULTILINE
)
"""A statement starts a line or follows a semicolon or colon; names in brackets may stand on several lines."""


def digest_closure(starts: Iterable[str], code: Mapping[str, str]) -> str:
    """Return one SHA-256 of the modules that these rest on, by name and text."""
    names = sorted(close_over_imports(starts, code))
    return combine_digests(f"{name} {digest_bytes(code[name].encode())}" for name in names)


def close_over_imports(starts: Iterable[str], code: Mapping[str, str]) -> frozenset[str]:
    """Return the modules of the code that these rest on, themselves among them; BuildError for one that is not there."""
    todo = list(starts)
    if missing := [name for name in todo if not code.keys() & {name, f"{name}.__init__"}]:
        raise BuildError(f"there is no module {missing[0]}; it was looked for to tell what a build is made by")
    found: set[str] = set()
    asked: set[str] = set()
    while todo:
        name = todo.pop()
        if name in asked:
            continue
        asked.add(name)
        todo.extend(name.rpartition(".")[:1])  # a module's package is run before it
        for module in {name, f"{name}.__init__"} & code.keys():
            found.add(module)
            todo.extend(find_imports(module, code[module]))
    return frozenset(found)


@cache
def find_imports(module: str, text: str) -> frozenset[str]:
    """Return the dotted names that a module may import; `from a import b` gives `a` and `a.b`, which may be a module."""
    try:
        nodes: Iterable[ast.AST] = ast.parse("\n".join(_STATEMENT.findall(text))).body
    except SyntaxError:  # words of a docstring that look like a statement, or a bracket in a comment
        nodes = ast.walk(ast.parse(text))
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level] if node.level else []
            source = ".".join([*above, *filter(None, [node.module])])
            found.update([source, *(f"{source}.{alias.name}" for alias in node.names)])
    return frozenset(found)
