"""Loads the page of a build from the warehouse."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from factmill.tasks.core.measures.report_figures import FigureSeries, ReportFigure
from factmill.tasks.core.prompts import format_prompt_digests
from factmill.tasks.core.publishing.distributions import DistributionMaker, PublishedBuildForDistributions
from factmill.tasks.core.review import ReviewItem, TextEdit
from factmill.tasks.core.spending.costs import (
    BudgetLimits,
    RunSpending,
    format_budget_limits,
    format_cost,
    format_spending,
)
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.errors import BuildFormatTooOld
from factmill.tasks.reports.builds.build_page import (
    BuildPage,
    BuildPageReviewItem,
    BuildPageVisibility,
    ForecastAmountComparison,
    RejectReasonSummary,
    ReviewQueueSummary,
    ServiceReplyAges,
    StageSummary,
    format_caution_or_scripted_notice,
)
from factmill.tasks.reports.builds.sampled_rows import (
    format_utc_minute,
    load_all_rows_for_page_search,
    load_page_rejects,
    load_page_rows_and_errors,
    sample_row_ids_with_total,
)
from factmill.tasks.reports.formatting import (
    format_evidence_epoch,
    format_language_names,
    format_parameter_value,
    format_row_balance,
    format_snake_case_as_words,
    format_user_source_name,
)
from factmill.tasks.reports.item_browser import shorten_with_note
from factmill.tasks.reports.page_frame import KeyFigure, make_build_reference
from factmill.tasks.storage.builds import BuildRecord, load_published_table, load_table_digests
from factmill.tasks.storage.warehouse import Connection, open_warehouse, query_rows
from factmill.tasks.text.durations import format_age_in_words
from factmill.tasks.text.sanitize import escape_control_characters

_EXAMPLES_PER_REASON = 3
"""Number of example rejects shown for each reason."""
_MAX_REASONS = 100
_MAX_REVIEW_ITEMS = 200
"""Maximum number of review items shown."""
_MAX_REVIEW_CHARACTERS = 600
"""Maximum characters of a text of a review item."""
_NEARLY_ALL_LOST_SHARE = 0.2
"""Share of its rows that a stage may lose and still pass nearly all on."""
_INVISIBLE_LOSS_SHARE = 0.05
"""Share of the longest bar below which lost rows are hard to see."""
_MAX_FILES_NAMED = 12
"""Maximum number of source files that are named."""
_FORECAST_AMOUNTS = {
    "calls": "different calls",
    "tokens_in": "tokens in",
    "tokens_out": "tokens out",
    "usd": "US$",
}
"""Key of a forecast amount → its label."""
_SHOWS_ANSWERS_WARNING = (
    "This page contains answers of the test part, which releases and exports hold out. It is for the makers of the benchmark; "
    "do not publish it. The page in a release omits these answers."
)


def load_build_page(
    warehouse: Path,
    benchmark: Benchmark,
    build: BuildRecord,
    distributions: DistributionMaker = lambda _: (),
    shown: BuildPageVisibility | None = None,
) -> BuildPage:
    """Return the content of a published build's page; `shown`: limits on what it shows, None: none."""
    allowed = shown or BuildPageVisibility()
    stages = tuple(_make_stage_summary(each, place == 0) for place, each in enumerate(build.report["stages"]))
    with open_warehouse(warehouse) as db:
        ids, in_all = sample_row_ids_with_total(db, benchmark, build.build_id, allowed)
        rows, faults = load_page_rows_and_errors(db, benchmark, build.build_id, ids, allowed)
        all_rows = (
            load_all_rows_for_page_search(db, benchmark, build.build_id, rows, allowed) if len(rows) < in_all else None
        )
        examples = load_page_rejects(db, benchmark, build.build_id, _EXAMPLES_PER_REASON, allowed)
        replies = tuple(_load_reply_ages(db, build))
        figures, more_faults = _make_distribution_figures(db, build, distributions)
        review = _load_review_summary(db, benchmark, build, allowed)
        tells_answers = not allowed.withheld and any(
            each["rows"]
            for each in query_rows(db, "SELECT table_name, rows FROM build_tables WHERE build_id = ?", build.build_id)
            if each["table_name"] in benchmark.held_out_tables
        )
    of_stages = build.report["reasons"]
    reasons = [
        (stage.name, reason, count) for stage in stages for reason, count in of_stages.get(stage.name, {}).items()
    ]
    totals = Counter[str]()
    for _, reason, count in reasons:
        totals[reason] += count
    reasons.sort(key=lambda each: (-totals[each[1]], each[1], -each[2], each[0]))
    return BuildPage(
        build_id=build.build_id,
        title=f"{benchmark.title.partition(':')[0]}, build {build.build_id}",
        headline=_format_row_count_and_title(benchmark, build),
        summary=_format_how_and_when_built(build),
        key_figures=tuple(_make_key_figures(build, reasons)),
        warnings=tuple(_list_build_warnings(build, tells_answers, [*faults, *more_faults])),
        facts={name: fact for name, fact in _list_build_facts(build).items() if fact},
        value_labels=benchmark.value_labels(),
        balance=format_row_balance(build.report),
        stages=stages,
        foretold=tuple(_compare_forecast(build.report.get("forecast") or {})),
        foretold_by=_format_forecast_basis(build.report.get("forecast") or {}),
        shape=build.report["facts"].get("shape", {}),
        figures=(make_kept_and_lost_rows_figure(stages), _make_stage_times_figure(stages), *figures),
        reported={
            format_snake_case_as_words(name): shorten_with_note(format_parameter_value(fact), 2_000)
            for name, fact in build.report["facts"].items()
            if name != "shape"
        },
        reasons=tuple(
            RejectReasonSummary(stage, shorten_with_note(reason, 100), count, examples.get((stage, reason), ()))
            for stage, reason, count in reasons[:_MAX_REASONS]
        ),
        replies=replies,
        rows=tuple(rows),
        rows_in_all=in_all,
        drawn=_format_sampling_note(len(rows), in_all, benchmark),
        review=review,
        reference=make_build_reference(benchmark, build),
        all_rows=all_rows,
        canary=allowed.canary,
    )


