"""Test reading sources in blocks of whole lines."""

import bz2
import gzip
import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from factmill.tasks.errors import SourceError
from factmill.tasks.graph.loading.sources import streams
from factmill.tasks.graph.loading.sources.streams import (
    SOURCE_START,
    RdfSourceReader,
    SourceChangedError,
    SourcePosition,
)

LINES = b"".join(b"line %d\n" % number for number in range(1, 501))
TURTLE = b"@prefix a: <http://a/> .\n" + b"".join(b"a:s%d a:p a:o , [ a:q 1 ] .\n" % nth for nth in range(300))

Pack = Callable[[bytes], bytes]


def pack_zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


PACKS: dict[str, Pack] = {"gzip": gzip.compress, "bzip2": bz2.compress, "zstd": pack_zstd}


def read_all(path: Path, block_bytes: int = 100) -> bytes:
    return b"".join(block.data for block in RdfSourceReader(path).read_blocks(block_bytes))


@pytest.mark.parametrize(
    "stored",
    [
        LINES,
        LINES.removesuffix(b"\n"),
        LINES.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + LINES,
        *(pack(LINES) for pack in PACKS.values()),
        *(pack(LINES[:1001]) + pack(LINES[1001:2000]) + pack(LINES[2000:]) + pack(b"") for pack in PACKS.values()),
        gzip.compress(b"\xef\xbb\xbf" + LINES.replace(b"\n", b"\r\n"), mtime=0),
        b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc" + pack_zstd(LINES),
    ],
    ids=[
        "plain",
        "no last newline",
        "crlf",
        "bom",
        *PACKS,
        *(f"several of {pack}" for pack in PACKS),
        "gzip crlf bom",
        "zstd behind a frame to skip",
    ],
)
def test_every_file_format_yields_same_lines(tmp_path: Path, stored: bytes) -> None:
    path = tmp_path / "a.nt"
    path.write_bytes(stored)
    assert read_all(path) == LINES


def test_blocks_contain_complete_lines_and_know_their_position(tmp_path: Path) -> None:
    path = tmp_path / "a.nt"
    path.write_bytes(LINES)
    blocks = list(RdfSourceReader(path).read_blocks(100))
    assert len(blocks) > 10
    for block in blocks:
        assert block.data.startswith(b"line %d\n" % block.first_line)
        assert block.data.endswith(b"\n")
        before = LINES[: block.end.text_bytes]
        assert before.endswith(block.data)
        assert block.end == SourcePosition(len(before), before.count(b"\n"), hashlib.sha256(before).hexdigest())
    assert blocks[-1].end.text_bytes == len(LINES)


def test_carriage_return_at_block_end_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "a.nt"
    path.write_bytes(b"abc\r\ndef\r\n")
    for size in range(1, 11):
        assert read_all(path, size) == b"abc\ndef\n"


@pytest.mark.parametrize("name", ["a.nt", "a.ttl"])
@pytest.mark.parametrize("pack", [bytes, *PACKS.values()], ids=["plain", *PACKS])
def test_size_and_digest_are_those_of_file_on_disk(tmp_path: Path, name: str, pack: Pack) -> None:
    path = tmp_path / name
    path.write_bytes(pack(TURTLE if name == "a.ttl" else LINES))
    source, again = RdfSourceReader(path), RdfSourceReader(path)
    list(source.read_blocks())
    again.digest_from_disk()
    for read in (source, again):
        assert read.size_bytes == path.stat().st_size == source.find_size_bytes()
        assert read.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("cut", [0, 1, 9, 60])
@pytest.mark.parametrize("packing", PACKS)
def test_truncated_or_damaged_compressed_data_raises_error_with_line(tmp_path: Path, packing: str, cut: int) -> None:
    path = tmp_path / "bad.nt"
    noise = PACKS[packing](os.urandom(9000))
    spoilt = noise[:-cut] if cut else noise[:5] + bytes(35) + noise[40:]
    path.write_bytes(PACKS[packing](LINES) + spoilt)
    text = "truncated" if cut else "damaged"
    with pytest.raises(SourceError, match=rf"bad\.nt: its {packing} data is {text} after line \d+"):
        read_all(path)


