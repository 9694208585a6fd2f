"""Identify the code that makes a build's rows, for its manifest.

A benchmark's own package, and what it uses of `core`, `text`, `lookups` and `evaluation`, counts by the digest of each
definition (definition_digests.py); so does what the engine uses of them for it, such as the parser of all completions. Packages
that serve all benchmarks each have a version, which is raised by hand when a change there, or in code that only these
packages use, changes rows or recorded replies; `make digests` rejects digests that changed without it.

The analysis uses only the text of modules, so the result is the same in every process and no module is run. Imports inside
functions, and those only for types, count. Parsing whole modules takes more than a second, so only the import statements
are extracted and parsed; if they do not parse, the whole module is. Code is a mapping of dotted name → text, in which a
package's own module is called `package.__init__`.
"""

import ast
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from factmill.tasks.core.digests import combine_digests, digest_bytes
from factmill.tasks.engine.naming.definition_digests import DigestedCodeDependencies, collect_code_dependencies
from factmill.tasks.errors import BuildError

CODE_PACKAGES = ("factmill",)


@cache
def load_source_code(packages: tuple[str, ...] = CODE_PACKAGES) -> Mapping[str, str]:
    """Return dotted name → text of every module of these packages, as found by Python's import system; none is run.

    A package's own module is called `package.__init__`; a package may also be a single module. BuildError if a package is
    not installed.
    """
    code = {}
    for package in packages:
        spec = find_spec(package)
        if spec is None:
            raise BuildError(f"the package {package} is not installed; a build's id depends on its code")
        if spec.submodule_search_locations is None and spec.origin:
            code[package] = Path(spec.origin).read_text("utf-8")
        for folder in map(Path, spec.submodule_search_locations or ()):
            # in a checkout factmill's folders are links, which `rglob` does not follow
            for below, _, files in os.walk(folder, followlinks=True):
                for path in (Path(below, file) for file in files if file.endswith(".py")):
                    name = ".".join([package, *path.relative_to(folder).with_suffix("").parts])
                    code[name] = path.read_text("utf-8")
    return code


_IMPORT_STATEMENT = re.compile(
    r"(?:^|[;:])[ \t]*((?:import\s|from\s+[.\w]+\s+import\b)(?:\\\n|[^\n;(])*(?:\([^)]*\))?)", re.MULTILINE
)
"""Matches an import at the start of a line or after a semicolon or colon; names in brackets may span lines."""


def digest_import_closure(starts: Iterable[str], code: Mapping[str, str]) -> str:
    """Return one SHA-256 of names and texts of all modules that these import, directly or indirectly."""
    names = sorted(collect_import_closure(starts, code))
    return combine_digests(f"{name} {digest_bytes(code[name].encode())}" for name in names)


def collect_import_closure(starts: Iterable[str], code: Mapping[str, str]) -> frozenset[str]:
    """Return the modules that these import, directly or indirectly, and themselves; BuildError for an unknown module."""
    todo = list(starts)
    if missing := [name for name in todo if not code.keys() & {name, f"{name}.__init__"}]:
        raise BuildError(f"no module {missing[0]}; a build's id depends on its code")
    found: set[str] = set()
    asked: set[str] = set()
    while todo:
        name = todo.pop()
        if name in asked:
            continue
        asked.add(name)
        # a module's package runs before it; the top-level package is for users and affects nothing
        if name.count(".") > 1:
            todo.append(name.rpartition(".")[0])
        for module in {name, f"{name}.__init__"} & code.keys():
            found.add(module)
            todo.extend(find_imports(module, code[module]))
    return frozenset(found)


@cache
def find_imports(module: str, text: str) -> frozenset[str]:
    """Return the dotted names that a module imports; `from a import b` gives `a` and `a.b`, which may be a module."""
    try:
        nodes: Iterable[ast.AST] = ast.parse("\n".join(_IMPORT_STATEMENT.findall(text))).body
    except SyntaxError:  # text in a docstring that looks like an import, or a bracket in a comment
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


class PackageBehaviourVersion(NamedTuple):
    """Version of a package's behaviour: how it makes rows and replies."""

    number: int
    since: str
    """Difference from the version before."""


