"""Test changelogs as files: no text of a row is active for the reader."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from support.builds.changes import HOSTILE, make_diff
from support.docs.chromium import open_filtered
from support.docs.read_page import ReadPage

from factmill.tasks.diff.core.changes import (
    BenchmarkRowLabels,
    ChangeCause,
    ColumnValueChange,
    InputChange,
    RowChange,
    RowDropInOneBuild,
)
from factmill.tasks.reports.diff_page import (
    CHANGES_RENDERERS,
    render_changed_rows_jsonl,
    render_changes_html,
    render_changes_json,
)


def test_page_loads_nothing_external_and_escapes_row_text() -> None:
    page = render_changes_html(make_diff())
    assert "default-src 'none'" in page
    assert page.count("<script>") == 1
    assert "&lt;script&gt;alert(1)" in page
    assert not any(each in page for each in ("</textarea", "\u202e", "\x1b", "\x00", "http://", "https://"))
    assert len(page) < 60_000
    assert "…aaaaaaaaaaaaaaaaaaaanew" in page
    assert "Not for use." in page
    assert 'Scripted replies, not a language model, wrote the rows of <span class="id">x-bbb</span>: ' in page


def test_row_repeats_no_change_of_input_that_page_lists() -> None:
    listed = ChangeCause("parameter", "limits", "P19 3 → 4")
    other = ChangeCause("world", "wikidata", "label of Q42 returned something else")
    row = RowChange("added", "x-1", "", (listed, other))
    page = render_changes_html(make_diff(rows=[row], inputs=[InputChange(listed, "P19 3", "P19 4")]))
    assert "P19 3 → 4" not in page
    assert "label of Q42 returned something else" in page


def test_input_shows_only_entries_that_differ_with_labels_of_groups() -> None:
    limits = InputChange(ChangeCause("parameter", "limits"), {"P19": 3, "P176": 0, "P40": 2}, {"P19": 3, "P176": 1})
    page = render_changes_html(
        make_diff(inputs=[limits], display=BenchmarkRowLabels(group_labels={"P176": "manufacturer"}))
    )
    cell = page.partition('data-label="before → after"><span>')[2].partition("</span>")[0]
    assert cell == "<bdi>manufacturer (P176): 0 → 1</bdi><br><bdi>P40: 2 → not set</bdi>"


def test_columns_have_the_headings_and_values_of_other_pages() -> None:
    knowledge = [{"qid": "Q7259", "pid": "P569", "property": "date of birth", "value": "1815-12-10"}]
    columns = (ColumnValueChange("path", ["a", "b"], ["a"]), ColumnValueChange("least_score", 1, 2, "x_side"))
    row = RowChange("changed", "x-1", "x-1", (ChangeCause("code", "x"),), columns, {"known": knowledge, "path": ["a"]})
    display = BenchmarkRowLabels({"known": "knowledge", "path": "way"}, frozenset({"path"}))
    page = render_changes_html(make_diff(rows=[row], display=display))
    assert '<dt>knowledge</dt><dd><bdi dir="auto">date of birth 1815-12-10</bdi></dd>' in page
    for name, before, after in (("way", "a → b", "a"), ("least score (x side)", "1", "2")):
        cells = [
            f'data-label="{at}"><bdi dir="auto">{value}</bdi>' for at, value in (("before", before), ("after", after))
        ]
        assert f'data-label="column">{name}</th>' in page and all(each in page for each in cells), name
    assert "<dt>side (companion table)</dt><dd><bdi>1 row added, 3 rows changed</bdi></dd>" in page


def test_column_whose_shown_values_are_alike_keeps_its_ids() -> None:
    old, new = ([{"statement": f"Q1-{at}", "qid": f"Q{at}", "value": "1815"}] for at in (1, 2))
    row = RowChange("changed", "x-1", "x-1", (ChangeCause("code", "x"),), (ColumnValueChange("known", old, new),))
    page = render_changes_html(make_diff(rows=[row], display=BenchmarkRowLabels({"known": "knowledge"})))
    assert "Q1-1" in page and "Q1-2" in page


def test_cause_of_all_rows_and_reason_of_reject_are_said_once() -> None:
    fate = RowDropInOneBuild("before", "evolve", "no_reply", "no_reply: none is written")
    rows = [RowChange("added", f"x-{n}", "", (ChangeCause("parameter", "limit", "1 → 3"),), fate=fate) for n in (1, 2)]
    page = render_changes_html(make_diff(rows=rows))
    assert page.count("<bdi>parameter limit</bdi>: ") == 1 and "<dt>cause</dt>" not in page
    assert 'rejected at evolve: no reply: <bdi dir="auto">none is written</bdi>' in page
    assert "commonest cause: parameter limit (2 rows)" in page


def test_build_compared_with_itself_is_named_once() -> None:
    build = make_diff().after
    page = render_changes_html(make_diff(before=build, rows=[], inputs=[]))
    assert "<title>x-bbb</title>" in page
    assert 'Build <span class="id">x-bbb</span> is compared with itself.' in page
    assert 'wrote the rows of <span class="id">x-bbb</span>: ' in page
    assert "note = {build x-bbb}" in page


def test_megabyte_names_are_shortened(name: str = "n" * 1_000_000) -> None:
    cause = ChangeCause("source", name, name, "read")
    row = RowChange(
        "changed",
        name,
        f"{name}2",
        (cause,),
        (ColumnValueChange("text", name, "short"),),
        fate=RowDropInOneBuild("after", "s", name, name),
    )
    page = render_changes_html(make_diff(rows=[row], inputs=[InputChange(cause, name, name)]))
    assert len(page) < 60_000
    assert ReadPage(page).tags.count("article") == 1


def test_rows_are_filtered_by_kind_cause_and_column() -> None:
    page = render_changes_html(make_diff())
    for name, value in (("kind", "removed"), ("cause", "prompt: x/write"), ("column", "answers")):
        select = page.partition(f'<select name="{name}">')[2].partition("</select>")[0]
        assert f'<option value="{value}">' in select, name
    assert "&#34;cause&#34;: [&#34;prompt: x/write&#34;, &#34;world: wikidata&#34;]" in page


def test_page_shows_only_first_of_many_rows() -> None:
    (row, *_) = make_diff().rows
    page = render_changes_html(make_diff(rows=[row] * 2001))
    assert page.count('class="item"') == 2000
    assert "The first 2,000 of 2,001; the search looks at all." in page
    assert "factmill diff x-aaa x-bbb --to rows.jsonl" in page
    assert "<template" not in render_changes_html(make_diff())


@pytest.mark.parametrize(
    "wanted",
    [{"search": "seventh"}, {"search": "ulm"}, {"cause": "reply: judge"}, {"column": "note", "kind": "changed"}],
    ids=str,
)
def test_search_finds_rows_not_shown_on_page(wanted: dict[str, str], tmp_path: Path) -> None:
    source, reply = ChangeCause("source", "a.json"), ChangeCause("reply", "judge")
    late = RowChange(
        "changed", "x-7", "x-7", (source, reply),
        (ColumnValueChange("answer", "Bonn", "Ulm"), ColumnValueChange("note", "a", "b")), {"question": "The seventh?"},
    )  # fmt: skip
    rows = [RowChange("added", f"x{n}", "", (source,), shown={"question": "?"}) for n in range(2_001)]
    dumped = open_filtered(render_changes_html(make_diff(rows=[*rows, late])), tmp_path, **wanted)
    assert "0 of 2000 on this page; 1 of 2,002 rows found" in dumped
    found = dumped.partition('aria-label="Found among all rows"')[2].partition("</section>")[0]
    for text in ("x-7", "The seventh?", "answer: Bonn; note: a", "source: a.json; reply: judge"):
        assert text in found


def test_only_row_with_another_id_shows_its_earlier_one() -> None:
    kept, *_ = (row for row in make_diff().rows if row.kind == "changed")
    page = render_changes_html(make_diff(rows=[*make_diff().rows, replace(kept, id="x-9", id_before="x-9")]))
    assert re.findall(r"was <code>(.*?)</code>", page) == ["x-3"]


def test_json_contains_full_values() -> None:
    result = json.loads(render_changes_json(make_diff()))
    assert result["counts"] == {"added": 1, "removed": 1, "changed": 1}
    assert result["causes"]["prompt: x/write"] == {"added": 0, "removed": 0, "changed": 1}
    assert result["differs"] is True and "display" not in result
    assert result["rows"][0]["shown"]["question"] == HOSTILE
    assert len(result["rows"][2]["columns"][1]["after"]) > 1_000_000
    assert [json.loads(line) for line in render_changed_rows_jsonl(make_diff()).splitlines()] == result["rows"]


@pytest.mark.parametrize("ending", CHANGES_RENDERERS)
def test_same_diff_has_same_bytes_and_empty_diff_renders(ending: str) -> None:
    render = CHANGES_RENDERERS[ending]
    assert render(make_diff()) == render(make_diff())
    assert render(make_diff(rows=[], inputs=[], tables={})) is not None
