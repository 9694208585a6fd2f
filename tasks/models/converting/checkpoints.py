"""Hugging Face checkpoints on their way to CTranslate2: their JSON files, and the conversion with a vocabulary of ours.

The weights are read with transformers and torch (the extra `convert`); nothing else needs them. The tokenizer of
transformers is never asked, since what it makes of a checkpoint's files changes with its version: the converter gets the
tokens in the order of their numbers from whoever read the files.
"""

import importlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.errors import UsageError
from tasks.files import absolute_path
from tasks.models.converting.weights import WEIGHTS, Quantization, settle_weights
from tasks.models.model_folder import MANIFEST, IfThere, Kind, ModelManifest, Origin, copy_model, store_model

_INSTALL = "pip install 'factmill[convert]'"


@dataclass(frozen=True)
class Vocabulary:
    """What CTranslate2's converter asks of a tokenizer."""

    tokens: Sequence[str]
    """In the order of their numbers, as many as the weights have."""
    bos_token: str
    eos_token: str
    unk_token: str
    """Empty where a model has none."""
    pad_token: str | None = None

    @property
    def unk_token_id(self) -> int:
        """Number of the unknown token."""
        return list(self.tokens).index(self.unk_token)

    @property
    def special_tokens_map(self) -> dict[str, Any]:
        """No more special tokens than those above."""
        return {}

    def get_vocab(self) -> dict[str, int]:
        """Return token → number."""
        return {token: number for number, token in enumerate(self.tokens)}

    def convert_ids_to_tokens(self, number: int) -> str:
        """Return the token of a number."""
        return self.tokens[number]


def open_checkpoint(checkpoint: Path) -> Path:
    """Return a checkpoint's directory as an absolute path, whose last part names the model; UsageError without one."""
    if not checkpoint.is_dir():
        raise UsageError(
            f"{absolute_path(checkpoint)}: no such directory; give the one that holds a checkpoint's config.json"
        )
    return absolute_path(checkpoint)


def store_conversion(
    checkpoint: Path,
    folder: Path,
    name: str | None,
    kind: Kind,
    if_there: IfThere,
    quantization: Quantization | None,
    take_in: Callable[[Path, Path], Origin],
    convert: Callable[[Path], Origin],
) -> ModelManifest:
    """Make a model folder of a checkpoint, of a folder that factmill made, or of one that CTranslate2's converter made.

    `take_in` copies a folder of CTranslate2's (the first path) into an empty one after looking it over; `convert`
    writes a checkpoint's conversion into an empty one; `quantization`: see weights.settle_weights.
    """

    def write(making: Path) -> Origin:
        if (checkpoint / MANIFEST).is_file():
            origin = copy_model(checkpoint, kind, making)
        else:
            origin = take_in(checkpoint, making) if (checkpoint / WEIGHTS).is_file() else convert(making)
        settle_weights(making, quantization)
        return origin

    return store_model(name or checkpoint.name, folder, kind, write, if_there)


def refuse_missing(converted: Path, files: Sequence[str], kind: Kind) -> None:
    """Raise UsageError unless a folder of CTranslate2's conversion has all of the files."""
    if missing := [file for file in files if not (converted / file).is_file()]:
        raise UsageError(
            f"{converted}: {', '.join(missing)} not in it, which a converted model of the kind {kind} has; "
            f"convert the checkpoint itself: factmill models add {kind} CHECKPOINT"
        )


def convert_weights(checkpoint: Path, making: Path, vocabulary: Vocabulary, quantization: Quantization) -> str:
    """Write CTranslate2's files of a checkpoint into an empty folder; return what made them, with versions.

    What is to be int8 is written in float32 here (weights.settle_weights).
    UsageError when the extra `convert` is missing or CTranslate2 cannot convert such a model.
    """
    transformers, torch = import_for_conversion("transformers"), import_for_conversion("torch")
    import ctranslate2
    from ctranslate2.converters import TransformersConverter

    class Converter(TransformersConverter):
        """CTranslate2's converter, with our vocabulary for the tokenizer's."""

        def load_tokenizer(self, *_: Any, **__: Any) -> Vocabulary:
            return vocabulary

    modules = {"ctranslate2": ctranslate2, "transformers": transformers, "torch": torch}
    versions = ", ".join(f"{name} {module.__version__}" for name, module in modules.items())
    try:
        floats = "float32" if quantization == "int8" else quantization
        Converter(str(checkpoint)).convert(str(making), quantization=floats, force=True)
    except (OSError, RuntimeError, ValueError, KeyError, AttributeError) as error:
        # AttributeError: a family whose configuration this version of transformers keeps under other names
        raise UsageError(f"{checkpoint}: cannot be converted by {versions}: {error}") from error
    return versions


def import_for_conversion(module: str) -> Any:
    """Return a module of the extra `convert`; UsageError says what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UsageError(
            f"converting a checkpoint needs {error.name or module}, which is not installed: {_INSTALL}"
        ) from error


def read_json(path: Path, default: Any = None) -> Any:
    """Return a JSON file's content, or `default` when there is no such file; UsageError without either.

    UsageError too for content of another type than the default's.
    """
    if not path.is_file():
        if default is None:
            raise UsageError(f"{path.parent}: no {path.name} in it, as a checkpoint has")
        return default
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise UsageError(f"{path}: not JSON: {error}") from error
    if default is not None and not isinstance(content, type(default)):
        expected = "a JSON list" if isinstance(default, list) else "a JSON object"
        raise UsageError(f"{path}: holds {type(content).__name__}, expected {expected}")
    return content


def list_weights(checkpoint: Path) -> list[str]:
    """Return the names of a checkpoint's files of weights."""
    return sorted(path.name for path in checkpoint.iterdir() if path.suffix in (".safetensors", ".bin"))
