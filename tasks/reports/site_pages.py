"""The pages of a site of releases and evaluations: each benchmark over time, and models on the same rows.

Like reports, they contain no time of their making: the same builds and evaluations give the same bytes. Models are
compared only on the same rows; the ranks and ties are those of the comparison report.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from factmill.tasks.core.digests import digest_bytes
from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.core.measures.report_figures import FigureSeries, ReportFigure, make_metric_series
from factmill.tasks.diff.core.changes import CAUSE_KIND_MEANINGS, BuildDiff, RowChangeKind, count_unexplained_rows
from factmill.tasks.evaluation.corrected_rates import JudgeCorrectedRate
from factmill.tasks.evaluation.definition import Evaluation
from factmill.tasks.reports.evaluation_report import SCRIPTED_ROWS_WARNING, EvaluationReport
from factmill.tasks.reports.formatting import MAX_NAME_CHARACTERS, format_snake_case_as_words, shorten_line
from factmill.tasks.reports.model_ranking import ModelRanking
from factmill.tasks.reports.rendering import draw_figure_with_legend, render_html_template

INDEX_PAGE, INDEX_NAME = "index.html", "All benchmarks"
_MAX_CAUSES_NAMED = 5
"""Maximum number of causes named for one build; its page of changes has all."""


@dataclass(frozen=True, slots=True)
class RowChangeCauseCount:
    """How many rows changed for one cause."""

    label: str
    meaning: str
    rows: int


@dataclass(frozen=True, slots=True)
class BuildChangeSummary:
    """What changed from one build to the next."""

    before_id: str
    same: int
    rows: Mapping[RowChangeKind, int]
    """Kind of change → number of rows."""
    causes: tuple[RowChangeCauseCount, ...]
    """Most frequent first."""
    more_causes: int
    """Causes that are not listed."""
    unexplained: int
    link: str
    """The page of all changes."""


@dataclass(frozen=True, slots=True)
class SiteBuild:
    """A build or a release of a benchmark."""

    build_id: str
    published: str
    """Date (ISO 8601)."""
    rows: int
    remarks: tuple[str, ...]
    """World, epoch, author, options that narrowed the source, and whether it is a release."""
    notice: str
    """What its rows must not be used for; empty: no restriction."""
    change: BuildChangeSummary | None
    """None: no build before it is on the site, or the two cannot be compared."""
    problem: str = ""
    """Why it is not compared with the build before; empty: it is, or there is none."""


@dataclass(frozen=True, slots=True)
class LeaderboardStanding:
    """A model by one metric in one setting."""

    model: str
    link: str
    """The page of its evaluation."""
    is_baseline: bool
    """A built-in baseline, not a model; it has a rank only where no model was measured."""
    metric: EvaluationMetric
    corrected: JudgeCorrectedRate | None
    ranks: tuple[int, int] | None
    """First and last possible rank; None: not compared."""
    ties: tuple[str, ...]
    """Models from which the shared items show no difference."""


@dataclass(frozen=True, slots=True)
class MetricAndSettingLeaderboard:
    """All models by one metric in one setting, the best first."""

    metric: str
    setting: str
    description: str
    """How the model is asked."""
    shared: int | None
    """Items on which the ranks rest; None: no ranks."""
    lower_is_better: bool
    standings: tuple[LeaderboardStanding, ...]

    @property
    def leaders(self) -> tuple[str, ...]:
        """Models that may be first; empty without ranks."""
        return tuple(
            each.model for each in self.standings if each.ranks and each.ranks[0] == 1 and not each.is_baseline
        )


@dataclass(frozen=True, slots=True)
class OtherEvaluationOfLeaderboardModel:
    """An evaluation of a model that has another one in the leaderboard."""

    model: str
    evaluation_id: str
    link: str
    differences: str
    """Inputs in which it differs from the one in the leaderboard."""


@dataclass(frozen=True, slots=True)
class MeasuredBuildLeaderboard:
    """The models that were measured on the same rows."""

    measured_id: str
    measured: str
    """Date of that build; empty: it is not at hand."""
    meaning: str
    """What the main metric measures."""
    main: tuple[MetricAndSettingLeaderboard, ...]
    """By the main metric, a table for each setting."""
    more: tuple[MetricAndSettingLeaderboard, ...]
    """By the other headline metrics."""
    warnings: tuple[str, ...]
    facts: Mapping[str, str]
    """What is the same for all models: judge, world, settings."""
    others: tuple[OtherEvaluationOfLeaderboardModel, ...]
    comparison: str
    """The page that compares the models in full; empty for a single one."""
    figure: ReportFigure | None
    models: int
    """Number of models, without baselines."""


@dataclass(frozen=True, slots=True)
class BenchmarkPage:
    """A benchmark over time, and the models that were measured on it."""

    name: str
    title: str
    builds: tuple[SiteBuild, ...]
    """Newest first."""
    older_builds: int
    """Older builds that are not shown."""
    leaderboards: tuple[MeasuredBuildLeaderboard, ...]
    """Newest build first."""
    unreadable: tuple[str, ...]
    """Evaluations that an earlier factmill made, each with the reason why they are not shown."""

    @property
    def file(self) -> str:
        """Name of its page."""
        return f"{self.name}.html"

    @property
    def notices(self) -> tuple[str, ...]:
        """What its rows must not be used for, without repetition; of which builds, unless of all."""
        of_all: dict[str, list[str]] = {}
        for each in self.builds:
            if each.notice:
                of_all.setdefault(each.notice, []).append(each.build_id)
        return tuple(
            notice if len(ids) == len(self.builds) else f"{', '.join(ids)}: {notice}" for notice, ids in of_all.items()
        )


def make_build_change_summary(diff: BuildDiff, before_id: str, link: str) -> BuildChangeSummary:
    """Return a summary of a diff, with its most frequent causes."""
    kinds = {row.main_cause.label: row.main_cause.kind for row in diff.rows}
    causes = [
        RowChangeCauseCount(
            shorten_line(label.replace(": ", " ", 1), MAX_NAME_CHARACTERS),
            CAUSE_KIND_MEANINGS[kinds[label]],
            sum(rows.values()),
        )
        for label, rows in diff.count_rows_by_cause().items()
    ]
    return BuildChangeSummary(
        before_id=before_id,
        same=diff.same,
        rows=diff.count_rows_by_kind(),
        causes=tuple(causes[:_MAX_CAUSES_NAMED]),
        more_causes=max(0, len(causes) - _MAX_CAUSES_NAMED),
        unexplained=count_unexplained_rows(diff),
        link=link,
    )


def make_leaderboard(
    evaluation: Evaluation,
    report: EvaluationReport,
    baselines: Sequence[EvaluationReport],
    links: Mapping[str, str],
    baseline_ids: Collection[str],
    measured_id: str,
    measured: str,
    others: Sequence[OtherEvaluationOfLeaderboardModel],
    comparison: str,
) -> MeasuredBuildLeaderboard:
    """Return the leaderboard of a report of all models.

    `baselines`: reports of built-in baselines, one each, which are shown below the models and have no rank; empty where the
    report is of baselines alone. `links`: id of an evaluation → its page. `baseline_ids`: evaluations of baselines.
    """
    order = [*dict.fromkeys([*evaluation.default_settings, *evaluation.settings])]
    places = sorted(
        {(each.metric, each.setting) for one in (report, *baselines) for each in one.headline},
        key=lambda place: (
            evaluation.headline_metrics.index(place[0]),
            order.index(place[1]) if place[1] in order else len(order),
            place[1],
        ),
    )
    tables = [
        _make_table(evaluation, report, baselines, links, baseline_ids, metric, setting) for metric, setting in places
    ]
    main = tuple(each for each in tables if each.metric == evaluation.main_metric)
    warnings = dict.fromkeys(warning for one in (report, *baselines) for warning in one.warnings)
    return MeasuredBuildLeaderboard(
        measured_id=measured_id,
        measured=measured,
        meaning=evaluation.main_metric_meaning,
        main=main,
        more=tuple(each for each in tables if each.metric != evaluation.main_metric),
        warnings=tuple(warnings),
        facts={name: fact for name, fact in report.shared_facts.items() if name not in ("Model", "Evaluation")},
        others=tuple(others),
        comparison=comparison,
        figure=_make_standings_figure(main[0], measured_id, measured) if main else None,
        models=sum(each.evaluation_id not in baseline_ids for each in report.subjects),
    )


def _make_table(
    evaluation: Evaluation,
    report: EvaluationReport,
    baselines: Sequence[EvaluationReport],
    links: Mapping[str, str],
    baseline_ids: Collection[str],
    metric: str,
    setting: str,
) -> MetricAndSettingLeaderboard:
    ranking = next((each for each in report.rankings if (each.metric, each.setting) == (metric, setting)), None)
    ranks = {each.model: each.ranks for each in ranking.placed} if ranking else {}
    order = {each.model: place for place, each in enumerate(ranking.placed)} if ranking else {}
    lower_is_better = metric in evaluation.lower_is_better
    sign = 1 if lower_is_better else -1
    standings: list[LeaderboardStanding] = []
    floor_and_ceiling = sorted(
        baselines,
        key=lambda one: max(
            (sign * (each.value or 0.0) for each in one.headline if (each.metric, each.setting) == (metric, setting)),
            default=0.0,
        ),
    )
    for one in (report, *floor_and_ceiling):
        ids = {each.label: each.evaluation_id for each in one.subjects}
        found = [each for each in one.headline if (each.metric, each.setting) == (metric, setting)]
        found.sort(key=lambda each: (order.get(each.model, len(order)), sign * (each.value or 0.0), each.model))
        standings += [
            LeaderboardStanding(
                each.model,
                links[ids[each.model]],
                ids[each.model] in baseline_ids,
                each,
                one.find_corrected(each),
                ranks.get(each.model) if one is report else None,
                _list_ties(ranking, each.model) if one is report else (),
            )
            for each in found
        ]
    return MetricAndSettingLeaderboard(
        metric=metric,
        setting=setting,
        description=evaluation.settings.get(setting, ""),
        shared=ranking.n if ranking else None,
        lower_is_better=lower_is_better,
        standings=tuple(standings),
    )


def _list_ties(ranking: ModelRanking | None, model: str) -> tuple[str, ...]:
    """Return the models from which the shared items show no difference, in the ranking's order."""
    tied = {
        name
        for one in (ranking.comparisons if ranking else ())
        if one.ci_low is not None and not one.better and model in (one.first, one.second)
        for name in (one.first, one.second)
    } - {model}
    return tuple(each.model for each in ranking.placed if each.model in tied) if ranking else ()


