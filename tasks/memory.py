"""Memory of a process that does nothing but run the command or a flow: what is free goes back to the system."""

import ctypes
import gc
import os

COLLECT_AFTER = (50_000, 20, 100)
"""Objects made until the collector looks for cycles (Python's own: 700), and young for old looks. Rows, calls and replies
come by the hundred thousand and hold no cycles, nor does what is imported: looking through them took an eighth of a
build's CPU, and a sixth of the start of a Prefect server."""
_ARENA_MAX = -8
"""M_ARENA_MAX of glibc's mallopt(3)."""


def settle_memory() -> None:
    """Settle how this process takes memory, before Arrow is imported; what the environment says of it stays.

    Arrow's own pool keeps what threads that have ended let go of, and glibc an arena for each of up to eight threads a core:
    two do as well, since Python's lock lets one thread at a time make anything.
    """
    gc.set_threshold(*COLLECT_AFTER)
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    settle = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc's
    if settle and "MALLOC_ARENA_MAX" not in os.environ:
        settle(_ARENA_MAX, 2)


def give_back_memory() -> None:
    """Give the system what is free, which glibc keeps."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
