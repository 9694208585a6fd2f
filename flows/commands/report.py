"""`factmill report`: write the page of a build, the report of evaluations, or the card of models."""

import re
import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

import typer

from factmill.flows.benchmarks import BENCHMARKS
from factmill.flows.cli.options import (
    LATEST_RULE,
    JsonOption,
    WarehouseOption,
    print_build_choice_note,
    print_result,
    write_report_files,
    write_text_file,
)
from factmill.flows.commands.evaluate import load_evaluation_metrics, load_evaluation_table, load_judge_with_card
from factmill.flows.commands.mechanism import load_mechanism_report
from factmill.flows.evaluate.evaluations import EVALUATIONS
from factmill.tasks.core.digests import digest_bytes
from factmill.tasks.core.evaluation.rows import AnswerScore
from factmill.tasks.core.publishing.distributions import DistributionMaker
from factmill.tasks.engine.benchmark import load_named_object
from factmill.tasks.errors import BuildFormatTooOld, UnknownBuild, UsageError
from factmill.tasks.evaluation.definition import ANSWERS_FILE_UNIT, Evaluation
from factmill.tasks.evaluation.measured_build import find_measured_build_record, format_measured_build
from factmill.tasks.options import RunOptions, resolve_warehouse_path
from factmill.tasks.reports.builds.build_page import BUILD_RENDERERS, BuildPage, BuildPageVisibility, render_build_html
from factmill.tasks.reports.builds.page_loading import load_build_page
from factmill.tasks.reports.evaluation_report import EvaluationReport, LoadedEvaluation, make_evaluation_report
from factmill.tasks.reports.model_card import (
    BenchmarkEvaluationOfEachModel,
    EvaluationReportLink,
    MissingEvaluation,
    ModelCard,
    make_model_card,
)
from factmill.tasks.reports.rendering import CARD_RENDERERS, REPORT_RENDERERS
from factmill.tasks.settings import factmill_home
from factmill.tasks.slaq.mechanism.benchmark import SLAQ_MECHANISM
from factmill.tasks.storage.builds import BuildRecord, list_builds, resolve_build, resolve_build_and_latest_choice_note
from factmill.tasks.storage.warehouse import open_warehouse
from factmill.tasks.text.sanitize import format_did_you_mean


