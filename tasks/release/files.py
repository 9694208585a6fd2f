"""Files of a release: how one is written, and the list of their digests."""

from hashlib import file_digest
from pathlib import Path

from tasks.errors import OutputError
from tasks.storage.released_folders import SUMS


def write_file(path: Path, data: bytes) -> None:
    """Write a file, and the folder that it lies in where there is none; OutputError where that cannot be done."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}; name another place with --to") from error


def list_files(folder: Path) -> list[str]:
    """Return the files below a folder but the list of digests itself: paths with slashes, sorted."""
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in found if path != SUMS)


def make_sums(folder: Path, canary: str) -> bytes:
    """Return the list of digests, as `sha256sum -c` checks it: a digest and a path a line, a remark before them."""
    lines = [f"# {canary}\n", *(f"{_digest(folder / path)}  {path}\n" for path in list_files(folder))]
    return "".join(lines).encode("utf-8")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
