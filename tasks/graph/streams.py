"""Sources of N-Triples as blocks of whole lines, in bounded memory.

A source is a file or standard input (`-`), plain or gzip; which of the two is read from its first bytes, not from its
name, so that a renamed file and a pipe work alike. Size and SHA-256 are those of the bytes as they lie on disk and
come from the same single pass, because a dump may be read from a pipe that cannot be read twice.
"""

import gzip
import hashlib
import io
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tasks.errors import SourceError

STDIN = "-"
BLOCK_BYTES = 8 << 20
LINE_BYTES_AT_MOST = 32 << 20

_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_OTHER_FORMS = {
    b"BZh": "compressed with bzip2; unpack it into a pipe and read `-`",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; unpack it into a pipe and read `-`",
    b"\xfd7zXZ": "compressed with xz; unpack it into a pipe and read `-`",
    b"PK\x03\x04": "a zip archive; unpack it first",
    b"\xff\xfe": "UTF-16 text; N-Triples are UTF-8",
    b"\xfe\xff": "UTF-16 text; N-Triples are UTF-8",
}


@dataclass(frozen=True, slots=True)
class Block:
    """Some whole lines of one source."""

    source: str
    """Path as given, or `-`."""
    first_line: int
    """Number of the first line, counted from 1."""
    data: bytes
    """Lines, each ended by one newline; carriage returns before newlines and a byte order mark are taken off."""


class Source:
    """One source while it is read; `size_bytes` and `sha256` are complete when `read_blocks` has ended."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self.size_bytes = 0
        """Bytes read so far, as they lie on disk."""
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes read so far, as they lie on disk."""
        return self._digest.hexdigest()

    def read_blocks(self, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
        """Yield the lines in blocks of about `block_bytes`; SourceError for what is missing, empty or damaged."""
        line_no, carry = 1, b""
        try:
            with self._open() as stream:
                while chunk := stream.read(block_bytes):
                    cut = chunk.rfind(b"\n") + 1
                    if not cut:
                        carry += chunk
                        self._check_length(carry, line_no)
                        continue
                    block = self._block(line_no, carry + chunk[:cut])
                    carry = chunk[cut:]
                    line_no += block.data.count(b"\n")
                    yield block
        except EOFError as error:
            raise SourceError(f"{self.path}: ends in the middle of its gzip data: fetch it again") from error
        except (gzip.BadGzipFile, zlib.error) as error:
            raise SourceError(f"{self.path}: damaged gzip data behind line {line_no}: {error}") from error
        except OSError as error:
            raise SourceError(f"{self.path}: cannot be read: {error.strerror or error}") from error
        if carry:
            yield self._block(line_no, carry + b"\n")

    def _open(self) -> io.BufferedIOBase:
        raw = io.BufferedReader(_Counted(self._open_raw(), self), 1 << 18)
        start = raw.peek(8)[:8]
        if not start:
            raise SourceError(f"{self.path}: is empty; expected N-Triples")
        for magic, what in _OTHER_FORMS.items():
            if start.startswith(magic):
                raise SourceError(f"{self.path}: is {what}")
        return gzip.GzipFile(fileobj=raw) if start.startswith(_GZIP) else raw

    def _open_raw(self) -> io.RawIOBase:
        if self.path == STDIN:
            return open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)
        if not Path(self.path).is_file():
            raise SourceError(f"{self.path}: no such file; give N-Triples, plain or gzip, or `-` for standard input")
        return Path(self.path).open("rb", buffering=0)

    def _block(self, first_line: int, data: bytes) -> Block:
        if first_line == 1:
            data = data.removeprefix(_BOM)
        if b"\r\n" in data:
            data = data.replace(b"\r\n", b"\n")
        return Block(self.path, first_line, data)

    def _check_length(self, line: bytes, line_no: int) -> None:
        if len(line) > LINE_BYTES_AT_MOST:
            raise SourceError(
                f"{self.path}: line {line_no} is longer than {LINE_BYTES_AT_MOST >> 20} MiB; expected N-Triples"
            )

    def count(self, data: memoryview) -> None:
        """Take note of bytes as they are read."""
        self.size_bytes += len(data)
        self._digest.update(data)


class _Counted(io.RawIOBase):
    """Raw bytes that are counted and digested on their way."""

    def __init__(self, raw: io.RawIOBase, source: Source) -> None:
        self._raw, self._source = raw, source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        size = self._raw.readinto(buffer) or 0
        self._source.count(memoryview(buffer)[:size])
        return size

    def close(self) -> None:
        self._raw.close()
        super().close()
