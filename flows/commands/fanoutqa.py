"""`factmill fanoutqa validate`: check question files before a build, or with --drift report which sub-answers published
questions would lose or gain at another moment."""

from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import typer

from factmill.flows.cli.options import (
    JsonOption,
    WarehouseOption,
    check_age_option,
    list_given_options,
    print_result,
    write_text_file,
)
from factmill.flows.prefect_server import send_prefect_event
from factmill.tasks import progress
from factmill.tasks.core.rows import MAX_SETTING_NUMBER
from factmill.tasks.core.service_settings import EMBEDDED_SERVICE
from factmill.tasks.engine.naming.identities import compute_oldest_valid_reply_times, resolve_reply_max_ages_by_identity
from factmill.tasks.engine.services import WorldServices
from factmill.tasks.errors import OutputError, UsageError
from factmill.tasks.fanoutqa.checking.drift import (
    format_reference_drift,
    format_reference_drift_summary,
    load_published_references,
    measure_drift,
)
from factmill.tasks.fanoutqa.checking.validate import (
    find_similar_questions,
    format_file_report,
    format_similar_pairs,
    validate_question_file,
)
from factmill.tasks.fanoutqa.core.drift import (
    check_lost_share,
    compute_lost_share,
    count_drift_report_figures,
    flatten_drift,
    format_drift_csv,
)
from factmill.tasks.fanoutqa.core.questions import MIN_ARTICLES
from factmill.tasks.fanoutqa.params import find_question_files, parse_past_epoch
from factmill.tasks.options import RunOptions, resolve_warehouse_path
from factmill.tasks.settings import factmill_home, load_world
from factmill.tasks.storage.builds import resolve_build
from factmill.tasks.storage.recording.call_cache import CallCache

fanoutqa_app = typer.Typer(help="Check files of questions, and find outdated answers.", no_args_is_help=True)
_DRIFT_OPTIONS = ("--epoch", "--build", "--to", "--all", "--max-age", "--fail-over", "--warehouse")
_FILE_OPTIONS = ("--least-articles", "--duplicates")


