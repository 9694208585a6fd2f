"""Draws figures as inline SVG with the page's colours, for light mode, dark mode and print; output is deterministic.

Matplotlib draws with placeholder colours, which are then replaced by the page's CSS variables. Bars are horizontal, with
their names on as many lines as they need to the left of them; the page shows the legend above the figure. All figures have
one width, so that their texts have one size.
"""

import io
import math
import re
import textwrap
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas

from factmill.tasks.core.digests import digest_bytes
from factmill.tasks.core.measures.report_figures import PAPER_MODEL_SUFFIX, FigureSeries, ReportFigure
from factmill.tasks.text.sanitize import escape_control_characters

SERIES_COLOUR_COUNT = 8
"""Number of series colours, the same as in the page's style."""
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
SIGNS = ("●", "■", "▲", "◆", "▼", "✚", "✖", "★")
"""The marks as characters for the legend."""
ORDERED_COLOUR_COUNT = 5
"""Number of steps of the colour for ordered series, the same as in the page's style."""
OTHER_COLOUR_COUNT = 2
"""Number of greys for series outside an order, the same as in the page's style."""
_INK, _GRID, _PAPER = "#010101", "#020202", "#020203"
_SERIES_PLACEHOLDERS = tuple(f"#0300{number:02x}" for number in range(SERIES_COLOUR_COUNT))
_ORDERED_PLACEHOLDERS = tuple(f"#0400{number:02x}" for number in range(ORDERED_COLOUR_COUNT))
_OTHER_PLACEHOLDERS = tuple(f"#0500{number:02x}" for number in range(OTHER_COLOUR_COUNT))
_PLACEHOLDERS = {"c": _SERIES_PLACEHOLDERS, "o": _ORDERED_PLACEHOLDERS, "g": _OTHER_PLACEHOLDERS}
_CSS_COLOUR_VARIABLES = {_INK: "var(--ink)", _GRID: "var(--grid)", _PAPER: "var(--paper)"} | {
    colour: f"var(--{letter}{number})"
    for letter, colours in _PLACEHOLDERS.items()
    for number, colour in enumerate(colours)
}
_OTHER_COLOUR_WORDS = ("light grey", "dark grey")
_ORDERED_COLOUR_WORDS = ("darkest", "dark", "medium", "light", "lightest")
_COLOUR_WORDS = ("blue", "orange", "green", "purple", "gold", "pink", "grey", "brown")
"""Names of the light colours of the page's style."""
_PAPER_ALPHA = 0.45
"""Opacity of the bars of the paper's models."""
_FIGURE_WIDTH_INCHES = 4.6
"""Width in inches, narrow enough for a phone."""
_MAX_AXIS_CHARACTERS = 36
"""Maximum total characters of horizontal names on an axis; longer names are rotated so as not to touch."""
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.labelsize": 9.5,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _GRID,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.unicode_minus": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "xtick.color": _GRID,
    "ytick.color": _GRID,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
}


def draw_standalone_svg(figure: ReportFigure, style: str) -> str:
    """Return a figure as a standalone SVG picture, in the light colours of the page's style."""
    palette = re.search(r":root \{(.*?)\}", style, re.DOTALL)
    colours = palette[1] if palette else ""
    head = f'<svg xmlns="http://www.w3.org/2000/svg"><style>svg {{{colours} background: var(--paper); }}</style>'
    inner = draw_inline_svg(figure)
    view = inner[inner.index("viewBox=") : inner.index(">")]
    return head.replace("<svg ", f"<svg {view} ", 1) + inner[inner.index(">") + 1 :]


def format_colour_legend_as_text(figure: ReportFigure) -> str:
    """Return the legend of a picture's colours in one line."""
    if len(figure.series) < 2:
        return ""
    named = {"c": _COLOUR_WORDS, "o": _ORDERED_COLOUR_WORDS, "g": _OTHER_COLOUR_WORDS}
    words = {f"{letter}{at}": word for letter, colours in named.items() for at, word in enumerate(colours)}
    return ", ".join(
        f"{words[get_series_colour_variable(figure, at)]}: {escape_control_characters(series.label)}"
        for at, series in enumerate(figure.series)
    )


