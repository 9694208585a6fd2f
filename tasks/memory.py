"""Memory of a process that does nothing but run the command or a flow: what is free goes back to the system; and how
errors say that the system gives no more memory, threads or processes."""

import ctypes
import errno
import gc
import os

from factmill.tasks.errors import ResourcesExhausted, WorldError, iterate_causes

COLLECT_AFTER = (50_000, 20, 100)
"""Objects made until the collector looks for cycles (Python's own: 700), and young for old looks. Rows, calls and replies
come by the hundred thousand and hold no cycles, nor does what is imported: looking through them took an eighth of a
build's CPU, and a sixth of the start of a Prefect server."""
_ARENA_MAX = -8
"""M_ARENA_MAX of glibc's mallopt(3)."""
_NO_MEMORY = (os.strerror(errno.ENOMEM), "std::bad_alloc")
"""How the system and C++ say so in errors that have no type of their own."""
_NO_THREAD = (os.strerror(errno.EAGAIN), "can't start new thread", "Failed to launch worker thread")
"""How the system, Python and Arrow say so."""


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


def find_shortage(error: BaseException) -> str:
    """Return what the system has no more of, where that is behind an error, and what to do; empty for any other error."""
    for each in iterate_causes(error):
        if isinstance(each, ResourcesExhausted):
            return str(each)
        text = f"{type(each).__name__}: {each}".rstrip(": ")
        # what services say of themselves is no error of this process
        is_own = isinstance(each, OSError | RuntimeError | WorldError)
        is_memory = isinstance(each, MemoryError) or type(each).__name__ == "OutOfMemoryException"
        if is_memory or (is_own and any(sign in text for sign in _NO_MEMORY)):
            return (
                f"the system gives this process no more memory ({text}): raise its limit (`ulimit -v`, a container's memory), "
                "end other programs, or lower --concurrency and --batch-size; what was done is kept, the same command goes on "
                "from here"
            )
        if is_own and any(sign in text for sign in _NO_THREAD):
            return (
                f"the system starts no more threads and processes ({text}): raise their limit (`ulimit -u`, a container's "
                "pids), end other programs, or lower --concurrency; what was done is kept, the same command goes on from here"
            )
    return ""
