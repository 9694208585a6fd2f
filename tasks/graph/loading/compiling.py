"""Compilation of path-finding and line-scanning kernels by numba."""

from collections.abc import Callable
from typing import Any

from numba import njit


def compile_kernel(function: Callable[..., Any]) -> Any:
    """Compile a kernel at its first call, cached for all processes."""
    try:
        return njit(nogil=True, cache=True)(function)
    except RuntimeError:
        # neither the package's folder nor the user's cache is writable: each process compiles for itself
        return njit(nogil=True)(function)


# passing some ten arrays takes longer than most calls' work
compile_inline = njit(forceinline=True)
"""Compile a helper inline into its callers."""
