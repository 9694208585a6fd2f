"""Read tensors of a safetensors file with numpy alone.

The form: eight bytes with the length of a JSON header (little endian), the header (name → dtype, shape, where its bytes
begin and end after the header), the bytes. We read it ourselves because the usual reader gives bfloat16 to torch only.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.errors import UsageError

Tensor = npt.NDArray[np.float32]

_LONGEST_HEADER = 100_000_000
_FLOATS: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
}


class TensorFile:
    """A safetensors file; tensors are read when they are asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bytes = _map_bytes(path)
        self._entries = self._read_header()

    def names(self) -> list[str]:
        """Return the names of all tensors, in order."""
        return sorted(self._entries)

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """Return a tensor as float32; UsageError when it is missing, of another shape or no floating-point one."""
        if name not in self._entries:
            raise UsageError(f"{self.path}: no tensor {name}, which the architecture in config.json needs")
        dtype, found, start, end = self._entries[name]
        if found != shape:
            raise UsageError(f"{self.path}: tensor {name} is {found}, config.json asks for {shape}")
        if dtype not in _FLOATS:
            raise UsageError(f"{self.path}: tensor {name} is {dtype}, expected one of {', '.join(_FLOATS)}")
        if end - start != math.prod(shape) * _FLOATS[dtype].itemsize or not 8 <= start <= end <= len(self._bytes):
            raise UsageError(f"{self.path}: tensor {name} is cut off: the file is truncated or damaged")
        values = self._bytes[start:end].view(_FLOATS[dtype])
        if dtype == "BF16":
            # a bfloat16 is the upper half of a float32
            values = (values.astype(np.uint32) << 16).view(np.float32)
        return np.ascontiguousarray(values, np.float32).reshape(shape)

    def _read_header(self) -> dict[str, tuple[str, tuple[int, ...], int, int]]:
        length = int.from_bytes(self._bytes[:8].tobytes(), "little")
        if len(self._bytes) < 8 or length > min(_LONGEST_HEADER, len(self._bytes) - 8):
            raise UsageError(f"{self.path}: no safetensors file, or cut off within its header")
        try:
            header: dict[str, Any] = json.loads(self._bytes[8 : 8 + length].tobytes())
            return {
                name: (entry["dtype"], tuple(entry["shape"]), *(8 + length + place for place in entry["data_offsets"]))
                for name, entry in header.items()
                if name != "__metadata__"
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"{self.path}: no safetensors file: its header cannot be read ({error!r})") from error


def _map_bytes(path: Path) -> npt.NDArray[np.uint8]:
    if path.stat().st_size == 0:
        raise UsageError(f"{path}: empty, expected a safetensors file")
    return np.memmap(path, np.uint8, "r")
