"""Read Hugging Face checkpoints (JSON, tensors with numpy alone) and convert them to CTranslate2 with our vocabulary.

`convert_weights_and_format_packages` needs transformers and torch (the extra `convert`); nothing else does. The tokenizer of transformers
is not used, since its reading of a checkpoint's files changes with its version: callers give the converter the tokens
in the order of their ids.

A safetensors file is eight bytes with the length of a JSON header (little endian), the header (name → dtype, shape,
start and end of its bytes after the header), and the bytes. We parse it ourselves because the usual reader gives
bfloat16 to torch only.
"""

import importlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from factmill.tasks.errors import UsageError
from factmill.tasks.files import resolve_absolute_path
from factmill.tasks.models.converting.weights import (
    CTRANSLATE2_WEIGHTS_FILE,
    Quantization,
    store_weights_in_seven_bits_if_int8,
)
from factmill.tasks.models.model_folder import (
    MODEL_MANIFEST_FILE,
    ConversionManifestFields,
    ExistingModelPolicy,
    ModelKind,
    ModelManifest,
    copy_verified_model_files,
    write_model_folder,
)

ConvertFunction = Callable[[Path, Path], ConversionManifestFields]
"""Writes the files of a model from the first folder into the second, which is empty."""


@dataclass(frozen=True)
class CTranslate2ConverterTokenizer:
    """The tokenizer interface that CTranslate2's converter needs."""

    tokens: Sequence[str]
    """Tokens in the order of their ids, as many as the weights have."""
    bos_token: str
    eos_token: str
    unk_token: str
    """Empty if the model has none."""
    pad_token: str | None = None

    @property
    def unk_token_id(self) -> int:
        """Id of the unknown token."""
        return list(self.tokens).index(self.unk_token)

    @property
    def special_tokens_map(self) -> dict[str, Any]:
        """Empty: there are no further special tokens."""
        return {}

    def get_vocab(self) -> dict[str, int]:
        """Return token → id."""
        return {token: number for number, token in enumerate(self.tokens)}

    def convert_ids_to_tokens(self, number: int) -> str:
        """Return the token with an id."""
        return self.tokens[number]


def make_converted_model_folder(
    checkpoint: Path,
    folder: Path,
    name: str | None,
    kind: ModelKind,
    if_there: ExistingModelPolicy,
    convert: ConvertFunction,
    copy_converted: ConvertFunction | None = None,
    quantization: Quantization | None = None,
) -> ModelManifest:
    """Make a model folder from a checkpoint, a factmill model folder or, given `copy_converted`, CTranslate2's conversion.

    `convert` writes a checkpoint's conversion into an empty folder; `copy_converted` checks a CTranslate2 folder and
    copies it there; `quantization`: see `store_weights_in_seven_bits_if_int8`. UsageError if the checkpoint's directory does not exist.
    """
    checkpoint = resolve_absolute_path(checkpoint)
    if not checkpoint.is_dir():
        raise UsageError(f"{checkpoint}: no such directory; give the directory with a checkpoint's config.json")

    def write(making: Path) -> ConversionManifestFields:
        if (checkpoint / MODEL_MANIFEST_FILE).is_file():
            origin = copy_verified_model_files(checkpoint, kind, making)
        else:
            is_converted = copy_converted is not None and (checkpoint / CTRANSLATE2_WEIGHTS_FILE).is_file()
            origin = (copy_converted if copy_converted and is_converted else convert)(checkpoint, making)
        if copy_converted:
            store_weights_in_seven_bits_if_int8(making, quantization)
        return origin

    return write_model_folder(name or checkpoint.name, folder, kind, write, if_there)


def require_converted_files(converted: Path, files: Sequence[str], kind: ModelKind) -> None:
    """Raise UsageError unless a folder converted by CTranslate2 has all of the files."""
    if missing := [file for file in files if not (converted / file).is_file()]:
        raise UsageError(
            f"{converted}: no {', '.join(missing)}, which a converted model of kind {kind} needs; "
            f"convert the checkpoint itself: `factmill models add {kind} CHECKPOINT`"
        )


