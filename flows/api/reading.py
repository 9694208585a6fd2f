"""`factmill.load`, `builds`, `explain` and `compare`: tables, builds, provenance of rows and paired differences of models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from factmill.flows.api.building import EvaluationResult, load_build_table
from factmill.flows.benchmarks import BENCHMARKS
from factmill.flows.evaluate.evaluations import get_benchmark_or_evaluation, list_evaluations_and_analyses
from factmill.flows.evaluate.sessions import get_evaluation, open_table_store
from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.core.measures.model_comparison import ModelComparison
from factmill.tasks.core.rows import make_arrow_table, rows_from_arrow
from factmill.tasks.errors import UnknownBuild, UnknownRow, UsageError
from factmill.tasks.evaluation.definition import Evaluation
from factmill.tasks.evaluation.scoring_session import ScoringResult
from factmill.tasks.reports.evaluation_report import make_model_labels, relabel_metrics_by_model
from factmill.tasks.reports.formatting import format_interval, format_number
from factmill.tasks.reports.model_ranking import rank_models
from factmill.tasks.storage.builds import LATEST_PREFIX, BuildRecord, list_builds, rank_builds_for_latest, resolve_build
from factmill.tasks.storage.published_table import PublishedTable
from factmill.tasks.storage.released_folders import is_release, load_verified_release
from factmill.tasks.storage.table_store import TableStore
from factmill.tasks.storage.warehouse import open_warehouse, query_rows
from factmill.tasks.text.html_tables import format_lines_as_html, render_titled_html_table

LATEST = "latest"
"""Value of `build` for the latest build of a benchmark, or the latest that has a table."""
Source = str | Path | TableStore | None
"""What `factmill.open` takes or returns."""


def load_table(name: str, build: str, source: Source) -> PublishedTable:
    """Return the main table of a benchmark or an evaluation, or a table by its own name; UnknownBuild, SourceError or
    UsageError say what exists."""
    known = BENCHMARKS | list_evaluations_and_analyses()
    table = known[name].main_table if name in known else name
    store = open_table_store(source)
    if store.path.is_dir():
        _check_build_of_folder(store.path, build)
        return load_build_table(store, table)
    if build == LATEST:
        build = f"{LATEST_PREFIX}{name}" if name in known else ""
    if name in known and not any(each.benchmark == name for each in list_builds(store.path)):
        made = f"factmill.build({name!r})" if name in BENCHMARKS else "factmill.evaluate(BENCHMARK, model=…)"
        raise UnknownBuild(f"no build of {name} in {store.path}; make one: {made}")
    if store.build and build and not store.build.startswith(build):
        raise UsageError(f"build is {build!r}, but source is the build {store.build}; name one of them")
    return load_build_table(store, table, build)


def _check_build_of_folder(folder: Path, build: str) -> None:
    """UsageError if `build` is not the build whose tables a folder holds."""
    if build in ("", LATEST):
        return
    if not is_release(folder):
        raise UsageError(
            f"build is {build!r}, but the folder {folder} holds tables of one build and not its name; leave it out"
        )
    found = load_verified_release(folder).record.build_id
    if not found.startswith(build):
        raise UsageError(f"build is {build!r}, but the release {folder} is of {found}")


def list_builds_as_table(benchmark: str, source: Source) -> PublishedTable:
    """Return the builds of a warehouse, oldest first; `benchmark`: only those of it, or of an evaluation; empty: all."""
    found = open_table_store(source).builds()
    if benchmark:
        name = get_benchmark_or_evaluation(benchmark).name
        found = found.filter(pc.equal(found["benchmark"], name))
    return PublishedTable(found, "builds")


@dataclass(frozen=True)
class RowExplanation:
    """Where a row comes from."""

    id: str
    build: str
    trace: Mapping[str, Any]
    """The row or its reject, its rows in companion tables, and its calls, as `factmill explain --json` prints them."""
    lines: Sequence[str]
    """The same as lines of text."""

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return format_lines_as_html(self.lines)


def explain_row(row_id: str, benchmark: str, build: str, source: Source) -> RowExplanation:
    """Return where a row of the latest builds comes from, or of `build`; the row may be a rejected one.

    `row_id`: its id, or the beginning of one. `benchmark`: where rows of several benchmarks begin so. UnknownRow if there is
    no such row, UsageError if there are several.
    """
    from factmill.flows.commands.provenance import format_trace, trace_row_by_id_prefix

    if not row_id:
        raise UsageError("row_id is empty; expected the id of a row, or the beginning of one: factmill.load(…)['id']")
    warehouse = _get_warehouse(source)
    records = (
        [resolve_build(warehouse, build)]
        if build and build != LATEST
        else _list_latest_build_per_benchmark(warehouse, benchmark)
    )
    with open_warehouse(warehouse) as db:
        found = [record for record in records if _has_row_or_reject_with_id_prefix(db, record, row_id)]
        if len(found) > 1:
            names = ", ".join(record.benchmark for record in found)
            raise UsageError(f"rows of several benchmarks begin with {row_id!r}: {names}; name one with benchmark=")
        if not found:
            looked = ", ".join(record.build_id for record in records) or "no build"
            raise UnknownRow(f"no row {row_id!r} in {looked}; ids stand in the column id of factmill.load(BENCHMARK)")
        known = get_benchmark_or_evaluation(found[0].benchmark)
        trace = trace_row_by_id_prefix(db, known, found[0].build_id, row_id)
    if not benchmark and (not build or build == LATEST):
        resolve_build(
            warehouse, f"{LATEST_PREFIX}{known.name}"
        )  # notes which builds were passed over, as the command does
    return RowExplanation(trace["id"], trace["build"], trace, format_trace(known, trace))


def _get_warehouse(source: Source) -> Path:
    store = open_table_store(source)
    if store.path.is_dir():
        raise UsageError(f"{store.path} is a folder of tables; expected a warehouse, which has builds and calls")
    return store.path


def _list_latest_build_per_benchmark(warehouse: Path, benchmark: str) -> list[BuildRecord]:
    """Return the latest build of a benchmark or an evaluation, or of each that has one."""
    if benchmark:
        return [resolve_build(warehouse, f"{LATEST_PREFIX}{get_benchmark_or_evaluation(benchmark).name}")]
    latest: dict[str, BuildRecord] = {}
    for record in rank_builds_for_latest(list_builds(warehouse)):
        latest.setdefault(record.benchmark, record)
    return [latest[name] for name in BENCHMARKS | list_evaluations_and_analyses() if name in latest]


def _has_row_or_reject_with_id_prefix(db: Any, record: BuildRecord, id_prefix: str) -> bool:
    table = get_benchmark_or_evaluation(record.benchmark).main_table
    tables = (table, "rejects", "merged_rows")
    query = " UNION ALL ".join(f"SELECT id FROM {each} WHERE build_id = $1 AND starts_with(id, $2)" for each in tables)
    return bool(query_rows(db, f"SELECT 1 FROM ({query}) LIMIT 1", record.build_id, id_prefix))


_COMPARISON_HEADINGS = (
    "setting",
    "metric",
    "n",
    "first",
    "second",
    "difference",
    "95 % interval",
    "p adjusted",
    "better",
)


@dataclass(frozen=True)
class ModelComparisonResult:
    """Paired differences of two models on the questions that both have a score for."""

    benchmark: str
    first: str
    second: str
    comparisons: Sequence[ModelComparison]
    """One per setting and headline metric."""
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def arrow(self) -> pa.Table:
        """The comparisons as rows; `difference` is the first's mean less the second's."""
        return make_arrow_table(ModelComparison, self.comparisons)

    def to_pandas(self) -> Any:
        """Return the comparisons as a pandas data frame."""
        return self.arrow.to_pandas()

    def __repr__(self) -> str:
        return f"<ModelComparisonResult {self.benchmark}: {self.first} less {self.second}, {len(self.comparisons)} differences>"

    def _repr_html_(self) -> str:
        rows = (
            (
                *(each.setting, each.metric, each.n, format_number(each.value_first), format_number(each.value_second)),
                *(format_number(each.difference, True), format_interval(each.ci_low, each.ci_high, True)),
                *(each.p_adjusted, each.better or each.note or "tie"),
            )
            for each in self.comparisons
        )
        return render_titled_html_table(
            f"{self.benchmark}: {self.first} (first) less {self.second} (second)",
            _COMPARISON_HEADINGS,
            rows,
            self.notes,
        )


Comparable = str | EvaluationResult | ScoringResult
"""An evaluation by id, its beginning or latest:NAME_evaluation; a model's name; a result of `evaluate` or of `score`."""


