"""Load files that users name, only if they are regular files.

A named pipe blocks, a device may never end, and a socket holds nothing. None of them can be read twice, as worlds and
sources are.
"""

import errno
import os
import stat
import tomllib
from pathlib import Path
from typing import Any, BinaryIO

_MAX_TOML_BYTES = 1 << 20
"""Maximum size of a TOML file in bytes."""
_MAX_DOTS_PER_LINE = 1000
"""Maximum number of dots in one line of a TOML file: Python takes minutes to read a key of 50,000 parts."""


def open_regular_file(path: Path, follow_symlink: bool = True) -> BinaryIO:
    """Open a regular file for reading bytes; OSError, whose `strerror` says why, for anything else, and for a symbolic link
    unless `follow_symlink`."""
    try:
        # O_NONBLOCK: do not wait for a writer of a named pipe
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (0 if follow_symlink else os.O_NOFOLLOW))
    except ValueError as error:  # a NUL, or half a surrogate pair
        raise OSError(
            errno.EINVAL, "its name holds characters that are not allowed in file names", str(path)
        ) from error
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "it is a pipe, a device or a socket; expected a file", str(path))


def resolve_absolute_path(path: str | Path) -> Path:
    """Return the absolute path, with `~` expanded where such a home exists, and links followed as far as they lead."""
    # unlike pathlib, neither raises for an unknown home or a link to itself
    return Path(os.path.realpath(os.path.expanduser(path)))  # noqa: PTH111


def load_file_bytes(path: Path, max_bytes: int = 1 << 30) -> bytes:
    """Return the bytes of a regular file; OSError for anything else, and for one of more than `max_bytes`."""
    with open_regular_file(path) as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {max_bytes / 1e6:,.0f} MB", str(path))
    return content


def load_toml(path: Path) -> dict[str, Any]:
    """Load a TOML file; OSError if it is no regular file, ValueError, whose text says why, if it is not valid TOML."""
    try:
        text = load_file_bytes(path, _MAX_TOML_BYTES).decode("utf-8")
        if any(line.count(".") > _MAX_DOTS_PER_LINE for line in text.splitlines()):
            raise RecursionError
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except ValueError as error:
        raise ValueError(str(error).partition(";")[0]) from error