PACKAGE_VERSIONS: Mapping[str, PackageBehaviourVersion] = {
    "clients": PackageBehaviourVersion(1, "first counted version"),
    "engine": PackageBehaviourVersion(1, "first counted version"),
    "graph": PackageBehaviourVersion(1, "first counted version"),
    "models": PackageBehaviourVersion(1, "first counted version"),
    "storage": PackageBehaviourVersion(1, "first counted version"),
    "world": PackageBehaviourVersion(1, "first counted version"),
}
_COUNTED_BY_DEFINITION = frozenset({"assets", "core", "evaluation", "lookups", "text"})
"""Packages shared by several benchmarks, which count by the digest of each definition."""
_TRAVERSED_PACKAGES = frozenset({"engine"})
"""Packages with a version that lie between steps and definitions that count by digest."""
_UNCOUNTED_MODULES = frozenset((
    "compute", "core.calls.freshness", "core.publishing", "core.service_settings", "core.spending", "diff",
    "errors", "files", "memory", "options", "own_prompts", "processes", "progress", "release", "reports",
    "settings", "text.durations", "zim_archive",
))  # fmt: skip
"""Modules that check, show and run: rows depend on them only through other entries of the manifest."""
_PRESENTATION_MODULES = frozenset({"release", "report"})
"""Modules of a benchmark's package that define how it is released and shown."""
_RECORD_MODULE = "benchmark"
"""Module of a benchmark's package with its record; a recipe's own record counts, since it names what resolves the inputs."""
_RECIPE_MAKER_MODULE = "factmill.flows.recipes"
"""Module that makes recipes from lists of steps."""
_NEUTRAL_LIBRARIES = frozenset({"prefect", "pyarrow", "pydantic"})
"""Libraries that transport rows and do not affect their values."""


@cache
def collect_recipe_code(recipe: str) -> DigestedCodeDependencies:
    """Return the code that makes the rows of a recipe (`module:function`); BuildError if it does not exist."""
    module, _, function = recipe.partition(":")
    packages = dict.fromkeys([*CODE_PACKAGES, module.partition(".")[0]])
    return collect_code_dependencies(
        [(module, function)],
        load_source_code(tuple(packages)),
        partial(find_package_versioning_module, module),
        _TRAVERSED_PACKAGES,
    )


def find_package_versioning_module(recipe: str, module: str) -> str | None:
    """Return how a module counts for a recipe's module: "" by definition, a package name by version, None not at all."""
    package, *rest = module.removeprefix("factmill.").split(".")
    if package != "tasks" or not rest:
        is_of_recipe = package == recipe.partition(".")[0]
        return (
            ""
            if module in (recipe, _RECIPE_MAKER_MODULE)
            or (is_of_recipe and rest and rest[-1] not in _PRESENTATION_MODULES)
            else None
        )
    if rest[0] in PACKAGE_VERSIONS:
        return rest[0]
    hidden = (
        _PRESENTATION_MODULES if recipe == f"factmill.flows.{rest[0]}" else {*_PRESENTATION_MODULES, _RECORD_MODULE}
    )
    is_around = any(".".join(rest[:end]) in _UNCOUNTED_MODULES for end in range(1, len(rest) + 1))
    return None if is_around or (rest[0] not in _COUNTED_BY_DEFINITION and rest[-1] in hidden) else ""


def make_code_manifest(recipe: str) -> dict[str, Any]:
    """Return the code of a recipe as in a manifest: definitions by digest, packages (`rooms`) and libraries by version."""
    reached = collect_recipe_code(recipe)
    return {
        "definitions": reached.digests,
        "rooms": {package: PACKAGE_VERSIONS[package].number for package in sorted(reached.packages)},
        "libraries": {name: _find_version(name) for name in sorted(reached.libraries - _NEUTRAL_LIBRARIES)},
    }


def _find_version(library: str) -> str:
    """Return the version of an installed library by its module's name; "not installed" if there is none."""
    try:
        return version(library)
    except PackageNotFoundError:  # its distribution has another name, which takes a second to look up
        names = packages_distributions().get(library)
        return version(names[0]) if names else "not installed"


def digest_code_packages() -> dict[str, str]:
    """Return package → digest of its modules and what they use of `_COUNTED_BY_DEFINITION`, to locate the origin of changed rows."""
    code = load_source_code()
    digests = {}
    for package in PACKAGE_VERSIONS:
        own = [module for module in code if module.startswith(f"factmill.tasks.{package}.")]
        counted = tuple(f"factmill.tasks.{each}." for each in (package, *sorted(_COUNTED_BY_DEFINITION)))
        used = (module for module in collect_import_closure(own, code) if f"{module}.".startswith(counted))
        digests[package] = combine_digests(f"{module} {digest_bytes(code[module].encode())}" for module in sorted(used))
    return digests
