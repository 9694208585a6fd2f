"""Folders of converted models: write, find, check, copy and remove them.

<folder>/<name>/factmill-model.json   ModelManifest, written last, so a folder without one is unfinished
<folder>/<name>/…                     files that CTranslate2 and the tokenizer read
<folder>/.<name>.making/              a conversion in progress or interrupted

One process at a time changes <folder> under a lock; the others wait.

A model's identity is its digest over the contents of its files and its settings, independent of name and place.
"""

import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from factmill.tasks.core.digests import digest_json
from factmill.tasks.core.rows import StrictModel
from factmill.tasks.errors import OutputError, UsageError

MODEL_FORMAT_VERSION = 1
MODEL_MANIFEST_FILE = "factmill-model.json"

ModelKind = Literal["embedder", "cross-encoder", "translator", "perplexity"]
ExistingModelPolicy = Literal["refuse", "replace", "keep"]
"""What to do if a model of that name exists."""
S = TypeVar("S", bound=BaseModel)

_MODEL_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class ModelFileDigest(StrictModel):
    """Size and digest of a file at the end of the conversion."""

    size_bytes: int
    sha256: str


class ModelManifest(StrictModel):
    """Contents of factmill-model.json, which describes a converted model."""

    name: str
    format_version: int
    kind: ModelKind
    digest: str
    """SHA-256 over kind, settings and files: the identity of the model."""
    source: dict[str, str]
    """Path in the checkpoint → SHA-256 of each file that the model was made from."""
    settings: dict[str, Any]
    """How to use the files; the fields depend on the kind (embed.py, cross_encoder.py, translate.py, perplexity.py)."""
    made_with: str
    """Converter and its version."""
    files: dict[str, ModelFileDigest]

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size_bytes for file in self.files.values())


@dataclass(frozen=True, slots=True)
class ConversionManifestFields:
    """What a conversion returns for the manifest: source digests, settings, converter."""

    source: Mapping[str, str]
    settings: Mapping[str, Any]
    made_with: str


def get_models_folder(home_folder: Path) -> Path:
    """Return the folder of converted models below a home."""
    return home_folder / "local-models"


def get_model_path(name: str, folder: Path) -> Path:
    """Return the folder of a model; UsageError for a name that is not allowed."""
    if not _MODEL_NAME_PATTERN.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid name of a model: use letters, digits, `.`, `_` and `-`, starting with a letter or digit"
        )
    return folder / name


def list_model_names(folder: Path) -> list[str]:
    """Return the sorted names of the models in a folder, damaged ones too."""
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and _MODEL_NAME_PATTERN.fullmatch(path.name))


def resolve_model_folder(
    name_or_path: str, home_folder: Path, kind: ModelKind, built_in: str = "", advice: str = ":"
) -> Path:
    """Return a model's folder by name (below the home) or path; UsageError lists the models there are.

    `built_in`: a model without a folder there, also listed; `advice`: text before the command that adds a model.
    """
    folder = get_models_folder(home_folder)
    if os.sep in name_or_path or name_or_path.startswith("."):
        return Path(name_or_path)
    if name_or_path in list_model_names(folder):
        return get_model_path(name_or_path, folder)
    known = ", ".join(filter(None, dict.fromkeys([built_in, *list_model_names(folder)]))) or "none"
    what = "language model" if kind == "perplexity" else kind
    raise UsageError(f"no {what} {name_or_path} in {folder} (there: {known}){advice} factmill models add {kind} PATH")


def write_model_folder(
    name: str,
    folder: Path,
    kind: ModelKind,
    write: Callable[[Path], ConversionManifestFields],
    if_there: ExistingModelPolicy = "refuse",
) -> ModelManifest:
    """Make a model folder: `write` fills an empty folder, which then gets its manifest and is renamed atomically.

    One process writes and the others wait, then `if_there` decides about the model they find. Leftovers of an
    interrupted conversion are removed.
    """
    path, making = get_model_path(name, folder), folder / f".{name}.making"
    with _lock_models_folder(folder):
        if path.exists():
            if if_there == "keep":
                return load_manifest_and_check_sizes(path)
            if if_there == "refuse":
                raise UsageError(f"the model {name} already exists in {folder}: give --replace, or another --name")
        try:
            _remove_folder_if_exists(making)
            making.mkdir()
            origin = write(making)
            files = {
                file.relative_to(making).as_posix(): ModelFileDigest(
                    size_bytes=file.stat().st_size, sha256=digest_file(file)
                )
                for file in sorted(making.rglob("*"))
                if file.is_file()
            }
            digests = {file: described.sha256 for file, described in files.items()}
            manifest = ModelManifest(
                name=name,
                format_version=MODEL_FORMAT_VERSION,
                kind=kind,
                digest=digest_json({"kind": kind, "settings": dict(origin.settings), "files": digests}),
                source=dict(origin.source),
                settings=dict(origin.settings),
                made_with=origin.made_with,
                files=files,
            )
            (making / MODEL_MANIFEST_FILE).write_text(manifest.model_dump_json(indent=2) + "\n", "utf-8")
            _remove_model_folder(path)
            making.rename(path)
        except OSError as error:
            raise OutputError(f"cannot write the model {name} into {folder}: {error}") from error
        finally:
            _remove_folder_if_exists(making)
    return manifest


