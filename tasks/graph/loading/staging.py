"""Read a load's sources into its staging database, block by block, with regular commits.

A few threads sort blocks while the main thread decompresses the next ones and appends rows. Blocks are appended in
order, so what is committed is always a prefix of the sources. Rows, counts and position are committed together:
whatever stops a load, the database holds exactly the rows of the lines before the position, and the same command
resumes there.
"""

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import duckdb
import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from factmill.tasks.errors import LocalGraphError, SourceError
from factmill.tasks.graph.folders import LoadedSourceFile
from factmill.tasks.graph.loading.line_patterns import LinePatterns, make_line_patterns, sort_block_lines_into_rows
from factmill.tasks.graph.loading.sources.streams import (
    SOURCE_START,
    LineBlock,
    RdfSourceReader,
    SourceChangedError,
    SourcePosition,
)
from factmill.tasks.graph.loading.staging_rows import STAGING_SCHEMAS, StagedRowsAndCounts
from factmill.tasks.graph.loading.tables import attach_database, connect_in_memory

STAGING_FILE = "staging.duckdb"
COMMIT_TEXT_BYTES = 256 << 20
"""Commit after so many bytes of text since the last commit, or after COMMIT_SECONDS."""
COMMIT_SECONDS = 30.0

_SORTING_THREADS = min(8, max(2, os.cpu_count() or 2))
_MAX_SORTING_BLOCKS = _SORTING_THREADS + 2
_STAGING_COLUMN_TYPES = {pa.int64(): "BIGINT", pa.int32(): "INTEGER", pa.string(): "VARCHAR"}
_APPEND_BATCH_BYTES = 16 << 20

LoadPhase = Literal["checking", "reading", "sorting", "writing", "digesting"]
"""Phase of a load: `checking` what was read before an interruption, `reading`, `sorting` rows into tables, `writing`
arrays, `digesting` the files written."""


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """Progress of a load."""

    phase: LoadPhase
    source: str
    """The source being read, or the last one."""
    lines: int
    """Lines read so far, over all sources."""
    bytes_read: int
    """Bytes read from disk so far, over all sources."""
    bytes_total: int | None
    """Size of all sources on disk, in bytes; None if one is a pipe."""
    seconds: float
    """Time since the command began."""
    lines_per_s: float
    """Mean rate since reading began."""
    text_bytes_per_s: float
    """Mean rate of uncompressed text since reading began."""
    eta_s: float | None
    """Time until all sources are read, at the current mean rate; None if unknown."""


class LoadMeter:
    """Counts what a load reads and reports its progress."""

    def __init__(self, notify: Callable[[LoadProgress], None]) -> None:
        self.phase: LoadPhase = "reading"
        self._notify = notify
        self._began_s = time.monotonic()
        self._sources: Sequence[RdfSourceReader] = ()
        self._total: int | None = None
        self._lines_before = self._lines = self._text_bytes = self._bytes_before = 0
        self._reading_began_s = self._reading_s = 0.0

    def set_sources(self, sources: Sequence[RdfSourceReader], lines_before: int) -> None:
        """Set the sources to measure; an earlier load read the first `lines_before` lines."""
        sizes = [source.find_size_bytes() for source in sources]
        self._sources = sources
        self._total = None if None in sizes else sum(size for size in sizes if size is not None)
        self._lines_before, self._lines, self._text_bytes = lines_before, 0, 0

    def start_phase(self, phase: LoadPhase) -> None:
        """Start a phase."""
        self.phase = phase
        if phase == "reading":
            self._reading_began_s, self._bytes_before = time.monotonic(), self._count_bytes()
        self.report()

    def count_block(self, block: LineBlock) -> None:
        """Count a block just read."""
        if self.phase == "checking":
            self.start_phase("reading")
        self._lines += block.end.lines - block.first_line + 1
        self._text_bytes += len(block.data)
        self.report()

    def report(self) -> None:
        """Report the load's progress."""
        now_s = time.monotonic()
        if self.phase == "reading":
            self._reading_s = now_s - self._reading_began_s
        read, reading_s = self._count_bytes(), self._reading_s
        new_bytes = read - self._bytes_before
        is_known = self._total is not None and self.phase == "reading" and new_bytes > 0
        self._notify(
            LoadProgress(
                phase=self.phase,
                source=next((each.path for each in reversed(self._sources) if each.size_bytes), ""),
                lines=self._lines_before + self._lines,
                bytes_read=read,
                bytes_total=self._total,
                seconds=now_s - self._began_s,
                lines_per_s=self._lines / reading_s if reading_s else 0.0,
                text_bytes_per_s=self._text_bytes / reading_s if reading_s else 0.0,
                eta_s=max(0, self._total - read) * reading_s / new_bytes if is_known and self._total else None,
            )
        )

    def _count_bytes(self) -> int:
        return sum(source.size_bytes for source in self._sources)