@dataclass(frozen=True)
class _ScoresOfComparedSide:
    label: str
    evaluation: Evaluation
    scores: pa.Table
    metrics: Sequence[EvaluationMetric]
    seed: int = 0


def compare_results(first: Comparable, second: Comparable, benchmark: str, source: Source) -> ModelComparisonResult:
    """Return the paired differences of two evaluations, or models, of one benchmark, by every headline metric and setting.

    Items, intervals, tests and adjusted p are those of reports (`rank_models`). UsageError if the two cannot be compared.
    """
    if isinstance(first, ScoringResult) and first is second:
        raise UsageError("first and second are the same; a model is compared with others, not with itself")
    if isinstance(first, ScoringResult) or isinstance(second, ScoringResult):
        left, right = (_get_scores(each, benchmark, source) for each in (first, second))
    else:
        left, right = _load_scores_of_published_pair(first, second, benchmark, source)
    if left.evaluation.name != right.evaluation.name:
        of = " and of ".join(each.evaluation.benchmark.name for each in (left, right))
        raise UsageError(f"{left.label} and {right.label} are results of {of}; models are compared on one benchmark")
    labels = [left.label, right.label if left.label != right.label else f"{right.label} (second)"]
    compared = _compare_all_pairs(dict(zip(labels, (left, right), strict=True)))
    if not compared:
        raise UsageError(
            f"{labels[0]} and {labels[1]} have no setting in which both have scores; measure them in the same settings"
        )
    return ModelComparisonResult(left.evaluation.benchmark.name, labels[0], labels[1], compared)