def _make_standings_figure(table: MetricAndSettingLeaderboard, measured_id: str, measured: str) -> ReportFigure | None:
    """Return a figure of one bar for each model with its interval; None without any value."""
    if all(each.metric.value is None for each in table.standings):
        return None
    name = format_snake_case_as_words(table.metric)
    counts = sorted({each.metric.n for each in table.standings})
    n = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    labelled = [
        (f"{each.model} (baseline)" if each.is_baseline else each.model, each.metric) for each in table.standings
    ]
    return ReportFigure(
        name=f"standings_{digest_bytes(measured_id.encode())[:8]}",
        title=f"{name[0].upper()}{name[1:]}, {format_snake_case_as_words(table.setting)}",
        kind="bars",
        x_label="",
        y_label=f"{name}{' (lower is better)' if table.lower_is_better else ''}",
        series=(make_metric_series(name, labelled),),
        note=f"Measured on {measured_id}{f' of {measured}' if measured else ''}, n\u00a0=\u00a0{n}. Whiskers are 95 % intervals, each over "
        "the items that its model has a score for.",
        y_range=(0.0, 1.0),
    )


def make_row_changes_by_build_figure(benchmark: str, builds: Sequence[SiteBuild]) -> ReportFigure | None:
    """Return a figure of the rows of each build, oldest first, by what became of them; None for fewer than two builds.

    Rows of a build that is compared with none are drawn apart.
    """
    if len(builds) < 2:
        return None
    shown = [*reversed(builds)]
    names = tuple(f"{each.published} {each.build_id.rpartition('-')[2]}" for each in shown)
    changes = [each.change for each in shown]
    series = {
        "not compared" if any(each.problem for each in builds) else "first build shown": [
            0 if each else build.rows for each, build in zip(changes, shown, strict=True)
        ],
        "as in the build before": [each.same if each else 0 for each in changes],
        "added": [each.rows["added"] if each else 0 for each in changes],
        "changed": [each.rows["changed"] if each else 0 for each in changes],
    }
    while not any(
        series[last := next(reversed(series))]
    ):  # only at the end, so that a series has its colour on every page
        del series[last]
    return ReportFigure(
        name=f"rows_of_{benchmark}",
        title="Rows of each build",
        kind="stacked",
        x_label="",
        y_label="rows",
        series=tuple(FigureSeries(label, names, tuple(rows)) for label, rows in series.items()),
        note="The oldest build is at the top. Rows that were removed are in the table.",
    )


