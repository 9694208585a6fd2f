"""`factmill report`: what was built or measured, as files to read."""

from collections.abc import Collection, Sequence
from pathlib import Path

from flows.benchmarks import BENCHMARKS
from flows.commands.distributions import DISTRIBUTIONS
from flows.commands.evaluate import read_card, read_metrics, read_table
from flows.evaluate.evaluations import EVALUATIONS
from tasks.core.evaluation.rows import Score
from tasks.errors import OutputError, UsageError
from tasks.evaluation.measured import find_measured_record, name_measured
from tasks.evaluation.record import Evaluation
from tasks.reports.builds.contents import BuildPage, Shown
from tasks.reports.builds.reading import read_page
from tasks.reports.content import Evaluated, Report, make_report
from tasks.reports.pages import RENDERERS
from tasks.slaq.mechanism.record import MECHANISM
from tasks.storage.builds import BuildRecord, find_build
from tasks.storage.warehouse import open_warehouse


def report_evaluations(warehouse: Path, evaluation_ids: Sequence[str], folder: Path) -> list[Path]:
    """Write the report of evaluations into a folder, as a page, Markdown and JSON, and return its files."""
    report = read_report(warehouse, evaluation_ids)
    return [
        write_file(render(report), folder / f"{evaluation_ids[0]}{ending}", "--reports")
        for ending, render in RENDERERS.items()
    ]


def read_told(warehouse: Path, names: Sequence[str]) -> Report | BuildPage:
    """Return what is to be told of evaluations, or of one build, by id, by the beginning of one, or as latest:NAME."""
    records = [find_build(warehouse, name) for name in names]
    built = [record for record in records if record.benchmark in BENCHMARKS]
    if not built:
        return read_report(warehouse, names)
    if len(records) == 1:
        return read_build(warehouse, built[0])
    first = built[0]
    if others := [record.build_id for record in records if record not in built]:
        raise UsageError(
            f"{first.build_id} is a build and {others[0]} an evaluation; name one build, or evaluations alone"
        )
    raise UsageError(
        f"the page of a build stands alone: name one; what differs between two of one benchmark is told by "
        f"factmill diff {' '.join(record.build_id for record in records[:2])}"
    )


def read_build(warehouse: Path, record: BuildRecord, shown: Shown | None = None) -> BuildPage:
    """Return the page of a build; `shown`: what of it may be told, by default all."""
    benchmark = BENCHMARKS[record.benchmark]
    return read_page(warehouse, benchmark, record, DISTRIBUTIONS.get(benchmark.name, lambda _: ()), shown)


def read_report(warehouse: Path, names: Sequence[str]) -> Report:
    """Return the report of evaluations by id, by the beginning of one, or as latest:NAME_evaluation.

    UsageError where they are not of one benchmark and of builds with the same content.
    """
    records = [find_build(warehouse, name) for name in names]
    if looked_into := [record for record in records if record.benchmark == MECHANISM.name]:
        return _read_looked_into(warehouse, looked_into[0], len(records))
    evaluations = {each.name: each for each in EVALUATIONS.values()}
    for record in records:
        if record.benchmark not in evaluations:
            raise UsageError(
                f"{record.build_id} is a build of {record.benchmark}; expected an evaluation: factmill evaluate {record.benchmark}"
            )
    _require_comparable(records)
    evaluation = evaluations[records[0].benchmark]
    return make_report(evaluation, [read_evaluated(warehouse, evaluation, record) for record in records])


def _read_looked_into(warehouse: Path, record: BuildRecord, named: int) -> Report:
    """Return the report of a mechanistic analysis, which stands alone."""
    from flows.commands.local.mechanism import read_report as read_mechanism

    if named > 1:
        raise UsageError(
            f"{record.build_id}: a report tells one mechanistic analysis; one of several models tells them together: factmill "
            "mechanism EVALUATION EVALUATION --model DIR --model DIR"
        )
    return read_mechanism(warehouse, record)


def check_endings(paths: Sequence[Path], forms: Collection[str] = RENDERERS) -> None:
    """UsageError unless each file's ending names a form, by default one of a report."""
    for path in paths:
        if path.suffix not in forms:
            raise UsageError(f"{path}: expected a file that ends in {', '.join(forms)}")


def write_file(text: str, path: Path, option: str) -> Path:
    """Write a report into a file, and return the file; `option`: what named it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", newline="")
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}; name another place with {option}") from error
    return path


def _require_comparable(records: Sequence[BuildRecord]) -> None:
    first, *others = records
    for other in others:
        if other.build_id in {each.build_id for each in records if each is not other}:
            raise UsageError(f"{other.build_id} is named twice; a model is compared with others, not with itself")
        if other.benchmark != first.benchmark:
            raise UsageError(
                f"{first.build_id} and {other.build_id} are of different benchmarks; models are compared on one"
            )
        if other.lock["params"]["source_digest"] != first.lock["params"]["source_digest"]:
            raise UsageError(
                f"{first.build_id} was measured on {name_measured(first)}, {other.build_id} on {name_measured(other)}, which "
                "has other rows; models are compared on one: evaluate again with --build, or --release"
            )


def read_evaluated(warehouse: Path, evaluation: Evaluation, record: BuildRecord) -> Evaluated:
    """Return an evaluation as reports read it."""
    metrics = read_metrics(warehouse, record.build_id)
    measured = find_measured_record(warehouse, record)
    judge, card = read_card(warehouse, evaluation, record)
    with open_warehouse(warehouse) as db:
        return Evaluated(
            record=record,
            measured=measured,
            metrics=metrics,
            answers=read_table(db, record.build_id, evaluation.main_table, evaluation.row),
            scores=read_table(db, record.build_id, f"{evaluation.of.name}_scores", Score),
            card=card,
            judge=judge,
        )
