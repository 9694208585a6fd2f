"""Loads the page of a build from the warehouse."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from factmill.tasks.core.measures.figures import Figure, Series
from factmill.tasks.core.publishing.distributions import Distributions, Published
from factmill.tasks.core.review import Edit, ReviewItem
from factmill.tasks.core.spending.bounds import Bounds, Spent, describe_bounds, describe_spent, format_cost
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.errors import OldBuild
from factmill.tasks.reports.builds.contents import (
    BuildPage,
    Decision,
    Foretold,
    Reason,
    Replies,
    Review,
    Shown,
    Stage,
    tell_notice,
)
from factmill.tasks.reports.builds.drawn import draw_ids, tell_moment, tell_rejects, tell_rows
from factmill.tasks.reports.entries import shorten
from factmill.tasks.reports.texts import describe_rows, say, tell
from factmill.tasks.storage.builds import BuildRecord, published_names, published_table
from factmill.tasks.storage.warehouse import Connection, open_warehouse, read_records
from factmill.tasks.text.ages import tell_age
from factmill.tasks.text.whole import clean

_EXAMPLES = 3
"""Number of example rejects shown for each reason."""
_MOST_REASONS = 100
_MOST_ITEMS = 200
"""Maximum number of review items shown."""
_LONG_TEXT = 600
"""Maximum characters of a text of a review item."""
_MOST_NAMES = 12
"""Maximum number of source files that are named."""
_FORETOLD = {
    "calls": "different calls",
    "tokens_in": "tokens in",
    "tokens_out": "tokens out",
    "usd": "US$",
}
"""Key of a forecast amount → its label."""
_TELLS_ANSWERS = (
    "This page tells answers of the test part, which releases and exports hold out: it is for who makes the benchmark, not "
    "to be published. The page in a release leaves them out."
)


def read_page(
    warehouse: Path,
    benchmark: Benchmark,
    build: BuildRecord,
    distributions: Distributions = lambda _: (),
    shown: Shown | None = None,
) -> BuildPage:
    """Return the content of a published build's page; `shown`: limits on what it shows, None: none."""
    allowed = shown or Shown()
    stages = tuple(_read_stage(each, place == 0) for place, each in enumerate(build.report["stages"]))
    with open_warehouse(warehouse) as db:
        ids, in_all = draw_ids(db, benchmark, build.build_id, allowed)
        rows, faults = tell_rows(db, benchmark, build.build_id, ids, allowed)
        examples = tell_rejects(db, benchmark, build.build_id, _EXAMPLES, allowed)
        replies = tuple(_read_replies(db, build))
        figures, more_faults = _draw(db, build, distributions)
        review = _read_review(db, benchmark, build, allowed)
        tells_answers = not allowed.withheld and any(
            each["rows"] for each in _count_tables(db, build.build_id) if each["table_name"] in benchmark.held_out
        )
    of_stages = build.report["reasons"]
    reasons = [
        (stage.name, reason, count)
        for stage in stages
        for reason, count in sorted(of_stages.get(stage.name, {}).items(), key=lambda each: (-each[1], each[0]))
    ]
    return BuildPage(
        build_id=build.build_id,
        title=f"{benchmark.title.partition(':')[0]}, build {build.build_id}",
        summary=_summarise(benchmark, build),
        warnings=tuple(_warn(build, tells_answers, [*faults, *more_faults])),
        facts={name: fact for name, fact in _list_facts(build).items() if fact},
        balance=describe_rows(build.report),
        stages=stages,
        foretold=tuple(_read_foretold(build.report.get("forecast") or {})),
        foretold_by=_tell_basis(build.report.get("forecast") or {}),
        shape=build.report["facts"].get("shape", {}),
        figures=(_draw_funnel(stages), _draw_times(stages), *figures),
        reported={
            say(name): shorten(tell(fact), 2_000) for name, fact in build.report["facts"].items() if name != "shape"
        },
        reasons=tuple(
            Reason(stage, shorten(reason, 100), count, examples.get((stage, reason), ()))
            for stage, reason, count in reasons[:_MOST_REASONS]
        ),
        replies=replies,
        rows=tuple(rows),
        rows_in_all=in_all,
        drawn=_tell_drawn(len(rows), in_all, benchmark),
        review=review,
        canary=allowed.canary,
    )


