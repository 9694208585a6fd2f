"""Test how a Python program reads a published table."""

import sys

import polars
import pyarrow as pa
import pytest

from factmill.tasks.errors import SettingsError
from factmill.tasks.storage.published_table import PublishedTable

ROWS = pa.table({"id": ["a", "b"], "answers": [["<b>", "y"], None]})
TABLE = PublishedTable(ROWS, "granola_eq", "granola-1", ("not for use",))


def test_data_frames_hold_table_rows() -> None:
    assert TABLE.to_pandas()["id"].to_list() == ["a", "b"]
    assert TABLE.to_polars()["id"].to_list() == ["a", "b"]
    assert TABLE.to_pylist()[1] == {"id": "b", "answers": None}
    assert (len(TABLE), TABLE.column_names, TABLE["id"][0].as_py()) == (2, ["id", "answers"], "a")


def test_arrow_libraries_accept_table_directly() -> None:
    assert pa.table(TABLE) == ROWS
    assert polars.DataFrame(TABLE).height == 2


def test_missing_polars_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(SettingsError, match=r"pip install polars; or use \.to_pandas"):
        TABLE.to_polars()


def test_notebook_view_shows_first_rows_escaped() -> None:
    page = TABLE._repr_html_()
    assert "granola_eq of granola-1: 2 rows, 2 columns" in page
    assert "<td" in page and "&lt;b&gt; · y" in page and "<b>y" not in page
    assert "not for use" in page
    assert "the first" not in page
    long = PublishedTable(pa.table({"n": list(range(1000))}), "t")
    assert "1,000 rows" in long._repr_html_() and "the first 10 rows" in long._repr_html_()
    assert long._repr_html_().count("<tr") == 11
    assert "0 rows" in PublishedTable(ROWS.slice(0, 0), "t")._repr_html_()
    assert repr(TABLE) == "<granola_eq of granola-1: 2 rows, 2 columns: id, answers>"