@pytest.mark.parametrize(
    ("stored", "what"),
    [
        (b"", "is empty"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (gzip.compress(LINES, mtime=0) + b"and more", "gzip data is damaged after line"),
        (b"\xfd7zXZ\x00", "xz; decompress it into a pipe"),
        (b"PK\x03\x04....", "a zip archive"),
        ("<a:s> <a:p> <a:o> .\n".encode("utf-16"), "UTF-16"),
    ],
    ids=["empty", "empty gzip", "more behind gzip", "xz", "zip", "utf-16"],
)
def test_unreadable_file_is_named(tmp_path: Path, stored: bytes, what: str) -> None:
    path = tmp_path / "bad.nt"
    path.write_bytes(stored)
    with pytest.raises(SourceError, match=what) as raised:
        read_all(path)
    assert str(path) in str(raised.value)


def test_file_without_read_permission_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret.nt"
    path.write_bytes(LINES)
    # root may read every file
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.R_OK)
    with pytest.raises(SourceError, match=r"secret\.nt: cannot be read: permission denied"):
        read_all(path)


def test_endless_line_is_rejected_before_it_fills_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_LINE_BYTES", 1 << 20)
    path = tmp_path / "zeros.nt"
    path.write_bytes(b"fine\n" + b"\0" * (3 << 20))
    with pytest.raises(SourceError, match="line 2 is longer than 1 MiB"):
        read_all(path, 1 << 18)


@pytest.mark.parametrize("stored", [LINES, *(pack(LINES) for pack in PACKS.values())], ids=["plain", *PACKS])
def test_standard_input_is_read_like_file(stored: bytes) -> None:
    program = (
        "import sys; from factmill.tasks.graph.loading.sources.streams import RdfSourceReader\n"
        "for block in RdfSourceReader('-').read_blocks(100): sys.stdout.buffer.write(block.data)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=stored,
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])},
    )
    assert done.stdout == LINES


def test_named_pipe_written_byte_by_byte_is_read_like_file(tmp_path: Path) -> None:
    path, packed = tmp_path / "pipe", gzip.compress(LINES)
    os.mkfifo(path)

    def write() -> None:
        with path.open("wb", buffering=0) as pipe:
            for nth in range(len(packed)):
                pipe.write(packed[nth : nth + 1])

    writer = threading.Thread(target=write)
    writer.start()
    source = RdfSourceReader(path)
    assert b"".join(block.data for block in source.read_blocks()) == LINES
    writer.join()
    assert not source.is_rereadable
    assert source.find_size_bytes() is None


@pytest.mark.parametrize(
    ("name", "text", "form", "triples"),
    [
        ("a.ttl", b"<http://a/s> <http://a/p> 1 , 2 .", None, 2),
        ("a.TTL.gz", b"<http://a/s> <http://a/p> 1 , 2 .", "ntriples", 2),
        ("a", b"<http://a/s> <http://a/p> 1 , 2 .", "turtle", 2),
        ("a", b"\n# words\n  @prefix a: <http://a/> .\na:s a:p 1 , 2 .", None, 2),
        ("a.nt", b"\xef\xbb\xbfPREFIX a: <http://a/>\na:s a:p 1 , 2 .", None, 2),
        ("a", b"@base <http://a/> . <s> <p> 1 , 2 .", None, 2),
        ("a", b"<http://a/s> <http://a/p> 1 , 2 .\n", None, 0),
        ("a.nt", b"<http://a/s> <http://a/p> 1 , 2 .\n", "turtle", 0),
        ("a", b"prefixed <http://a/p> 1 , 2 .\n", None, 0),
    ],
)
def test_turtle_is_detected_by_name_or_content_or_user_option(
    tmp_path: Path, name: str, text: bytes, form: streams.RdfSyntax | None, triples: int
) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    (block,) = RdfSourceReader(path, form).read_blocks()
    if triples:
        assert block.data.count(b"^^<http://www.w3.org/2001/XMLSchema#integer> .\n") == triples == block.end.lines
    else:
        assert block.data == text


