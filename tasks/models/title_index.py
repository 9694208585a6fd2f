"""Persistent index of a wiki's titles by embedding, to find the articles nearest to a question (FanOutQA, App. B).

<home>/titles/<digest>/titles.txt    the titles as read, one a line
<home>/titles/<digest>/starts.npy    byte offset of each title, and the end of the last (int64)
<home>/titles/<digest>/vectors.npy   the titles' embeddings (titles × dimensions, float32)

The digest covers the file of titles and the embedder. Vectors are appended block by block, and a note counts those
safely on the disk: an interrupted run resumes there. Titles and vectors are never entirely in memory. Seven million
titles take 10.8 GB of disk at 384 dimensions; bench/speed/title_index.py measures the speed.
"""

import gzip
import os
import shutil
import time
import zlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from factmill.tasks.core.digests import digest_json
from factmill.tasks.core.embedding_similarity import find_nearest_vectors
from factmill.tasks.errors import OutputError, SourceError
from factmill.tasks.models.embedders import Embedder, Vectors
from factmill.tasks.models.model_folder import digest_file
from factmill.tasks.processes import exclusive_file_lock
from factmill.tasks.progress import print_and_log

TITLE_INDEX_FORMAT_VERSION = 1

_TITLES_PER_BLOCK = 8192
"""Titles embedded between notes of progress, so that an interruption loses at most some seconds of work."""
_PROGRESS_INTERVAL_S = 30.0
_DUMP_HEADERS = ("page_title", "page_namespace\tpage_title")
_ARTICLE_NAMESPACE = "0"
"""The namespace of articles."""


@dataclass(frozen=True, slots=True)
class TitleEmbeddingIndex:
    """Titles and their vectors, read from the disk."""

    folder: Path
    starts: npt.NDArray[np.int64]
    vectors: Vectors

    def nearest(self, queries: Vectors, count: int) -> list[list[str]]:
        """Return the titles nearest to each query by cosine, nearest first; ties keep the order of the file."""
        rows = find_nearest_vectors(self.vectors, queries, count)
        with (self.folder / "titles.txt").open("rb") as file:
            known = {int(row): self._read(file, int(row)) for row in np.unique(rows)}
        return [[known[row] for row in nearest] for nearest in rows.tolist()]

    def _read(self, file: BinaryIO, row: int) -> str:
        file.seek(int(self.starts[row]))
        return file.read(int(self.starts[row + 1] - self.starts[row])).decode().removesuffix("\n")


def find_nearest_titles(titles: Sequence[str], queries: Vectors, count: int, embedder: Embedder) -> list[list[str]]:
    """Return the titles nearest to each query from a short list, as `TitleEmbeddingIndex.nearest` does from an index."""
    rows = find_nearest_vectors(embedder.encode(titles), queries, count)
    return [[titles[row] for row in nearest] for nearest in rows.tolist()]


def open_or_build_title_index(source: Path, sha256: str, embedder: Embedder, home_folder: Path) -> TitleEmbeddingIndex:
    """Open the index of a file of titles, given its SHA-256, or build it; an existing index does not need the file.

    One process builds it, others wait. SourceError if the file has another digest or no titles; OutputError if the disk
    is full or the index is damaged.
    """
    name = digest_json({"titles": sha256, "embedder": embedder.digest, "format": TITLE_INDEX_FORMAT_VERSION})[:16]
    folder = home_folder / "titles" / name
    try:
        with exclusive_file_lock(folder.with_suffix(".lock"), print_and_log):
            if not (folder / "starts.npy").is_file():
                _write_titles_and_offsets(source, sha256, folder)
            starts = _load_mapped_array(folder / "starts.npy")
            if not (folder / "vectors.npy").is_file():
                _write_title_embeddings(folder, starts, embedder)
    except OSError as error:
        raise OutputError(
            f"{folder}: cannot write the index of titles: {error.strerror}; the finished part stays, and the next run continues it"
        ) from error
    vectors = _load_mapped_array(folder / "vectors.npy")
    if vectors.shape != (len(starts) - 1, embedder.dimensions) or vectors.dtype != np.float32:
        raise OutputError(
            f"{folder}/vectors.npy: its shape {vectors.shape} does not fit its titles; remove the folder to build it again"
        )
    return TitleEmbeddingIndex(folder, starts, vectors)


def _load_mapped_array(path: Path) -> npt.NDArray[Any]:
    try:
        return np.load(path, mmap_mode="r")
    except ValueError as error:
        raise OutputError(f"{path}: is damaged ({error}); remove its folder to build it again") from error