def compare_published_evaluations(warehouse: Path, evaluation_ids: Sequence[str]) -> list[ModelComparison]:
    """Return the paired differences of all pairs of these evaluations of one benchmark, in all settings that a pair shares;
    UsageError if they do not measure the same rows."""
    loaded = _load_published_scores(warehouse, [resolve_build(warehouse, each) for each in evaluation_ids])
    return _compare_all_pairs({each.label: each for each in loaded})


def _compare_all_pairs(sides: Mapping[str, _ScoresOfComparedSide]) -> list[ModelComparison]:
    first = next(iter(sides.values()))
    tables = {label: each.scores for label, each in sides.items()}
    metrics = [metric for each in sides.values() for metric in each.metrics]
    rankings = rank_models(first.evaluation, tables, metrics, first.seed)
    return [one for ranking in rankings for one in ranking.comparisons]


def _get_scores(given: Comparable, benchmark: str, source: Source) -> _ScoresOfComparedSide:
    """Return the scores of one side, of which the other need not be published."""
    if not isinstance(given, ScoringResult):
        warehouse, record = _resolve_warehouse_and_evaluation(given, benchmark, source)
        return _load_published_scores(warehouse, [record])[0]
    metrics = rows_from_arrow(EvaluationMetric, given.metrics)
    if not metrics:
        raise UsageError("a result of score has no metrics; expected one with scored answers")
    return _ScoresOfComparedSide(metrics[0].model, get_evaluation(metrics[0].benchmark), given.scores, metrics)


def _load_scores_of_published_pair(
    first: str | EvaluationResult, second: str | EvaluationResult, benchmark: str, source: Source
) -> list[_ScoresOfComparedSide]:
    (warehouse, one), (other_warehouse, two) = (
        _resolve_warehouse_and_evaluation(each, benchmark, source) for each in (first, second)
    )
    if warehouse != other_warehouse:
        raise UsageError(
            f"{one.build_id} lies in {warehouse}, {two.build_id} in {other_warehouse}; expected one warehouse"
        )
    if one.build_id == two.build_id:
        raise UsageError(f"{one.build_id} is named twice; a model is compared with others, not with itself")
    return _load_published_scores(warehouse, [one, two])


def _load_published_scores(warehouse: Path, records: Sequence[BuildRecord]) -> list[_ScoresOfComparedSide]:
    from factmill.flows.commands.report import check_evaluations_comparable, load_evaluation_for_report

    evaluation = check_evaluations_comparable(records)
    published = [load_evaluation_for_report(warehouse, evaluation, record) for record in records]
    labels = make_model_labels(published)
    metrics = relabel_metrics_by_model(labels, published)
    seed = records[0].lock["params"]["params"].get("seed", 0)
    return [
        _ScoresOfComparedSide(label, evaluation, each.scores, [one for one in metrics if one.model == label], seed)
        for label, each in zip(labels, published, strict=True)
    ]


def _resolve_warehouse_and_evaluation(
    given: str | EvaluationResult, benchmark: str, source: Source
) -> tuple[Path, BuildRecord]:
    """Return the warehouse and the evaluation that is named, or the latest of the model that is named."""
    from factmill.flows.commands.report import resolve_model_name

    if isinstance(given, EvaluationResult):
        return given.warehouse, resolve_build(given.warehouse, given.id)
    warehouse = _get_warehouse(source)
    if not benchmark:
        try:
            return warehouse, resolve_build(warehouse, given)
        except UnknownBuild as error:
            raise UnknownBuild(f"{error}; to name a model, name the benchmark too: benchmark='granola'") from error
    name = get_evaluation(benchmark).name
    known = [each for each in list_builds(warehouse) if each.benchmark == name]
    named = [each for each in known if each.build_id.startswith(given)]
    if len(named) == 1:
        return warehouse, named[0]
    if not known:
        raise UnknownBuild(
            f"no evaluation of {benchmark} in {warehouse}; make one: factmill.evaluate({benchmark!r}, model=…)"
        )
    model = resolve_model_name(given, known)
    return warehouse, next(each for each in reversed(known) if each.report["facts"]["model"] == model)
