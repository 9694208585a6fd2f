"""The text of our own modules, by which locks and identities name the code that makes rows."""

from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tasks.errors import BuildError

PACKAGES = ("flows", "tasks")


@cache
def read_code(packages: tuple[str, ...] = PACKAGES) -> Mapping[str, str]:
    """Return dotted name → text of every module of these packages, found where Python finds them; none is run.

    A package's own module is called `package.__init__`; a package may be a single module too. BuildError for a package that is not installed.
    """
    code = {}
    for package in packages:
        spec = find_spec(package)
        if spec is None:
            raise BuildError(f"the package {package} is not installed; its code is part of what a build is named by")
        if spec.submodule_search_locations is None and spec.origin:
            code[package] = Path(spec.origin).read_text("utf-8")
        for folder in map(Path, spec.submodule_search_locations or ()):
            for path in folder.rglob("*.py"):
                name = ".".join([package, *path.relative_to(folder).with_suffix("").parts])
                code[name] = path.read_text("utf-8")
    return code