def test_turtle_is_written_as_one_canonical_line_per_triple(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "TURTLE_BATCH_TRIPLES", 2)
    path = tmp_path / "a.ttl"
    path.write_text(
        '@prefix a: <http://a/> .\r\na:s a:p "tab\\t\u00e9"@EN , """two\nlines""" ; a:q true .\r\n'
        "a:s a:p <http://a/\\u000A\\u003E> .  # an IRI that is none\n"
        "a:s a:p <http://a b> .\n_:x a:p [ a:p a:o ] .\n",
        "utf-8",
        newline="",
    )
    blocks = list(RdfSourceReader(path).read_blocks())
    assert [block.first_line for block in blocks] == [1, 3, 5, 7][: len(blocks)]
    lines = b"".join(block.data for block in blocks).decode().splitlines()
    assert lines[:5] == [
        '<http://a/s> <http://a/p> "tab\\t\u00e9"@en .',
        '<http://a/s> <http://a/p> "two\\nlines" .',
        '<http://a/s> <http://a/q> "true"^^<http://www.w3.org/2001/XMLSchema#boolean> .',
        "<http://a/s> <http://a/p> <http://a/\\n>> .",
        "<http://a/s> <http://a/p> <http://a b> .",
    ]
    assert len(lines) == 7 == blocks[-1].end.lines
    assert all(line.startswith("_:") for line in lines[5:])


OTHER_FILES = (b"<!DOCTYPE html><html></html>", b'{"a": 1}', bytes(range(256)))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        *((other, r"invalid Turtle at line 1, column \d+: .") for other in OTHER_FILES),
        (TURTLE + b"a:s a:p b:o .\n", "invalid Turtle at line 302, column 9: The prefix b: has not been declared"),
        (TURTLE + b'a:s a:p "open .\n', r"invalid Turtle at line 302, column \d+"),
        (TURTLE + b"a:s a:p", "invalid Turtle at line 302, column 8: Unexpected end"),
        (TURTLE + b"a:s a:p a:\xff .", r"invalid Turtle at line 302, column \d+: .*(?i:utf-8)"),
    ],
)
def test_invalid_turtle_raises_error_with_line_and_column(tmp_path: Path, text: bytes, what: str) -> None:
    path = tmp_path / "bad.ttl"
    path.write_bytes(text)
    with pytest.raises(SourceError, match=rf"bad\.ttl: {what}"):
        read_all(path)


def test_truncated_turtle_raises_error_with_triple_number(tmp_path: Path) -> None:
    path = tmp_path / "a.ttl.gz"
    path.write_bytes(gzip.compress(TURTLE * 20)[:-9])
    with pytest.raises(SourceError, match=r"gzip data is truncated after triple \d+"):
        read_all(path)


@pytest.mark.parametrize("pack", [bytes, *PACKS.values()], ids=["plain", *PACKS])
@pytest.mark.parametrize(("name", "text"), [("a.nt", LINES), ("a.ttl", TURTLE)])
def test_reading_resumes_after_any_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: bytes, pack: Pack
) -> None:
    monkeypatch.setattr(streams, "TURTLE_BATCH_TRIPLES", 170)
    path, other = tmp_path / name, tmp_path / f"2{name}"
    path.write_bytes(text)
    # the same text compressed differently, as after a second download
    other.write_bytes(pack(text))
    blocks = list(RdfSourceReader(path).read_blocks(700))
    assert len(blocks) > 4
    for nth, block in enumerate(blocks):
        source = RdfSourceReader(other)
        rest = list(source.read_blocks(700, after=block.end))
        assert without_labels(rest) == without_labels(blocks[nth + 1 :])
        assert source.sha256 == hashlib.sha256(other.read_bytes()).hexdigest()
        assert [block, *rest][-1].end == blocks[-1].end
        assert all(each.first_line == before.end.lines + 1 for before, each in zip([block, *rest], rest, strict=False))


def without_labels(blocks: list[streams.LineBlock]) -> list[bytes]:
    """Return the words of all lines, without the random labels of blank nodes."""
    words = b"".join(block.data for block in blocks).split()
    return [b"_:" if word.startswith(b"_:") else word for word in words]


@pytest.mark.parametrize(("name", "text"), [("a.nt", LINES), ("a.ttl", TURTLE)])
def test_changed_source_raises_error_on_resume(tmp_path: Path, name: str, text: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(text)
    end = next(iter(RdfSourceReader(path).read_blocks(700))).end
    assert end != SOURCE_START
    for changed in (text.replace(b"5", b"6", 1), text[: end.text_bytes - 30]):
        path.write_bytes(changed)
        with pytest.raises(SourceChangedError, match="has changed"):
            list(RdfSourceReader(path).read_blocks(700, after=end))
