"""Files that users name, opened only where they are regular files.

A named pipe would be waited for, a device may never end, and a socket holds nothing: none of them is a file that can be
read twice, as worlds and sources are.
"""

import errno
import os
import stat
import tomllib
from pathlib import Path
from typing import Any, BinaryIO

_TOML_BYTES = 1 << 20
"""Bytes of a TOML file, at most."""
_DOTS = 1000
"""Dots in one line of a TOML file, at most: Python reads a key of 50,000 parts for minutes."""


def open_regular(path: Path, follow: bool = True) -> BinaryIO:
    """Open a regular file for reading bytes; OSError, whose `strerror` says why, for anything else, and unless `follow` for a
    symbolic link."""
    try:
        # a named pipe is not waited for until something writes into it
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
    except ValueError as error:  # a NUL, or half a surrogate pair
        raise OSError(errno.EINVAL, "its name holds characters that no file's name can hold", str(path)) from error
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "it is a pipe, a device or a socket, where a file was expected", str(path))


def absolute_path(given: str | Path) -> Path:
    """Return a path as it holds from any folder: `~` is a home, where it names one, and links are followed as far as they lead."""
    # unlike pathlib's, neither raises where nobody has that home or a link leads to itself
    return Path(os.path.realpath(os.path.expanduser(given)))  # noqa: PTH111


def read_regular(path: Path, most_bytes: int = 1 << 30) -> bytes:
    """Return what a regular file holds; OSError for anything else, and for one of more bytes than this."""
    with open_regular(path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {most_bytes / 1e6:,.0f} MB", str(path))
    return content


def read_toml(path: Path) -> dict[str, Any]:
    """Return what a TOML file holds; OSError for what is no regular file, ValueError, whose text says why, for other content."""
    try:
        text = read_regular(path, _TOML_BYTES).decode("utf-8")
        if any(line.count(".") > _DOTS for line in text.splitlines()):
            raise RecursionError
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except ValueError as error:
        raise ValueError(str(error).partition(";")[0]) from error
