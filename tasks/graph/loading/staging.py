"""Rows on their way from a dump into a graph, with how far the reading is: one database, so that a load can go on.

Rows, counts and position are committed together every now and then. Whatever stops a load, the database holds exactly
the rows of the lines before the position, and the same command reads on from there.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from tasks.errors import GraphError
from tasks.graph.loading.rows import TABLES
from tasks.graph.loading.sources.streams import START, Position
from tasks.graph.loading.tables import attach_database, connect_memory
from tasks.graph.manifest import SourceFile

STAGING = "staging.duckdb"
SPILL = "spill"

_TYPES = {pa.int64(): "BIGINT", pa.int32(): "INTEGER", pa.string(): "VARCHAR"}
_BYTES_APPENDED_AT_ONCE = 16 << 20


@dataclass(slots=True)
class Tally:
    """What was read so far."""

    finished: list[SourceFile] = field(default_factory=list)
    """The sources that were read to their end."""
    position: Position = START
    """How far the source behind them is read."""
    triples: int = 0
    """Well-formed lines of that source."""
    blank: int = 0
    not_kept: Counter[str] = field(default_factory=Counter)
    read: Counter[str] = field(default_factory=Counter)
    """Rows by table."""
    kept_before: int = 0
    """Triples of the finished sources that a graph has a use for."""
    is_whole: bool = False
    """Every source was read to its end."""

    @property
    def lines(self) -> int:
        """Lines of all sources."""
        return sum(source.lines for source in self.finished) + self.position.lines

    @property
    def kept(self) -> int:
        """Triples that a graph has a use for."""
        return self.read.total() - self.read["malformed"]


_TALLY = TypeAdapter(Tally)


class Staging:
    """The database, while a load writes to it."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self._waiting: dict[str, list[pa.Table]] = {}
        self._is_in_transaction = False

    def read_tally(self) -> Tally:
        """Return what was read into the database, having made its tables if it has none."""
        query = "SELECT tally FROM staging.progress"
        try:
            found = self.connection.execute(query).fetchall()
        except duckdb.CatalogException:
            self._make_tables()
            found = []
        return _TALLY.validate_json(found[0][0]) if found else Tally()

    def add(self, tables: dict[str, list[pa.Table]]) -> None:
        """Add rows; they are appended when there are many."""
        for name, rows in tables.items():
            waiting = self._waiting.setdefault(name, [])
            waiting += rows
            if sum(table.nbytes for table in waiting) >= _BYTES_APPENDED_AT_ONCE:
                self._append(name, waiting)

    def commit(self, tally: Tally) -> None:
        """Keep the rows that were added, which are those of the tally, whatever comes."""
        for name, waiting in self._waiting.items():
            if waiting:
                self._append(name, waiting)
        self._begin()
        self.connection.execute("DELETE FROM staging.progress")
        self.connection.execute("INSERT INTO staging.progress VALUES (?)", [_TALLY.dump_json(tally).decode()])
        self.connection.commit()
        self._is_in_transaction = False

    def _make_tables(self) -> None:
        # in one transaction: a database that has `progress` has all the others
        self.connection.begin()
        for name, schema in TABLES.items():
            columns = ", ".join(f"{column.name} {_TYPES[column.type]}" for column in schema)
            self.connection.execute(f"CREATE TABLE staging.{name} ({columns})")
        self.connection.execute("CREATE TABLE staging.progress (tally VARCHAR)")
        self.connection.commit()

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
def open_staging(path: Path, name: str) -> Iterator[tuple[Staging, Tally]]:
    """Yield the staging database of a graph in the folder `path`, made if there is none, and what was read into it.

    What is not committed at the end is left out. Raises GraphError when there is a database that cannot be used.
    """
    is_new = not (path / STAGING).exists()
    with connect_memory(path / SPILL) as connection:
        staging = Staging(connection)
        try:
            attach_database(connection, path / STAGING, "staging")
            tally = staging.read_tally()
        except (duckdb.Error, ValidationError) as error:
            if is_new:
                raise
            # not dropped by itself: a full disk looks like this too, and hours of reading may be in it
            raise GraphError(
                f"{path / STAGING}: the half load cannot be gone on with ({error}); make room if the disk is full, or"
                f" drop it: factmill graph remove {name}"
            ) from error
        yield staging, tally
