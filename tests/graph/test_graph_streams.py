"""Reading sources in blocks of whole lines."""

import gzip
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.errors import SourceError
from tasks.graph import streams
from tasks.graph.streams import Source

LINES = b"".join(b"line %d\n" % number for number in range(1, 501))


def read_all(path: Path, block_bytes: int = 100) -> bytes:
    return b"".join(block.data for block in Source(path).read_blocks(block_bytes))


@pytest.mark.parametrize(
    "stored",
    [
        LINES,
        LINES.removesuffix(b"\n"),
        LINES.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + LINES,
        gzip.compress(LINES),
        gzip.compress(LINES[:1001]) + gzip.compress(LINES[1001:]),
        gzip.compress(b"\xef\xbb\xbf" + LINES.replace(b"\n", b"\r\n")),
    ],
    ids=["plain", "no last newline", "crlf", "bom", "gzip", "two gzip members", "gzip crlf bom"],
)
def test_every_form_of_a_file_holds_the_same_lines(tmp_path: Path, stored: bytes) -> None:
    path = tmp_path / "a.nt"
    path.write_bytes(stored)
    assert read_all(path) == LINES


def test_blocks_hold_whole_lines_and_know_their_first(tmp_path: Path) -> None:
    path = tmp_path / "a.nt"
    path.write_bytes(LINES)
    blocks = list(Source(path).read_blocks(100))
    assert len(blocks) > 10
    for block in blocks:
        assert block.data.startswith(b"line %d\n" % block.first_line)
        assert block.data.endswith(b"\n")


def test_a_carriage_return_at_the_end_of_a_block_is_taken_off(tmp_path: Path) -> None:
    path = tmp_path / "a.nt"
    path.write_bytes(b"abc\r\ndef\r\n")
    for size in range(1, 11):
        assert read_all(path, size) == b"abc\ndef\n"


def test_size_and_digest_are_those_of_the_file_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "a.nt.gz"
    path.write_bytes(gzip.compress(LINES))
    source = Source(path)
    list(source.read_blocks())
    assert source.size_bytes == path.stat().st_size
    assert source.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("stored", "what"),
    [
        (b"", "is empty"),
        (gzip.compress(LINES)[:-9], "ends in the middle"),
        (gzip.compress(os.urandom(9000))[:4000], "ends in the middle"),
        (gzip.compress(LINES)[:40] + b"\0" * 40 + gzip.compress(LINES)[80:], "damaged gzip data"),
        (b"BZh91AY&SY", "bzip2"),
        (b"\x28\xb5\x2f\xfd0000", "zstd"),
        ("<a:s> <a:p> <a:o> .\n".encode("utf-16"), "UTF-16"),
    ],
    ids=["empty", "cut gzip", "gzip cut early", "damaged gzip", "bzip2", "zstd", "utf-16"],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, stored: bytes, what: str) -> None:
    path = tmp_path / "bad.nt"
    path.write_bytes(stored)
    with pytest.raises(SourceError, match=what) as raised:
        read_all(path)
    assert str(path) in str(raised.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"none\.nt: no such file"):
        read_all(tmp_path / "none.nt")


def test_a_line_without_end_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "LINE_BYTES_AT_MOST", 1 << 20)
    path = tmp_path / "zeros.nt"
    path.write_bytes(b"fine\n" + b"\0" * (3 << 20))
    with pytest.raises(SourceError, match="line 2 is longer than"):
        read_all(path, 1 << 18)


@pytest.mark.parametrize("stored", [LINES, gzip.compress(LINES)], ids=["plain", "gzip"])
def test_standard_input_is_read_like_a_file(stored: bytes) -> None:
    program = (
        "import sys; from tasks.graph.streams import Source\n"
        "for block in Source('-').read_blocks(100): sys.stdout.buffer.write(block.data)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=stored,
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.stdout == LINES
