"""Test a dataset's changelog, as it appears in a release."""

import re

from support.builds.changes import make_diff

from factmill.tasks.diff.core.changelog import render_changelog
from factmill.tasks.diff.core.changes import (
    CAUSE_KIND_MEANINGS,
    ChangeCause,
    RowChange,
    excerpt_change_keeping_line_breaks,
    format_change_in_lines,
    format_value_in_line,
)


def test_changelog_groups_added_removed_and_changed_rows_by_cause() -> None:
    text = render_changelog(make_diff(), "1.0")
    assert text.startswith(
        "# Changes since 1.0\n\nX: a benchmark. From `x-aaa` (2026-01-01, 10 rows) to `x-bbb` (2026-02-01, 11 rows): "
    )
    assert re.search(r"8 the same \(2 [^)]*\), 1 added, 1 removed, 1 changed\.", text)
    for line in (
        "- prompt: x/write: edited (p1 → p2)",
        "## Added: 1 row",
        f"- **source: a.json**: 1 row, since {CAUSE_KIND_MEANINGS['source']}",
        "## Removed: 1 row",
        "## Changed: 1 row",
        f"- **prompt: x/write**: 1 row, since {CAUSE_KIND_MEANINGS['prompt']}",
        "- table `x_side`: 1 added, 3 changed",
    ):
        assert line in text.splitlines(), text
    assert re.search(r"^- columns .*: `fresh`$", text, re.MULTILINE)
    (removed,) = (line for line in text.splitlines() if line.startswith("  - `x-2<script>"))
    assert removed.endswith("` Why?: now rejected (too_short) at check")
    assert "`x-4` (was `x-3`) How?: `answers`" in text
    assert re.search(r"`x_test_answers\.answer` [^`→]*held out", text)


def test_changelog_escapes_and_shortens_row_text() -> None:
    message = render_changelog(make_diff(), "1.0")
    assert len(message) < 5_000
    outside = re.sub(r"`[^`\n]*`", "", message)  # inside code, where ids are, markup is plain text
    assert not any(each in outside for each in ("<script", "</textarea", "[x]("))
    assert not any(each in message for each in ("\u202e", "\x1b", "\0"))
    assert "…aaaaaaaaaaaaaaaaaaaaoldbbb" in message
    assert "…aaaaaaaaaaaaaaaaaaaanewbbb" in message


def test_row_id_cannot_close_code_span() -> None:
    result = render_changelog(
        make_diff(rows=[RowChange("added", "a`<b>\n# x", "", (ChangeCause("unexplained", ""),))]), "1.0"
    )
    assert "  - `a'<b> # x`" in result.splitlines()


def test_changelog_lists_few_of_many_rows() -> None:
    rows = [RowChange("added", f"x-{n}", "", (ChangeCause("unexplained", ""),)) for n in range(5000)]
    text = render_changelog(make_diff(rows=rows), "1.0")
    assert "## Added: 5,000 rows" in text
    assert "  - and 4,997 more" in text
    assert re.search(r"explains .* 5,000 rows\.", text.splitlines()[2])


def test_changelog_says_when_nothing_changed() -> None:
    text = render_changelog(make_diff(rows=[], inputs=[], tables={}, new_columns=[]), "1.0")
    assert text.endswith("\n\nNo row was added, removed or changed.\n")


def test_long_values_are_cut_around_first_difference() -> None:
    assert format_change_in_lines("short", None, 20) == ("short", "–")
    old, new = format_change_in_lines("x" * 100 + "1" + "y" * 100, "x" * 100 + "2" + "y" * 100, 40)
    assert (old, new) == ("…" + "x" * 20 + "1" + "y" * 19 + "…", "…" + "x" * 20 + "2" + "y" * 19 + "…")
    assert format_change_in_lines("a\nb", ["a", "ü"], 20) == ("a b", '["a", "ü"]')
    assert excerpt_change_keeping_line_breaks("a\nb", "a", 20) == ("a\nb", "a")
    assert format_value_in_line("a" * 30, 10) == "a" * 10 + "…"
    assert format_value_in_line("\ud800", 10) == "?"
