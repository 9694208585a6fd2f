"""Load N-Triples of a Wikidata dump into a named graph.

Blocks of lines are sorted by two threads while this one unpacks the next and appends rows to a staging database; the
sorted tables are then written from it. All of this happens in a folder beside, which gets the graph's name in one
rename at the end: whatever stops a load leaves no graph, and an old graph of that name stays until the new one is
whole.
"""

import fcntl
import os
import re
import shutil
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa

from tasks.errors import GraphError, SourceError, UsageError
from tasks.graph.manifest import (
    DATABASE,
    FORMAT_VERSION,
    GraphManifest,
    SourceFile,
    graph_path,
    loading_path,
    write_manifest,
)
from tasks.graph.shapes import TABLES, Sorted, make_shapes, sort_block
from tasks.graph.streams import STDIN, Block, Source
from tasks.graph.tables import digest_tables, find_dump_date, open_staging, stage_rows, store_tables

_LANGUAGE = re.compile(r"[a-z]{2,12}(-[a-z0-9]{1,12})*")
_SORTERS = 2
_BLOCKS_UNDER_WAY = 4
_BYTES_STAGED_AT_ONCE = 16 << 20


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """How far a load is."""

    source: str
    """The source that is being read."""
    lines: int
    """Lines read so far, of all sources."""
    bytes_read: int
    """Bytes read so far as they lie on disk, of all sources."""
    bytes_total: int | None
    """Bytes of all sources; None when one is standard input."""
    seconds: float
    """Time since the load began."""


Progress = Callable[[LoadProgress], None]


def load_graph(
    files: Sequence[str | Path],
    name: str,
    folder: Path,
    languages: Sequence[str] = ("en",),
    progress: Progress | None = None,
    *,
    dump_date: str | None = None,
    replace: bool = False,
) -> GraphManifest:
    """Load files of N-Triples (plain or gzip, `-` for standard input) as the graph `name` in `folder`.

    `languages` are the tags of the texts to keep, exactly (`en` leaves `en-gb` out; names in `mul`, which stand in all
    languages, are kept with any). `dump_date` (ISO 8601) stands in for the date the dump gives. Raises SourceError for
    a file that is missing, empty, damaged or no N-Triples; GraphError when a graph of that name exists and `replace`
    is not set, when it is being loaded, or when it cannot be written.
    """
    target = graph_path(name, folder)
    tags = _check_request(files, languages)
    if target.exists() and not replace:
        raise GraphError(f"graph {name} exists already in {folder}: choose another name, or replace it with --replace")
    try:
        with _claim_folder(name, folder) as beside:
            sources = [Source(file) for file in dict.fromkeys(map(str, files))]
            manifest = _build(name, sources, beside, tags, progress or _ignore, dump_date=dump_date)
            write_manifest(manifest, beside)
            _put_in_place(beside, target, replace=replace)
    except duckdb.Error as error:
        raise GraphError(f"graph {name} cannot be written in {folder}: {error}") from error
    except OSError as error:
        raise GraphError(f"graph {name} cannot be written in {folder}: {error.strerror or error}") from error
    return manifest


@dataclass(slots=True)
class _Tally:
    """What was read so far, and the rows not yet staged."""

    lines: Counter[str] = field(default_factory=Counter)
    """By source."""
    triples: Counter[str] = field(default_factory=Counter)
    """Well-formed lines by source."""
    blank: int = 0
    not_kept: Counter[str] = field(default_factory=Counter)
    read: Counter[str] = field(default_factory=Counter)
    waiting: dict[str, list[pa.Table]] = field(default_factory=dict)

    def add(self, block: Block, found: Sorted) -> None:
        """Count what a block holds and keep its rows for staging."""
        triples = found.lines - found.blank - found.count_rows("malformed")
        if block.first_line == 1 and not triples and found.count_rows("malformed"):
            text = found.tables["malformed"][0]["text"][0].as_py()
            raise SourceError(
                f"{block.source}: none of its first lines is a triple ({text[:80]!r}); expected N-Triples"
            )
        self.lines[block.source] += found.lines
        self.triples[block.source] += triples
        self.blank += found.blank
        self.not_kept.update(found.not_kept)
        for name, tables in found.tables.items():
            self.read[name] += found.count_rows(name)
            self.waiting.setdefault(name, []).extend(tables)

    def stage(self, connection: duckdb.DuckDBPyConnection, bytes_at_least: int = 1) -> None:
        """Append the waiting rows of each table that has so many bytes of them."""
        for name, tables in self.waiting.items():
            if sum(table.nbytes for table in tables) >= bytes_at_least:
                stage_rows(connection, name, pa.concat_tables(tables))
                tables.clear()