def _format_row_count_and_title(benchmark: Benchmark, build: BuildRecord) -> str:
    """Return the number of rows and what they are: the benchmark's title; of a source of the user's own, its name and the
    languages, where the report counts these."""
    rows, source = f"{build.report['rows']:,} rows of", format_user_source_name(build.lock)
    if not source:
        return f"{rows} {benchmark.title}"
    languages = format_language_names(build.report["facts"].get("languages") or ())
    return f"{rows} {benchmark.title.partition(':')[0]} made from {source}{languages and f', in {languages}'}"


def _make_key_figures(build: BuildRecord, reasons: Sequence[tuple[str, str, int]]) -> Iterator[KeyFigure]:
    """Yield the figures at the top: rows, losses, cost. `reasons`: (stage, reason, rows)."""
    report = build.report
    opened = f" and {report['opened']:,} expanded from them" if report.get("opened") else ""
    yield KeyFigure("rows published", f"{report['rows']:,}", f"of {report['inputs']:,} source rows{opened}")
    most = "every row was kept"
    if reasons:
        stage, reason, count = max(reasons, key=lambda each: each[2])
        rows = f"{count:,} row{'' if count == 1 else 's'}"
        most = f"most often: {format_snake_case_as_words(reason)} ({rows}, at {format_snake_case_as_words(stage)})"
    merged = f"; {report['merged']:,} more merged with others" if report.get("merged") else ""
    yield KeyFigure("rows lost, each with a reason", f"{report['rejects']:,}", f"{most}{merged}")
    asked = (
        f"{report['calls_sent']:,} calls sent, {report['calls_replayed']:,} replayed" if "calls_sent" in report else ""
    )
    tokens = f"{report['tokens_in']:,} tokens in, {report['tokens_out']:,} out" if report.get("tokens_in") else ""
    taken = f"{report['seconds']:,.0f} s in all" if "seconds" in report else ""
    yield KeyFigure(
        "cost",
        format_cost(report["cost_usd"], report.get("unknown_cost_calls", 0), report.get("unpriced_models", ())).replace(
            "US$ 0.0000", "US$ 0"
        )
        if "cost_usd" in report
        else "not recorded",
        "; ".join(filter(None, [asked, tokens, taken])),
    )


