"""Generate the reference pages from the code during the site build.

The pages list commands, tables, settings, operations, metrics, reasons and errors. This is a hook of mkdocs.
`metrics.toml` and `reasons.toml` contain the descriptions that the code does not have.
"""

import ast
import inspect
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click
import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pydantic import BaseModel

from factmill.flows.benchmarks import BENCHMARKS
from factmill.flows.cli.main import app
from factmill.flows.commands.new import PackageForm, render_benchmark_package
from factmill.flows.evaluate.evaluations import list_evaluations_and_analyses
from factmill.flows.recipes import Stage
from factmill.tasks import settings
from factmill.tasks.compute_settings import ComputeSettings
from factmill.tasks.core import service_settings
from factmill.tasks.core.calls.chat import BatchJobSettings
from factmill.tasks.core.calls.operation import list_operations
from factmill.tasks.core.publishing.release_spec import BenchmarkReleaseSpec, DatasetCardSpec, DatasetConfigSpec
from factmill.tasks.core.rows import MergedAway, Reject
from factmill.tasks.engine.benchmark import Benchmark, BenchmarkAssetNames, CompanionTable
from factmill.tasks.engine.failures import FAILURE_CAUSES
from factmill.tasks.errors import FactmillError
from factmill.tasks.evaluation.definition import Evaluation
from factmill.tasks.lookups.facts import NamedFact
from factmill.tasks.storage.schema import WAREHOUSE_TABLES


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages = {
        "commands": list_commands(),
        "new_package": list_packages(),
        "records": list_records(),
        "tables": list_tables(),
        "worlds": list_settings(),
        "warehouse": list_warehouse_tables(),
        "operations": list_operations_of_services(),
        "metrics": list_metrics(),
        "reasons": list_reasons(),
        "errors": list_errors(),
    }
    for name, lines in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content="\n".join(lines) + "\n"))
    return files


def list_commands() -> Iterator[str]:
    """Yield every command with its help and options."""
    yield "# Commands\n"
    yield from _describe_command("factmill", typer.main.get_command(app))


def _describe_command(name: str, command: Any) -> Iterator[str]:
    subs = getattr(command, "commands", {})
    if getattr(command, "invoke_without_command", True):
        context = click.Context(command, info_name=name)
        yield f"## {name}\n"
        yield f"```text\n{command.get_help(context).rstrip()}\n```\n"
    for sub, each in sorted(subs.items()):
        yield from _describe_command(f"{name} {sub}", each)


def list_packages() -> Iterator[str]:
    """Yield the files that `factmill new` writes, for each form."""
    yield "# What factmill new writes\n"
    yield "[Your own benchmark](../develop/benchmark.md) explains how to change these files.\n"
    for form in get_args(PackageForm):
        name = f"my_{form}"
        yield f"## factmill new {name} --from {form}\n"
        for path, text in render_benchmark_package(name, form, "00000000-0000-0000-0000-000000000000").items():
            kind = {".py": "python", ".toml": "toml"}.get(Path(path).suffix, "text")
            yield f"### `{path}`\n\n````{kind}\n{text.rstrip()}\n````\n"


RECORDS = (
    Benchmark,
    BenchmarkAssetNames,
    CompanionTable,
    Stage,
    NamedFact,
    Reject,
    MergedAway,
    BenchmarkReleaseSpec,
    DatasetConfigSpec,
    DatasetCardSpec,
)


def list_records() -> Iterator[str]:
    """Yield the fields of the records that a benchmark's package defines, with their docstrings."""
    yield "# Classes of a benchmark's package\n"
    yield "The classes that [a benchmark's package](../develop/benchmark.md) uses for its definition, rows and release, with their fields.\n"
    for record in RECORDS:
        (node,) = ast.parse(inspect.cleandoc(inspect.getsource(record))).body
        assert isinstance(node, ast.ClassDef)
        yield f"## {record.__name__}\n\n`{record.__module__}`\n\n{inspect.getdoc(record)}\n"
        for field, following in pairwise([*node.body, ast.Pass()]):
            if isinstance(field, ast.AnnAssign):
                default = f" = {ast.unparse(field.value)}" if field.value and len(ast.unparse(field.value)) < 40 else ""
                text = following.value.value if isinstance(following, ast.Expr) else ""  # type: ignore[attr-defined]
                yield f"- `{ast.unparse(field.target)}: {ast.unparse(field.annotation)}{default}`: {_one_line(str(text))}"
        yield ""


