"""The folder of a site: written next to its place and moved there; replaces only a folder that it wrote and nobody changed."""

import json
from collections.abc import Mapping
from pathlib import Path

from factmill.tasks.core.digests import digest_bytes
from factmill.tasks.errors import OutputError
from factmill.tasks.files import load_file_bytes, resolve_absolute_path
from factmill.tasks.release.files import ReplaceableFolderKind, open_folder_draft, write_release_file

SITE_INDEX_FILE = "factmill-site.json"
"""File of a site with the SHA-256 of all others, by which it is known."""
_FORMAT_VERSION = 1


def write_site_folder(folder: Path, files: Mapping[str, str]) -> Path:
    """Write a site's files (path below the folder → text) and return its folder.

    OutputError if the folder contains anything but an unchanged site, or cannot be written. Existing contents stay untouched
    until all files are written; hidden files at the top, such as .git, stay.
    """
    kind = ReplaceableFolderKind(
        name="a site", advice="run the command again", may_replace=_is_site, check=check_site_folder
    )
    with open_folder_draft(folder, kind) as draft:
        for name, text in sorted(files.items()):
            write_release_file(draft / name, text.encode("utf-8"))
        sums = {name: digest_bytes(text.encode("utf-8")) for name, text in sorted(files.items())}
        index = {"factmill_site": _FORMAT_VERSION, "files": sums}
        write_release_file(draft / SITE_INDEX_FILE, (json.dumps(index, indent=1) + "\n").encode("utf-8"))
    return resolve_absolute_path(folder)


def _is_site(folder: Path) -> bool:
    return (folder / SITE_INDEX_FILE).is_file()


def check_site_folder(target: Path) -> None:
    """Raise OutputError unless a folder is absent, empty, or an unchanged site, which is replaced."""
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not target.is_dir():
        raise OutputError(f"{target}: this is a file; expected a folder. Choose another with --to")
    if not _is_site(target):
        raise OutputError(
            f"{target}: the folder contains something other than a site (no {SITE_INDEX_FILE}) and is not replaced; choose "
            "another with --to"
        )
    if changed := _list_files_differing_from_site_index(target):
        more = f" and {len(changed) - 5} more" if changed[5:] else ""
        raise OutputError(
            f"{target}: not replaced, because files there are not those that this command wrote: {', '.join(changed[:5])}{more}. "
            "Move your own files elsewhere and remove the folder, or choose another with --to"
        )


def _list_files_differing_from_site_index(folder: Path) -> list[str]:
    """Return the paths of files that are missing, changed or not of the site; hidden ones at the top are passed over."""
    try:
        sums = json.loads(load_file_bytes(folder / SITE_INDEX_FILE))["files"]
        expected = {str(name): str(digest) for name, digest in sums.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return [SITE_INDEX_FILE]
    there = {
        path.relative_to(folder).as_posix(): path
        for path in folder.rglob("*")
        if not path.is_dir() and not path.relative_to(folder).parts[0].startswith(".") and path.name != SITE_INDEX_FILE
    }
    changed = [
        name
        for name, path in there.items()
        if name not in expected or path.is_symlink() or digest_bytes(path.read_bytes()) != expected[name]
    ]
    return sorted([*changed, *(name for name in expected if name not in there)])
