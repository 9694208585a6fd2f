"""The templates of pages, and how values stand in them: escaped for HTML, or for Markdown."""

import re
from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from tasks.assets import asset_path
from tasks.text import markdown
from tasks.text.whole import clean

_FOLDER = "data/templates"
_PAGE = "page.html"


def fill_markdown(template: str, **told: Any) -> str:
    """Return a template of Markdown filled in; every value is escaped unless it is marked as Markdown already."""
    text = markdown_environment().get_template(template).render(**told)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def escape_markdown(value: Any) -> str:
    """Return a value as it stands in Markdown, in a line or a cell of a table, without being taken for any."""
    if isinstance(value, Markup):
        return str(value)
    return markdown.escape_markdown(str(value))


def quote_code(text: str) -> Markup:
    """Return a text as code of Markdown."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    space = " " if "`" in text else ""
    return Markup(f"{fence}{space}{clean(text)}{space}{fence}")


def fence_code(text: str, language: str = "") -> Markup:
    """Return a text as a block of code of Markdown, which nothing in it ends."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return Markup(f"{fence}{language}\n{clean(text).rstrip()}\n{fence}")


@cache
def html_environment() -> Environment:
    """Return the environment of templates of HTML."""
    return _make_environment(autoescape=True)


@cache
def markdown_environment() -> Environment:
    """Return the environment of templates of Markdown."""
    made = _make_environment(autoescape=False, finalize=escape_markdown)
    made.filters.update(code=quote_code, fence=fence_code, markup=Markup)
    return made


def read_template(name: str) -> str:
    """Return a file that pages hold as it is."""
    return asset_path(_FOLDER, name).read_text("utf-8")


def _make_environment(**more: Any) -> Environment:
    return Environment(
        loader=FileSystemLoader(asset_path(_FOLDER, _PAGE).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **more,
    )
