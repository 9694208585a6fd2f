"""Compilation of path-finding and line-scanning kernels by numba."""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit


@cache
def digest_graph_package_sources() -> str:
    """Return a digest of the graph package's source files, whose classes numba pickles by name into its cache."""
    sources = sorted(Path(__file__).parents[1].rglob("*.py"))
    return hashlib.sha256(b"\0".join(map(Path.read_bytes, sources))).hexdigest()[:16]


def compile_kernel(function: Callable[..., Any]) -> Any:
    """Compile a kernel at its first call, cached for all processes that run the same code of the graph package."""
    # numba names its files by this name, and cannot open files that refer to a class that an upgrade has renamed
    function.__qualname__ += f"_{digest_graph_package_sources()}"
    try:
        return njit(nogil=True, cache=True)(function)
    except RuntimeError:
        # neither the package's folder nor the user's cache is writable: each process compiles for itself
        return njit(nogil=True)(function)


# passing some ten arrays takes longer than most calls' work
compile_inline = njit(forceinline=True)
"""Compile a helper inline into its callers."""
