"""Tune the memory of a process that only runs the command or a flow, so that free memory returns to the system; and
recognise errors that mean a shortage of memory, threads or processes."""

import ctypes
import errno
import gc
import os

from factmill.tasks.errors import EmbeddedWorldError, ResourcesExhausted, iterate_exception_chain

GC_THRESHOLDS = (50_000, 20, 100)
"""Thresholds of the garbage collector's three generations (Python's first: 700). Rows, calls and responses come by the
hundred thousand and hold no cycles, nor do imported modules: scanning them took an eighth of a build's CPU time, and a
sixth of the start of a Prefect server."""
_ARENA_MAX = -8
"""M_ARENA_MAX of glibc's mallopt(3)."""
_OUT_OF_MEMORY_MESSAGES = (os.strerror(errno.ENOMEM), "std::bad_alloc")
"""Messages of the system and C++ for a lack of memory, in errors of no specific type."""
_THREAD_LIMIT_MESSAGES = (os.strerror(errno.EAGAIN), "can't start new thread", "Failed to launch worker thread")
"""Messages of the system, Python and Arrow for a lack of threads or processes."""


def configure_allocators_and_gc() -> None:
    """Configure the memory allocators of this process, before Arrow is imported; environment variables take precedence.

    Arrow's own pool keeps the memory of ended threads, and glibc keeps up to eight arenas per core. Two arenas suffice,
    since Python's lock lets only one thread at a time allocate.
    """
    gc.set_threshold(*GC_THRESHOLDS)
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    set_malloc_option = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc's
    if set_malloc_option and "MALLOC_ARENA_MAX" not in os.environ:
        set_malloc_option(_ARENA_MAX, 2)


def release_free_memory() -> None:
    """Return free memory that glibc keeps to the system."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


def find_resource_shortage(error: BaseException) -> str:
    """Return which resource of the system ran out, if that caused an error, and what to do; empty for any other error."""
    for each in iterate_exception_chain(error):
        if isinstance(each, ResourcesExhausted):
            return str(each)
        text = f"{type(each).__name__}: {each}".rstrip(": ")
        # a service's message about itself is no shortage of this process
        is_own = isinstance(each, OSError | RuntimeError | EmbeddedWorldError)
        is_memory = isinstance(each, MemoryError) or type(each).__name__ == "OutOfMemoryException"
        if is_memory or (is_own and any(sign in text for sign in _OUT_OF_MEMORY_MESSAGES)):
            return (
                f"out of memory ({text}): raise this process's limit (`ulimit -v`, a container's memory), "
                "end other programs, or lower --concurrency and --batch-size; finished work is kept, and the same command "
                "continues from here"
            )
        if is_own and any(sign in text for sign in _THREAD_LIMIT_MESSAGES):
            return (
                f"cannot start more threads or processes ({text}): raise their limit (`ulimit -u`, a container's "
                "pids), end other programs, or lower --concurrency; finished work is kept, and the same command continues from here"
            )
    return ""
