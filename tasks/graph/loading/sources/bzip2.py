"""Decompress bzip2 on all cores: other readers use one core and take longer than the rest of a dump's load.

A stream is a head, independently compressed blocks of at most 900 kB of text, and an end. Every block begins with the
same 48 bits, at any bit of a byte, and can be decompressed alone once it gets a head and an end. These bits may occur
inside a block by chance: then neither half decompresses, and both are joined and tried again. The library verifies each
block's checksum; this module verifies the checksum at the end of a stream, which shows that no block is missing.
"""

import bz2
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

_BLOCK_MARK, _END_MARK = 0x314159265359, 0x177245385090
_MARK_BITS, _CHECKSUM_BITS, _HEAD_BITS = 48, 32, 32
_END_BITS = _MARK_BITS + _CHECKSUM_BITS
_STREAM_HEAD = int.from_bytes(b"BZh9", "big")
"""Head that allows the largest blocks."""
_CHUNK_BYTES = 1 << 20
_MAX_PACKED_BLOCK_BYTES = 1 << 20
"""Incompressible data grow by 1 %."""
_CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
_MAX_PENDING_BLOCKS = 2 * _CORES + 2


class _CompressedBytesReader(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class _PackedBlock:
    """A compressed block, or bits assumed to be one."""

    bits: int
    length: int
    ends: tuple[int, ...]
    """Checksums of the streams that end after it; all but the first are of empty streams."""

    @property
    def checksum(self) -> int:
        return self.bits >> (self.length - _END_BITS) & (1 << _CHECKSUM_BITS) - 1

    def unpack(self) -> bytes | None:
        """Return the decompressed text; None if this is not a complete block."""
        stream = (_STREAM_HEAD << self.length | self.bits) << _MARK_BITS | _END_MARK
        stream = stream << _CHECKSUM_BITS | self.checksum
        bits = _HEAD_BITS + self.length + _END_BITS
        unpacker = bz2.BZ2Decompressor()
        try:
            text = unpacker.decompress((stream << -bits % 8).to_bytes(-(-bits // 8), "big"))
        except OSError:
            return None
        return text if unpacker.eof and not unpacker.unused_data else None


class ParallelBzip2Stream:
    """Reader of a bzip2 file's text, in one or several streams; OSError if it is damaged or truncated."""

    def __init__(self, raw: _CompressedBytesReader) -> None:
        self._blocks = _split_blocks(raw)
        self._pool = ThreadPoolExecutor(_CORES, "bzip2")
        self._under_way: deque[tuple[_PackedBlock, Future[bytes | None]]] = deque()
        self._text = memoryview(b"")
        self._checksum = 0
        """Checksum over the current stream's blocks so far."""
        self._trouble: OSError | None = None

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill a buffer; return the number of bytes, fewer at the end or before damage."""
        filled = 0
        while filled < len(buffer):
            if not self._text and not self._load_next_block():
                break
            size = min(len(buffer) - filled, len(self._text))
            buffer[filled : filled + size], self._text = self._text[:size], self._text[size:]
            filled += size
        if not filled and self._trouble:
            raise self._trouble
        return filled

    def close(self) -> None:
        """Wait for running work; cancel the rest."""
        self._pool.shutdown(cancel_futures=True)

    def _load_next_block(self) -> bool:
        """Load the next block's text; False at the end or after an error."""
        try:
            while not self._text and self._submit_blocks():
                self._text = memoryview(self._unpack_next())
        except OSError as error:
            self._trouble = error
        return bool(self._text)

    def _submit_blocks(self) -> bool:
        """Submit some blocks ahead; False if none are left. An error after them is raised once they are read."""
        while self._trouble is None and len(self._under_way) < _MAX_PENDING_BLOCKS:
            try:
                block = next(self._blocks)
            except StopIteration:
                break
            except OSError as error:
                self._trouble = error
                break
            self._under_way.append((block, self._pool.submit(block.unpack)))
        return bool(self._under_way)

    def _unpack_next(self) -> bytes:
        block, future = self._under_way.popleft()
        text = future.result()
        while text is None:
            if block.ends or block.length > 8 * _MAX_PACKED_BLOCK_BYTES or not self._submit_blocks():
                raise self._trouble or OSError("Invalid data stream")
            other, _ = self._under_way.popleft()
            block = _PackedBlock(block.bits << other.length | other.bits, block.length + other.length, other.ends)
            text = block.unpack()
        self._checksum = (self._checksum << 1 | self._checksum >> 31) & (1 << _CHECKSUM_BITS) - 1 ^ block.checksum
        for end in block.ends:
            if end != self._checksum:
                raise OSError("Blocks are missing from the data stream")
            self._checksum = 0
        return text


def _split_blocks(raw: _CompressedBytesReader) -> Iterator[_PackedBlock]:
    """Yield the blocks of all streams; OSError if the data are not bzip2 or an end is missing."""
    packed, begin, sought = raw.read(_HEAD_BITS // 8), -1, 0
    if len(packed) == _HEAD_BITS // 8 and not _is_stream_head(packed, 0):
        raise OSError("Invalid data stream")
    while chunk := raw.read(_CHUNK_BYTES):
        packed += chunk
        for mark in (mark for mark in _find_mark_bits(packed, sought) if mark > begin):
            stop, ends = _find_block_end_and_stream_checksums(packed, max(begin, 0), mark)
            if begin >= 0:
                yield _PackedBlock(_read_bits(packed, begin, stop), stop - begin, ends)
            elif stop or any(ends):
                raise OSError("Invalid data stream")
            begin = mark
        # a mark may span two chunks
        sought = max(0, len(packed) - _MARK_BITS // 8 - 1)
        done = max(begin, 0) // 8
        packed, begin, sought = packed[done:], begin - 8 * done if begin >= 0 else begin, max(0, sought - done)
        if len(packed) > _MAX_PACKED_BLOCK_BYTES + _CHUNK_BYTES:
            raise OSError("Invalid data stream")
    stop, ends = _find_block_end_and_stream_checksums(packed, max(begin, 0), 8 * len(packed), is_last=True)
    if not ends or (begin < 0 and (stop or any(ends))):
        marks = _find_mark_bits(packed, max(begin, 0) // 8, _END_MARK)
        behind = (packed[-(-(at + _END_BITS) // 8) :][:3] for at in marks)
        # a head followed by nothing is a truncated stream
        is_other = any(not b"BZh".startswith(each) for each in behind)
        raise OSError("Something else behind the data stream" if is_other else "Truncated data stream")
    if begin >= 0:
        yield _PackedBlock(_read_bits(packed, begin, stop), stop - begin, ends)


def _find_mark_bits(packed: bytes, first: int, wanted: int = _BLOCK_MARK) -> list[int]:
    """Return the ascending bit positions of a 48-bit mark, from byte `first` on."""
    found = set()
    for bit in range(8):
        # the bytes that the mark fills completely
        inner = (wanted << 8 - bit).to_bytes(7, "big")[bit > 0 : 6]
        at = packed.find(inner, first + (bit > 0))
        while at >= 0:
            mark = 8 * (at - (bit > 0)) + bit
            if mark + _MARK_BITS <= 8 * len(packed) and _read_bits(packed, mark, mark + _MARK_BITS) == wanted:
                found.add(mark)
            at = packed.find(inner, at + 1)
    return sorted(found)


def _find_block_end_and_stream_checksums(
    packed: bytes, begin: int, stop: int, *, is_last: bool = False
) -> tuple[int, tuple[int, ...]]:
    """Return the end of a block within bits `begin` to `stop`, and the checksums of the streams that end there.

    Between the blocks of two streams are the end of the first, padding to the next byte, and the head of the second.
    """
    ends: list[int] = []
    while True:
        head = stop if is_last and not ends else stop - _HEAD_BITS
        if head < begin or (head < stop and not _is_stream_head(packed, head)):
            return stop, tuple(ends)
        if head == 0:
            return 0, tuple(ends)
        places = range(head - _END_BITS, max(begin, head - _END_BITS - 8), -1)
        found = [at for at in places if _read_bits(packed, at, at + _MARK_BITS) == _END_MARK]
        if not found:
            return stop, tuple(ends)
        stop = found[0]
        ends.insert(0, _read_bits(packed, stop + _MARK_BITS, stop + _END_BITS))


def _is_stream_head(packed: bytes, bit: int) -> bool:
    return bit % 8 == 0 and packed[bit // 8 :][:3] == b"BZh" and packed[bit // 8 + 3] in b"123456789"


def _read_bits(packed: bytes, begin: int, stop: int) -> int:
    first, last = begin // 8, -(-stop // 8)
    return int.from_bytes(packed[first:last], "big") >> 8 * last - stop & (1 << stop - begin) - 1
