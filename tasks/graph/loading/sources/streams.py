"""Read RDF sources as blocks of whole N-Triples lines, in bounded memory.

A source is a file, a pipe or standard input (`-`), plain or compressed with gzip, bzip2 or zstd; consecutive members,
streams or frames form one text. The compression is detected from the first bytes, not from the name, so renamed files
and pipes work too. Turtle is detected by the name or the beginning of the text, and converted to N-Triples,
so that later code handles one form. Size and SHA-256 are those of the bytes on disk and come from the same single pass,
because a pipe cannot be read twice.

A partly read source is resumed by reading it again: the part read before is decompressed and digested, but not parsed,
and must be unchanged. That works for pipes too, and for a file downloaded again with another compression.
"""

import hashlib
import io
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import IO, TYPE_CHECKING, Literal, Protocol, cast

import numpy as np
import pyarrow as pa

from factmill.tasks.errors import SourceError
from factmill.tasks.graph.loading.sources.bzip2 import ParallelBzip2Stream

if TYPE_CHECKING:
    from pyoxigraph import Quad

RdfSyntax = Literal["ntriples", "turtle"]

STDIN = "-"
BLOCK_BYTES = 8 << 20
MAX_LINE_BYTES = 32 << 20

_BOM = b"\xef\xbb\xbf"
_UNSUPPORTED_FORMATS = {
    b"\xfd7zXZ": "compressed with xz; decompress it into a pipe and read `-`",
    b"PK\x03\x04": "a zip archive; unpack it first",
    b"\xff\xfe": "UTF-16 text; expected UTF-8",
    b"\xfe\xff": "UTF-16 text; expected UTF-8",
}
_MAGIC_SIZE_BYTES = 8
_SYNTAX_GUESS_BYTES = 1 << 16
_CHUNK_BYTES = 1 << 20
TURTLE_BATCH_TRIPLES = 50_000
_DIRECTIVE = re.compile(rb"(?:[ \t\r]*(?:#[^\n]*)?\n)*[ \t]*(?:@(?:prefix|base)\b|(?i:prefix|base)[ \t])")
_RDF_FILE_NAME = re.compile(
    r"\.(?:(?P<turtle>ttl|turtle)|(?P<ntriples>nt|ntriples))(?:\.(?:gz|bz2|zst|zstd))?$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """A position in a source, after some whole lines."""

    text_bytes: int = 0
    """Uncompressed bytes before it."""
    lines: int = 0
    """Lines before it; triples for Turtle."""
    sha256: str = ""
    """Digest of the uncompressed bytes before it."""


SOURCE_START = SourcePosition()


@dataclass(frozen=True, slots=True)
class LineBlock:
    """A block of whole lines of one source."""

    source: str
    """Path as given, or `-`."""
    first_line: int
    """Number of the first line, from 1; of the first triple for Turtle."""
    data: bytes
    """Lines, each ended by one newline, without carriage returns before newlines and without a byte order mark."""
    end: SourcePosition = SOURCE_START
    """Position in the source after the block."""


class SourceChangedError(SourceError):
    """A source's content differs from what was read before."""


class RdfSourceReader:
    """Reader of one source; `size_bytes` and `sha256` are complete once `read_blocks` has ended."""

    def __init__(
        self, path: str | Path, form: RdfSyntax | None = None, on_read: Callable[[], None] | None = None
    ) -> None:
        """Set up a source; `form`: its format if its name does not show it; `on_read`: called whenever bytes arrive."""
        self.path = str(path)
        self.size_bytes = 0
        """Bytes read from disk so far."""
        self.end = SOURCE_START
        """Position reached so far."""
        self._form = find_rdf_syntax(self.path, form)
        self._on_read = on_read
        self._packing: str | None = None
        self._is_turtle = False
        self._digests_disk = False
        self._digest_on_disk = hashlib.sha256()
        self._digest_of_text = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes read from disk so far."""
        # in a plain file, text and disk bytes are the same, and digesting costs as much as reading
        return (self._digest_on_disk if self._digests_disk else self._digest_of_text).hexdigest()

    @property
    def is_rereadable(self) -> bool:
        """False for standard input and pipes."""
        return self.path != STDIN and Path(self.path).is_file()

    def find_size_bytes(self) -> int | None:
        """Return its size on disk in bytes; None for standard input and pipes."""
        return Path(self.path).stat().st_size if self.is_rereadable else None

    def read_blocks(self, block_bytes: int | None = None, after: SourcePosition = SOURCE_START) -> Iterator[LineBlock]:
        """Yield the lines after `after` in blocks of about `block_bytes` (for Turtle, of some ten thousand triples).

        Raises SourceError, which names the line, if the source is missing, empty, damaged or invalid Turtle;
        SourceChangedError if the part before `after` has changed.
        """
        try:
            with self._open() as text:
                if self._is_turtle:
                    yield from self._read_turtle(text, after)
                else:
                    yield from self._read_lines(text, after, block_bytes or BLOCK_BYTES)
        except (OSError, pa.ArrowException) as error:
            raise SourceError(f"{self.path}: {self._format_read_error(error)}") from error

    def digest_from_disk(self) -> None:
        """Read and digest all bytes on disk, without parsing them."""
        self._digests_disk = True
        try:
            with io.BufferedReader(
                _RawFileReportingReadBytes(self._open_raw(), self.count_disk_bytes), _CHUNK_BYTES
            ) as raw:
                while raw.read(_CHUNK_BYTES):
                    pass
        except OSError as error:
            raise SourceError(f"{self.path}: {self._format_read_error(error)}") from error

    def count_disk_bytes(self, data: memoryview) -> None:
        """Count bytes just read from disk, and digest them if needed."""
        self.size_bytes += len(data)
        if self._digests_disk:
            self._digest_on_disk.update(data)
        if self._on_read:
            self._on_read()

    @contextmanager
    def _open(self) -> Iterator["_PeekableByteStream"]:
        """Detect compression and format; yield the uncompressed text."""
        on_disk = _RawFileReportingReadBytes(self._open_raw(), self.count_disk_bytes)
        with ExitStack() as stack:
            raw = stack.enter_context(io.BufferedReader(on_disk, _CHUNK_BYTES >> 2))
            self._packing = _find_compression(on_disk.start)
            self._digests_disk = self._packing is not None
            for magic, what in _UNSUPPORTED_FORMATS.items():
                if on_disk.start.startswith(magic):
                    raise SourceError(f"{self.path}: is {what}")
            stream: _ReadintoStream = raw
            if self._packing == "bz2":
                stream = stack.enter_context(closing(ParallelBzip2Stream(raw)))
            elif self._packing:
                # Arrow reports a truncated stream; Python's zstd readers take it for the end of the text
                stream = pa.CompressedInputStream(raw, self._packing)
            text = _PeekableByteStream(stream)
            start = text.peek(_SYNTAX_GUESS_BYTES)
            if not start:
                raise SourceError(f"{self.path}: is empty; expected N-Triples or Turtle")
            self._is_turtle = self._form == "turtle" or bool(_DIRECTIVE.match(start.removeprefix(_BOM)))
            yield text

    def _open_raw(self) -> io.RawIOBase:
        if self.path == STDIN:
            return open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)
        check_readable_file(self.path)
        return Path(self.path).open("rb", buffering=0)

    def _read_lines(self, text: "_PeekableByteStream", after: SourcePosition, block_bytes: int) -> Iterator[LineBlock]:
        self._skip_to_position(text, after)
        # one buffer is reused: new memory for every block costs as much as reading it
        work, filled = bytearray(block_bytes), 0
        while True:
            if len(work) < filled + block_bytes:
                work.extend(bytes(filled + block_bytes - len(work)))
            with memoryview(work) as view:
                got = text.readinto(view[filled : filled + block_bytes])
                end = filled + got
                cut = work.rfind(b"\n", filled, end) + 1 if got else end
                data = bytes(view[:cut])
                work[: end - cut] = bytes(view[cut:end])
            filled = end - cut
            if data:
                yield self._make_block(data)
            if filled > MAX_LINE_BYTES:
                raise SourceError(
                    f"{self.path}: line {self.end.lines + 1} is longer than {MAX_LINE_BYTES >> 20} MiB;"
                    " expected N-Triples"
                )
            if not got:
                return

    def _make_block(self, data: bytes) -> LineBlock:
        """Make a block of the next lines; a source's last line may lack its newline."""
        self._digest_of_text.update(data)
        before, text_bytes = self.end, self.end.text_bytes + len(data)
        if not before.text_bytes:
            data = data.removeprefix(_BOM)
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        if not data.endswith(b"\n"):
            data += b"\n"
        # several times faster than bytes.count
        lines = before.lines + int(np.count_nonzero(np.frombuffer(data, np.uint8) == ord("\n")))
        self.end = SourcePosition(text_bytes, lines, self._digest_of_text.hexdigest())
        return LineBlock(self.path, before.lines + 1, data, self.end)

    def _skip_to_position(self, text: "_PeekableByteStream", after: SourcePosition) -> None:
        """Read the part before a position, and check that it is unchanged."""
        left, work = after.text_bytes, memoryview(bytearray(_CHUNK_BYTES))
        while left and (got := text.readinto(work[:left])):
            self._digest_of_text.update(work[:got])
            left -= got
        self._check_skipped_bytes(after)
        self.end = after

    def _check_skipped_bytes(self, after: SourcePosition) -> None:
        """Check the digest of the part before a position; SourceChangedError if it differs."""
        if after.text_bytes and self._digest_of_text.hexdigest() != after.sha256:
            raise SourceChangedError(f"{self.path}: its content has changed since it was read before")

    def _read_turtle(self, text: "_PeekableByteStream", after: SourcePosition) -> Iterator[LineBlock]:
        handed_out = 0

        def hand_out(size: int) -> bytes:
            nonlocal handed_out
            # stop at the position to skip to, where its digest is checked
            data = text.read(min(size, after.text_bytes - handed_out) if handed_out < after.text_bytes else size)
            self._digest_of_text.update(data)
            is_start, handed_out = not handed_out, handed_out + len(data)
            if handed_out == after.text_bytes or (not data and handed_out < after.text_bytes):
                self._check_skipped_bytes(after)
            return data.removeprefix(_BOM) if is_start else data

        for data, triples in convert_turtle_to_ntriples_batches(hand_out, self.path, after.lines):
            lines = max(self.end.lines, after.lines)
            self.end = SourcePosition(handed_out, lines + triples, self._digest_of_text.hexdigest())
            yield LineBlock(self.path, lines + 1, data, self.end)

    def _format_read_error(self, error: OSError | pa.ArrowException) -> str:
        # a system error has a number; Arrow's decompression errors have none
        if isinstance(error, OSError) and error.errno is not None:
            return f"cannot be read: {error.strerror}"
        packing = {"bz2": "bzip2"}.get(self._packing or "", self._packing)
        behind = f"after {'triple' if self._is_turtle else 'line'} {self.end.lines:,}"
        if "Truncated" in str(error):
            return f"its {packing} data is truncated {behind}: download it again"
        return f"its {packing} data is damaged {behind} ({error}): download it again"


def find_rdf_syntax(path: str, fallback_syntax: RdfSyntax | None) -> RdfSyntax | None:
    """Return a source's format by its name, else `form`."""
    named = _RDF_FILE_NAME.search(path)
    return "turtle" if named and named["turtle"] else "ntriples" if named else fallback_syntax


def check_readable_file(path: str) -> None:
    """Raise SourceError unless the path is a readable file or pipe."""
    try:
        is_folder = stat.S_ISDIR(Path(path).stat().st_mode)
    except OSError as error:
        raise SourceError(
            f"{path}: no such file ({error.strerror}); give N-Triples or Turtle, plain or compressed, or `-` for standard"
            " input"
        ) from error
    if is_folder:
        raise SourceError(f"{path}: is a folder; give its files")
    # opening a pipe would consume its first bytes
    if not os.access(path, os.R_OK):
        raise SourceError(f"{path}: cannot be read: permission denied")


def _find_compression(start: bytes) -> str | None:
    """Return Arrow's name for the compression of data that begin like this; None for plain data."""
    if start.startswith(b"\x1f\x8b"):
        return "gzip"
    if start.startswith(b"BZh"):
        return "bz2"
    # zstd, or a skippable frame, which pzstd writes first
    is_skipped = len(start) > 3 and start[0] >> 4 == 5 and start[1:4] == b"\x2a\x4d\x18"
    return "zstd" if is_skipped or start.startswith(b"\x28\xb5\x2f\xfd") else None


class _ReadintoStream(Protocol):
    def readinto(self, buffer: memoryview, /) -> int: ...


class _PeekableByteStream:
    """The uncompressed text of a source, with lookahead."""

    def __init__(self, stream: _ReadintoStream) -> None:
        self._stream = stream
        self._ahead = b""

    def peek(self, size: int) -> bytes:
        """Return the first bytes without consuming them."""
        work = bytearray(size)
        self._ahead = bytes(work[: self._stream.readinto(memoryview(work))])
        return self._ahead

    def readinto(self, buffer: memoryview) -> int:
        """Fill a buffer; return the number of bytes, 0 at the end."""
        if not self._ahead:
            return self._stream.readinto(buffer)
        got = min(len(buffer), len(self._ahead))
        buffer[:got], self._ahead = self._ahead[:got], self._ahead[got:]
        return got

    def read(self, size: int) -> bytes:
        """Return at most `size` next bytes; none at the end."""
        if not self._ahead:
            self.peek(_CHUNK_BYTES)
        data, self._ahead = self._ahead[:size], self._ahead[size:]
        return data


class _RawFileReportingReadBytes(io.RawIOBase):
    """Raw file that passes all bytes read to `count`."""

    def __init__(self, raw: io.RawIOBase, count: Callable[[memoryview], None]) -> None:
        self._raw, self._count = raw, count
        self.start = b""
        """The first bytes, fewer only if there are no more."""
        while len(self.start) < _MAGIC_SIZE_BYTES and (more := raw.read(_MAGIC_SIZE_BYTES - len(self.start))):
            self.start += more
        self._ahead = self.start

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self._ahead:
            size = min(len(buffer), len(self._ahead))
            buffer[:size], self._ahead = self._ahead[:size], self._ahead[size:]
        else:
            size = self._raw.readinto(buffer) or 0
        self._count(memoryview(buffer)[:size])
        return size

    def close(self) -> None:
        self._raw.close()
        super().close()


def convert_turtle_to_ntriples_batches(
    read: Callable[[int], bytes], source: str, skipped_triples: int = 0
) -> Iterator[tuple[bytes, int]]:
    """Yield batches of N-Triples lines, one per triple, with their number, after the first `skipped_triples` triples.

    `read` returns at most the given number of next bytes, none at the end. Blank nodes keep their labels or get random
    ones. IRIs and language tags are not checked: Wikidata holds some invalid ones, and one of them must not stop a dump
    of a billion triples; their lines are set aside like all malformed ones. Raises SourceError with line and column for
    invalid Turtle, since the parser would skip everything between the error and the next full stop.
    """
    # imported here: it takes 17 MB of memory, and only Turtle needs it
    import pyoxigraph

    triples = pyoxigraph.parse(
        cast(IO[bytes], SimpleNamespace(read=read)), format=pyoxigraph.RdfFormat.TURTLE, lenient=True
    )
    try:
        for _ in islice(triples, skipped_triples):
            pass
        while some := list(islice(triples, TURTLE_BATCH_TRIPLES)):
            data = _format_ntriples(some)
            if data.count(b"\n") != len(some):
                # an IRI contains a newline: keep it malformed, but on one line
                data = b"".join(_format_ntriples([triple])[:-1].replace(b"\n", rb"\n") + b"\n" for triple in some)
            yield data, len(some)
    except SyntaxError as error:
        expected = error.msg.partition(": ")[2] or error.msg
        raise SourceError(
            f"{source}: invalid Turtle at line {error.lineno}, column {error.offset}: {expected}"
        ) from error


def _format_ntriples(triples: "list[Quad]") -> bytes:
    import pyoxigraph

    return pyoxigraph.serialize(triples, format=pyoxigraph.RdfFormat.N_TRIPLES) or b""
