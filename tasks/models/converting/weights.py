"""Read CTranslate2's weight file, model.bin, and store its matrices as int8 in 7 bits.

CTranslate2 stores int8 weights in 8 bits (−127 to 127). On a CPU without VNNI instructions, sums of two 8-bit products
overflow 16 bits, so that it gives other results than other CPUs. Values from −63 to 63 cannot overflow, so factmill
stores int8 that way, whatever the original format: the scale of each matrix row is 63 ÷ its largest magnitude.

File format: version, kind and revision of the model, then each variable (name, shape, type, bytes), then each alias.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import numpy.typing as npt

from factmill.tasks.errors import UsageError
from factmill.tasks.progress import print_and_log

Quantization = Literal["int8", "float16", "float32"]
"""How weights are stored; int8 in 7 bits."""
CTRANSLATE2_WEIGHTS_FILE = "model.bin"

_VARIABLE_DTYPES = [np.dtype(each) for each in ("<f4", "i1", "<i2", "<i4", "<f2", "<u2")]
"""Types by CTranslate2's type number; the last holds bfloat16 (the upper half of a float32), which numpy lacks."""
_FLOAT32, _INT8, _FLOAT16, _BFLOAT16 = (_VARIABLE_DTYPES[number] for number in (0, 1, 4, 5))
_MAX_SEVEN_BIT_VALUE = 63
_ROWS_PER_BLOCK = 4096
WeightArray = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class MappedWeights:
    """Header data, variables and aliases of a model.bin."""

    version: int
    kind: str
    revision: int
    variables: Mapping[str, WeightArray]
    """Name → values, memory-mapped from the file."""
    aliases: Mapping[str, str]
    """Second name → the variable's name."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name of each variable or alias → its shape."""
        own = {name: values.shape for name, values in self.variables.items()}
        return own | {alias: own[name] for alias, name in self.aliases.items()}


def load_mapped_model_bin(path: Path) -> MappedWeights:
    """Load a model.bin's header and memory-map its variables; UsageError if it is damaged."""
    variables: dict[str, WeightArray] = {}
    with path.open("rb") as file:
        try:
            stored = np.memmap(path, np.uint8, "r")
            version, kind, revision = _unpack_number(file, "I"), _read_name(file), _unpack_number(file, "I")
            for _ in range(_unpack_number(file, "I")):
                name = _read_name(file)
                shape = tuple(_unpack_number(file, "I") for _ in range(_unpack_number(file, "B")))
                type_number, size_bytes = _unpack_number(file, "B"), _unpack_number(file, "I")
                start = file.seek(size_bytes, 1) - size_bytes
                variables[name] = stored[start : start + size_bytes].view(_VARIABLE_DTYPES[type_number]).reshape(shape)
            aliases = {_read_name(file): _read_name(file) for _ in range(_unpack_number(file, "I"))}
        except (struct.error, ValueError, IndexError) as error:
            raise UsageError(f"{path}: not a model that CTranslate2 wrote: {error}; convert the checkpoint") from error
    if strange := set(aliases.values()) - variables.keys():
        raise UsageError(
            f"{path}: not a model that CTranslate2 wrote: no variable {min(strange)}; convert the checkpoint"
        )
    return MappedWeights(version, kind, revision, variables, aliases)


def is_stored_as_int8(path: Path) -> bool:
    """True if any matrix of a model.bin is int8."""
    return any(values.dtype == _INT8 and values.ndim > 1 for values in load_mapped_model_bin(path).variables.values())


def store_weights_in_seven_bits_if_int8(folder: Path, quantization: Quantization | None) -> None:
    """Store a new model folder's weights in 7 bits if they or `quantization` are int8; report 8-bit int8."""
    path = folder / CTRANSLATE2_WEIGHTS_FILE
    is_int8 = is_stored_as_int8(path)
    if not is_int8 and quantization != "int8":
        return
    matrices = [
        values for name, values in load_mapped_model_bin(path).variables.items() if _is_quantisable_matrix(name, values)
    ]
    narrow = [each for each in matrices if each.dtype == _INT8]
    if any(each.max() > _MAX_SEVEN_BIT_VALUE or each.min() < -_MAX_SEVEN_BIT_VALUE for each in narrow):
        print_and_log(
            "its int8 weights use 8 bits, whose products overflow on CPUs without VNNI instructions; factmill stores them in 7 "
            "bits. Converting the checkpoint itself loses less precision"
        )
    rewrite_weights_in_seven_bits(path)