def _format_how_and_when_built(build: BuildRecord) -> str:
    report, world = build.report, build.lock["world"]
    judge = build.lock["models"].get("judge") or ""
    who = {"written": report["author"], "judged": judge}
    made = "".join(f", {did} by {shorten_with_note(str(model), 100)}" for did, model in who.items() if model)
    graph = (
        f" with the local graph {shorten_with_note(str(build.origin['graph']), 100)}"
        if build.origin.get("graph")
        else ""
    )
    return (
        f"Build {build.build_id}: made in the {escape_control_characters(str(world['name']))} world{graph}, "
        f"{format_evidence_epoch(build.lock) or 'as of ' + str(world['epoch'])}{made}; published {build.published_at:%Y-%m-%d}."
    )


def _list_build_warnings(build: BuildRecord, tells_answers: bool, faults: Sequence[str]) -> Iterator[str]:
    if notice := format_caution_or_scripted_notice(build):
        yield escape_control_characters(notice)
    if tells_answers:
        yield _SHOWS_ANSWERS_WARNING
    if unsettled := build.report.get("unsettled"):
        yield f"{unsettled:,} rows were lost to transient failures of a service; run the same command again to retry them."
    for note in build.report.get("notes", ()):
        yield shorten_with_note(str(note), 500)
    for fault in faults:
        yield f"This page is incomplete: {shorten_with_note(fault, 500)}"


def _list_build_facts(build: BuildRecord) -> dict[str, str]:
    report, lock, origin = build.report, build.lock, build.origin
    files = {
        name: None
        for of_unit in (origin.get("files") or {}).values()
        for _, name, *_ in of_unit
        if isinstance(name, str)
    }
    named = [shorten_with_note(name, 80) for name in list(files)[:_MAX_FILES_NAMED]]
    more = [f"{len(files) - _MAX_FILES_NAMED} more"] if len(files) > _MAX_FILES_NAMED else []
    params, own = lock["params"].get("params", {}), lock["params"].get("own_source")
    facts = {
        "World": f"{report['world']}, as of {lock['world']['epoch']}",
        "Articles": format_evidence_epoch(lock),
        "Written by": str(report["author"] or ""),
        "Models": "; ".join(
            f"{format_snake_case_as_words(role)}: {model}" for role, model in sorted(lock["models"].items()) if model
        ),
        "Own prompts": format_prompt_digests(build.own_prompt_digests),
        "Source": format_user_source_name(lock),
        "Licence of the source": str(own.get("licence") or "not stated (--source-licence)") if own else "",
        "Source files": ", ".join([*named, *more]),
        "Local graph": str(origin.get("graph") or ""),
        "Parameters": "; ".join(
            f"{format_snake_case_as_words(name)}: {format_parameter_value(value)}" for name, value in params.items()
        ),
        "Calls": f"{report['calls_sent']:,} sent, {report['calls_replayed']:,} replayed from the call cache"
        if "calls_sent" in report
        else "",
        "Tokens": f"{report['tokens_in']:,} in, {report['tokens_out']:,} out" if report.get("tokens_in") else "",
        "Cost": format_cost(report["cost_usd"], report.get("unknown_cost_calls", 0), report.get("unpriced_models", ()))
        if "cost_usd" in report
        else "",
        "Time": f"{report['seconds']:.1f} s" if "seconds" in report else "",
        "Bounds": _format_budget_and_spending(report.get("spent") or {}),
        "Made by": build.code_version,
        "Lock": f"SHA-256 {build.lock_digest[:16]}… (names every input by content)",
        "Content": f"SHA-256 {build.content_digest[:16]}… (of the published tables)",
        "Look further": f"factmill show {build.benchmark} --build {build.build_id}; factmill verify {build.build_id}",
    }
    return {name: shorten_with_note(text, 2_000) for name, text in facts.items()}


