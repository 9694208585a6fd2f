"""A published table in the hands of a Python program: Arrow inside, a data frame or a short page in a notebook on request."""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from factmill.tasks.errors import SettingsError
from factmill.tasks.text.html_tables import MAX_SHOWN_ROWS, render_titled_html_table

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table of a build, or a list of builds or metrics.

    Libraries that read Arrow take it as it is: `polars.DataFrame(table)`, `pyarrow.table(table)`, DuckDB.
    """

    arrow: pa.Table
    """The rows."""
    name: str
    origin: str = ""
    """The build's id, or the file; empty if it is of neither."""
    notes: tuple[str, ...] = ()
    """What to know before use, one sentence each."""

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return int(self.arrow.num_rows)

    @property
    def column_names(self) -> list[str]:
        """Names of the columns, in order."""
        return list(self.arrow.column_names)

    def to_pandas(self) -> "pd.DataFrame":
        """Return the rows as a pandas data frame."""
        return self.arrow.to_pandas()

    def to_polars(self) -> "pl.DataFrame":
        """Return the rows as a Polars data frame; SettingsError if Polars is not installed."""
        try:
            polars = import_module("polars")
        except ImportError as error:
            raise SettingsError(
                "to_polars needs the library polars, which is not installed: pip install polars; or use .to_pandas(), or the "
                "Arrow table .arrow"
            ) from error
        frame: pl.DataFrame = polars.from_arrow(self.arrow)
        return frame

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return the rows as dicts."""
        rows: list[dict[str, Any]] = self.arrow.to_pylist()
        return rows

    def __getitem__(self, column: str) -> pa.ChunkedArray:
        return self.arrow[column]

    def __len__(self) -> int:
        return self.num_rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.arrow.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<{self._describe()}: {', '.join(self.column_names)}>"

    def _repr_html_(self) -> str:
        """Return the first rows as HTML, for notebooks."""
        shown = self.arrow.slice(0, MAX_SHOWN_ROWS).to_pylist()
        notes: Iterable[str] = self.notes
        if self.num_rows > len(shown):
            notes = [f"the first {len(shown)} rows; all of them: .to_pandas()", *notes]
        return render_titled_html_table(
            self._describe(), self.column_names, [list(row.values()) for row in shown], notes
        )

    def _describe(self) -> str:
        rows = f"{self.num_rows:,} {'row' if self.num_rows == 1 else 'rows'}"
        return f"{self.name}{f' of {self.origin}' if self.origin else ''}: {rows}, {len(self.column_names)} columns"
