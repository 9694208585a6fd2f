"""Renders reports and cards as self-contained HTML, Markdown or JSON; text from models is escaped in each."""

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from jinja2 import Environment
from markupsafe import Markup
from pydantic_core import to_jsonable_python

from factmill.tasks.core.measures.figures import Figure, Series
from factmill.tasks.reports.card import Card
from factmill.tasks.reports.content import PaperRow, Report
from factmill.tasks.reports.drawing import COLOURS, SIGNS, draw_figure
from factmill.tasks.reports.entries import Entry
from factmill.tasks.reports.texts import (
    LONGEST_NAME,
    fill_markdown,
    format_interval,
    format_number,
    format_p,
    format_ranks,
    format_share,
    html_environment,
    markdown_environment,
    read_template,
    say,
    shorten_line,
)

_LONG_LIST = 12
"""Maximum number of different verdicts for a verdict filter: score-like verdicts differ from item to item."""
_FILTERS = {
    "number": format_number,
    "share": format_share,
    "p": format_p,
    "ranks": format_ranks,
    "say": say,
    "interval": lambda each, signed=False: format_interval(each.ci_low, each.ci_high, signed),
    "bounds": lambda each: format_interval(each.bound_low, each.bound_high),
}


def render_html(report: Report) -> str:
    """Return a report as HTML; a policy forbids external scripts, styles, fonts and pictures, and none are used."""
    drawn = [draw(figure) for figure in report.figures]
    return fill_page("page.html", **read_browser(), report=report, drawn=drawn, filters=_list_filters(report))


def read_browser() -> dict[str, Any]:
    """Return template variables: the script that filters a page's items, and its digest for the page's policy."""
    script = read_template("browse.js")
    return {"script": Markup(script), "digest": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}


def render_card_html(card: Card) -> str:
    """Return a card as self-contained HTML without any script."""
    return fill_page("card.html", digest="", card=card, drawn=[draw(card.figure)] if card.figure else [])


def render_markdown(report: Report) -> str:
    """Return a report as Markdown, with figures as tables."""
    return fill_markdown("page.md", report=report)


def render_card_markdown(card: Card) -> str:
    """Return a card as Markdown."""
    return fill_markdown("card.md", card=card)


def render_json(told: Report | Card) -> str:
    """Return a report or a card as one JSON object with the fields of its class."""
    return json.dumps(to_jsonable_python(asdict(told)), ensure_ascii=False, indent=1) + "\n"


RENDERERS: Mapping[str, Callable[[Report], str]] = {".html": render_html, ".md": render_markdown, ".json": render_json}
"""File ending → renderer of a report."""
CARD_RENDERERS: Mapping[str, Callable[[Card], str]] = {
    ".html": render_card_html,
    ".md": render_card_markdown,
    ".json": render_json,
}
"""File ending → renderer of a card."""


def fill_page(template: str, **told: Any) -> str:
    """Return a page rendered from a template of data/templates, with the common style."""
    return html_environment().get_template(template).render(style=Markup(read_template("style.css")), **told)


def draw(figure: Figure) -> dict[str, Any]:
    """Return a figure for a template: the figure, its SVG, and a legend of (colour, sign, label) for each series."""
    signs = SIGNS if figure.kind in ("lines", "scatter") else "■"
    return {
        "figure": figure,
        "svg": Markup(draw_figure(figure)),
        "legend": [
            (at % COLOURS, signs[at % len(signs)], shorten_line(each.label, LONGEST_NAME))
            for at, each in enumerate(figure.series)
        ],
    }


def list_values(figure: Figure) -> list[float | str]:
    """Return the distinct x values, in the order of first use."""
    return list(dict.fromkeys(x for series in figure.series for x in series.x))


def tell_point(series: Series, x: float | str) -> str:
    """Format a series' value at x with its interval; a dash if there is none."""
    if x not in series.x:
        return "–"
    at = series.x.index(x)
    ends = f" [{format_interval(series.low[at], series.high[at])}]" if series.low and series.low[at] is not None else ""
    return f"{format_number(series.y[at])}{ends}"


def list_paper_models(rows: Sequence[PaperRow]) -> list[str]:
    """Return the models in the paper's results, in the paper's order."""
    return list(dict.fromkeys(model for row in rows for model in row.paper))


def describe_groups(entry: Entry) -> str:
    """Return an entry's filter values as JSON for the page's script."""
    verdicts = sorted({each.verdict for each in entry.given})
    groups = {by: [group] for by, group in entry.groups.items()}
    return json.dumps({"setting": [entry.setting], "verdict": verdicts, **groups}, ensure_ascii=False)


def _list_filters(report: Report) -> list[dict[str, Any]]:
    """Return the filters of a page as {by, values}, for names with more than one value among the entries."""
    found: dict[str, dict[str, None]] = {"setting": {}, "verdict": {}}
    for entry in report.entries:
        found["setting"][entry.setting] = None
        found["verdict"].update(dict.fromkeys(each.verdict for each in entry.given))
        for by, group in entry.groups.items():
            found.setdefault(by, {})[group] = None
    if len(found["verdict"]) > _LONG_LIST:
        del found["verdict"]
    return [{"by": by, "values": sorted(values)} for by, values in found.items() if len(values) > 1]


def _equip(made: Environment) -> None:
    made.filters.update(_FILTERS)
    made.globals.update(
        list_values=list_values,
        tell_point=tell_point,
        paper_models=list_paper_models,
        entry_groups=describe_groups,
        say_x=lambda x: shorten_line(x, LONGEST_NAME) if isinstance(x, str) else f"{x:g}",
    )


_equip(html_environment())
_equip(markdown_environment())
