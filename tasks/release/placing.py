"""Where a release is put: a draft beside its place takes the place's name when it is whole, so that there is never half of one.

What an earlier run that was killed left beside it is cleared away first; of two that end at once, one is told so.
"""

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tasks.errors import OldBuild, OutputError, SourceError
from tasks.files import absolute_path
from tasks.storage.housekeeping.freed import is_left_by
from tasks.storage.released_folders import is_release, open_release

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
    try:
        with suppress(OldBuild):  # its files are whole; what they hold is to be replaced
            open_release(place)
    except SourceError as error:
        raise OutputError(
            f"{place}: not replaced, since what lies there is no whole release. {error}. To write there, remove the folder "
            "yourself; or name another with --to"
        ) from error


def _move(draft: Path, place: Path, force: bool) -> None:
    """Give the draft the name of its place."""
    old = place.with_name(f".{place.name}.{os.getpid()}.old")
    try:
        if force and is_release(place):
            _require_free(place, force)  # once more: files may have been put there while the draft was written
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
    _clear_old(old, place)


def _clear_old(old: Path, place: Path) -> None:
    """Remove the release that another replaced. Hidden files at its top are the user's (.git) and move into the new one."""
    for hidden in old.glob(".*"):
        if not os.path.lexists(place / hidden.name):
            hidden.rename(place / hidden.name)
    shutil.rmtree(old, ignore_errors=True)


def _tidy(place: Path) -> None:
    """Clear away what runs that were killed left beside the place; put back what one of them had just moved away."""
    for left in sorted(place.parent.iterdir()):
        found = _LEFT.fullmatch(left.name)
        if not found or found["name"] != place.name or not is_left_by(found["process"]):
            continue
        if found["kind"] == "draft":
            shutil.rmtree(left, ignore_errors=True)
        elif place.exists():
            _clear_old(left, place)
        else:
            left.rename(place)