def _summarise(benchmark: Benchmark, build: BuildRecord) -> str:
    report, world = build.report, build.lock["world"]
    judge = build.lock["models"].get("judge") or ""
    who = {"written": report["author"], "judged": judge}
    made = "".join(f", {did} by {shorten(str(model), 100)}" for did, model in who.items() if model)
    graph = f" with the local graph {shorten(str(build.origin['graph']), 100)}" if build.origin.get("graph") else ""
    return (
        f"{benchmark.title}. {report['rows']:,} rows, made in the {clean(str(world['name']))} world{graph} as of {world['epoch']}"
        f"{made}; published {build.published_at:%Y-%m-%d}."
    )


def _warn(build: BuildRecord, tells_answers: bool, faults: Sequence[str]) -> Iterator[str]:
    if notice := tell_notice(build):
        yield clean(notice)
    if tells_answers:
        yield _TELLS_ANSWERS
    if unsettled := build.report.get("unsettled"):
        yield f"{unsettled:,} rows were lost to passing failures of a service; the same command tries them again."
    for note in build.report.get("notes", ()):
        yield shorten(str(note), 500)
    for fault in faults:
        yield f"Not all could be told: {shorten(fault, 500)}"


def _list_facts(build: BuildRecord) -> dict[str, str]:
    report, lock, origin = build.report, build.lock, build.origin
    files = {
        name: None
        for of_unit in (origin.get("files") or {}).values()
        for _, name, *_ in of_unit
        if isinstance(name, str)
    }
    named = [shorten(name, 80) for name in list(files)[:_MOST_NAMES]]
    more = [f"{len(files) - _MOST_NAMES} more"] if len(files) > _MOST_NAMES else []
    params = lock["params"].get("params", {})
    told = {
        "World": f"{report['world']}, as of {lock['world']['epoch']}",
        "Written by": str(report["author"] or ""),
        "Models": "; ".join(f"{say(role)}: {model}" for role, model in sorted(lock["models"].items()) if model),
        "Source files": ", ".join([*named, *more]),
        "Local graph": str(origin.get("graph") or ""),
        "Parameters": "; ".join(f"{say(name)}: {tell(value)}" for name, value in params.items()),
        "Calls": f"{report['calls_sent']:,} sent, {report['calls_replayed']:,} replayed from what was recorded before"
        if "calls_sent" in report
        else "",
        "Tokens": f"{report['tokens_in']:,} in, {report['tokens_out']:,} out" if report.get("tokens_in") else "",
        "Cost": format_cost(report["cost_usd"], report.get("unknown_cost_calls", 0), report.get("unpriced_models", ()))
        if "cost_usd" in report
        else "",
        "Time": f"{report['seconds']:.1f} s" if "seconds" in report else "",
        "Bounds": _tell_bounds(report.get("spent") or {}),
        "Made by": build.made_by,
        "Lock": f"SHA-256 {build.lock_digest[:16]}… (names every input by content)",
        "Content": f"SHA-256 {build.content_digest[:16]}… (of the published tables)",
        "Look further": f"factmill show {build.benchmark} --build {build.build_id}; factmill verify {build.build_id}",
    }
    return {name: shorten(text, 2_000) for name, text in told.items()}


def _read_stage(told: Mapping[str, Any], is_first: bool) -> Stage:
    stage = Stage(told["stage"], **{each.name: told[each.name] for each in fields(Stage) if each.name in told})
    return replace(stage, opened=0) if is_first else stage


def _read_foretold(told: Mapping[str, Any]) -> Iterator[Foretold]:
    """Yield each forecast amount of a build with the actual one."""
    for name, what in _FORETOLD.items():
        if name in told.get("actual", ()):
            forecast, actual = told["total"][name], told["actual"][name]
            off = f"{100 * (forecast / actual - 1):+.1f} %" if actual else "–"
            digits = 4 if name == "usd" else None
            forecast, low, high, actual = (
                round(each, digits) for each in (forecast, told["low"][name], told["high"][name], actual)
            )
            yield Foretold(what, forecast, low, high, actual, off)


def _tell_basis(told: Mapping[str, Any]) -> str:
    return f"Forecast on {told['made_at'][:10]} by {shorten(told['basis'], 500)}." if told else ""


def _tell_bounds(spent: Mapping[str, Any]) -> str:
    """Return the run's budget and what it spent; empty without a budget."""
    if not spent.get("bounds"):
        return ""
    told = describe_bounds(Bounds(**spent["bounds"]))
    names = ("paid_usd", "unanswered_usd", "requests", "hours")
    return f"at most {told}; its last run spent {describe_spent(Spent(**{name: spent[name] for name in names}))}"