def _make_stage_summary(stage_report: Mapping[str, Any], is_first: bool) -> StageSummary:
    stage = StageSummary(
        stage_report["stage"],
        **{each.name: stage_report[each.name] for each in fields(StageSummary) if each.name in stage_report},
    )
    return replace(stage, opened=0) if is_first else stage


def _compare_forecast(forecast_record: Mapping[str, Any]) -> Iterator[ForecastAmountComparison]:
    """Yield each forecast amount of a build with the actual one."""
    for name, what in _FORECAST_AMOUNTS.items():
        if name in forecast_record.get("actual", ()):
            forecast, actual = forecast_record["total"][name], forecast_record["actual"][name]
            off = f"{100 * (forecast / actual - 1):+.1f} %" if actual else "–"
            digits = 4 if name == "usd" else None
            forecast, low, high, actual = (
                round(each, digits)
                for each in (forecast, forecast_record["low"][name], forecast_record["high"][name], actual)
            )
            yield ForecastAmountComparison(what, forecast, low, high, actual, off)


def _format_forecast_basis(forecast_record: Mapping[str, Any]) -> str:
    return (
        f"Forecast on {forecast_record['made_at'][:10]} by {shorten_with_note(forecast_record['basis'], 500)}."
        if forecast_record
        else ""
    )


def _format_budget_and_spending(spent: Mapping[str, Any]) -> str:
    """Return the run's budget and what it spent; empty without a budget."""
    if not spent.get("bounds"):
        return ""
    limits = format_budget_limits(BudgetLimits(**spent["bounds"]))
    names = ("paid_usd", "unanswered_usd", "requests", "hours")
    return (
        f"at most {limits}; its last run spent {format_spending(RunSpending(**{name: spent[name] for name in names}))}"
    )


def make_kept_and_lost_rows_figure(stages: Sequence[StageSummary]) -> ReportFigure:
    """Return the rows of each stage, those that lose most first; where stages pass nearly all rows on, or half of the losses could
    not be seen next to the other rows, the lost rows alone. Merged rows come last, and only if there are some, so that the
    other series have the same colours."""
    losing = sorted(
        (each for each in stages if each.rejects + each.merged), key=lambda each: -each.rejects - each.merged
    )
    longest = max((each.rows_in for each in stages), default=0)
    invisible = [each for each in losing if each.rejects + each.merged < _INVISIBLE_LOSS_SHARE * longest]
    losses_alone = bool(losing) and (
        2 * len(invisible) >= len(losing)
        or all(each.rejects + each.merged <= _NEARLY_ALL_LOST_SHARE * each.rows_in for each in losing)
    )
    kept = [each.name for each in stages if each not in losing]
    shown = losing if losses_alone else [*losing, *(each for each in stages if each not in losing)]
    kinds: dict[str, list[int]] = {
        "passed on": [each.rows_out for each in shown],
        "rejected": [each.rejects for each in shown],
        "merged": [each.merged for each in shown],
    }
    if losses_alone:
        del kinds["passed on"]
    names = tuple(format_snake_case_as_words(each.name) for each in shown)
    series = tuple(
        FigureSeries(kind, names, tuple(map(float, counts)))
        for kind, counts in kinds.items()
        if any(counts) or (kind != "merged" and not losses_alone)
    )
    if not losses_alone:
        return ReportFigure("funnel", "Rows of each stage, the greatest loss first", "stacked", "", "rows", series)
    none = f"No row was lost at: {', '.join(map(format_snake_case_as_words, kept))}." if kept else ""
    title = f"Rows {' and '.join(each.label for each in series)} at each stage, the most first"
    return ReportFigure("funnel", title, "stacked", "", "rows", series, none)


def _make_stage_times_figure(stages: Sequence[StageSummary]) -> ReportFigure:
    names = tuple(format_snake_case_as_words(each.name) for each in stages)
    return ReportFigure(
        "times",
        "Time of each stage",
        "bars",
        "",
        "seconds",
        (FigureSeries("seconds", names, tuple(round(each.seconds, 2) for each in stages)),),
    )