@fanoutqa_app.command("validate", no_args_is_help=True)
def validate_fanoutqa(
    context: typer.Context,
    files: list[Path] | None = typer.Argument(
        None,
        help="JSON or JSON Lines files with authored or released questions, or folders of such files.",
        metavar="PATH",
    ),
    least_articles: int = typer.Option(
        MIN_ARTICLES,
        min=1,
        max=MAX_SETTING_NUMBER,
        help="Minimum number of different articles that an authored question needs.",
        metavar="N",
    ),
    duplicates: bool = typer.Option(False, "--duplicates", help="Also find similar questions by their embeddings."),
    drift: bool = typer.Option(
        False, "--drift", help="Instead of files, check whether articles still state the answers of a build."
    ),
    epoch: str | None = typer.Option(
        None,
        help="With --drift: date to compare with, a day (at 00:00 UTC) or an ISO 8601 time. Default: the world's epoch, else today.",
        metavar="DATE",
    ),
    build_name: str = typer.Option(
        "latest:fanoutqa", "--build", help="With --drift: the build, by its id or the start of its id.", metavar="BUILD"
    ),
    to: Path | None = typer.Option(
        None, help="With --drift: write the list to this CSV file and print only the counts.", metavar="FILE"
    ),
    show_all: bool = typer.Option(False, "--all", help="With --drift: also list unchanged sub-answers."),
    max_age: str | None = typer.Option(
        None,
        help="With --drift: request recorded replies again if they are older than this (12h, 30d, 4w). Default: max_age in the world's file, else never.",
        metavar="AGE",
        callback=check_age_option,
    ),
    fail_over: float | None = typer.Option(
        None,
        min=0,
        max=1,
        help="With --drift: exit with code 1 if more than this share of the sub-answers is lost, such as 0.05.",
        metavar="SHARE",
    ),
    world: str | None = typer.Option(
        None,
        help="World (services and models) to use. --drift reads its Wikipedia (default: the build's world); --duplicates uses its sentence encoder (default: embedded).",
        metavar="WORLD",
    ),
    warehouse: WarehouseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check files of fan-out questions; with --drift, check a build's answers against newer revisions of its articles.

    Files are checked without network. The exit code is 1 if a question breaks a rule. Messages name
    the sub-question, counted from 0: strategy[1].then[0] in a question that you write, decomposition[1] in a released
    one. Articles without a page id or revision id are reported but do not make a question invalid; neither do doubts
    about its structure, such as two sub-questions about one article.

    With --drift, the command reads each article of a build twice: as of the build's epoch and as of --epoch. It lists
    sub-answers that are stated at only one of these dates, and articles that exist at only one of them. Calls are
    recorded in the warehouse, so repeating the command sends no request, except for replies older than --max-age.

    A sub-answer is lost if its article no longer states it, states only some of its parts, or is gone. The
    share of lost sub-answers is computed over those that could be looked up. With --fail-over SHARE, the exit code is
    1 if the share of lost sub-answers is higher; it is also 1 if too many look-ups failed. Use this in cron jobs. If
    PREFECT_API_URL is set, a higher share also emits the Prefect event factmill.drift.found, which starts the
    automation data/automations/drift.yaml.

    \b
    Examples:
      factmill fanoutqa validate questions.json
      factmill fanoutqa validate drafts/*.json --least-articles 3 --json
      factmill fanoutqa validate fanout-final-dev.json --duplicates
      factmill fanoutqa validate --drift --epoch 2026-01-01 --to drift.csv --all
      factmill fanoutqa validate --drift --max-age 12h --fail-over 0.05 --json
    """
    unused = set(list_given_options(context)) & {*(_FILE_OPTIONS if drift else _DRIFT_OPTIONS)}
    if drift == bool(files):
        raise UsageError(
            "expected either files, or --drift for a build; for example: `factmill fanoutqa validate questions.json`, or "
            "`factmill fanoutqa validate --drift --epoch 2026-01-01`"
        )
    if unused:
        how = (
            "has no effect with --drift" if drift else "works only with --drift, which checks a build instead of files"
        )
        raise UsageError(f"{min(unused)} {how}; remove one of the two")
    if drift:
        given = parse_past_epoch(epoch) if epoch else None
        if to and not to.parent.is_dir():
            raise OutputError(
                f"{to}: cannot be written: its folder does not exist; create it, or give another path with --to"
            )
        run = RunOptions(warehouse=warehouse)
        return _measure_and_print_drift(run, build_name, given, world, max_age, to, show_all, fail_over, as_json)
    reports = [validate_question_file(file, least_articles) for file in find_question_files(files or []).values()]
    similar = find_similar_questions(reports, world or EMBEDDED_SERVICE) if duplicates else None
    is_valid = not any(report.invalid for report in reports)
    result: dict[str, object] = {"valid": is_valid, "files": [report.as_json() for report in reports]}
    result |= {"duplicates": asdict(similar)} if similar else {}
    lines = [line for report in reports for line in format_file_report(report)]
    print_result(as_json, result, [*lines, *(format_similar_pairs(similar) if similar else ())])
    if not is_valid:
        raise typer.Exit(1)
    return None


def _measure_and_print_drift(
    run: RunOptions,
    build_name: str,
    given: str | None,
    world: str | None,
    max_age: str | None,
    to: Path | None,
    show_all: bool,
    fail_over: float | None,
    as_json: bool,
) -> None:
    progress.set_progress_style()
    path = resolve_warehouse_path(run)
    build = resolve_build(path, build_name)
    references = load_published_references(path, build)
    asked = load_world(name := world or build.origin["world"])
    now = datetime.now(UTC)
    moment = given or parse_past_epoch((asked.epoch or now.date()).isoformat())
    oldest = compute_oldest_valid_reply_times(resolve_reply_max_ages_by_identity(asked, max_age), now)
    with (
        closing(WorldServices.open(name, None, factmill_home())) as services,
        closing(CallCache(path, "record", oldest_allowed=oldest)) as recorder,
    ):
        services.world.require_services("wikipedia")
        drifts = measure_drift(references, services, recorder, moment)
    counts = count_drift_report_figures(drifts)
    listed = [each for each in drifts if show_all or each.kind != "unchanged"]
    moments = (str(build.lock.get("params", {}).get("epoch", "")), moment)
    if to:
        write_text_file(format_drift_csv(listed), to)
    verdict = None if fail_over is None else check_lost_share(counts, fail_over)
    result = {
        "build_id": build.build_id,
        "epoch_before": moments[0],
        "epoch": moment,
        "counts": counts,
        "share_lost": compute_lost_share(counts),
        "fail_over": fail_over,
        "verdict": verdict,
        **({"file": str(to)} if to else {"drift": [flatten_drift(each) for each in listed]}),
    }
    lines = [] if to else [line for each in listed for line in format_reference_drift(each)]
    missing = counts["not_looked_up"]
    note = f"{missing:,} sub-answers could not be looked up; run the same command again later" if missing else ""
    print_result(as_json, result, [*lines, format_reference_drift_summary(build.build_id, moments, counts)], note)
    if verdict == "over":
        send_prefect_event(
            "drift.found",
            "build",
            build.build_id,
            {"epoch": moment, "share_lost": compute_lost_share(counts), **counts},
        )
        why = f"{compute_lost_share(counts):.2%} of the sub-answers are lost, more than {fail_over:.2%}"
    elif verdict == "untold":
        why = (
            f"{missing:,} of {counts['references']:,} sub-answers could not be looked up, so it is unknown whether more than "
            f"{fail_over:.2%} are lost; run the same command again later"
        )
    else:
        return
    typer.echo(f"drift: {why}", err=True)
    raise typer.Exit(1)