def _draw_funnel(stages: Sequence[Stage]) -> Figure:
    """Return the funnel of all stages; merged rows come last, and only if there are some, so that the other series have
    the same colours on every page."""
    kinds: dict[str, list[int]] = {
        "went on": [each.rows_out for each in stages],
        "rejected": [each.rejects for each in stages],
        "merged": [each.merged for each in stages],
    }
    names = tuple(say(each.name) for each in stages)
    series = tuple(
        Series(kind, names, tuple(map(float, counts)))
        for kind, counts in kinds.items()
        if any(counts) or kind != "merged"
    )
    return Figure("funnel", "What became of the rows", "stacked", "", "rows", series)


def _draw_times(stages: Sequence[Stage]) -> Figure:
    names = tuple(say(each.name) for each in stages)
    return Figure(
        "times",
        "Time of each stage",
        "bars",
        "",
        "seconds",
        (Series("seconds", names, tuple(round(each.seconds, 2) for each in stages)),),
    )


def _draw(db: Connection, build: BuildRecord, distributions: Distributions) -> tuple[list[Figure], list[str]]:
    """Return the benchmark's own non-empty figures, and an error instead if an earlier factmill made the build."""

    def read(name: str, columns: Sequence[str]) -> pa.Table:
        there = db.table(name).columns if name in published_names(db, build.build_id) else []
        if lacking := [each for each in columns if each not in there]:
            raise OldBuild(
                f"{build.build_id} was made by an earlier factmill, which wrote no {', '.join(lacking)} into {name}; make it "
                "again with the same command: recorded replies are not asked for again"
            )
        listed = ", ".join(f'"{each}"' for each in columns)
        query = f"SELECT {listed} FROM {name} WHERE build_id = ? ORDER BY id"
        return db.sql(query, params=[build.build_id]).to_arrow_table()

    try:
        found = list(distributions(Published(build.report["facts"], read)))
    except OldBuild as error:
        return [], [str(error)]
    return [each for each in found if any(y for series in each.series for y in series.y)], []


def _count_tables(db: Connection, build_id: str) -> list[dict[str, Any]]:
    return read_records(db, "SELECT table_name, rows FROM build_tables WHERE build_id = ?", build_id)


def _read_replies(db: Connection, build: BuildRecord) -> Iterator[Replies]:
    """Yield the age of each service's replies on which the build rests, by name of the service."""
    found = read_records(
        db,
        "SELECT c.service, count(DISTINCT c.record_id) AS calls, min(c.asked_at) AS oldest, max(c.asked_at) AS newest "
        "FROM build_calls b JOIN calls c USING (record_id) WHERE b.build_id = ? GROUP BY 1 ORDER BY 1",
        build.build_id,
    )
    for each in found:
        yield Replies(
            shorten(each["service"], 120),
            each["calls"],
            tell_moment(each["oldest"]),
            tell_moment(each["newest"]),
            tell_age((build.published_at - each["oldest"]).total_seconds()),
        )


def _tell_drawn(told: int, in_all: int, benchmark: Benchmark) -> str:
    if told == in_all:
        return ""
    return (
        f"{told:,} of {in_all:,} rows, drawn by a digest of their ids, as many of each {say(benchmark.part)} as there are, up "
        "to where the page is full"
    )


def _read_review(db: Connection, benchmark: Benchmark, build: BuildRecord, shown: Shown) -> Review | None:
    name = f"{benchmark.name}_review"
    if name not in published_names(db, build.build_id):
        return None
    if shown.decisions is None:
        items = [ReviewItem.model_validate(row) for row in published_table(db, build.build_id, name).to_pylist()]
    else:
        items = list(shown.decisions)
    counts = Counter((each.flag, each.decision) for each in items)
    ordered = sorted(items, key=lambda each: (each.decision != "open", each.flag, each.row_id, each.id))
    return Review(
        tuple((flag, decision, count) for (flag, decision), count in sorted(counts.items())),
        tuple(_tell_decision(each) for each in ordered[:_MOST_ITEMS]),
        len(items),
    )


def _tell_decision(item: ReviewItem) -> Decision:
    def tell_edits(of: Iterable[Edit]) -> str:
        return shorten("; ".join(f"{each.field}: {each.text}" for each in of), _LONG_TEXT)

    return Decision(
        row_id=shorten(item.row_id, 200),
        flag=item.flag,
        detail=shorten(item.detail, _LONG_TEXT),
        context=shorten(item.context, _LONG_TEXT),
        proposed=tell_edits(item.proposed),
        decision=item.decision,
        edited=tell_edits(item.edited),
        reviewer=shorten(item.reviewer, 100),
        note=shorten(item.note, _LONG_TEXT),
    )
