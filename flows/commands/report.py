"""`factmill report`: write the page of a build, the report of evaluations, or the card of models."""

import re
import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

import typer

from factmill.flows.benchmarks import BENCHMARKS
from factmill.flows.cli.options import AsJson, Warehouse, print_result, write_file
from factmill.flows.commands.evaluate import read_judge, read_metrics, read_table
from factmill.flows.commands.mechanism import read_report as read_mechanism
from factmill.flows.evaluate.evaluations import EVALUATIONS
from factmill.tasks.core.evaluation.rows import Score
from factmill.tasks.core.fingerprints import digest_bytes
from factmill.tasks.core.publishing.distributions import Distributions
from factmill.tasks.engine.benchmark import load_place
from factmill.tasks.errors import OldBuild, UnknownBuild, UsageError
from factmill.tasks.evaluation.measured import find_measured_record, name_measured
from factmill.tasks.evaluation.record import ANSWERS, Evaluation
from factmill.tasks.options import RunOptions, warehouse_of
from factmill.tasks.reports.builds.contents import BUILD_RENDERERS, BuildPage, Shown
from factmill.tasks.reports.builds.reading import read_page
from factmill.tasks.reports.card import Card, Missing, Page, Taken, make_card
from factmill.tasks.reports.content import Evaluated, Report, make_report
from factmill.tasks.reports.pages import CARD_RENDERERS, RENDERERS
from factmill.tasks.slaq.mechanism.record import MECHANISM
from factmill.tasks.storage.builds import BuildRecord, find_build, list_builds
from factmill.tasks.storage.warehouse import open_warehouse
from factmill.tasks.text.whole import suggest_name


def report(
    names: list[str] = typer.Argument(
        ...,
        help="A build: its id, the beginning of one, or latest:BENCHMARK. Or evaluations (latest:NAME_evaluation); several are compared. Or all: the card of a model over all benchmarks.",
        metavar="BUILD | EVAL…",
    ),
    to: list[Path] = typer.Option(
        ..., help="What to write: a file that ends in .html, .md or .json. Repeatable.", metavar="FILE"
    ),
    models: list[str] | None = typer.Option(
        None,
        "--model",
        help="With all: a model on the card, as it was evaluated. Repeatable; default: all that were.",
        metavar="NAME",
    ),
    warehouse: Warehouse = None,
    as_json: AsJson = False,
) -> None:
    """Write what was built or measured as one page to read, Markdown or JSON.

    Of a build: the funnel with rejected rows, cost and time, what its rows are like, and the rows, each with where it comes
    from. Of evaluations: the metrics; several models of one benchmark are compared on the items that all have a score for.
    With all: one page over the benchmarks, of the latest evaluation of each, that links the single reports lying in the same
    folder.

    \b
    Examples:
      factmill report latest:granola --to granola.html
      factmill report latest:multihal_evaluation --to multihal.html
      factmill report multihal_evaluation-228 multihal_evaluation-7c2 --to both.html --to both.json
      factmill report all --model mine --model oracle --to card.html
    """
    check_endings(to)
    path = warehouse_of(RunOptions(warehouse=warehouse))
    kind = "evaluations"
    if names == ["all"]:
        cards = [(file, read_card(path, models or [], file.parent)) for file in to]
        written = [write_file(CARD_RENDERERS[file.suffix](card), file, "--to") for file, card in cards]
        warnings = cards[0][1].warnings
        told: list[str] = [page.evaluation_id for part in cards[0][1].parts for page in part.pages]
    elif models or "all" in names:
        raise UsageError("all stands alone, and --model goes with it: factmill report all --model NAME --to FILE")
    else:
        records = [find_build(path, name) for name in names]
        built = [record for record in records if record.benchmark in BENCHMARKS]
        if built and len(records) > 1:
            if others := [record.build_id for record in records if record not in built]:
                raise UsageError(
                    f"{built[0].build_id} is a build and {others[0]} an evaluation; name one build, or evaluations alone"
                )
            raise UsageError(
                f"the page of a build stands alone: name one; what differs between two of one benchmark is told by "
                f"factmill diff {' '.join(record.build_id for record in records[:2])}"
            )
        if built:
            page = read_build(path, built[0])
            kind, told, warnings = "builds", [page.build_id], page.warnings
            written = [write_file(BUILD_RENDERERS[file.suffix](page), file, "--to") for file in to]
        else:
            made = read_report(path, records)
            told, warnings = [each.evaluation_id for each in made.subjects], made.warnings
            written = [write_file(RENDERERS[file.suffix](made), file, "--to") for file in to]
    files = list(map(str, written))
    print_result(as_json, {kind: told, "files": files}, [*files, *(f"note: {warning}" for warning in warnings)])


