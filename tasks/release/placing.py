"""Where a release is put: a draft beside its place takes the place's name when it is whole, so that there is never half of one.

What an earlier run that was killed left beside it is cleared away first; of two that end at once, one is told so.
"""

import errno
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tasks.errors import OutputError
from tasks.files import absolute_path
from tasks.storage.housekeeping.freed import is_left_by
from tasks.storage.stores import INDEX

_LEFT = re.compile(r"\.(?P<name>.+)\.(?P<process>\d+)\.(?P<kind>draft|old)")


@contextmanager
def open_draft(place: Path, force: bool) -> Iterator[Path]:
    """Yield an empty folder that becomes `place` at the end, or goes on an error; `force` replaces a release.

    OutputError where `place` cannot be written, is no release of ours, or is one and `force` is not given.
    """
    place = absolute_path(place)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        _tidy(place)
        _require_free(place, force)
        draft = place.with_name(f".{place.name}.{os.getpid()}.draft")
        draft.mkdir()
    except OSError as error:
        raise OutputError(f"{place}: no folder to write to: {error.strerror}; name another with --to") from error
    try:
        yield draft
        _move(draft, place, force)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def is_release(folder: Path) -> bool:
    """Return whether a folder is a release."""
    try:
        told = json.loads((folder / INDEX).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(told, dict) and "factmill_release" in told


def _require_free(place: Path, force: bool) -> None:
    if not place.exists() or (place.is_dir() and not any(place.iterdir())):
        return
    if not place.is_dir():
        raise OutputError(f"{place}: a file, where a folder is to be written; name another with --to")
    if not is_release(place):
        raise OutputError(
            f"{place}: the folder holds something else than a release, which is left alone; name another with --to"
        )
    if not force:
        raise OutputError(f"{place}: a release lies there; replace it with --force, or name another folder with --to")


def _move(draft: Path, place: Path, force: bool) -> None:
    """Give the draft the name of its place."""
    old = place.with_name(f".{place.name}.{os.getpid()}.old")
    try:
        if force and is_release(place):
            place.rename(old)
        draft.rename(place)
    except OSError as error:
        if old.exists() and not place.exists():
            old.rename(place)
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise OutputError(
                f"{place}: another release was written there meanwhile; replace it with --force"
            ) from error
        raise OutputError(f"{place}: cannot be written: {error.strerror}; name another with --to") from error
    shutil.rmtree(old, ignore_errors=True)


def _tidy(place: Path) -> None:
    """Clear away what runs that were killed left beside the place; put back what one of them had just moved away."""
    for left in sorted(place.parent.iterdir()):
        found = _LEFT.fullmatch(left.name)
        if not found or found["name"] != place.name or not is_left_by(found["process"]):
            continue
        if found["kind"] == "old" and not place.exists():
            left.rename(place)
        else:
            shutil.rmtree(left, ignore_errors=True)
