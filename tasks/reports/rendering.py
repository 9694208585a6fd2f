"""Renders reports and cards as self-contained HTML, Markdown or JSON; text from models is escaped in each."""

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from jinja2 import Environment
from markupsafe import Markup
from pydantic_core import to_jsonable_python

from factmill.tasks.core.measures.report_figures import FigureSeries, ReportFigure
from factmill.tasks.reports.evaluation_report import EvaluationReport, PaperComparisonRow
from factmill.tasks.reports.formatting import (
    MAX_NAME_CHARACTERS,
    format_codes_as_words,
    format_group_value,
    format_grouping,
    format_interval,
    format_number,
    format_p_value,
    format_ranks,
    format_service_name,
    format_share,
    format_snake_case_as_words,
    html_environment,
    load_template_text,
    markdown_environment,
    render_markdown_template,
    replace_cluster_term_in_note,
    shorten_line,
)
from factmill.tasks.reports.model_card import ModelCard
from factmill.tasks.reports.model_ranking import format_comparison_verdict
from factmill.tasks.reports.page_frame import make_metric_key_figure
from factmill.tasks.reports.svg_figures import SIGNS, draw_inline_svg, get_series_colour_variable

_MAX_VERDICT_FILTERS = 12
"""Maximum number of different verdicts for a verdict filter: score-like verdicts differ from item to item."""
FilterValues = Mapping[str, str | Sequence[str]]
"""Filter of a page → one or several values of an item."""
_TEMPLATE_FILTERS = {
    "number": format_number,
    "share": format_share,
    "p": format_p_value,
    "ranks": format_ranks,
    "say": format_snake_case_as_words,
    "say_group": format_group_value,
    "say_grouping": format_grouping,
    "note": replace_cluster_term_in_note,
    "verdict": format_comparison_verdict,
    "say_codes": format_codes_as_words,
    "say_service": format_service_name,
    "interval": lambda each, signed=False: format_interval(each.ci_low, each.ci_high, signed),
    "short": lambda text: shorten_line(text, 160),
    "bounds": lambda each: format_interval(each.bound_low, each.bound_high),
}


def render_report_html(report: EvaluationReport, trail: Sequence[tuple[str, str]] = ()) -> str:
    """Return a report as HTML; a policy forbids external scripts, styles, fonts and pictures, and none are used.

    `trail`: address and name of the pages of a site that lead to it, the outermost first.
    """
    drawn = [draw_figure_with_legend(figure) for figure in report.figures]
    return render_html_template(
        "page.html",
        **load_filter_script_and_its_digest(),
        report=report,
        drawn=drawn,
        filters=[
            each
            for each in list_filters(entry.filter_values for entry in report.entries)
            if each["by"] != "verdict" or len(each["values"]) <= _MAX_VERDICT_FILTERS
        ],
        key_figures=report.key_figures or [make_metric_key_figure(each) for each in report.headline[:3]],
        summary=report.meaning,
        reference=report.reference,
        all_rows=report.all_rows,
        labels=report.value_labels,
        trail=trail,
    )


def load_filter_script_and_its_digest() -> dict[str, Any]:
    """Return template variables: the script that filters a page's items, and its digest for the page's policy."""
    script = load_template_text("browse.js")
    return {"script": Markup(script), "digest": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}


def render_card_html(card: ModelCard) -> str:
    """Return a card as self-contained HTML without any script."""
    return render_html_template(
        "card.html",
        digest="",
        card=card,
        drawn=list(map(draw_figure_with_legend, card.figures)),
        key_figures=card.key_figures,
        reference=card.reference,
    )


def render_report_markdown(report: EvaluationReport) -> str:
    """Return a report as Markdown, with figures as tables."""
    return render_markdown_template("page.md", report=report)


def render_card_markdown(card: ModelCard) -> str:
    """Return a card as Markdown."""
    return render_markdown_template("card.md", card=card)


def render_report_json(report: EvaluationReport | ModelCard) -> str:
    """Return a report or a card as one JSON object with the fields of its class."""
    content = to_jsonable_python(asdict(report))
    content.pop("all_rows", None)  # of a report: its items are in the evaluation's tables
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