@dataclass(slots=True)
class LoadTally:
    """Counts and position of what was read so far; stored with the staged rows."""

    finished: list[LoadedSourceFile] = field(default_factory=list)
    """Sources read to their end."""
    position: SourcePosition = SOURCE_START
    """Position in the next source."""
    triples: int = 0
    """Well-formed lines of the next source so far."""
    blank: int = 0
    not_kept: Counter[str] = field(default_factory=Counter)
    read: Counter[str] = field(default_factory=Counter)
    """Rows by table."""
    kept_before: int = 0
    """Kept triples of the finished sources."""
    is_whole: bool = False
    """True if every source was read to its end."""

    @property
    def lines(self) -> int:
        """Lines read so far, over all sources."""
        return sum(source.lines for source in self.finished) + self.position.lines

    @property
    def kept(self) -> int:
        """Kept triples so far, over all sources."""
        return self.read.total() - self.read["malformed"]

    def count_block(self, block: LineBlock, found: StagedRowsAndCounts) -> None:
        """Count a block of the current source; SourceError if it is the first and has no triple."""
        triples = found.lines - found.blank - found.count_rows("malformed")
        if block.first_line == 1 and not triples and found.count_rows("malformed"):
            text = found.tables["malformed"][0]["text"][0].as_py()
            raise SourceError(
                f"{block.source}: none of its first lines is a triple ({text[:80]!r}); expected N-Triples or Turtle"
            )
        self.position = block.end
        self.triples += triples
        self.blank += found.blank
        self.not_kept.update(found.not_kept)
        for name in found.tables:
            self.read[name] += found.count_rows(name)

    def finish_source(self, source: RdfSourceReader) -> None:
        """Count a source read to its end; SourceError if it has no triple or none that a graph keeps."""
        if not self.triples:
            raise SourceError(f"{source.path}: has no triples")
        if self.kept == self.kept_before:
            kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.not_kept.items()))
            raise SourceError(
                f"{source.path}: a graph uses none of its triples (so far {kinds}); expected a dump of Wikidata"
            )
        size, digest, lines = source.size_bytes, source.sha256, self.position.lines
        self.finished.append(LoadedSourceFile(path=source.path, size_bytes=size, sha256=digest, lines=lines))
        self.position, self.triples, self.kept_before = SOURCE_START, 0, self.kept


_TALLY_ADAPTER = TypeAdapter(LoadTally)


class StagingDatabase:
    """Staging database of a load: rows to be sorted into a graph, and the tally of what was read."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Use a connection's database `staging`; create its tables if missing."""
        self.connection = connection
        self._waiting: dict[str, list[pa.Table]] = {}
        self._is_in_transaction = False
        try:
            found = connection.execute("SELECT tally FROM staging.progress").fetchall()
        except duckdb.CatalogException:
            found = []
            # in one transaction: a database that has `progress` has all the others
            connection.begin()
            for name, schema in STAGING_SCHEMAS.items():
                columns = ", ".join(f"{column.name} {_STAGING_COLUMN_TYPES[column.type]}" for column in schema)
                connection.execute(f"CREATE TABLE staging.{name} ({columns})")
            connection.execute("CREATE TABLE staging.progress (tally VARCHAR)")
            connection.commit()
        self.tally = _TALLY_ADAPTER.validate_json(found[0][0]) if found else LoadTally()

    def add_rows(self, tables: dict[str, list[pa.Table]]) -> None:
        """Buffer rows by table; append a table's buffer once it is large."""
        for name, rows in tables.items():
            waiting = self._waiting.setdefault(name, [])
            waiting += rows
            if sum(table.nbytes for table in waiting) >= _APPEND_BATCH_BYTES:
                self._append(name, waiting)

    def commit(self) -> None:
        """Commit the added rows and the tally together."""
        for name, waiting in self._waiting.items():
            if waiting:
                self._append(name, waiting)
        self._begin()
        self.connection.execute("DELETE FROM staging.progress")
        tally = _TALLY_ADAPTER.dump_json(self.tally).decode()
        self.connection.execute("INSERT INTO staging.progress VALUES (?)", [tally])
        self.connection.commit()
        self._is_in_transaction = False

    def _append(self, name: str, waiting: list[pa.Table]) -> None:
        self._begin()
        self.connection.register("staged_rows", pa.concat_tables(waiting))
        self.connection.execute(f"INSERT INTO staging.{name} SELECT * FROM staged_rows")
        self.connection.unregister("staged_rows")
        waiting.clear()

    def _begin(self) -> None:
        if not self._is_in_transaction:
            self.connection.begin()
            self._is_in_transaction = True