def report(
    names: list[str] = typer.Argument(
        ...,
        help=f"A build: its id, the start of its id, or latest:BENCHMARK. {LATEST_RULE} Instead of a build: evaluations of one benchmark (ids, or latest:NAME_evaluation), or `all` for a model card over all benchmarks.",
        metavar="BUILD | EVAL…",
    ),
    to: list[Path] | None = typer.Option(
        None,
        help="Required: file to write, such as report.html (repeatable). Its ending sets the format: .html, .md or .json.",
        metavar="FILE",
    ),
    models: list[str] | None = typer.Option(
        None,
        "--model",
        help="With `all`: model to put on the card, by its name in the evaluation (repeatable). Default: every evaluated model.",
        metavar="NAME",
    ),
    items: bool = typer.Option(
        False,
        "--items",
        help="With several evaluations: also list the items. Items on which the models differ most come first.",
    ),
    warehouse: WarehouseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a one-page report of a build, or of evaluations.

    A build's page shows its stages (rejected rows, cost, time), statistics, and each row with its provenance. An
    evaluation's page shows its metrics. The page of several evaluations compares the models, using only the items for
    which every model has a score. With `all`, the command writes a model card from the latest evaluation of
    each benchmark. The card links to the reports of these evaluations, if they are in the same folder as the card.

    \b
    Examples:
      factmill report latest:granola --to granola.html
      factmill report latest:multihal_evaluation --to multihal.html
      factmill report multihal_evaluation-228 multihal_evaluation-7c2 --to both.html --to both.json
      factmill report all --model mine --model oracle --to card.html
    """
    path = resolve_warehouse_path(RunOptions(warehouse=warehouse))
    if not to:
        for name in names:
            if name != "all":
                try:
                    resolve_build(path, name)
                except UnknownBuild as error:
                    raise UnknownBuild(f"{error}; also name the file to write: --to report.html") from error
        raise UsageError(f"name the file to write: factmill report {' '.join(names)} --to report.html (or .md, .json)")
    check_report_suffixes(to)
    kind = "evaluations"
    choices = list[str]()
    if names == ["all"]:
        cards = [(file, load_model_card(path, models or [], file.parent)) for file in to]
        written = [write_text_file(CARD_RENDERERS[file.suffix](card), file, "--to") for file, card in cards]
        warnings = cards[0][1].warnings
        ids: list[str] = [page.evaluation_id for part in cards[0][1].parts for page in part.pages]
    elif models or "all" in names:
        raise UsageError(
            "`all` cannot be combined with builds or evaluations, and --model needs `all`; for example: `factmill report all --model NAME --to FILE`"
        )
    else:
        resolved = [resolve_build_and_latest_choice_note(path, name) for name in names]
        records, choices = [each for each, _ in resolved], [note for _, note in resolved]
        built = [record for record in records if record.benchmark in BENCHMARKS]
        if built and len(records) > 1:
            if others := [record.build_id for record in records if record not in built]:
                raise UsageError(
                    f"{built[0].build_id} is a build and {others[0]} an evaluation; give one build, or only evaluations"
                )
            raise UsageError(
                f"a report shows one build, but {len(records)} are given; to compare two builds: "
                f"factmill diff {' '.join(record.build_id for record in records[:2])}"
            )
        if built:
            page = load_page_for_build(path, built[0])
            kind, ids, warnings = "builds", [page.build_id], page.warnings
            written = [write_text_file(BUILD_RENDERERS[file.suffix](page), file, "--to") for file in to]
        else:
            made = load_evaluation_report(path, records, with_items=items or len(records) == 1)
            ids, warnings = [each.evaluation_id for each in made.subjects], made.warnings
            written = [write_text_file(REPORT_RENDERERS[file.suffix](made), file, "--to") for file in to]
    files = list(map(str, written))
    print_result(as_json, {kind: ids, "files": files}, [*files, *(f"note: {warning}" for warning in warnings)])
    for choice in choices:
        print_build_choice_note(choice)


def write_evaluation_report(warehouse: Path, evaluation_id: str, folder: Path) -> list[Path]:
    """Write the report of an evaluation into a folder as HTML, Markdown and JSON, and return its files."""
    report = load_evaluation_report(warehouse, [resolve_build(warehouse, evaluation_id)])
    return write_report_files(report, REPORT_RENDERERS, folder, evaluation_id)


def write_build_page(warehouse: Path, build_id: str, option: str = "--to") -> tuple[BuildPage, Path]:
    """Write the page of a build into `reports` of factmill's home; return the page and its file."""
    page = load_page_for_build(warehouse, resolve_build(warehouse, build_id))
    path = factmill_home() / "reports" / f"{build_id}.html"
    return page, write_text_file(render_build_html(page), path, option)


def load_page_for_build(
    warehouse: Path, record: BuildRecord, visibility: BuildPageVisibility | None = None
) -> BuildPage:
    """Return the page of a build; `visibility`: what it may show, by default everything."""
    benchmark = BENCHMARKS[record.benchmark]
    list_distributions: DistributionMaker = load_named_object(benchmark.page) if benchmark.page else lambda _: ()
    return load_build_page(warehouse, benchmark, record, list_distributions, visibility)


def load_evaluation_report(
    warehouse: Path, records: Sequence[BuildRecord], with_items: bool = True
) -> EvaluationReport:
    """Return the report of evaluations, or of a single mechanistic analysis; `with_items`: with single answers.

    UsageError unless all evaluations are of one benchmark and of builds with the same content.
    """
    if looked_into := next((record for record in records if record.benchmark == SLAQ_MECHANISM.name), None):
        if len(records) > 1:
            raise UsageError(
                f"{looked_into.build_id}: a report shows one mechanistic analysis; to analyse several models together: "
                "factmill mechanism EVALUATION EVALUATION --model DIR --model DIR"
            )
        return load_mechanism_report(warehouse, looked_into)
    evaluation = check_evaluations_comparable(records)
    return make_evaluation_report(
        evaluation, [load_evaluation_for_report(warehouse, evaluation, record) for record in records], with_items
    )


def check_evaluations_comparable(records: Sequence[BuildRecord]) -> Evaluation:
    """Return the definition of evaluations; UsageError unless all are of one benchmark and of builds with the same content."""
    evaluations = {each.name: each for each in EVALUATIONS.values()}
    for record in records:
        if record.benchmark not in evaluations:
            raise UsageError(
                f"{record.build_id} is a build of {record.benchmark}; expected an evaluation; make one: `factmill evaluate {record.benchmark} --model NAME`"
            )
    first, *others = records
    for other in others:
        if other.build_id in {each.build_id for each in records if each is not other}:
            raise UsageError(f"{other.build_id} is given twice; give different evaluations to compare")
        if other.benchmark != first.benchmark:
            raise UsageError(
                f"{first.build_id} and {other.build_id} are of different benchmarks; expected evaluations of one benchmark"
            )
        if other.lock["params"]["source_digest"] != first.lock["params"]["source_digest"]:
            raise UsageError(
                f"{first.build_id} was measured on {format_measured_build(first)}, {other.build_id} on {format_measured_build(other)}, whose rows "
                "differ; evaluate both on the same build (--build) or release (--release)"
            )
    return evaluations[records[0].benchmark]


def check_report_suffixes(paths: Sequence[Path], suffixes: Collection[str] = REPORT_RENDERERS) -> None:
    """Raise UsageError unless each file's ending is one of `suffixes`, by default those of a report."""
    for path in paths:
        if path.suffix not in suffixes:
            raise UsageError(f"{path}: expected a file that ends in {', '.join(suffixes)}")


def load_evaluation_for_report(warehouse: Path, evaluation: Evaluation, record: BuildRecord) -> LoadedEvaluation:
    """Return an evaluation with its tables, judge and measured build, as input of a report."""
    measured = find_measured_build_record(warehouse, record)
    judge, card = load_judge_with_card(warehouse, evaluation, record)
    with open_warehouse(warehouse) as db:
        return LoadedEvaluation(
            record=record,
            measured=measured,
            metrics=load_evaluation_metrics(db, record.build_id),
            answers=load_evaluation_table(db, record.build_id, evaluation.main_table, evaluation.main_row_model),
            scores=load_evaluation_table(db, record.build_id, f"{evaluation.benchmark.name}_scores", AnswerScore),
            card=card,
            judge=judge,
        )


def load_model_card(
    warehouse: Path, names: Sequence[str], folder: Path, preferred_ids: Collection[str] = ()
) -> ModelCard:
    """Return the card of models, one column each; without names, of all models that were evaluated.

    `folder`: the folder of the card; only reports in the same folder are linked. `made`: evaluations to prefer over
    later ones. UsageError for a model that was never evaluated.
    """
    builds = list_builds(warehouse)
    evaluations = {each.name for each in EVALUATIONS.values()}
    known = [build for build in builds if build.benchmark in evaluations]
    if not known:
        raise UnknownBuild(f"{warehouse} has no evaluation; make some: `factmill evaluate all --model NAME`")
    known.sort(key=lambda each: each.build_id in preferred_ids)  # stable: the order of time stays
    models = [resolve_model_name(name, known) for name in names] or [_get_model_name(each) for each in known]
    models = list(dict.fromkeys(models))
    return make_model_card(
        models,
        [
            _choose_latest_comparable_evaluations(warehouse, each, models, builds, known, folder)
            for each in EVALUATIONS.values()
        ],
    )


def write_model_card(
    warehouse: Path, model_names: Sequence[str], folder: Path, preferred_ids: Collection[str]
) -> list[Path]:
    """Write the card of models into a folder as HTML, Markdown and JSON, and return its files."""
    card = load_model_card(warehouse, model_names, folder, preferred_ids)
    models = "-".join(card.models)
    # add a digest if the models' names had to be changed for the file name
    plain = re.sub(r"[^\w.+-]+", "-", models, flags=re.ASCII)[:80]
    name = plain if plain == models else f"{plain}-{digest_bytes(models.encode())[:8]}"
    return write_report_files(card, CARD_RENDERERS, folder, f"card-{name}")


def _choose_latest_comparable_evaluations(
    warehouse: Path,
    evaluation: Evaluation,
    models: Sequence[str],
    builds: Sequence[BuildRecord],
    known: Sequence[BuildRecord],
    folder: Path,
) -> BenchmarkEvaluationOfEachModel:
    """Return the latest evaluation of each model on one benchmark, all on the same source rows: those that most models
    were measured on, the most recent in a tie."""
    of_models = [each for each in known if each.benchmark == evaluation.name and _get_model_name(each) in models]
    measured_on = Counter(
        rows for rows, _ in {(_get_measured_build_digest(each), _get_model_name(each)) for each in of_models}
    )
    latest = {_get_measured_build_digest(each): at for at, each in enumerate(of_models)}
    rows = max(measured_on, key=lambda rows: (measured_on[rows], latest[rows]), default="")
    evaluated, left_out = [], {}
    for model in models:
        latest_first = [each for each in reversed(of_models) if _get_model_name(each) == model]
        for each in latest_first:
            if _get_measured_build_digest(each) == rows:
                with suppress(BuildFormatTooOld):  # an earlier factmill's format: try an earlier evaluation
                    evaluated.append(load_evaluation_for_report(warehouse, evaluation, each))
                    left_out[each.build_id] = [other for other in latest_first if other is not each]
                    break
    taken = [each.record for each in evaluated]
    without = [model for model in models if model not in map(_get_model_name, taken)]
    missing = []
    if all(each.benchmark != evaluation.benchmark.name for each in builds):
        missing.append(
            MissingEvaluation("all" if len(without) > 1 else without[0], f"factmill build {evaluation.benchmark.name}")
        )
    for model in without:
        like = next(each for each in reversed(known) if _get_model_name(each) == model)
        command = ["factmill", "evaluate", evaluation.benchmark.name]
        if taken:
            flow = taken[0].origin["flow"]
            command += ["--release", flow["release"]] if flow.get("release") else ["--build", flow["build"]]
        command += ["--world", like.origin["world"]] if like.origin["world"] != "embedded" else []
        command += (
            ["--answers", "FILE", "--model", model]
            if _has_answers_file(like)
            else ["--model", like.origin["flow"]["model"]]
        )
        missing.append(MissingEvaluation(model, shlex.join(command)))
    pages = []
    for each in taken:
        name = f"{each.build_id}.html"
        link = name if (folder / name).is_file() else ""
        pages.append(
            EvaluationReportLink(
                _get_model_name(each), each.build_id, link, f"factmill report {each.build_id} --to {name}"
            )
        )
    return BenchmarkEvaluationOfEachModel(evaluation, evaluated, left_out, missing, pages)


def _get_measured_build_digest(evaluation: BuildRecord) -> str:
    return str(evaluation.lock["params"]["source_digest"])


def _get_model_name(evaluation: BuildRecord) -> str:
    return str(evaluation.report["facts"]["model"])


def resolve_model_name(name: str, known: Sequence[BuildRecord]) -> str:
    """Return the model with this name, in reports or on the command line; UsageError for none or several."""
    models = list(dict.fromkeys(map(_get_model_name, known)))
    if name in models:
        return name
    called = {
        _get_model_name(each) for each in known if not _has_answers_file(each) and each.origin["flow"]["model"] == name
    }
    if len(called) == 1:
        return called.pop()
    if called:
        raise UsageError(
            f"--model {name}: several evaluated models have this name; expected one of {', '.join(sorted(called))}"
        )
    raise UsageError(
        f"--model {name}: no evaluation of this model; evaluated models: {', '.join(models)}{format_did_you_mean(name, models)}. "
        f"To evaluate it: `factmill evaluate all --model {shlex.quote(name)}`"
    )


def _has_answers_file(evaluation: BuildRecord) -> bool:
    return bool(evaluation.origin["files"].get(ANSWERS_FILE_UNIT))
