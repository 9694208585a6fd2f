"""The page of a build: what stands on it, that nothing of sources or models acts on it, and what it withholds."""

import json
import re
from pathlib import Path

import pytest
from support.docs.read_page import ReadPage
from support.rows.built import HOSTILE, publish_hostile, publish_withheld
from support.rows.published import publish_rows
from support.rows.released import multihal_row

from flows.commands.reports import read_build
from tasks.multihal.benchmark import MULTIHAL
from tasks.reports.builds.contents import BuildPage, Shown
from tasks.reports.builds.drawn import MOST_ROWS
from tasks.reports.builds.pages import BUILD_RENDERERS, render_build_html, render_build_json, render_build_markdown
from tasks.storage.builds import find_build
from tasks.storage.warehouse import open_warehouse


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> BuildPage:
    warehouse = tmp_path_factory.mktemp("hostile") / "w.duckdb"
    return read_build(warehouse, find_build(warehouse, publish_hostile(warehouse).build_id))


def test_what_rows_calls_and_names_say_is_text_and_nothing_else(hostile: BuildPage) -> None:
    html = render_build_html(hostile)
    read = ReadPage(html)
    # every figure has a style of its own
    assert (read.tags.count("script"), read.tags.count("style")) == (1, 1 + len(hostile.figures))
    assert read.handlers == []
    assert not {"img", "textarea", "b", "base", "iframe"}.intersection(read.tags)
    assert [each for each in read.addresses if not each.startswith(("#", "data:"))] == []
    assert not any(each in html for each in ("\u202e", "\x00", "\u2028", "\ufffe"))
    assert "nothing[U+0000]here" in html and "[shortened: 1,000,000 characters in all]" in html
    assert len(html) < 700_000
    markdown = render_build_markdown(hostile)
    assert "<script" not in (plain := re.sub(r"`+.*?`+", "", markdown)) and not re.search(r"(?<!\\)\]\(", plain)
    assert len(markdown) < 200_000 and len(render_build_json(hostile)) < 700_000


def test_a_row_has_what_it_rests_on_one_click_deep(hostile: BuildPage) -> None:
    assert (len(hostile.rows), hostile.rows_in_all, hostile.drawn) == (len(HOSTILE), len(HOSTILE), "")
    first = next(row for row in hostile.rows if row.id == "simpleqa_3_1_eng")
    (call,) = first.chain.calls
    assert (call.stage, call.operation, call.at) == ("read", "chat", "2026-04-30 12:00 UTC")
    assert call.asked == (("", "prompt ../../etc/passwd"), ("../../etc/passwd", "../../etc/passwd"))
    assert call.replied == "../../etc/passwd"
    assert "  question    ../../etc/passwd" in first.chain.lines
    assert first.shown["question"] == "../../etc/passwd"
    assert first.chain.command.startswith("factmill explain multihal simpleqa_3_1_eng --build multihal-")


def test_answers_that_a_release_holds_out_stand_on_no_page_of_it(tmp_path: Path) -> None:
    build = publish_withheld(tmp_path / "w.duckdb")
    page = read_build(tmp_path / "w.duckdb", build)
    whole = render_build_html(page)
    assert page.warnings == (page.warnings[0],) and page.warnings[0].startswith(
        "This page tells answers of the test part"
    )
    assert all(f"secret {at}" in whole for at in range(3))
    shown = Shown(
        rows=frozenset({"q0", "q1"}), unanswered=frozenset({"q1"}), withheld="Left out.", decisions=(), canary="GUID 1"
    )
    released = read_build(tmp_path / "w.duckdb", build, shown)
    for render in BUILD_RENDERERS.values():
        told = render(released)
        assert "secret 0" in told or render is render_build_markdown
        assert "secret 1" not in told and "secret 2" not in told
        assert "GUID 1" in told
    assert [row.id for row in released.rows] == ["q0", "q1"] and released.warnings == ()


def test_of_many_rows_some_are_drawn_evenly_and_it_is_said(tmp_path: Path) -> None:
    rows = [multihal_row(f"felm_{at}") for at in range(3)] + [multihal_row(f"simpleqa_{at}") for at in range(MOST_ROWS)]
    build = publish_rows(tmp_path / "w.duckdb", MULTIHAL, {"multihal": rows})
    page = read_build(tmp_path / "w.duckdb", build)
    assert (len(page.rows), page.rows_in_all) == (MOST_ROWS, MOST_ROWS + 3)
    assert sum(row.id.startswith("felm") for row in page.rows) == 3
    assert page.drawn.startswith("400 of 403 rows, drawn by a digest of their ids, as many of each source dataset")
    html = render_build_html(page)
    assert html == render_build_html(read_build(tmp_path / "w.duckdb", build))
    assert '<select name="source_dataset">' in html and f"factmill export {build.build_id} --to DIR" in html


def test_a_build_of_an_earlier_factmill_has_a_page_that_says_what_it_lacks(tmp_path: Path) -> None:
    build = publish_rows(tmp_path / "w.duckdb", MULTIHAL, {"multihal": [multihal_row("felm_1")]})
    report = {
        name: build.report[name] for name in ("author", "world", "rows", "rejects", "inputs", "stages", "reasons")
    }
    with open_warehouse(tmp_path / "w.duckdb") as db:
        db.execute("ALTER TABLE multihal DROP COLUMN judged_score")
        db.execute("UPDATE builds SET report = ?", [json.dumps({**report, "facts": {}})])
    page = read_build(tmp_path / "w.duckdb", find_build(tmp_path / "w.duckdb", build.build_id))
    assert any("which wrote no judged_score into multihal" in each for each in page.warnings)
    assert page.rows[0].shown["question"] == "Where was Kepler born?" and page.distributions == ()
    assert "Where was Kepler born?" in render_build_html(page)
