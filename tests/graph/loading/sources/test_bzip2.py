"""Test block-wise bzip2 decompression: same bytes as the library's, and errors that name the damage."""

import bz2
import io
import random

import pytest

from factmill.tasks.graph.loading.sources import bzip2
from factmill.tasks.graph.loading.sources.bzip2 import ParallelBzip2Stream

DICE = random.Random(5)
WORDS = b" ".join(DICE.randbytes(3).hex().encode() for _ in range(45_000))
SMALL = bz2.compress(b"a small text\n" * 9)
EMPTY = bz2.compress(b"")
SEVERAL_BLOCKS = bz2.compress(WORDS, 1)


def read(packed: bytes, step: int = 1 << 20) -> bytes:
    stream, text, buffer = ParallelBzip2Stream(io.BytesIO(packed)), b"", memoryview(bytearray(step))
    try:
        while got := stream.readinto(buffer):
            text += buffer[:got]
    finally:
        stream.close()
    return text


@pytest.mark.parametrize(
    "packed",
    [
        pytest.param(SEVERAL_BLOCKS, id="several blocks"),
        pytest.param(bz2.compress(bytes(10_000_000)), id="one block of much text"),
        pytest.param(bz2.compress(DICE.randbytes(1_900_000)), id="what cannot be packed"),
        pytest.param(EMPTY, id="nothing"),
        pytest.param(SMALL * 70, id="many streams"),
        pytest.param(EMPTY + SMALL + EMPTY * 2 + SEVERAL_BLOCKS + EMPTY, id="empty streams between others"),
    ],
)
def test_decompressed_text_matches_library(packed: bytes) -> None:
    expected = bz2.decompress(packed)
    assert read(packed) == expected
    assert read(packed, 99_991) == expected


@pytest.mark.parametrize("chunk", [1, 6, 7, 50])
def test_block_mark_may_span_chunks(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(bzip2, "_CHUNK_BYTES", chunk)
    packed = EMPTY + SMALL * 9
    assert read(packed) == bz2.decompress(packed)


def test_block_mark_inside_block_by_chance_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    real = bzip2._find_mark_bits

    def find_more(packed: bytes, first: int, wanted: int = bzip2._BLOCK_MARK) -> list[int]:
        marks = real(packed, first, wanted)
        return sorted({*marks, *(mark + 8 * 1000 + 3 for mark in marks), *(mark + 8 * 2000 for mark in marks)})

    monkeypatch.setattr(bzip2, "_find_mark_bits", find_more)
    assert read(SEVERAL_BLOCKS) == WORDS


def flip(packed: bytes, at: int) -> bytes:
    return packed[:at] + bytes([packed[at] ^ 4]) + packed[at:][1:]


def leave_out_a_block(packed: bytes) -> bytes:
    """Return a stream without its second block but with the checksum of all blocks."""
    first, second, third = bzip2._find_mark_bits(packed, 0)[:3]
    stop, [checksum] = bzip2._find_block_end_and_stream_checksums(packed, first, 8 * len(packed), is_last=True)
    kept = bzip2._read_bits(packed, 0, second) << stop - third | bzip2._read_bits(packed, third, stop)
    bits = ((kept << 48 | bzip2._END_MARK) << 32) | checksum
    length = second + stop - third + 80
    return (bits << -length % 8).to_bytes(-(-length // 8), "big")


CUT, INVALID = "Truncated", "Invalid data stream"


@pytest.mark.parametrize(
    ("packed", "what"),
    [
        *((SEVERAL_BLOCKS[:cut], CUT) for cut in (3, 4, 12, 300, len(SEVERAL_BLOCKS) // 2, len(SEVERAL_BLOCKS) - 1)),
        (SMALL * 2 + SMALL[:-3], CUT),
        (SMALL + b"BZh9", CUT),
        (flip(SEVERAL_BLOCKS, 5000), INVALID),
        (flip(SEVERAL_BLOCKS, len(SEVERAL_BLOCKS) - 3), "Blocks are missing"),
        (leave_out_a_block(SEVERAL_BLOCKS), "Blocks are missing"),
        (SMALL + b"words", "Something else behind"),
        (b"BZhello", INVALID),
        (b"BZh9" + DICE.randbytes(2_500_000), INVALID),
    ],
)
def test_damaged_or_truncated_data_raises_error(packed: bytes, what: str) -> None:
    with pytest.raises(OSError, match=what):
        read(packed)


def test_text_before_damage_is_read_first() -> None:
    stream, text, buffer = ParallelBzip2Stream(io.BytesIO(SEVERAL_BLOCKS[:-9])), b"", memoryview(bytearray(1000))
    with pytest.raises(OSError, match=CUT):
        while got := stream.readinto(buffer):
            text += buffer[:got]
    stream.close()
    assert len(text) > 190_000
    assert WORDS.startswith(text)