def get_series_colour_variable(figure: ReportFigure, at: int) -> str:
    """Return the colour of a figure's series as the name of the page's variable: c0 to c7; o0 to o4 if
    ordered, and g0 to g1 outside the order."""
    if figure.palette == "distinct":
        return f"c{at % SERIES_COLOUR_COUNT}"
    ordered = len(figure.series) - figure.outside_order
    if at >= ordered:
        return f"g{(at - len(figure.series)) % OTHER_COLOUR_COUNT}"  # the last has the same grey in all figures
    return f"o{round(at * (ORDERED_COLOUR_COUNT - 1) / max(1, ordered - 1))}"


def _get_series_placeholder_colour(figure: ReportFigure, at: int) -> str:
    name = get_series_colour_variable(figure, at)
    return _PLACEHOLDERS[name[0]][int(name[1])]


@lru_cache(maxsize=64)
def draw_inline_svg(figure: ReportFigure) -> str:
    """Return a figure as an <svg> element for a page."""
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the page's font draws the text
        mpl.rcdefaults()
        mpl.rcParams.update({**_STYLE, "svg.hashsalt": figure.name})
        canvas = Canvas(figsize=(_FIGURE_WIDTH_INCHES, _compute_figure_height(figure)), layout="constrained")
        FigureCanvasSVG(canvas)
        axes = canvas.subplots()
        {"bars": _draw_bars, "stacked": _draw_stacked, "lines": _draw_lines, "scatter": _draw_scatter}[figure.kind](
            axes, figure
        )
        buffer = io.BytesIO()
        canvas.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _convert_to_inline_svg(buffer.getvalue().decode(), figure)


def list_x_category_names(figure: ReportFigure) -> list[str]:
    """Return the distinct x values as texts, in the order of first use."""
    return list(dict.fromkeys(escape_control_characters(str(x)) for series in figure.series for x in series.x))


def _compute_figure_height(figure: ReportFigure) -> float:
    if figure.kind in ("lines", "scatter"):
        return 3.2
    return 0.8 + _get_height_inches_per_category(figure) * sum(_compute_slots_per_category_name(figure))


def _get_height_inches_per_category(figure: ReportFigure) -> float:
    """Return the height in inches of a name's bars with the space around them."""
    return 0.12 + 0.13 * max(1, len(figure.series)) if figure.kind == "bars" else 0.3


def _compute_slots_per_category_name(figure: ReportFigure) -> list[float]:
    """Return the height of each name on the axis in slots: one, or more if the lines of the name need more."""
    lines = (_wrap_axis_name(name).count("\n") + 1 for name in list_x_category_names(figure))
    return [max(1.0, (0.08 + 0.16 * count) / _get_height_inches_per_category(figure)) for count in lines]


def _compute_bar_category_middles(figure: ReportFigure) -> dict[str, float]:
    """Return name → middle of its place on the axis."""
    slots = _compute_slots_per_category_name(figure)
    ends = np.cumsum(slots) - 0.5
    return {
        name: float(end - slot / 2) for name, end, slot in zip(list_x_category_names(figure), ends, slots, strict=True)
    }


_REFERENCE_LINE: dict[str, Any] = {"color": _INK, "linestyle": (0, (4, 3)), "linewidth": 1.0, "zorder": 1.5}


def _draw_bars(axes: Axes, figure: ReportFigure) -> None:
    places = _compute_bar_category_middles(figure)
    thick = 0.8 / max(1, len(figure.series))
    bars_per_name = Counter(x for series in figure.series for x, *_ in _iterate_points_with_values(series))
    drawn_per_name = Counter[float | str]()
    for number, series in enumerate(figure.series):
        points = list(_iterate_points_with_values(series))
        at = []
        for x, *_ in points:  # the bars of a name, without those that have no value, lie around its middle
            at.append(
                places[escape_control_characters(str(x))] + thick * (drawn_per_name[x] - (bars_per_name[x] - 1) / 2)
            )
            drawn_per_name[x] += 1
        values = [y for _, y, *_ in points]
        bars = axes.barh(at, values, thick * 0.92, color=_get_series_placeholder_colour(figure, number))
        for bar, (x, *_) in zip(bars, points, strict=True):
            bar.set_alpha(_PAPER_ALPHA if str(x).endswith(PAPER_MODEL_SUFFIX) else 1.0)
        ends = [(y, place, low, high) for place, (_, y, low, high) in zip(at, points, strict=True) if low is not None]
        if ends:
            _draw_error_bars(axes, [end[0] for end in ends], [end[1] for end in ends], ends, is_x=True, colour=_INK)
    _format_bar_figure_axes(axes, figure, places)


