"""The page of a build as files: one HTML page that needs nothing else, Markdown, JSON."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from jinja2 import Environment
from pydantic_core import to_jsonable_python

from tasks.reports.builds.contents import BuildPage, RowTold, Stage
from tasks.reports.pages import draw, fill_page, read_browser
from tasks.reports.templates import fill_markdown, html_environment, markdown_environment
from tasks.text.whole import whole_json


def render_build_html(page: BuildPage) -> str:
    """Return the page: no script, style, font or picture from elsewhere, and a policy that forbids any."""
    return fill_page(
        "build.html",
        **read_browser(),
        page=page,
        funnel=draw(page.funnel),
        times=draw(page.times),
        drawn=[draw(figure) for figure in page.distributions],
        opens=any(stage.opened for stage in page.stages),
        total=_add_up(page),
        filters=_list_filters(page),
    )


def render_build_markdown(page: BuildPage) -> str:
    """Return the page as Markdown, with figures as tables of their numbers and without the chains of rows."""
    return fill_markdown("build.md", page=page, opens=any(stage.opened for stage in page.stages), total=_add_up(page))


def render_build_json(page: BuildPage) -> str:
    """Return the page as one JSON object, with the keys of its class."""
    told = whole_json(to_jsonable_python(asdict(page)))
    return json.dumps(told, ensure_ascii=False, indent=1) + "\n"


BUILD_RENDERERS: Mapping[str, Callable[[BuildPage], str]] = {
    ".html": render_build_html,
    ".md": render_build_markdown,
    ".json": render_build_json,
}
"""Ending of a file → how the page is made."""


def describe_groups(row: RowTold) -> str:
    """Return by what a row can be found, as the page's script reads it."""
    return json.dumps({by: [value] for by, value in row.groups.items()}, ensure_ascii=False)


def format_plain(value: float | None, digits: int = 3) -> str:
    """Return a number as it was counted: whole ones without digits behind the point; a dash for none."""
    if value is None:
        return "–"
    return f"{value:,.{digits}f}".rstrip("0").rstrip(".") if value % 1 else f"{value:,.0f}"


def _add_up(page: BuildPage) -> Stage:
    """Return all stages together."""
    counts = ("calls_sent", "calls_replayed", "tokens_in", "tokens_out", "seconds", "cost_usd")
    sums = {name: sum(getattr(stage, name) for stage in page.stages) for name in counts}
    return Stage("all stages", **sums)


def _list_filters(page: BuildPage) -> list[dict[str, Any]]:
    found: dict[str, dict[str, None]] = {}
    for row in page.rows:
        for by, value in row.groups.items():
            found.setdefault(by, {})[value] = None
    return [{"by": by, "values": sorted(values)} for by, values in found.items()]


def _equip(made: Environment) -> None:
    made.filters.update(count=lambda number: f"{number:,}", plain=format_plain)
    made.globals.update(row_groups=describe_groups)


_equip(html_environment())
_equip(markdown_environment())