def rewrite_weights_in_seven_bits(path: Path) -> None:
    """Rewrite a model.bin so that its matrices are int8 from −63 to 63; rows already so stay unchanged."""
    header = load_mapped_model_bin(path)
    matrices = {name for name, values in header.variables.items() if _is_quantisable_matrix(name, values)}
    draft = path.with_suffix(".draft")
    with draft.open("wb") as file:
        file.write(struct.pack("<I", header.version) + _pack_name(header.kind) + struct.pack("<I", header.revision))
        kept = {name: one for name, one in header.variables.items() if name.removesuffix("_scale") not in matrices}
        file.write(struct.pack("<I", len(kept) + 2 * len(matrices)))
        for name, values in kept.items():
            _write_variable(file, name, values)
        for name in sorted(matrices):
            narrow, scales = _quantise_to_seven_bits(header.variables[name], header.variables.get(f"{name}_scale"))
            _write_variable(file, name, narrow)
            _write_variable(file, f"{name}_scale", scales)
        aliases = {alias: name for alias, name in header.aliases.items() if name.removesuffix("_scale") not in matrices}
        for alias, name in header.aliases.items():
            if name in matrices:
                aliases |= {alias: name, f"{alias}_scale": f"{name}_scale"}
        file.write(struct.pack("<I", len(aliases)))
        for alias, name in aliases.items():
            file.write(_pack_name(alias) + _pack_name(name))
    draft.replace(path)


def _is_quantisable_matrix(name: str, values: WeightArray) -> bool:
    """True for what CTranslate2 multiplies as int8: weights of linear layers and embeddings."""
    is_weight = name.rsplit("/", 1)[-1] == "weight" and values.ndim == 2
    return is_weight and values.dtype in (_INT8, _FLOAT32, _FLOAT16, _BFLOAT16)


def _quantise_to_seven_bits(
    values: WeightArray, scale: WeightArray | None
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Return a matrix in 7 bits (same shape) and the scale of each row; `scale`: existing scales of int8 values."""
    rows = len(values)
    narrow, scales = np.zeros(values.shape, np.int8), np.ones(rows, np.float32)
    before = np.ones(rows, np.float32) if scale is None or values.dtype != _INT8 else scale
    for start in range(0, rows, _ROWS_PER_BLOCK):
        part = slice(start, start + _ROWS_PER_BLOCK)
        block = values[part]
        if values.dtype == _BFLOAT16:
            block = (block.astype(np.uint32) << 16).view(np.float32)
        block = block.astype(np.float32)
        most = np.abs(block).max(axis=1)
        factor = np.where(most > 0, np.float32(_MAX_SEVEN_BIT_VALUE) / np.where(most > 0, most, 1), np.float32(1))
        if values.dtype == _INT8:
            factor = np.where(most > _MAX_SEVEN_BIT_VALUE, factor, np.float32(1))
        narrow[part] = np.rint(block * factor[:, None]).astype(np.int8)
        scales[part] = before[part] * factor
    return narrow, scales


def _write_variable(file: BinaryIO, name: str, values: WeightArray) -> None:
    file.write(_pack_name(name) + struct.pack(f"<B{values.ndim}I", values.ndim, *values.shape))
    file.write(struct.pack("<BI", _VARIABLE_DTYPES.index(values.dtype), values.nbytes) + values.tobytes())


def _unpack_number(file: BinaryIO, form: str) -> int:
    return int(struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))[0])


def _read_name(file: BinaryIO) -> str:
    length = _unpack_number(file, "H")
    name: bytes = struct.unpack(f"{length}s", file.read(length))[0]
    return name.removesuffix(b"\0").decode("utf-8")


def _pack_name(name: str) -> bytes:
    content = name.encode("utf-8") + b"\0"
    return struct.pack("<H", len(content)) + content