def _draw_stacked(axes: Axes, figure: ReportFigure) -> None:
    places = _compute_bar_category_middles(figure)
    names = list(places)
    left = np.zeros(len(names))
    for number, series in enumerate(figure.series):
        values = np.zeros(len(names))
        for x, y, *_ in _iterate_points_with_values(series):
            values[names.index(escape_control_characters(str(x)))] = y
        colour = _get_series_placeholder_colour(figure, number)
        axes.barh(list(places.values()), values, 0.7, left=left, color=colour, edgecolor=_PAPER, linewidth=0.8)
        left += values
    _format_bar_figure_axes(axes, figure, places)


def _format_bar_figure_axes(axes: Axes, figure: ReportFigure, places: Mapping[str, float]) -> None:
    axes.set_yticks(list(places.values()), [_wrap_axis_name(name) for name in places])
    axes.set_ylim(max(0.5, sum(_compute_slots_per_category_name(figure)) - 0.5), -0.5)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.set(xlabel=escape_control_characters(figure.y_label), ylabel=escape_control_characters(figure.x_label))
    if figure.y_range:
        # a score may go below the range: its bar would run through its name; up to the next tick there is room
        low, high = figure.y_range
        lowest = min(
            [low, *(each for series in figure.series for each in (*series.y, *series.low) if each is not None)]
        )
        tick = (high - low) / 5
        axes.set_xlim(low - tick * math.ceil((low - lowest) / tick), high)
    axes.locator_params(axis="x", nbins=6, integer=figure.is_of_counts)
    if isinstance(figure.reference, float):
        axes.axvline(figure.reference, **_REFERENCE_LINE)


def _draw_lines(axes: Axes, figure: ReportFigure) -> None:
    named = any(isinstance(x, str) for series in figure.series for x in series.x)
    names = list_x_category_names(figure)
    for number, series in enumerate(figure.series):
        colour, mark = _get_series_placeholder_colour(figure, number), MARKS[number % len(MARKS)]
        points = list(_iterate_points_with_values(series))
        at = [float(names.index(escape_control_characters(str(x)))) if named else float(x) for x, *_ in points]
        values = [y for _, y, *_ in points]
        axes.plot(at, values, color=colour, marker=mark, clip_on=False)
        ends = [(low, high) for *_, low, high in points if low is not None and high is not None]
        if len(ends) == len(points) > 0:
            lows, highs = zip(*ends, strict=True)
            axes.fill_between(at, lows, highs, facecolor=(colour, 0.18), edgecolor=(colour, 0.6), lw=0.6)
    if named:
        shown = [_shorten_axis_name(name, 32) for name in names]
        axes.set_xticks(range(len(names)), shown)
        if sum(map(len, shown)) > _MAX_AXIS_CHARACTERS:
            axes.tick_params(axis="x", rotation=40)
            for label in axes.get_xticklabels():
                label.set(horizontalalignment="right", rotation_mode="anchor")
    else:
        values = sorted({float(x) for series in figure.series for x in series.x})
        if len(values) <= 12 and all(value.is_integer() for value in values):
            axes.set_xticks(values)
    _set_axes_and_draw_reference_line(axes, figure)