def list_tables() -> Iterator[str]:
    """Yield every published table with its columns, from the row models."""
    yield "# Tables\n"
    yield "The columns of every published table. In the warehouse, each table also has the column `build_id`. `factmill show BENCHMARK --columns` prints the same descriptions.\n"
    for name, benchmark in {**BENCHMARKS, **list_evaluations_and_analyses()}.items():
        yield f"## {name}\n\n{benchmark.title}\n"
        for table, model in benchmark.tables.items():
            yield f"### {table}\n\n{_one_line(inspect.getdoc(model) or '')}\n"
            yield from _describe_fields(model)


def list_warehouse_tables() -> Iterator[str]:
    """Yield the warehouse's own tables with their columns."""
    yield "# The warehouse's own tables\n"
    yield "Tables for builds, calls and people's judgments. [The warehouse](../rebuild/warehouse.md) shows how to query them; [Tables](tables.md) describes the published tables.\n"
    for model in WAREHOUSE_TABLES:
        key = f" Primary key: {', '.join(f'`{name}`' for name in model.primary_key)}." if model.primary_key else ""
        yield f"## {model.table}\n\n{_one_line(inspect.getdoc(model) or '')}{key}\n"
        yield from _describe_fields(model)


def list_operations_of_services() -> Iterator[str]:
    """Yield every operation of a service, which is a kind of call, with its parts."""
    yield "# Operations of services\n"
    yield (
        "Every kind of call to services and models. Its name is in the column `operation` of [calls](warehouse.md#calls), and can be a key in "
        "`max_bytes` of [limits](worlds.md#limits). A call's key is a digest of service, operation, parts and request.\n"
    )
    yield "| operation | service | parts | sent as | in a local graph |\n|---|---|---|---|---|"
    for operation in sorted(list_operations(), key=lambda each: (each.service, each.name)):
        parts = ", ".join(
            f"`{part}`{' (optional)' if part in operation.optional_parts else ''}" for part in operation.part_checks
        )
        queries = ", ".join(f"`sparql/{file}`" for file in operation.query_files)
        graph = operation.load_from_graph
        local = f"no: {graph}" if isinstance(graph, str) and graph else "yes" if graph else "–"
        how = queries or ("MediaWiki API" if operation.fetch_from_wiki else "HTTP")
        yield f"| `{operation.name}` | {operation.service} | {parts or 'messages and settings'} | {how} | {_cell(local)} |"
    yield ""


def list_metrics() -> Iterator[str]:
    """Yield the metrics of every evaluation, with formula and place in the paper."""
    yield "# Metrics\n"
    yield (
        "The formula of each metric, and where the benchmark's paper defines it. [Statistics](../explain/statistics.md) explains what comes with "
        "every mean. `NAME*` means all metrics whose names begin with `NAME`. `factmill evaluate` prints the metrics in **bold**.\n"
    )
    described = tomllib.loads((Path(__file__).parent / "metrics.toml").read_text("utf-8"))
    for name, evaluation in list_evaluations_and_analyses().items():
        metrics = described.get(name.removesuffix("_evaluation"), {})
        yield f"## {name.removesuffix('_evaluation')}\n\n{evaluation.title}\n"
        headline: tuple[str, ...] = ()
        if isinstance(evaluation, Evaluation):
            headline = evaluation.headline_metrics
            yield f"A model card shows `{evaluation.main_metric}`: {_one_line(evaluation.main_metric_meaning)}\n"
            yield "| setting | meaning |\n|---|---|"
            for setting, how in evaluation.settings.items():
                yield f"| `{setting}` | {_one_line(how)} |"
            yield ""
        yield "| metric | formula | paper |\n|---|---|---|"
        for metric, (formula, place) in metrics.items():
            shown = any(fnmatchcase(each, metric) for each in headline)
            yield f"| {'**' if shown else ''}`{metric}`{'**' if shown else ''} | {_cell(formula)} | {place} |"
        yield ""
        if isinstance(evaluation, Evaluation) and evaluation.paper_results:
            yield f"The paper's figures, as reports show them ({len(evaluation.paper_results)}):\n"
            yield "| metric | setting | model | value | where |\n|---|---|---|--:|---|"
            for result in evaluation.paper_results:
                group = f", {result.group_by} {result.group}" if result.group_by else ""
                yield f"| `{result.metric}` | `{result.setting}`{_cell(group)} | {_cell(result.model)} | {result.value:g} | {_cell(result.where)} |"
            yield ""