def _make_distribution_figures(
    db: Connection, build: BuildRecord, distributions: DistributionMaker
) -> tuple[list[ReportFigure], list[str]]:
    """Return the benchmark's own figures with several bars, and an error instead if an earlier factmill made the build."""

    def read(name: str, columns: Sequence[str]) -> pa.Table:
        there = db.table(name).columns if name in load_table_digests(db, build.build_id) else []
        if lacking := [each for each in columns if each not in there]:
            raise BuildFormatTooOld(
                f"{build.build_id} was made by an earlier version of factmill, which wrote no {', '.join(lacking)} into {name}; "
                "rebuild it with the same command (recorded replies are reused)"
            )
        listed = ", ".join(f'"{each}"' for each in columns)
        query = f"SELECT {listed} FROM {name} WHERE build_id = ? ORDER BY id"
        return db.sql(query, params=[build.build_id]).to_arrow_table()

    try:
        found = list(distributions(PublishedBuildForDistributions(build.report["facts"], read)))
    except BuildFormatTooOld as error:
        return [], [str(error)]
    return [each for each in found if sum(bool(y) for series in each.series for y in series.y) > 1], []


def _load_reply_ages(db: Connection, build: BuildRecord) -> Iterator[ServiceReplyAges]:
    """Yield the age of each service's replies on which the build rests, by name of the service."""
    found = query_rows(
        db,
        "SELECT c.service, count(DISTINCT c.record_id) AS calls, min(c.asked_at) AS oldest, max(c.asked_at) AS newest "
        "FROM build_calls b JOIN calls c USING (record_id) WHERE b.build_id = ? GROUP BY 1 ORDER BY 1",
        build.build_id,
    )
    for each in found:
        yield ServiceReplyAges(
            shorten_with_note(each["service"], 120),
            each["calls"],
            format_utc_minute(each["oldest"]),
            format_utc_minute(each["newest"]),
            format_age_in_words((build.published_at - each["oldest"]).total_seconds()),
        )


def _format_sampling_note(shown_count: int, in_all: int, benchmark: Benchmark) -> str:
    if shown_count == in_all:
        return ""
    return f"{shown_count:,} of {in_all:,} rows: a fixed sample, evenly from each {format_snake_case_as_words(benchmark.group_column)}"


def _load_review_summary(
    db: Connection, benchmark: Benchmark, build: BuildRecord, shown: BuildPageVisibility
) -> ReviewQueueSummary | None:
    name = f"{benchmark.name}_review"
    if name not in load_table_digests(db, build.build_id):
        return None
    if shown.decisions is None:
        items = [ReviewItem.model_validate(row) for row in load_published_table(db, build.build_id, name).to_pylist()]
    else:
        items = list(shown.decisions)
    counts = Counter((each.flag, each.decision) for each in items)
    ordered = sorted(items, key=lambda each: (each.decision != "open", each.flag, each.row_id, each.id))
    return ReviewQueueSummary(
        tuple((flag, decision, count) for (flag, decision), count in sorted(counts.items())),
        tuple(_make_page_review_item(each) for each in ordered[:_MAX_REVIEW_ITEMS]),
        len(items),
    )


def _make_page_review_item(item: ReviewItem) -> BuildPageReviewItem:
    def format_edits(of: Iterable[TextEdit]) -> str:
        return shorten_with_note("; ".join(f"{each.field}: {each.text}" for each in of), _MAX_REVIEW_CHARACTERS)

    return BuildPageReviewItem(
        row_id=shorten_with_note(item.row_id, 200),
        flag=item.flag,
        detail=shorten_with_note(item.detail, _MAX_REVIEW_CHARACTERS),
        context=shorten_with_note(item.context, _MAX_REVIEW_CHARACTERS),
        proposed=format_edits(item.proposed),
        decision=item.decision,
        edited=format_edits(item.edited),
        reviewer=shorten_with_note(item.reviewer, 100),
        note=shorten_with_note(item.note, _MAX_REVIEW_CHARACTERS),
    )