def iterate_dump_titles(path: Path) -> Iterator[str]:
    """Yield the titles of a file, with spaces for underscores and without empty lines.

    The file has one title a line, plain or gzipped, as in the dumps of all titles. Their header is skipped; of lines
    with a namespace before the title only articles are read. SourceError names a line that is not UTF-8 or has another
    form.
    """
    try:
        with path.open("rb") as file:
            is_gzipped = file.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if is_gzipped else path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                place = f"{path}, line {number}"
                try:
                    text = line.decode("utf-8").strip().removeprefix("\ufeff")
                except UnicodeDecodeError as error:
                    raise SourceError(f"{place}: not UTF-8; expected a title") from error
                if number == 1 and text in _DUMP_HEADERS:
                    continue
                namespace, tab, title = text.rpartition("\t")
                if tab and not namespace.isdecimal():
                    raise SourceError(
                        f"{place}: {text[:80]!r}; expected a title, or the number of a namespace, a tab and a title"
                    )
                if namespace in ("", _ARTICLE_NAMESPACE) and (words := title.replace("_", " ").split()):
                    yield " ".join(words)
    except (OSError, EOFError, zlib.error) as error:
        raise SourceError(
            f"{path}: cannot be read: {error}; expected a text or gzip file with a title a line"
        ) from error


def _write_titles_and_offsets(source: Path, sha256: str, folder: Path) -> None:
    """Write titles.txt and, last, starts.npy."""
    if not source.is_file() or (found := digest_file(source)) != sha256:
        problem = "no such file" if not source.is_file() else f"has changed (SHA-256 {found}, expected {sha256})"
        raise SourceError(f"{source}: {problem}; build again with the present file of titles")
    folder.mkdir(parents=True, exist_ok=True)
    # an array takes eight bytes a title, a list of ints some thirty
    starts = array("q", [0])
    with (folder / "titles.txt").open("wb") as file:
        for title in iterate_dump_titles(source):
            starts.append(starts[-1] + file.write(f"{title}\n".encode()))
        os.fsync(file.fileno())
    if len(starts) == 1:
        raise SourceError(f"{source}: no titles in it; expected one per line")
    draft = folder / "starts.draft.npy"
    np.save(draft, np.frombuffer(starts, np.int64))
    draft.replace(folder / "starts.npy")


def _write_title_embeddings(folder: Path, starts: npt.NDArray[np.int64], embedder: Embedder) -> None:
    """Write vectors.npy; resume where an earlier run stopped."""
    draft, note = folder / "vectors.draft", folder / "vectors.done"
    count, width = len(starts) - 1, embedder.dimensions * 4
    done = int(note.read_text()) if note.is_file() and draft.is_file() else 0
    lacking = (count - done) * width - shutil.disk_usage(folder).free
    if lacking > 0:
        raise OutputError(f"{folder}: the vectors of {count:,} titles need {lacking / 1e9:.1f} GB more free disk space")
    with draft.open("r+b" if done else "wb") as file, (folder / "titles.txt").open("rb") as titles:
        np.lib.format.write_array_header_2_0(
            file, {"descr": "<f4", "fortran_order": False, "shape": (count, embedder.dimensions)}
        )
        # after the noted end there may be part of a block
        file.truncate(file.tell() + done * width)
        file.seek(0, os.SEEK_END)
        titles.seek(int(starts[done]))
        began_with, started = done, time.monotonic()
        last_report_s = started
        while done < count:
            texts = [titles.readline().decode().removesuffix("\n") for _ in range(min(_TITLES_PER_BLOCK, count - done))]
            file.write(np.ascontiguousarray(embedder.encode(texts), "<f4").tobytes())
            file.flush()
            os.fsync(file.fileno())
            done += len(texts)
            next_note = note.with_suffix(".draft-note")
            with next_note.open("w") as noting:
                noting.write(str(done))
                noting.flush()
                os.fsync(noting.fileno())
            next_note.replace(note)
            now = time.monotonic()
            if now - last_report_s >= _PROGRESS_INTERVAL_S:
                last_report_s, rate = now, (done - began_with) / (now - started)
                minutes = (count - done) / rate / 60
                print_and_log(
                    f"titles: {done:,} of {count:,} embedded, {rate:,.0f} per second, about {minutes:,.0f} minutes left"
                )
    draft.replace(folder / "vectors.npy")
    note.unlink()
