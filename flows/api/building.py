"""`factmill.build` and `factmill.evaluate`: the commands, with options under their Python names, and results to work with."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from factmill.flows.api.command_process import make_command_line_arguments, run_json_command
from factmill.flows.benchmarks import get_benchmark
from factmill.flows.evaluate.evaluations import EVALUATIONS
from factmill.flows.evaluate.sessions import get_evaluation
from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.core.rows import make_arrow_table
from factmill.tasks.core.service_settings import SCRIPTED_MODEL_NAME
from factmill.tasks.evaluation.definition import EVALUATION_METRICS_TABLE
from factmill.tasks.evaluation.scoring_session import render_metrics_html
from factmill.tasks.options import INTERNAL_OPTIONS, REPLY_FILE_OPTIONS, BuildReport, RunOptions, resolve_warehouse_path
from factmill.tasks.reports.formatting import format_row_balance
from factmill.tasks.storage.builds import resolve_build
from factmill.tasks.storage.published_table import PublishedTable
from factmill.tasks.storage.table_store import TableStore
from factmill.tasks.text.html_tables import render_titled_html_table


@dataclass(frozen=True)
class BuildResult:
    """A finished build."""

    report: BuildReport
    """All that the command reports of it."""

    @property
    def id(self) -> str:
        """Id of the build."""
        return self.report.build_id

    @property
    def rows(self) -> int:
        """Number of published rows."""
        return self.report.rows

    @property
    def rejects(self) -> int:
        """Number of rejected rows."""
        return self.report.rejects

    @property
    def cost_usd(self) -> float | None:
        """Cost of the models' replies that the build uses, in US dollars; None if a model has no price or a reply no usage."""
        is_known = not self.report.unpriced_models and not self.report.unknown_cost_calls
        return self.report.cost_usd if is_known else None

    @cached_property
    def report_path(self) -> Path:
        """The page of the build (`factmill report`), written into `reports` of factmill's home when this is first read."""
        from factmill.flows.commands.report import write_build_page

        return write_build_page(Path(self.report.warehouse), self.id, "report_path")[1]

    def table(self, name: str = "") -> PublishedTable:
        """Return a table of the build; by default its main table."""
        name = name or get_benchmark(self.report.benchmark).main_table
        return load_build_table(TableStore(Path(self.report.warehouse)), name, self.id)

    def __repr__(self) -> str:
        return f"<BuildResult {self.id}: {self.rows} rows, {self.rejects} rejects>"

    def _repr_html_(self) -> str:
        report = self.report
        rows = ((each["stage"], each["rows_in"], each["rows_out"], each["rejects"]) for each in report.stages)
        known = " (built before from the same inputs)" if report.up_to_date else ""
        is_scripted = report.author.startswith(SCRIPTED_MODEL_NAME)
        author = f"{report.author or 'none'}{', written beforehand: no model was asked' if is_scripted else ''}"
        notes = [format_row_balance(report.model_dump()), f"world {report.world}, author {author}"]
        notes += [f"{report.calls_sent} calls sent, {report.calls_replayed} replayed; {report.format_cost()}"]
        notes += [*filter(None, [report.caution]), *report.notes]
        return render_titled_html_table(f"{self.id}{known}", ("stage", "rows in", "rows out", "rejected"), rows, notes)


@dataclass(frozen=True)
class EvaluationResult:
    """A finished evaluation of one model on one benchmark."""

    facts: Mapping[str, Any]
    """The object that the command prints with --json."""
    warehouse: Path

    @property
    def id(self) -> str:
        """Id of the evaluation."""
        return str(self.facts["evaluation_id"])

    @property
    def benchmark(self) -> str:
        """Name of the benchmark."""
        return str(self.facts["benchmark"])

    @property
    def model(self) -> str:
        """The model, as tables and reports name it."""
        return str(self.facts["model"])

    @property
    def build(self) -> str:
        """Id of the measured build."""
        return str(self.facts["build_id"])

    @property
    def cost_usd(self) -> float:
        """Cost of the models' replies, in US dollars."""
        return float(self.facts["cost_usd"])

    @property
    def reports(self) -> list[Path]:
        """Its report, as HTML, Markdown and JSON."""
        return [Path(each) for each in self.facts["reports"]]

    @cached_property
    def metrics(self) -> PublishedTable:
        """Rows of `evaluation_metrics`: value, n, n_unscored, bounds and interval; overall and by group."""
        rows = make_arrow_table(EvaluationMetric, self._list_metrics())
        return PublishedTable(rows, EVALUATION_METRICS_TABLE, self.id, tuple(self.facts["notes"]))

    def table(self, name: str = "") -> PublishedTable:
        """Return a table of the evaluation; by default its answers."""
        return load_build_table(TableStore(self.warehouse), name or EVALUATIONS[self.benchmark].main_table, self.id)

    def _list_metrics(self) -> list[EvaluationMetric]:
        return [EvaluationMetric.model_validate(each) for each in self.facts["metrics"]]

    def __repr__(self) -> str:
        return f"<EvaluationResult {self.id}: {self.model} on {self.build}>"

    def _repr_html_(self) -> str:
        headline = EVALUATIONS[self.benchmark].headline_metrics
        judge = f", judged by {self.facts['judge']}" if self.facts["judge"] else ""
        order = {name: at for at, name in enumerate(headline)}
        metrics = sorted(self._list_metrics(), key=lambda each: (each.setting, order.get(each.metric, len(order))))
        title = f"{self.model} on {self.build}{judge} ({self.id})"
        return render_metrics_html(title, metrics, headline, self.facts["notes"])


def load_build_table(store: TableStore, name: str, build: str = "") -> PublishedTable:
    """Return a published table, with what its rows must not be used for; UnknownBuild or SourceError list what exists."""
    rows, origin, _ = store.read_with_digest(name, build)
    caution = resolve_build(store.path, origin).caution if store.path.is_file() else ""
    return PublishedTable(rows, name, origin, tuple(filter(None, [caution])))


def run_build(benchmark_name: str, quiet: bool, force: bool, options: Mapping[str, Any]) -> BuildResult:
    """Run `factmill build`; UsageError for options that do not fit, and each error of the command under its class."""
    benchmark = get_benchmark(benchmark_name)
    words = make_command_line_arguments(benchmark.name, [benchmark.params, RunOptions], options, INTERNAL_OPTIONS)
    (report,) = run_json_command(["build", benchmark.name, *words, *["--force"] * force], quiet)
    return BuildResult(BuildReport.model_validate(report))


def run_evaluation(
    benchmark_name: str, quiet: bool, force: bool, reports: str | Path | None, options: Mapping[str, Any]
) -> EvaluationResult:
    """Run `factmill evaluate` for one model; UsageError for options that do not fit, and each error under its class."""
    evaluation = get_evaluation(benchmark_name)
    without = (*INTERNAL_OPTIONS, *REPLY_FILE_OPTIONS, "since")
    words = make_command_line_arguments(evaluation.benchmark.name, [evaluation.params, RunOptions], options, without)
    words += [f"--reports={reports}"] if reports else []
    (facts,) = run_json_command(["evaluate", evaluation.benchmark.name, *words, *["--force"] * force], quiet)
    return EvaluationResult(facts, resolve_warehouse_path(RunOptions(warehouse=options.get("warehouse"))))