def load_manifest_and_check_sizes(path: Path, kind: ModelKind | None = None) -> ModelManifest:
    """Load a model folder's manifest and check its files' sizes; UsageError says what is wrong and what to do."""
    if not path.is_dir():
        raise UsageError(f"no model folder {path}; `factmill models` shows the existing ones")
    if not (path / MODEL_MANIFEST_FILE).is_file():
        if (path / "config.json").is_file():
            raise UsageError(
                f"{path}: a checkpoint that is not converted: `factmill models add {kind or 'embedder'} {path}`"
            )
        raise UsageError(f"{path}: no {MODEL_MANIFEST_FILE}: not a converted model, or an unfinished one")
    try:
        content = json.loads((path / MODEL_MANIFEST_FILE).read_bytes())
        version = content["format_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise _make_damaged_error(path, f"{MODEL_MANIFEST_FILE} cannot be read: {error!r}") from error
    if version != MODEL_FORMAT_VERSION:
        raise UsageError(
            f"{path}: converted by another version of factmill (its format: {version}, here: {MODEL_FORMAT_VERSION}); convert it "
            f"again: `factmill models add {content.get('kind', 'KIND')} CHECKPOINT --name {path.name} --replace`"
        )
    try:
        manifest = ModelManifest.model_validate(content)
    except ValidationError as error:
        found = error.errors()[0]
        where = ".".join(map(str, found["loc"]))
        raise _make_damaged_error(path, f"{MODEL_MANIFEST_FILE}: {where}: {found['msg']}") from error
    if kind and manifest.kind != kind:
        raise UsageError(f"{path}: the model {manifest.name} is of kind {manifest.kind}, expected {kind}")
    for file, expected in manifest.files.items():
        size = (path / file).stat().st_size if (path / file).is_file() else None
        if size != expected.size_bytes:
            state = "is missing" if size is None else f"has {size:,} bytes"
            raise _make_damaged_error(path, f"{file} {state}, expected {expected.size_bytes:,} bytes", manifest.kind)
    return manifest


def load_verified_manifest(path: Path, kind: ModelKind) -> ModelManifest:
    """Load a model folder's manifest and check its files' digests (about a second for 2 GB); else UsageError."""
    manifest = load_manifest_and_check_sizes(path, kind)
    for file, expected in manifest.files.items():
        if digest_file(path / file) != expected.sha256:
            raise _make_damaged_error(path, f"{file} has changed since it was written (its SHA-256 differs)", kind)
    return manifest


def parse_settings_in_manifest(path: Path, manifest: ModelManifest, settings: type[S]) -> S:
    """Parse a manifest's settings as its kind's settings class; UsageError if they do not fit."""
    try:
        return settings.model_validate(manifest.settings)
    except ValidationError as error:
        raise UsageError(f"{path}: its settings do not fit the kind {manifest.kind}: {error}") from error


def copy_verified_model_files(converted: Path, kind: ModelKind, making: Path) -> ConversionManifestFields:
    """Copy a model folder's files into an empty folder (for `write_model_folder`); UsageError if it is damaged."""
    manifest = load_verified_manifest(converted, kind)
    copy_files(converted, manifest.files, making)
    return ConversionManifestFields(manifest.source, manifest.settings, manifest.made_with)


def copy_files(source: Path, files: Iterable[str], target: Path) -> None:
    """Copy files, given by their paths in the folder `source`, into another folder."""
    for file in files:
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / file, target / file)


def remove_model(name: str, folder: Path) -> None:
    """Remove a model, even a damaged one; UsageError if there is none of that name."""
    path = get_model_path(name, folder)
    if not path.is_dir():
        raise UsageError(
            f"no model {name} in {folder} (there: {', '.join(list_model_names(folder)) or 'none'}); `factmill models` lists them"
        )
    with _lock_models_folder(folder):
        _remove_model_folder(path)


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def digest_existing_files(folder: Path, files: Iterable[str]) -> dict[str, str]:
    """Return name → SHA-256 of the files that exist in a folder."""
    return {file: digest_file(folder / file) for file in files if (folder / file).is_file()}


def _make_damaged_error(path: Path, what: str, kind: str = "KIND") -> UsageError:
    return UsageError(
        f"{path}: damaged: {what}; convert it again: `factmill models add {kind} CHECKPOINT --name {path.name} --replace`"
    )


@contextmanager
def _lock_models_folder(folder: Path) -> Iterator[None]:
    """Hold a folder of models exclusively, waiting for other processes; the lock ends with its process."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _remove_model_folder(path: Path) -> None:
    """Remove a model's folder if it exists; it is renamed first, so that it disappears at once for other processes."""
    old = path.with_name(f".{path.name}.old")
    _remove_folder_if_exists(old)
    if path.exists():
        path.rename(old)
        _remove_folder_if_exists(old)


def _remove_folder_if_exists(path: Path) -> None:
    if path.exists():
        shutil.rmtree(path)