def list_breadcrumbs_of_benchmark_subpage(benchmark: str, benchmark_title: str) -> list[tuple[str, str]]:
    """Return address and name of the pages above an evaluation or a diff of a site: its index, and the benchmark's page."""
    return [(f"../{INDEX_PAGE}", INDEX_NAME), (f"../{benchmark}.html", benchmark_title.partition(":")[0])]


def render_site_index(pages: Sequence[BenchmarkPage]) -> str:
    """Return the first page of a site: a line and the figures of each benchmark."""
    notices: dict[str, list[str]] = {}
    for page in pages:
        for notice in page.notices:
            notices.setdefault(notice, []).append(page.name)
    warnings = [
        notice if len(names) == len(pages) else f"{', '.join(names)}: {notice}" for notice, names in notices.items()
    ]
    drawn = {}
    for page in pages:
        board = page.leaderboards[0] if page.leaderboards else None
        figures = [board.figure if board else None, make_row_changes_by_build_figure(page.name, page.builds)]
        drawn[page.name] = [draw_figure_with_legend(figure) for figure in figures if figure]
    return render_html_template("site_index.html", digest="", pages=pages, warnings=warnings, figures=drawn)


def render_benchmark_page(page: BenchmarkPage) -> str:
    """Return the page of a benchmark, without any script."""
    figure = make_row_changes_by_build_figure(page.name, page.builds)
    warned = {each.build_id for each in page.builds if each.notice}  # at the top of the page
    return render_html_template(
        "site_benchmark.html",
        digest="",
        trail=[(INDEX_PAGE, INDEX_NAME)],
        page=page,
        warnings=list(page.notices),
        rows_drawn=[draw_figure_with_legend(figure)] if figure else [],
        boards=[
            (
                board,
                [
                    each
                    for each in board.warnings
                    if not (board.measured_id in warned and each.startswith(SCRIPTED_ROWS_WARNING))
                ],
                [draw_figure_with_legend(board.figure)] if board.figure else [],
            )
            for board in page.leaderboards
        ],
    )
