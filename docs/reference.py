"""Pages of reference, made of the code when the site is built: commands, tables, world files. A hook of mkdocs."""

import inspect
from collections.abc import Iterator
from typing import Any

import click
import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pydantic import BaseModel

from flows.benchmarks import BENCHMARKS
from flows.cli.main import app
from flows.evaluate.evaluations import EVALUATIONS
from tasks import settings
from tasks.compute import Compute
from tasks.core import service_settings
from tasks.core.calls.jobs import Jobs
from tasks.slaq.mechanism.record import MECHANISM


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made of code."""
    pages = {"commands": list_commands(), "tables": list_tables(), "worlds": list_settings()}
    for name, lines in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content="\n".join(lines) + "\n"))
    return files


def list_commands() -> Iterator[str]:
    """Yield every command with its help and options."""
    yield "# Commands\n"
    yield from _describe_command("factmill", typer.main.get_command(app))


def _describe_command(name: str, command: Any) -> Iterator[str]:
    subs = getattr(command, "commands", {})
    if not subs:
        context = click.Context(command, info_name=name)
        yield f"## {name}\n"
        yield f"```text\n{command.get_help(context).rstrip()}\n```\n"
    for sub, each in sorted(subs.items()):
        yield from _describe_command(f"{name} {sub}", each)


def list_tables() -> Iterator[str]:
    """Yield every published table with its columns, as their row models tell them."""
    yield "# Tables\n"
    yield "Published tables, with a line for each column; in the warehouse each has a column `build_id` besides. `factmill show BENCHMARK --columns` says the same.\n"
    made = {each.name: each for each in (*EVALUATIONS.values(), MECHANISM)}
    for name, benchmark in {**BENCHMARKS, **made}.items():
        yield f"## {name}\n\n{benchmark.title}\n"
        for table, model in benchmark.tables.items():
            yield f"### {table}\n\n{_one_line(inspect.getdoc(model) or '')}\n"
            yield from _describe_fields(model)


def list_settings() -> Iterator[str]:
    """Yield what a world's file may hold, table by table."""
    yield "# World files\n"
    yield "Keys of a world's TOML file. [How to write one](../rebuild/worlds.md).\n"
    sections = {
        "At the top": settings.World,
        "[wikidata]": service_settings.Wikidata,
        "[wikipedia], [pageviews], [falcon], [dbpedia]": service_settings.Endpoint,
        "[models.NAME]": service_settings.Model,
        "[wikimedia]": service_settings.Wikimedia,
        "limits": service_settings.Limits,
        "jobs": Jobs,
        "[compute]": Compute,
    }
    for title, model in sections.items():
        yield f"## {title}\n"
        yield from _describe_fields(model)


def _describe_fields(model: type[BaseModel]) -> Iterator[str]:
    yield "| name | kind | is |\n|---|---|---|"
    for name, field in model.model_fields.items():
        kind = str(field.annotation if not isinstance(field.annotation, type) else field.annotation.__name__)
        default = (
            ""
            if field.is_required() or field.default_factory or field.default in (None, "", {})
            else f" Default: {field.default}."
        )
        said = _one_line(field.description or "") + (_cell(default) if not isinstance(field.default, BaseModel) else "")
        yield f"| `{name}` | {_cell(kind.replace('typing.', ''))} | {said} |"
    yield ""


def _one_line(text: str) -> str:
    return _cell(" ".join(text.split()))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
