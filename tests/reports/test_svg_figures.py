"""Test figures as SVG in a page."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from factmill.tasks.core.measures.report_figures import FigureSeries, ReportFigure
from factmill.tasks.reports.rendering import draw_figure_with_legend, format_figure_value
from factmill.tasks.reports.svg_figures import draw_inline_svg, draw_standalone_svg, format_colour_legend_as_text


def _draw(kind: str, *series: FigureSeries, **more: object) -> str:
    return draw_inline_svg(ReportFigure("drawn", "Drawn", kind, "across", "up", series, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "x"), [("bars", "a"), ("stacked", "a"), ("lines", 1), ("scatter", 0.5)])
def test_figure_has_named_axes_and_page_colours(kind: str, x: float | str) -> None:
    svg = _draw(
        kind, FigureSeries("one", (x,), (0.5,), (0.4,), (0.6,)), FigureSeries("two", (x,), (None,), (None,), (None,))
    )
    assert ">across</text>" in svg and ">up</text>" in svg
    assert "var(--c0)" in svg and "var(--ink)" in svg
    assert not re.search(r"#[0-9a-f]{6}\b", svg)


def test_figure_names_are_escaped() -> None:
    svg = _draw("bars", FigureSeries("one", ("<b>& $x$", "\u202eturned", "日本"), (1.0, 2.0, None)))
    assert "&lt;b&gt;&amp; $x$" in svg and "[U+202E]turned" in svg and "日本" in svg


def test_only_long_axis_labels_are_rotated() -> None:
    names = tuple(f"bin {number} (1,000 to 2,000)" for number in range(6))
    lean = re.compile(r"rotate\(-40")
    assert len(lean.findall(_draw("lines", FigureSeries("one", names, (0.5,) * 6)))) == 6
    assert not lean.search(_draw("lines", FigureSeries("one", ("a", "b"), (0.5, 0.6))))


def test_share_scatter_plot_uses_full_axes() -> None:
    svg = _draw("scatter", FigureSeries("one", (0.004,), (0.4,)), y_range=(0.0, 1.0))
    assert svg.count(">1.0</text>") == 2


def test_standalone_svg_has_light_colours_and_no_url() -> None:
    figure = ReportFigure("f", "F", "lines", "x", "y", (FigureSeries("one & two", (1, 2), (0.1, 0.2)),))
    picture = draw_standalone_svg(
        figure, ":root { --paper: #fff; --c0: #123456; }\n@media dark { :root { --c0: #000; } }"
    )
    assert picture.startswith('<svg viewBox="')
    assert 'xmlns="http://www.w3.org/2000/svg"' in picture
    assert "svg { --paper: #fff; --c0: #123456;  background: var(--paper); }" in picture
    assert "var(--c0)" in picture
    ElementTree.fromstring(picture)
    assert format_colour_legend_as_text(figure) == ""  # one series needs no legend
    two = replace(figure, series=(*figure.series, replace(figure.series[0], label="three")))
    assert format_colour_legend_as_text(two) == "blue: one & two, orange: three"
    assert format_colour_legend_as_text(replace(two, palette="ordered")) == "darkest: one & two, lightest: three"


def test_reference_line_is_drawn() -> None:
    series = FigureSeries("one", (0.2, 0.4), (0.3, 0.5))
    dashes = "stroke-dasharray: 4"
    assert dashes not in _draw("scatter", series, y_range=(0, 1))
    assert dashes in _draw("scatter", series, y_range=(0, 1), reference="x = y")
    assert dashes in _draw("bars", FigureSeries("one", ("a",), (0.3,)), reference=0.5)
    assert dashes in _draw("lines", FigureSeries("one", (1, 2), (0.3, 0.4)), reference=0.0)


def test_bar_labels_wrap_without_truncation() -> None:
    svg = _draw("bars", FigureSeries("one", ("generate granular answers of entities", "short"), (1.0, 2.0)))
    assert all(f">{part}<" in svg for part in ("generate granular", "answers of entities", "short"))


def test_ordered_series_use_shades_of_one_colour() -> None:
    levels = [FigureSeries(f"level {number}", ("a",), (0.3,)) for number in range(3)]
    svg = _draw("stacked", *levels, palette="ordered")
    assert all(f"var(--o{step})" in svg for step in (0, 2, 4)) and "var(--c" not in svg


def test_series_outside_the_order_are_grey() -> None:
    series = tuple(FigureSeries(label, ("a",), (0.3,)) for label in ("level 1", "level 2", "IDK", "wrong"))
    figure = ReportFigure("f", "F", "stacked", "", "share", series, palette="ordered", outside_order=2)
    assert format_colour_legend_as_text(figure) == (
        "darkest: level 1, lightest: level 2, light grey: IDK, dark grey: wrong"
    )
    one = replace(figure, series=(*series[:2], series[3]), outside_order=1)
    assert format_colour_legend_as_text(one).endswith("dark grey: wrong")
    assert all(f"var(--{colour})" in draw_inline_svg(figure) for colour in ("o0", "o4", "g0", "g1"))


def test_only_bars_of_the_paper_are_pale() -> None:
    svg = _draw("bars", FigureSeries("one", ("ours", "theirs (paper)"), (0.3, 0.4)))
    assert svg.count("opacity: 0.45") == 1


def test_lone_bar_of_a_name_lies_at_its_middle() -> None:
    one, two = FigureSeries("one", ("a",), (0.3,)), FigureSeries("two", ("a",), (None,))
    ends = re.compile(r'<path d="(M [^"]*z)[^>]*clip-path')
    assert ends.findall(_draw("bars", one, two)) == ends.findall(_draw("bars", two, one)) != []


def test_figure_of_zeros_has_no_picture_and_no_note() -> None:
    zeros = ReportFigure(
        "f", "F", "lines", "x", "y", (FigureSeries("one", (1, 2), (0.0, 0.0)),), "Bands are intervals."
    )
    drawn = draw_figure_with_legend(zeros)
    assert (drawn["svg"], drawn["figure"].note) == ("", "")
    seen = draw_figure_with_legend(replace(zeros, series=(FigureSeries("one", (1, 2), (0.0, 0.1)),)))
    assert seen["svg"] and seen["figure"].note == "Bands are intervals."


def test_counts_have_no_decimals_and_shares_have_three() -> None:
    counts = ReportFigure("f", "F", "bars", "", "rows", (FigureSeries("rows", ("a", "b"), (8.0, 1200.0)),))
    assert [format_figure_value(counts, y) for y in (8.0, 1200.0, None)] == ["8", "1,200", "–"]
    shares = replace(counts, y_range=(0.0, 1.0), series=(FigureSeries("rows", ("a",), (1.0,)),))
    assert format_figure_value(shares, 1.0) == "1.000"
    scored = replace(counts, series=(FigureSeries("rows", ("a",), (1.0,), (0.9,), (1.0,)),))
    assert format_figure_value(scored, 1.0) == "1.000"


def test_figure_name_cannot_add_markup_to_ids() -> None:
    """A figure about one model has the model's name in its own name."""
    series = (FigureSeries("one", (1, 2), (0.1, 0.2)),)
    names = ("of_a<b>&\"' x", "of_a<b>&\"'  x", "plain_name")
    drawn = [draw_inline_svg(ReportFigure(name, "F", "lines", "x", "y", series)) for name in names]
    assert not any("<b>" in each for each in drawn)
    ids = [set(re.findall(r' id="([^"]*)"', each)) for each in drawn]
    assert all(ids) and not ids[0] & ids[1]
    assert all(re.fullmatch(r"[\w.-]+", each) for each in {*ids[0], *ids[1]})
    assert all(each.startswith("plain_name-") for each in ids[2])


def test_bar_below_range_does_not_overlap_its_label() -> None:
    def find_zero(value: float) -> float:
        svg = _draw("bars", FigureSeries("one", ("a",), (value,), (value - 0.05,), (0.5,)), y_range=(0.0, 1.0))
        (tick,) = re.findall(r'<text[^>]* x="([\d.]+)"[^>]*>0\.0+</text>', svg)
        return float(tick)

    assert find_zero(-0.2) > find_zero(0.2)
    assert ">−0.2</text>" in _draw("bars", FigureSeries("one", ("a",), (-0.04,)), y_range=(0.0, 1.0))