def _draw_scatter(axes: Axes, figure: ReportFigure) -> None:
    for number, series in enumerate(figure.series):
        colour, mark = _get_series_placeholder_colour(figure, number), MARKS[number % len(MARKS)]
        for x, y, low, high in _iterate_points_with_values(series):
            at = float(x)
            axes.plot([at], [y], color=colour, marker=mark, linestyle="none", markersize=7, clip_on=False)
            if low is not None:
                _draw_error_bars(axes, [at], [y], [(y, at, low, high)], is_x=False, colour=colour)
    axes.margins(0.12)
    axes.locator_params(axis="x", nbins=5)
    _set_axes_and_draw_reference_line(axes, figure)
    ends = figure.y_range
    if ends and all(ends[0] <= float(x) <= ends[1] for series in figure.series for x in series.x):
        axes.set_xlim(*ends)  # both are of one kind: shares


def _draw_error_bars(
    axes: Axes,
    xs: Sequence[float],
    ys: Sequence[float],
    ends: Sequence[tuple[float, float, float | None, float | None]],
    is_x: bool,
    colour: str,
) -> None:
    widths = np.array([[y - (low or 0.0) for y, _, low, _ in ends], [(high or 0.0) - y for y, _, _, high in ends]])
    widths = np.maximum(widths, 0.0)
    which = {"xerr": widths} if is_x else {"yerr": widths}
    drawn: dict[str, Any] = {**which, "fmt": "none", "clip_on": False}
    if is_x:  # an edge that stands out on a bar of any colour
        axes.errorbar(xs, ys, **drawn, color=_PAPER, elinewidth=1.9, capsize=2.4, capthick=2.0)
    axes.errorbar(xs, ys, **drawn, color=colour, elinewidth=0.9, capsize=2)


def _set_axes_and_draw_reference_line(axes: Axes, figure: ReportFigure) -> None:
    axes.set(xlabel=escape_control_characters(figure.x_label), ylabel=escape_control_characters(figure.y_label))
    if figure.y_range:
        axes.set_ylim(*figure.y_range)
    if isinstance(figure.reference, float):
        axes.axhline(figure.reference, **_REFERENCE_LINE)
    elif figure.reference == "x = y":
        axes.axline((0.0, 0.0), slope=1.0, **_REFERENCE_LINE)


def _iterate_points_with_values(
    series: FigureSeries,
) -> Iterator[tuple[float | str, float, float | None, float | None]]:
    """Yield (x, y, low, high) for each point with a value; low and high are None without an interval."""
    none = (None,) * len(series.x)
    for x, y, low, high in zip(series.x, series.y, series.low or none, series.high or none, strict=True):
        if y is not None:
            yield (x, y, low, high) if low is not None and high is not None else (x, y, None, None)


def _shorten_axis_name(name: str, longest: int) -> str:
    line = " ".join(name.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def _wrap_axis_name(name: str) -> str:
    """Return a name on up to three lines of 24 characters; what is longer still is cut."""
    return "\n".join(textwrap.wrap(name, 24, max_lines=3, placeholder="…"))


def _convert_to_inline_svg(svg: str, figure: ReportFigure) -> str:
    """Convert Matplotlib's SVG to an element of a page, with the page's colours and fonts and unique ids."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r' (?:xmlns:xlink|xmlns|version)="[^"]*"', "", svg).replace("xlink:href", "href")
    for colour, name in _CSS_COLOUR_VARIABLES.items():
        svg = svg.replace(colour, name)
    svg = svg.replace("'DejaVu Sans'", "var(--sans)")
    used = set(re.findall(r'(?:href="#|url\(#)([\w-]+)', svg))
    svg = re.sub(r' id="([\w-]+)"', lambda found: found[0] if found[1] in used else "", svg)
    prefix = re.sub(r"[^A-Za-z0-9_-]+", "-", figure.name)  # it may hold the name of a model
    if prefix != figure.name:
        prefix = f"{prefix[:80]}-{digest_bytes(figure.name.encode())[:8]}"
    svg = re.sub(r'(id="|href="#|url\(#)(?=[\w-]+)', rf"\g<1>{prefix}-", svg)
    return re.sub(r'<svg[^>]*?(viewBox="[^"]*")[^>]*>', r'<svg \1 aria-hidden="true">', svg, count=1)
