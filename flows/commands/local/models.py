"""`factmill models`: converting, listing and removing local models."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tasks.errors import UsageError
from tasks.models.model_folder import ModelManifest, list_models, model_path, models_folder, read_model
from tasks.settings import home


def add(
    convert: Callable[..., ModelManifest], checkpoint: Path, name: str | None, replace: bool, **more: Any
) -> dict[str, Any]:
    """Convert a checkpoint (`more`: what else that kind can be told); return what came of it and the seconds it took."""
    started = time.perf_counter()
    manifest = convert(checkpoint, models_folder(home()), name, "replace" if replace else "refuse", **more)
    return {**_describe(manifest), "seconds": round(time.perf_counter() - started, 2)}


def listing() -> list[dict[str, Any]]:
    """Return kind, state, digest, size and settings of every local model; a damaged one with what to do about it."""
    folder = models_folder(home())
    return [_look_at(name, folder) for name in list_models(folder)]


def _look_at(name: str, folder: Path) -> dict[str, Any]:
    try:
        return _describe(read_model(model_path(name, folder)))
    except UsageError as error:
        return {
            "name": name,
            "kind": None,
            "state": "damaged",
            "digest": None,
            "size_bytes": None,
            "advice": str(error),
        }


def _describe(manifest: ModelManifest) -> dict[str, Any]:
    return {
        "name": manifest.name,
        "kind": manifest.kind,
        "state": "whole",
        "digest": manifest.digest,
        "size_bytes": manifest.size_bytes,
        "settings": manifest.settings,
        "made_with": manifest.made_with,
        "source": manifest.source,
        "advice": None,
    }