def convert_weights_and_format_packages(
    checkpoint: Path, making: Path, vocabulary: CTranslate2ConverterTokenizer, quantization: Quantization
) -> str:
    """Write CTranslate2's files of a checkpoint into an empty folder; return the packages used, with versions.

    Weights meant for int8 are written as float32 here (`store_weights_in_seven_bits_if_int8` narrows them).
    UsageError if the extra `convert` is missing or CTranslate2 cannot convert such a model.
    """
    transformers, torch = import_convert_module("transformers"), import_convert_module("torch")
    import ctranslate2
    from ctranslate2.converters import TransformersConverter

    class Converter(TransformersConverter):
        """CTranslate2's converter, with our vocabulary instead of the tokenizer's."""

        def load_tokenizer(self, *_: Any, **__: Any) -> CTranslate2ConverterTokenizer:
            return vocabulary

    modules = {"ctranslate2": ctranslate2, "transformers": transformers, "torch": torch}
    versions = ", ".join(f"{name} {module.__version__}" for name, module in modules.items())
    try:
        floats = "float32" if quantization == "int8" else quantization
        Converter(str(checkpoint)).convert(str(making), quantization=floats, force=True)
    except (OSError, RuntimeError, ValueError, KeyError, AttributeError) as error:
        # AttributeError: this version of transformers uses other names in that family's configuration
        raise UsageError(f"{checkpoint}: cannot be converted by {versions}: {error}") from error
    return versions


def import_convert_module(module: str) -> Any:
    """Import a module of the extra `convert`; UsageError says what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UsageError(
            f"converting a checkpoint needs {error.name or module}, which is not installed: pip install 'factmill[convert]'"
        ) from error


def load_checkpoint_json(path: Path, default: Any = None) -> Any:
    """Return a JSON file's content, or `default` if there is no such file; UsageError without either.

    Also UsageError if the content is not of the default's type.
    """
    if not path.is_file():
        if default is None:
            raise UsageError(
                f"{path.parent}: no {path.name}; expected the folder of a Hugging Face checkpoint (`factmill models add --help` lists its files)"
            )
        return default
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise UsageError(f"{path}: not JSON: {error}") from error
    if default is not None and not isinstance(content, type(default)):
        expected = "a JSON list" if isinstance(default, list) else "a JSON object"
        raise UsageError(f"{path}: holds {type(content).__name__}, expected {expected}")
    return content


def list_weight_files(checkpoint: Path) -> list[str]:
    """Return the names of a checkpoint's weight files."""
    return sorted(path.name for path in checkpoint.iterdir() if path.suffix in (".safetensors", ".bin"))


Tensor = npt.NDArray[np.float32]

_MAX_HEADER_BYTES = 100_000_000
_FLOAT_DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
}


class SafetensorsFile:
    """A safetensors file, which reads tensors on request; UsageError if it is not one, or damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.stat().st_size == 0:
            raise UsageError(f"{path}: empty, expected a safetensors file")
        self._bytes = np.memmap(path, np.uint8, "r")
        length = int.from_bytes(self._bytes[:8].tobytes(), "little")
        if len(self._bytes) < 8 or length > min(_MAX_HEADER_BYTES, len(self._bytes) - 8):
            raise UsageError(f"{path}: not a safetensors file, or truncated within its header")
        try:
            header: dict[str, Any] = json.loads(self._bytes[8 : 8 + length].tobytes())
            self.entries: dict[str, tuple[str, tuple[int, ...], int, int]] = {
                name: (entry["dtype"], tuple(entry["shape"]), *(8 + length + place for place in entry["data_offsets"]))
                for name, entry in sorted(header.items())
                if name != "__metadata__"
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"{path}: not a safetensors file: cannot read its header ({error!r})") from error

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """Return a tensor as float32; UsageError if it is missing, of another shape or not floating-point."""
        if name not in self.entries:
            raise UsageError(f"{self.path}: no tensor {name}, which the architecture in config.json requires")
        dtype, found, start, end = self.entries[name]
        if found != shape:
            raise UsageError(f"{self.path}: tensor {name} has shape {found}, expected {shape} as in config.json")
        if dtype not in _FLOAT_DTYPES:
            raise UsageError(f"{self.path}: tensor {name} has type {dtype}, expected one of {', '.join(_FLOAT_DTYPES)}")
        if end - start != math.prod(shape) * _FLOAT_DTYPES[dtype].itemsize or not 8 <= start <= end <= len(self._bytes):
            raise UsageError(f"{self.path}: tensor {name} is incomplete: the file is truncated or damaged")
        values = self._bytes[start:end].view(_FLOAT_DTYPES[dtype])
        if dtype == "BF16":
            # a bfloat16 is the upper half of a float32
            values = (values.astype(np.uint32) << 16).view(np.float32)
        return np.ascontiguousarray(values, np.float32).reshape(shape)