REPORT_RENDERERS: Mapping[str, Callable[[EvaluationReport], str]] = {
    ".html": render_report_html,
    ".md": render_report_markdown,
    ".json": render_report_json,
}
"""File ending → renderer of a report."""
CARD_RENDERERS: Mapping[str, Callable[[ModelCard], str]] = {
    ".html": render_card_html,
    ".md": render_card_markdown,
    ".json": render_report_json,
}
"""File ending → renderer of a card."""


def render_html_template(template: str, **variables: Any) -> str:
    """Return a page rendered from a template of data/templates, with the common style."""
    common: dict[str, Any] = {
        "style": Markup(load_template_text("style.css")),
        "headline": "",
        "summary": "",
        "canary": "",
        "all_rows": None,
        "labels": {},
        "trail": (),
    }
    return html_environment().get_template(template).render(**common | variables)


def draw_figure_with_legend(figure: ReportFigure) -> dict[str, Any]:
    """Return a figure for a template: the figure, its SVG (empty, without a note, if every value is 0), and a legend of (colour, sign, label)
    for each series with a value, which is shown if there are several."""
    is_seen = figure.kind == "scatter" or any(
        each for series in figure.series for each in (*series.y, *series.low, *series.high)
    )
    signs = SIGNS if figure.kind in ("lines", "scatter") else "■"
    return {
        "figure": figure if is_seen else replace(figure, note=""),
        "svg": Markup(draw_inline_svg(figure)) if is_seen else "",
        "legend": [
            (
                get_series_colour_variable(figure, at),
                signs[at % len(signs)],
                shorten_line(each.label, MAX_NAME_CHARACTERS),
            )
            for at, each in enumerate(figure.series)
            if any(value is not None for value in each.y)
        ],
        "has_ends": any(each.low for each in figure.series),
    }


def list_x_values(figure: ReportFigure) -> list[float | str]:
    """Return the distinct x values, in the order of first use."""
    return list(dict.fromkeys(x for series in figure.series for x in series.x))


def format_figure_value(figure: ReportFigure, value: float | None) -> str:
    """Format a value of a figure; a count has no decimals."""
    return format_number(value) if value is None or not figure.is_of_counts else f"{value:,.0f}"


def format_series_value_at(figure: ReportFigure, series: FigureSeries, x: float | str) -> str:
    """Format a series' value at x with its interval; a dash if there is none."""
    if x not in series.x:
        return "–"
    at = series.x.index(x)
    ends = f" [{format_interval(series.low[at], series.high[at])}]" if series.low and series.low[at] is not None else ""
    return f"{format_figure_value(figure, series.y[at])}{ends}"


def group_comparison_rows_by_paper_models(
    rows: Sequence[PaperComparisonRow],
) -> list[tuple[tuple[str, ...], list[PaperComparisonRow]]]:
    """Return the paper's models and their rows for each table: metrics that the paper states for the same models share one."""
    models: dict[str, dict[str, None]] = {}
    for row in rows:
        models.setdefault(row.metric, {}).update(dict.fromkeys(row.paper))
    tables: dict[tuple[str, ...], list[PaperComparisonRow]] = {}
    for row in rows:
        tables.setdefault(tuple(models[row.metric]), []).append(row)
    return list(tables.items())


def list_filters(items: Iterable[FilterValues]) -> list[dict[str, Any]]:
    """Return the filters of a page's items as {by, values}, without those that have one value for all items."""
    found: dict[str, dict[str, None]] = {}
    for each in items:
        for by, values in each.items():
            found.setdefault(by, {}).update(dict.fromkeys([values] if isinstance(values, str) else values))
    return [{"by": by, "values": sorted(values)} for by, values in found.items() if len(values) > 1]


def format_filter_values_as_json(item: FilterValues) -> str:
    """Return the filter values of an item as JSON for the page's script, a list for each filter."""
    named = {by: [values] if isinstance(values, str) else values for by, values in item.items()}
    return json.dumps(named, ensure_ascii=False)


def _register_report_jinja_helpers(made: Environment) -> None:
    made.filters.update(_TEMPLATE_FILTERS, filter_values=format_filter_values_as_json)
    made.globals.update(
        list_values=list_x_values,
        format_series_value_at=format_series_value_at,
        format_figure_value=format_figure_value,
        paper_tables=group_comparison_rows_by_paper_models,
        say_x=lambda x: shorten_line(x, MAX_NAME_CHARACTERS) if isinstance(x, str) else f"{x:g}",
    )


_register_report_jinja_helpers(html_environment())
_register_report_jinja_helpers(markdown_environment())