def report_evaluation(warehouse: Path, evaluation_id: str, folder: Path) -> list[Path]:
    """Write the report of an evaluation into a folder as HTML, Markdown and JSON, and return its files."""
    report = read_report(warehouse, [find_build(warehouse, evaluation_id)])
    return [
        write_file(render(report), folder / f"{evaluation_id}{ending}", "--reports")
        for ending, render in RENDERERS.items()
    ]


def read_build(warehouse: Path, record: BuildRecord, shown: Shown | None = None) -> BuildPage:
    """Return the page of a build; `shown`: what it may show, by default everything."""
    benchmark = BENCHMARKS[record.benchmark]
    list_distributions: Distributions = load_place(benchmark.page) if benchmark.page else lambda _: ()
    return read_page(warehouse, benchmark, record, list_distributions, shown)


def read_report(warehouse: Path, records: Sequence[BuildRecord]) -> Report:
    """Return the report of evaluations, or of a single mechanistic analysis.

    UsageError unless all evaluations are of one benchmark and of builds with the same content.
    """
    if looked_into := next((record for record in records if record.benchmark == MECHANISM.name), None):
        if len(records) > 1:
            raise UsageError(
                f"{looked_into.build_id}: a report tells one mechanistic analysis; one of several models tells them together: "
                "factmill mechanism EVALUATION EVALUATION --model DIR --model DIR"
            )
        return read_mechanism(warehouse, looked_into)
    evaluations = {each.name: each for each in EVALUATIONS.values()}
    for record in records:
        if record.benchmark not in evaluations:
            raise UsageError(
                f"{record.build_id} is a build of {record.benchmark}; expected an evaluation: factmill evaluate {record.benchmark}"
            )
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
    evaluation = evaluations[records[0].benchmark]
    return make_report(evaluation, [read_evaluated(warehouse, evaluation, record) for record in records])


def check_endings(paths: Sequence[Path], forms: Collection[str] = RENDERERS) -> None:
    """Raise UsageError unless each file's ending is one of `forms`, by default those of a report."""
    for path in paths:
        if path.suffix not in forms:
            raise UsageError(f"{path}: expected a file that ends in {', '.join(forms)}")


def read_evaluated(warehouse: Path, evaluation: Evaluation, record: BuildRecord) -> Evaluated:
    """Return an evaluation with its tables, judge and measured build, as input of a report."""
    measured = find_measured_record(warehouse, record)
    judge, card = read_judge(warehouse, evaluation, record)
    with open_warehouse(warehouse) as db:
        return Evaluated(
            record=record,
            measured=measured,
            metrics=read_metrics(db, record.build_id),
            answers=read_table(db, record.build_id, evaluation.main_table, evaluation.row),
            scores=read_table(db, record.build_id, f"{evaluation.of.name}_scores", Score),
            card=card,
            judge=judge,
        )


def read_card(warehouse: Path, names: Sequence[str], folder: Path, made: Collection[str] = ()) -> Card:
    """Return the card of models, one column each; without names, of all models that were evaluated.

    `folder`: the folder of the card; only reports in the same folder are linked. `made`: evaluations to prefer over
    later ones. UsageError for a model that was never evaluated.
    """
    builds = list_builds(warehouse)
    evaluations = {each.name for each in EVALUATIONS.values()}
    known = [build for build in builds if build.benchmark in evaluations]
    if not known:
        raise UnknownBuild(f"no evaluation in {warehouse}; make some: factmill evaluate all --model NAME")
    known.sort(key=lambda each: each.build_id in made)  # stable: the order of time stays
    models = [_find_model(name, known) for name in names] or [_model_of(each) for each in known]
    models = list(dict.fromkeys(models))
    return make_card(models, [_take(warehouse, each, models, builds, known, folder) for each in EVALUATIONS.values()])


