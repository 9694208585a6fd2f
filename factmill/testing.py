"""Checks that the tests of a benchmark package call; factmill's own five benchmarks pass them too.

>>> from factmill.testing import check_layers, check_definition
>>> check_layers("granola")
>>> check_definition("granola")

`check_commands` builds the benchmark in the embedded world and runs every command on it. Each check raises
AssertionError with what it found.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import factmill
from factmill.flows.benchmarks import get_benchmark
from factmill.flows.build_runner import load_tracked_flow
from factmill.flows.evaluate.evaluations import EVALUATIONS
from factmill.flows.prefect_server import standing_or_own_prefect_server
from factmill.tasks.core.rows import column_docs
from factmill.tasks.engine.benchmark import Benchmark, load_named_object
from factmill.tasks.engine.naming.code_versions import find_imports, load_source_code
from factmill.tasks.evaluation.definition import BUILT_IN_MODELS
from factmill.tasks.options import INTERNAL_OPTIONS, MODEL_ONLY_OPTIONS, REPLY_FILE_OPTIONS, RunOptions
from factmill.tasks.storage.builds import BENCHMARK_ENTRY_POINTS

NETWORK_LIBRARIES = (
    "anthropic",
    "fastapi",
    "httpx",
    "mwclient",
    "openai",
    "requests",
    "SPARQLWrapper",
    "urllib.request",
    "uvicorn",
)
"""Libraries that call services. A package calls services through `factmill.tasks.lookups` and its steps' batches, which
record every call."""
DATABASE_LIBRARIES = ("duckdb",)
"""Database libraries. A package's rows pass through its steps; factmill.tasks.storage reads and writes them."""
IMPURE_PACKAGES = (
    *("assets", "clients", "engine", "evaluation", "graph", "lookups", "memory", "models", "options", "processes"),
    *("progress", "release", "reports", "settings", "storage", "world"),
)
"""Packages of factmill.tasks that a `core` must not import."""


def check_layers(name: str) -> None:
    """Check that the modules of a benchmark's package respect the same import layers as factmill's own."""
    found = list(_list_forbidden_imports(name))
    assert not found, "\n".join(found)


def _list_forbidden_imports(name: str) -> Iterator[str]:
    packages = {
        entry.name: entry.value.partition(":")[0].rpartition(".")[0]
        for entry in entry_points(group=BENCHMARK_ENTRY_POINTS)
    }
    own = packages[name] or entry_points(group=BENCHMARK_ENTRY_POINTS)[name].value.partition(":")[0]
    others = tuple(f"{package}." for package in packages.values() if package and package != own)
    flows = "factmill.flows."
    pure = (
        *NETWORK_LIBRARIES,
        *DATABASE_LIBRARIES,
        "prefect",
        flows,
        *(f"factmill.tasks.{each}." for each in IMPURE_PACKAGES),
    )
    for module, text in load_source_code((own.partition(".")[0],)).items():
        if not f"{module}.".startswith(f"{own}."):
            continue
        is_core = ".core." in f"{module.removeprefix(own)}."
        for imported in sorted(find_imports(module, text)):
            if f"{imported}.".startswith(others):
                yield f"{module} imports {imported}: benchmarks do not know each other"
            elif imported.partition(".")[0] in DATABASE_LIBRARIES:
                yield f"{module} imports {imported}: tables are read and written by factmill.tasks.storage alone"
            elif imported in NETWORK_LIBRARIES or imported.startswith(tuple(f"{each}." for each in NETWORK_LIBRARIES)):
                yield f"{module} imports {imported}: services are asked through factmill.tasks.lookups, which records"
            elif is_core and f"{imported}.".startswith(tuple(f"{each.rstrip('.')}." for each in pure)):
                yield f"{module} imports {imported}: what is in core is pure, and uses core and text alone"


def check_definition(name: str) -> None:
    """Check a benchmark's record and what it names as commands, Prefect's form, releases and locks need it."""
    benchmark = get_benchmark(name)
    _check_referenced_names(benchmark)
    _check_options(benchmark)
    _check_flow_form(benchmark)
    if benchmark.release and benchmark.evaluation:
        headline, main = load_named_object(benchmark.release).card.headline_metric, EVALUATIONS[name].main_metric
        assert headline == main, f"the release's headline is {headline}, the evaluation's main metric {main}"
    if benchmark.page:
        assert callable(load_named_object(benchmark.page)), benchmark.page