@contextmanager
def open_staging(path: Path, name: str) -> Iterator[StagingDatabase]:
    """Yield a graph's staging database in the folder `path`, created if missing.

    Uncommitted rows are dropped on exit. Raises LocalGraphError if an existing database cannot be used.
    """
    is_new = not (path / STAGING_FILE).exists()
    with connect_in_memory(path / "spill") as connection:
        try:
            attach_database(connection, path / STAGING_FILE, "staging")
            staging = StagingDatabase(connection)
        except (duckdb.Error, ValidationError) as error:
            if is_new:
                raise
            # not dropped automatically: a full disk has the same symptom, and hours of reading may be in it
            raise LocalGraphError(
                f"{path / STAGING_FILE}: cannot resume the unfinished load ({error}); free disk space if the disk is full, or"
                f" remove the load: `factmill graph remove {name}`"
            ) from error
        yield staging


def read_sources_into_staging(
    sources: Sequence[RdfSourceReader],
    languages: Sequence[str],
    staging: StagingDatabase,
    meter: LoadMeter,
    on_commit: Callable[[], None],
) -> None:
    """Read the sources to their end, starting at the staging database's position.

    `on_commit` is called after each commit once kept rows exist. Raises SourceChangedError if the part read before has
    changed, SourceError if a source is damaged or not a Wikidata dump.
    """
    tally = staging.tally
    _check_finished_sources_unchanged(sources, tally)
    if tally.is_whole:
        return
    text_bytes, last_s = 0, time.monotonic()

    def commit() -> None:
        nonlocal text_bytes, last_s
        staging.commit()
        if tally.kept:
            on_commit()
        text_bytes, last_s = 0, time.monotonic()

    with ThreadPoolExecutor(_SORTING_THREADS) as pool:
        shapes = make_line_patterns(languages)
        for source in sources[len(tally.finished) :]:
            for block, found in _iterate_blocks_with_staged_rows(source, tally.position, shapes, pool, meter):
                tally.count_block(block, found)
                staging.add_rows(found.tables)
                text_bytes += len(block.data)
                if text_bytes >= COMMIT_TEXT_BYTES or time.monotonic() - last_s >= COMMIT_SECONDS:
                    commit()
            tally.finish_source(source)
    tally.is_whole = True
    commit()


def _check_finished_sources_unchanged(sources: Sequence[RdfSourceReader], tally: LoadTally) -> None:
    """Check that the finished sources are unchanged, whatever their names; SourceChangedError if not."""
    for nth, (source, before) in enumerate(zip(sources, tuple(tally.finished), strict=False)):
        if tally.is_whole and not source.is_rereadable:
            # a finished pipe need not exist any more
            continue
        is_other = source.find_size_bytes() not in (None, before.size_bytes)
        if not is_other:
            source.digest_from_disk()
            is_other = (source.size_bytes, source.sha256) != (before.size_bytes, before.sha256)
        if is_other:
            raise SourceChangedError(f"{source.path}: its content has changed since it was read before")
        tally.finished[nth] = before.model_copy(update={"path": source.path})


def _iterate_blocks_with_staged_rows(
    source: RdfSourceReader, after: SourcePosition, patterns: LinePatterns, pool: ThreadPoolExecutor, meter: LoadMeter
) -> Iterator[tuple[LineBlock, StagedRowsAndCounts]]:
    """Yield each block with its sorted rows, in order; a few blocks are sorted ahead."""
    under_way: deque[tuple[LineBlock, Future[StagedRowsAndCounts]]] = deque()
    for block in source.read_blocks(after=after):
        under_way.append((block, pool.submit(sort_block_lines_into_rows, block, patterns)))
        meter.count_block(block)
        if len(under_way) == _MAX_SORTING_BLOCKS:
            first, future = under_way.popleft()
            yield first, future.result()
    for block, future in under_way:
        yield block, future.result()