def write_card(warehouse: Path, names: Sequence[str], folder: Path, made: Collection[str]) -> list[Path]:
    """Write the card of models into a folder as HTML, Markdown and JSON, and return its files."""
    card = read_card(warehouse, names, folder, made)
    models = "-".join(card.models)
    # add a digest if the models' names had to be changed for the file name
    plain = re.sub(r"[^\w.+-]+", "-", models, flags=re.ASCII)[:80]
    name = plain if plain == models else f"{plain}-{digest_bytes(models.encode())[:8]}"
    return [
        write_file(render(card), folder / f"card-{name}{ending}", "--reports")
        for ending, render in CARD_RENDERERS.items()
    ]


def _take(
    warehouse: Path,
    evaluation: Evaluation,
    models: Sequence[str],
    builds: Sequence[BuildRecord],
    known: Sequence[BuildRecord],
    folder: Path,
) -> Taken:
    """Return the latest evaluation of each model on one benchmark, all on the same source rows: those that most models
    were measured on, the most recent in a tie."""
    mine = [each for each in known if each.benchmark == evaluation.name and _model_of(each) in models]
    measured_on = Counter(rows for rows, _ in {(_rows_of(each), _model_of(each)) for each in mine})
    latest = {_rows_of(each): at for at, each in enumerate(mine)}
    rows = max(measured_on, key=lambda rows: (measured_on[rows], latest[rows]), default="")
    evaluated, left_out = [], {}
    for model in models:
        latest_first = [each for each in reversed(mine) if _model_of(each) == model]
        for each in latest_first:
            if _rows_of(each) == rows:
                with suppress(OldBuild):  # an earlier factmill's format: try an earlier evaluation
                    evaluated.append(read_evaluated(warehouse, evaluation, each))
                    left_out[each.build_id] = [other for other in latest_first if other is not each]
                    break
    taken = [each.record for each in evaluated]
    without = [model for model in models if model not in map(_model_of, taken)]
    missing = []
    if all(each.benchmark != evaluation.of.name for each in builds):
        missing.append(Missing("all" if len(without) > 1 else without[0], f"factmill build {evaluation.of.name}"))
    for model in without:
        like = next(each for each in reversed(known) if _model_of(each) == model)
        said = ["factmill", "evaluate", evaluation.of.name]
        if taken:
            flow = taken[0].origin["flow"]
            said += ["--release", flow["release"]] if flow.get("release") else ["--build", flow["build"]]
        said += ["--world", like.origin["world"]] if like.origin["world"] != "embedded" else []
        said += (
            ["--answers", "FILE", "--model", model] if _has_file(like) else ["--model", like.origin["flow"]["model"]]
        )
        missing.append(Missing(model, shlex.join(said)))
    pages = []
    for each in taken:
        name = f"{each.build_id}.html"
        link = name if (folder / name).is_file() else ""
        pages.append(Page(_model_of(each), each.build_id, link, f"factmill report {each.build_id} --to {name}"))
    return Taken(evaluation, evaluated, left_out, missing, pages)


def _rows_of(evaluation: BuildRecord) -> str:
    return str(evaluation.lock["params"]["source_digest"])


def _model_of(evaluation: BuildRecord) -> str:
    return str(evaluation.report["facts"]["model"])


def _find_model(name: str, known: Sequence[BuildRecord]) -> str:
    """Return the model with this name, in reports or on the command line; UsageError for none or several."""
    models = list(dict.fromkeys(map(_model_of, known)))
    if name in models:
        return name
    called = {_model_of(each) for each in known if not _has_file(each) and each.origin["flow"]["model"] == name}
    if len(called) == 1:
        return called.pop()
    if called:
        raise UsageError(f"--model {name}: several models were called so; name one of {', '.join(sorted(called))}")
    raise UsageError(
        f"--model {name}: no evaluation of it is here; there are: {', '.join(models)}{suggest_name(name, models)}. "
        f"Make one: factmill evaluate all --model {shlex.quote(name)}"
    )


def _has_file(evaluation: BuildRecord) -> bool:
    return bool(evaluation.origin["files"].get(ANSWERS))
