"""Test accessibility of every page: landmarks, headings, labels, table headers, contrast."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.builds.built import publish_hostile
from support.builds.reported import EVALUATION, make_evaluated
from support.docs.driven_chromium import DrivenChromium

from factmill.flows.commands.report import load_page_for_build
from factmill.tasks.assets import asset_path
from factmill.tasks.diff.core.changes import BuildDiff, ChangeCause, ComparedBuild, RowChange
from factmill.tasks.reports.builds.build_page import render_build_html
from factmill.tasks.reports.diff_page import render_changes_html
from factmill.tasks.reports.evaluation_report import make_evaluation_report
from factmill.tasks.reports.model_card import BenchmarkEvaluationOfEachModel, make_model_card
from factmill.tasks.reports.rendering import render_card_html, render_report_html
from factmill.tasks.reports.site_pages import (
    BenchmarkPage,
    SiteBuild,
    list_breadcrumbs_of_benchmark_subpage,
    make_leaderboard,
    render_benchmark_page,
    render_site_index,
)
from factmill.tasks.storage.builds import resolve_build

GOOD = ["gold"] * 18 + ["no", ""]


class Outline(HTMLParser):
    """The landmarks, headings, controls and tables of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[int] = []
        self.landmarks: list[str] = []
        self.outside: list[str] = []
        self.unlabelled: list[str] = []
        self.headers_without_scope = self.tables = self.tables_with_headers = 0
        self.ids: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [given["id"] or ""] if "id" in given else []
        if tag in ("main", "nav"):
            self.landmarks.append(tag)
            self.unlabelled += [tag] if tag == "nav" and not given.get("aria-label") else []
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag in ("input", "select") and "label" not in self.open:
            self.unlabelled.append(tag)
        self.tables += tag == "table"
        self.tables_with_headers += tag == "thead"
        self.headers_without_scope += tag == "th" and "scope" not in given
        if "body" in self.open and "main" not in self.open and tag not in ("main", "script"):
            self.outside.append(tag)
        if tag not in ("meta", "link", "input", "br", "use"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass


def _list_pages(folder: Path) -> dict[str, str]:
    warehouse = folder / "w.duckdb"
    build = resolve_build(warehouse, publish_hostile(warehouse).build_id)
    evaluated = [make_evaluated("strong", GOOD), make_evaluated("weaker", ["no", *GOOD[1:]])]
    sides = [ComparedBuild(f"granola-{at}", 2, "2026-01-01") for at in range(2)]
    diff = BuildDiff(
        "granola",
        "GRANOLA-EQ: questions",
        sides[0],
        sides[1],
        (),
        1,
        0,
        (RowChange("added", "a", "", (ChangeCause("source", "files"),)),),
    )
    return {
        "build": render_build_html(load_page_for_build(warehouse, build)),
        "report": render_report_html(make_evaluation_report(EVALUATION, evaluated[:1])),
        "comparison": render_report_html(make_evaluation_report(EVALUATION, evaluated)),
        "card": render_card_html(
            make_model_card(["strong", "weaker"], [BenchmarkEvaluationOfEachModel(EVALUATION, evaluated, {}, (), ())])
        ),
        "diff": render_changes_html(diff),
    }


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return _list_pages(tmp_path_factory.mktemp("pages"))


@pytest.mark.parametrize("name", ["build", "report", "comparison", "card", "diff"])
def test_page_has_landmarks_headings_labels_and_table_headers(pages: dict[str, str], name: str) -> None:
    outline = Outline(pages[name])
    assert outline.landmarks == ["main", "nav"] and outline.outside == []
    assert outline.headings[0] == 1 and outline.headings.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(outline.headings, outline.headings[1:], strict=False))
    assert outline.unlabelled == []
    assert outline.tables == outline.tables_with_headers > 0 and outline.headers_without_scope == 0
    assert len(outline.ids) == len(set(outline.ids))


@pytest.mark.parametrize("name", ["build", "report", "comparison", "card", "diff"])
def test_page_starts_with_key_figures_and_ends_with_cite_and_reproduce(pages: dict[str, str], name: str) -> None:
    page = pages[name]
    key = re.search(r'<dl class="key">(.*?)</dl>', page, re.DOTALL)
    assert key and key[1].count("<dt>") == (2 if name in ("report", "comparison") else 3)  # the toy has one metric
    assert page.index("<h1>") < page.index('class="key"') < page.index("<nav ") < page.index("<h2")
    cite, reproduce = page.index('id="cite"'), page.index('id="reproduce"')
    assert cite < page.index("@misc{") < reproduce < page.index("factmill ", reproduce)
    for target in re.findall(r'<li><a href="#([\w-]+)">', page):
        assert f'id="{target}"' in page


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrivenChromium]:
    opened = DrivenChromium(tmp_path_factory.mktemp("browser"))
    yield opened
    opened.kill()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_no_violation_and_no_page_overflows_window(
    pages: dict[str, str], browser: DrivenChromium, tmp_path: Path, width: int, theme: str
) -> None:
    browser.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
    browser.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
    for name, page in {**pages, **_list_site_pages()}.items():
        (tmp_path / f"{name}.html").write_text(page, "utf-8")
        browser.open(f"file://{tmp_path}/{name}.html")
        browser.read("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        assert browser.list_axe_findings() == [], name
        assert browser.read("document.documentElement.scrollWidth") <= width, name


def _list_site_pages() -> dict[str, str]:
    """Return a page of each kind that only a site has."""
    evaluated = [make_evaluated("strong", GOOD), make_evaluated("weaker", ["no", *GOOD[1:]])]
    links = {each.record.build_id: "e.html" for each in evaluated}
    report = make_evaluation_report(EVALUATION, evaluated)
    board = make_leaderboard(EVALUATION, report, (), links, (), "m-1", "2026-01-01", (), "c.html")
    builds = tuple(SiteBuild(f"multihal-{at}", "2026-01-01", 10, ("world w",), "", None) for at in range(2))
    page = BenchmarkPage("multihal", "MultiHal: questions", builds, 0, (board,), ())
    trail = list_breadcrumbs_of_benchmark_subpage("multihal", "MultiHal: questions")
    return {
        "index": render_site_index([page]),
        "benchmark": render_benchmark_page(page),
        "evaluation": render_report_html(report, trail),
    }


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    low, high = sorted(map(_luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def test_text_and_figure_colours_have_enough_contrast_in_each_mode() -> None:
    style = asset_path("data/templates", "style.css").read_text("utf-8")
    modes = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    assert len(modes) == 3  # light, dark, print
    for mode in modes:
        colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", mode))
        for text, paper in (
            ("ink", "paper"),
            ("soft", "paper"),
            ("soft", "panel"),
            ("alert", "alert-paper"),
            ("c0", "paper"),
        ):
            assert _contrast(colours[text], colours[paper]) >= 4.5, (text, paper)
        for number in range(8):
            assert _contrast(colours[f"c{number}"], colours["paper"]) >= 3, f"c{number}"
        ordered = [_contrast(colours[f"o{number}"], colours["paper"]) for number in range(5)]
        assert ordered == sorted(ordered, reverse=True)  # strongest first