def list_reasons() -> Iterator[str]:
    """Yield the reject reasons, with advice for those that are failures of the run."""
    yield "# Reasons\n"
    yield (
        "Why a stage drops a row. A reason stands in the column `reason` of [rejects](warehouse.md#rejects); `factmill show BENCHMARK --rejects` lists them. "
        "A reason with advice is a failure of the run, not a verdict about the row: run the same command again to retry the row.\n"
    )
    for package, reasons in tomllib.loads((Path(__file__).parent / "reasons.toml").read_text("utf-8")).items():
        yield f"## {package}\n\n| reason | the row is dropped because | what to do |\n|---|---|---|"
        for reason, meaning in reasons.items():
            advice = FAILURE_CAUSES.get(reason, "").replace("{world}", "FILE")
            yield f"| `{reason}` | {_cell(meaning)} | {_cell(advice)} |"
        yield ""


def list_errors() -> Iterator[str]:
    """Yield the codes of errors that stop a command, with their exit codes."""
    yield "# Error codes\n"
    yield (
        "A command that fails prints one line, `factmill: MESSAGE [CODE]`, and an example after it if that helps; with `--json` it prints an object with `error` and `message`. In "
        "Python, the code is an attribute of `factmill.FactmillError`. For the most frequent codes, see [Troubleshooting](../help/troubleshooting.md).\n"
    )
    yield "| code | exit code | is |\n|---|--:|---|"
    pending, classes = [FactmillError], list[type[FactmillError]]()
    while pending:
        classes.append(pending.pop())
        pending += classes[-1].__subclasses__()
    for each in sorted(set(classes), key=lambda found: found.code):
        yield f"| `{each.code}` | {each.exit_code} | {_one_line(inspect.getdoc(each) or '')} |"
    yield ""


def list_settings() -> Iterator[str]:
    """Yield the keys of a world file, table by table."""
    yield "# World files\n"
    yield "All settings of a world's TOML file. [Write a world file](../rebuild/worlds.md) explains how to use them.\n"
    sections = {
        "At the top": settings.World,
        "[wikidata]": service_settings.WikidataSettings,
        "[wikipedia], [pageviews], [falcon], [dbpedia]": service_settings.ServiceEndpoint,
        "[models.NAME]": service_settings.ModelSettings,
        "[wikimedia]": service_settings.WikimediaLimits,
        "limits": service_settings.ServiceLimits,
        "jobs": BatchJobSettings,
        "[compute]": ComputeSettings,
    }
    for title, model in sections.items():
        yield f"## {title}\n"
        yield from _describe_fields(model)


def _describe_fields(model: type[BaseModel]) -> Iterator[str]:
    yield "| name | kind | is |\n|---|---|---|"
    for name, field in model.model_fields.items():
        default = (
            ""
            if field.is_required() or field.default_factory or field.default in (None, "", {})
            else f" Default: {field.default}."
        )
        said = _one_line(field.description or "") + (_cell(default) if not isinstance(field.default, BaseModel) else "")
        yield f"| `{name}` | {_cell(_name_kind(field.annotation))} | {said} |"
    yield ""


def _name_kind(kind: Any) -> str:
    """Return a type's name for readers, without value checks."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _name_kind(inner[0])
    if origin in (Union, UnionType):
        return " or ".join(_name_kind(each) for each in inner if each is not NoneType)
    if origin is Literal:
        return ", ".join(map(str, inner))
    if origin is not None:
        return f"{origin.__name__} of {', '.join(_name_kind(each) for each in inner if each is not ...)}"
    return str(getattr(kind, "__name__", kind))


def _one_line(text: str) -> str:
    return _cell(" ".join(text.split()))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
