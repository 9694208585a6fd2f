"""Short HTML tables for notebooks."""

from datetime import UTC, datetime

import pytest
from support.docs.read_page import ReadPage

from factmill.tasks.text.html_tables import format_html_cell, render_html_lines, render_html_table


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ('" onclick="x', "&quot; onclick=&quot;x"),
        ("two\nlines\tand  more", "two lines and more"),
        ("\x1b[31mred", "[U+001B][31mred"),
        ("a" * 1_000_000, "a" * 119 + "…"),
        (0.123456, "0.1235"),
        (True, "True"),
        (["fine", "coarse"], "fine · coarse"),
        (list(range(9)), "0 · 1 · 2 · 3 · 4 · 5 · 3 more"),
        ({"<b>": 1}, "{&quot;&lt;b&gt;&quot;: 1}"),
        ([["<i>"], None], "&lt;i&gt; · "),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02 03:04"),
    ],
)
def test_a_cell_is_escaped_and_short(value: object, shown: str) -> None:
    assert format_html_cell(value) == shown.strip()


def test_nothing_of_a_table_acts_in_a_page() -> None:
    hostile = '<img src=x onerror="alert(1)">'
    page = ReadPage(render_html_table(hostile, [hostile], [[hostile]], [hostile]) + render_html_lines([hostile]))
    assert not {"img", "script"} & set(page.tags)
    assert not page.addresses
    assert not page.handlers


def test_a_table_sets_no_colour_of_its_own() -> None:
    assert "color" not in render_html_table("title", ["a"], [[1]], ["note"])
