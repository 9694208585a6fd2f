"""Whether the files of a graph are those that were loaded: their sizes, and their SHA-256 when there is any doubt.

Digesting a large graph takes longer than what it is opened for, so a file that was digested once is trusted while its
size, time of change and inode stay what they were; they are noted in `checked.json` beside the files. A file that was
edited, copied or fetched has other ones and is digested once again. The note is a convenience: where it cannot be
written, as on a read-only disk, files are digested each time.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from tasks.core.rows import StrictModel

CHECKED = "checked.json"

_CHUNK_BYTES = 1 << 20
_THREADS = 4


class GraphFile(StrictModel):
    """What a file of a graph holds."""

    size_bytes: int
    sha256: str


class _Checked(StrictModel):
    size_bytes: int
    mtime_ns: int
    inode: int
    sha256: str


_Notes = dict[str, _Checked]
_NOTES = TypeAdapter(_Notes)


def measure_files(path: Path) -> dict[str, GraphFile]:
    """Return size and digest of all files in a folder by name, having brought them to disk, and note them as checked."""
    names = sorted(each.name for each in path.iterdir())
    digests = _digest_files([path / name for name in names], _ignore, to_disk=True)
    notes = {name: _state_file(path / name, digest) for name, digest in zip(names, digests, strict=True)}
    _write_notes(path, notes)
    return {name: GraphFile(size_bytes=note.size_bytes, sha256=note.sha256) for name, note in notes.items()}


def find_wrong_sizes(path: Path, files: Mapping[str, GraphFile]) -> dict[str, str]:
    """Return what is wrong with each file that is missing or has another size, by name."""
    wrong = {}
    for name, file in files.items():
        size_bytes = (path / name).stat().st_size if (path / name).is_file() else None
        if size_bytes != file.size_bytes:
            state = "is missing" if size_bytes is None else f"has {size_bytes:,} bytes"
            wrong[name] = f"{state}, expected {file.size_bytes:,} bytes"
    return wrong


def find_damage(
    path: Path,
    files: Mapping[str, GraphFile],
    *,
    anew: bool = False,
    on_read: Callable[[int], None] | None = None,
) -> dict[str, str]:
    """Return what is wrong with each file that is not what it was, by name.

    Only files that changed since they were last digested are digested, with `anew` all. `on_read` is told how many
    bytes were read each time, by several threads.
    """
    wrong = find_wrong_sizes(path, files)
    known = {} if anew else _read_notes(path)
    # as they are before they are digested: a file that changes meanwhile is digested again next time
    states = {name: _state_file(path / name, file.sha256) for name, file in files.items() if name not in wrong}
    doubtful = [name for name, state in states.items() if known.get(name) != state]
    digests = _digest_files([path / name for name in doubtful], on_read or _ignore)
    for name, digest in zip(doubtful, digests, strict=True):
        if digest != files[name].sha256:
            wrong[name] = f"has SHA-256 {digest[:16]}…, expected {files[name].sha256[:16]}…"
    if doubtful:
        _write_notes(path, {name: state for name, state in states.items() if name not in wrong})
    return wrong


def _digest_files(paths: Iterable[Path], on_read: Callable[[int], None], *, to_disk: bool = False) -> list[str]:
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(lambda path: _digest_file(path, on_read, to_disk), paths))


def _digest_file(path: Path, on_read: Callable[[int], None], to_disk: bool) -> str:
    digest, work = hashlib.sha256(), memoryview(bytearray(_CHUNK_BYTES))
    with path.open("rb", buffering=0) as file:
        if to_disk:
            os.fsync(file.fileno())
        while got := file.readinto(work):
            digest.update(work[:got])
            on_read(got)
    return digest.hexdigest()


def _state_file(path: Path, sha256: str) -> _Checked:
    found = path.stat()
    return _Checked(size_bytes=found.st_size, mtime_ns=found.st_mtime_ns, inode=found.st_ino, sha256=sha256)


def _read_notes(path: Path) -> _Notes:
    try:
        return _NOTES.validate_json((path / CHECKED).read_bytes())
    except (OSError, ValidationError):
        # no note, or none that can be read: everything is digested
        return {}


def _write_notes(path: Path, notes: _Notes) -> None:
    """Note files that are what they should be; without effect where nothing can be written."""
    beside = path / f".{CHECKED}.{os.getpid()}"
    with suppress(OSError):
        try:
            beside.write_bytes(_NOTES.dump_json(notes, indent=2))
            beside.replace(path / CHECKED)
        finally:
            beside.unlink(missing_ok=True)


def _ignore(size_bytes: int) -> None:
    """Take no notice of what was read."""
