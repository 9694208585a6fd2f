"""Test that values and texts are safe to store and show: control characters, depth, table cells, ages, suggestions."""

from datetime import UTC, datetime

import pytest
from support.docs.read_page import ReadPage

from factmill.tasks.text.durations import format_age_in_words, parse_validated_duration, validate_duration
from factmill.tasks.text.html_tables import format_html_cell_content, format_lines_as_html, render_titled_html_table
from factmill.tasks.text.reply_wrappers import MalformedJsonObject, parse_only_json_object_ending_text
from factmill.tasks.text.sanitize import (
    MAX_JSON_DEPTH,
    escape_control_characters,
    exceeds_json_depth,
    format_did_you_mean,
)


def nest(levels: int) -> object:
    value: object = []
    for _ in range(levels - 1):
        value = {"a": value} if isinstance(value, list) else [value]
    return value


def test_json_depth_limit_is_exact() -> None:
    assert not exceeds_json_depth(nest(MAX_JSON_DEPTH))
    assert exceeds_json_depth(nest(MAX_JSON_DEPTH + 1))
    assert not exceeds_json_depth([[]] * 1000)


@pytest.mark.parametrize("levels", [MAX_JSON_DEPTH, 900, 10_000])
def test_too_deeply_nested_object_in_reply_is_malformed(levels: int) -> None:
    with pytest.raises(MalformedJsonObject, match="nested too deeply"):
        parse_only_json_object_ending_text('{"short": ' + "[" * levels + "]" * levels + "}")


def test_number_of_any_length_in_reply_is_parsed() -> None:
    assert parse_only_json_object_ending_text('{"a": ' + "9" * 5000 + "}") == {"a": float("inf")}


def test_terminal_control_characters_are_escaped() -> None:
    assert escape_control_characters("a\x1b[31mb\u202ec\r\nd\n\x00") == "a[U+001B][31mb[U+202E]c\nd\n[U+0000]"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("Astronmy", "; did you mean Astronomy?"),
        ("ASTRONOMY", "; did you mean Astronomy?"),
        ("Cookery", ""),
        ("", ""),
    ],
)
def test_most_similar_known_name_is_suggested(given: str, text: str) -> None:
    assert format_did_you_mean(given, ["Algebra", "Astronomy"]) == text


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
def test_html_cell_is_escaped_and_shortened(value: object, shown: str) -> None:
    assert format_html_cell_content(value) == shown.strip()


def test_html_table_has_no_active_content() -> None:
    hostile = '<img src=x onerror="alert(1)">'
    page = ReadPage(
        render_titled_html_table(hostile, [hostile], [[hostile]], [hostile]) + format_lines_as_html([hostile])
    )
    assert not {"img", "script"} & set(page.tags)
    assert not page.addresses
    assert not page.handlers


def test_html_table_sets_no_colours() -> None:
    assert "color" not in render_titled_html_table("title", ["a"], [[1]], ["note"])


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("90m", 5400), ("12h", 43_200), ("30d", 2_592_000), ("2w", 1_209_600), ("0", 0), (1.5, 1.5)],
)
def test_duration_is_parsed_to_seconds(written: object, seconds: float) -> None:
    assert parse_validated_duration(validate_duration(written)) == seconds


@pytest.mark.parametrize("written", ["", "d", "-1d", "1 d", "1y", "1e9", "١d", "9999999999d", None, True, float("nan")])
def test_invalid_duration_is_rejected_with_examples(written: object) -> None:
    with pytest.raises(ValueError, match="expected one such as 90m, 12h, 30d"):
        validate_duration(written)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 seconds"),
        (1, "1 second"),
        (119, "119 seconds"),
        (120, "2 minutes"),
        (90_000, "25 hours"),
        (2e5, "2 days"),
    ],
)
def test_age_is_formatted_in_its_largest_unit(seconds: float, text: str) -> None:
    assert format_age_in_words(seconds) == text