def _build(
    name: str,
    sources: Sequence[Source],
    beside: Path,
    languages: tuple[str, ...],
    progress: Progress,
    *,
    dump_date: str | None,
) -> GraphManifest:
    with open_staging(beside) as connection:
        tally = _stage_sources(connection, sources, languages, progress)
        stored = store_tables(connection, beside / DATABASE)
        date = dump_date or find_dump_date(connection)
        digest = digest_tables(connection, languages=languages, dump_date=date, format_version=FORMAT_VERSION)
    for left in beside.iterdir():
        if left.name != DATABASE:
            _remove(left)
    return GraphManifest(
        name=name,
        format_version=FORMAT_VERSION,
        digest=digest,
        languages=languages,
        dump_date=date,
        sources=tuple(
            SourceFile(path=each.path, size_bytes=each.size_bytes, sha256=each.sha256, lines=tally.lines[each.path])
            for each in sources
        ),
        lines=tally.lines.total(),
        blank=tally.blank,
        malformed=tally.read["malformed"],
        not_kept=dict(sorted(tally.not_kept.items())),
        read={table: tally.read[table] for table in TABLES if table != "malformed"},
        stored=stored,
        files={DATABASE: (beside / DATABASE).stat().st_size},
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _stage_sources(
    connection: duckdb.DuckDBPyConnection, sources: Sequence[Source], languages: Sequence[str], progress: Progress
) -> _Tally:
    tally = _Tally()
    for block, found in _sort_blocks(sources, languages, progress):
        tally.add(block, found)
        tally.stage(connection, _BYTES_STAGED_AT_ONCE)
    tally.stage(connection)
    for source in sources:
        if not tally.triples[source.path]:
            raise SourceError(f"{source.path}: holds no triple")
    if not any(tally.read[name] for name in TABLES if name != "malformed"):
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(tally.not_kept.items()))
        raise SourceError(
            f"{sources[0].path}: none of its triples is of use in a graph ({kinds}); expected a dump of Wikidata"
        )
    return tally


def _sort_blocks(
    sources: Sequence[Source], languages: Sequence[str], progress: Progress
) -> Iterator[tuple[Block, Sorted]]:
    """Yield each block with what it holds, in order, a few blocks being sorted ahead."""
    shapes, started, lines = make_shapes(languages), time.monotonic(), 0
    sizes = [None if source.path == STDIN else Path(source.path).stat().st_size for source in sources]
    total = None if None in sizes else sum(size for size in sizes if size is not None)
    under_way: deque[tuple[Block, Future[Sorted]]] = deque()
    with ThreadPoolExecutor(_SORTERS) as pool:
        for source in sources:
            for block in source.read_blocks():
                under_way.append((block, pool.submit(sort_block, block, shapes)))
                if len(under_way) == _BLOCKS_UNDER_WAY:
                    first, future = under_way.popleft()
                    yield first, future.result()
                lines += block.data.count(b"\n")
                read = sum(each.size_bytes for each in sources)
                progress(LoadProgress(source.path, lines, read, total, time.monotonic() - started))
        for block, future in under_way:
            yield block, future.result()


def _check_request(files: Sequence[str | Path], languages: Sequence[str]) -> tuple[str, ...]:
    """Check that every file is there before any is read; return the languages in order."""
    if not files:
        raise UsageError("no file to load: give N-Triples, plain or gzip, or `-` for standard input")
    for file in files:
        if str(file) != STDIN and not Path(file).is_file():
            raise SourceError(f"{file}: no such file; give N-Triples, plain or gzip, or `-` for standard input")
    tags = tuple(sorted({language.lower() for language in languages}))
    if not tags or not all(_LANGUAGE.fullmatch(tag) for tag in tags):
        raise UsageError(f"languages {list(languages)}: give at least one language tag, like en or pt-br")
    return tags


@contextmanager
def _claim_folder(name: str, folder: Path) -> Iterator[Path]:
    """Yield an empty folder to build in, held by a lock that ends with the process; it is removed if not renamed."""
    beside = loading_path(name, folder)
    beside.mkdir(parents=True, exist_ok=True)
    handle = os.open(beside, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # between mkdir and flock the holder may have finished and renamed this very folder
        is_ours = beside.exists() and os.path.samestat(beside.stat(), os.fstat(handle))
    except BlockingIOError:
        is_ours = False
    try:
        if not is_ours:
            raise GraphError(f"graph {name} is being loaded into {folder} by another process: wait until it is done")
        _empty_folder(beside)
        yield beside
    finally:
        if is_ours and beside.exists():
            shutil.rmtree(beside)
        os.close(handle)


def _empty_folder(path: Path) -> None:
    for left in path.iterdir():
        _remove(left)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _put_in_place(beside: Path, target: Path, *, replace: bool) -> None:
    if not target.exists():
        beside.rename(target)
        return
    if not replace:
        raise GraphError(f"graph {target.name} was loaded into {target.parent} by another process in the meantime")
    old = beside.with_suffix(".replaced")
    if old.exists():
        shutil.rmtree(old)
    target.rename(old)
    beside.rename(target)
    shutil.rmtree(old)


def _ignore(progress: LoadProgress) -> None:
    """Take no notice of progress."""