def _check_referenced_names(benchmark: Benchmark) -> None:
    assert load_tracked_flow(benchmark).name == benchmark.name
    assert (
        benchmark.display_columns.keys() | {benchmark.group_column, *benchmark.trace_id_columns}
        <= benchmark.main_row_model.model_fields.keys()
    )
    listed = [
        column
        for column in benchmark.trace_id_columns
        if benchmark.main_row_model.model_fields[column].annotation is not str
    ]
    assert not listed, f"trace names {', '.join(listed)}, which is no text: it names columns that hold one id"
    assert {side.table for side in benchmark.companion_tables} | set(
        benchmark.held_out_tables
    ) <= benchmark.tables.keys()
    for side in benchmark.companion_tables:
        assert side.row_id_column in benchmark.tables[side.table].model_fields, side
    assert {*benchmark.forms.json_columns, *benchmark.forms.json_array_tables} <= benchmark.tables.keys()
    for table, row in benchmark.tables.items():
        without = [column for column, doc in column_docs(row).items() if not doc]
        assert not without, f"{table}: no docstring says what {', '.join(without)} means"


def _check_options(benchmark: Benchmark) -> None:
    import typer

    from factmill.flows.cli.main import app

    command = typer.main.get_command(app).commands["build"].commands[benchmark.name]  # type: ignore[attr-defined]
    options = {option.name: option for option in command.params}
    left_out = {*INTERNAL_OPTIONS, *(() if benchmark.model_roles(benchmark.params()) else MODEL_ONLY_OPTIONS)}
    for model, hidden in ((benchmark.params, set[str]()), (RunOptions, left_out)):
        for name in model.model_fields.keys() - hidden:
            description = model.model_fields[name].description
            assert description, f"{model.__name__}.{name} has no docstring, which is its help"
            assert options[name].help.startswith(description), name


def _check_flow_form(benchmark: Benchmark) -> None:
    """Check that Prefect's form shows the flow's parameters as their models define them."""
    form = load_tracked_flow(benchmark).parameters
    assert list(form.properties) == ["params", "run"], list(form.properties)
    for model in (benchmark.params, RunOptions):
        shown = form.definitions[model.__name__]["properties"]
        assert shown.keys() == model.model_fields.keys() - {*INTERNAL_OPTIONS, *REPLY_FILE_OPTIONS}
        assert all(each["description"] for each in shown.values())


def check_commands(name: str, home: Path, *options: str) -> dict[str, Any]:
    """Build a benchmark in the embedded world and run every command on it; return the report of the build.

    `home`: an empty folder for the output. `options`: options of `factmill build NAME`. A second build must find the
    first. The check then shows rows, explains the first, rebuilds byte for byte from the recorded calls, exports,
    releases and renders the page. It evaluates the built-in models: `report["measured"]` is model → metric id → value.
    """
    with standing_or_own_prefect_server(home) as server:
        if server:
            server.wait_ready()
        return _run_every_command(get_benchmark(name), home, *options)


def _run_every_command(benchmark: Benchmark, home: Path, *options: str) -> dict[str, Any]:
    def run(*arguments: str | Path) -> str:
        command = [sys.executable, "-c", "from factmill.flows.cli.entry import main; main()", *map(str, arguments)]
        environment = os.environ | {"FACTMILL_HOME": str(home)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"factmill {' '.join(map(str, arguments))}: {done.stdout}{done.stderr}"
        return done.stdout

    name = benchmark.name
    report: dict[str, Any] = json.loads(run("build", name, *options, "--json"))
    build = report["build_id"]
    assert report["rows"], "no row was published"
    assert f"{build}: already built" in run("build", name, *options)
    row = json.loads(run("show", name, "--json", "--limit", "1"))["rows"][0]["id"]
    assert row in run("explain", name, row, "--build", build)
    assert "rebuilt byte for byte" in run("verify", build)
    run("export", build, "--to", home / "export")
    assert (home / "export" / f"{benchmark.main_table}.parquet").is_file()
    run("report", build, "--to", home / "build.html")
    assert build in (home / "build.html").read_text("utf-8")
    if benchmark.release:
        run("release", build, "--to", home / "release")
        assert build in (home / "release" / "README.md").read_text("utf-8")
    if benchmark.evaluation:
        report["measured"] = {
            model: _check_measured_figures(
                name, model, json.loads(run("evaluate", name, "--model", model, "--json")), home
            )
            for model in BUILT_IN_MODELS
        }
    return report


def _check_measured_figures(name: str, model: str, measured: dict[str, Any], home: Path) -> dict[str, float]:
    """Check the command's metrics of a built-in model against `factmill.score`; return metric id → value."""
    scored = factmill.score(
        name, model, source=home / "factmill.duckdb", setting=EVALUATIONS[name].offline_settings
    ).metrics.to_pylist()
    figures = {each["id"]: each["value"] for each in measured["metrics"]}
    differing = [each["id"] for each in scored if figures.get(each["id"]) != each["value"]]
    assert not differing, f"{model}: factmill.score and factmill evaluate differ in {', '.join(differing)}"
    return figures
