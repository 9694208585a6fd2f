"""How what walks arrays and scans lines is compiled by numba."""

from collections.abc import Callable
from typing import Any

from numba import njit


def compile_kernel(function: Callable[..., Any]) -> Any:
    """Compile a kernel at its first call, once for all processes."""
    try:
        return njit(nogil=True, cache=True)(function)
    except RuntimeError:
        # neither the package's folder nor the user's cache can be written: each process compiles for itself
        return njit(nogil=True)(function)


# handing over some ten arrays takes longer than what most calls have to do
inline = njit(forceinline=True)
"""Compile a helper into those that call it."""
