"""The data of a build's page, and its rendering as HTML, Markdown and JSON.

Everything comes from the published build: times and costs are those of its making, ages are as of its publishing. So
the same build gives the same page.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from jinja2 import Environment
from pydantic_core import to_jsonable_python

from factmill.tasks.core.measures.report_figures import ReportFigure
from factmill.tasks.core.review import ReviewItem
from factmill.tasks.reports.formatting import (
    format_share,
    format_snake_case_as_words,
    html_environment,
    markdown_environment,
    render_markdown_template,
)
from factmill.tasks.reports.page_frame import CitationAndCommands, KeyFigure, SearchablePageRows
from factmill.tasks.reports.rendering import (
    draw_figure_with_legend,
    list_filters,
    load_filter_script_and_its_digest,
    render_html_template,
)
from factmill.tasks.storage.builds import BuildRecord, format_faulty_scripted_reply_shares, is_scripted
from factmill.tasks.text.sanitize import replace_surrogates_in_json

_SCRIPTED_NOTICE = (
    "No language model wrote these rows: {author} stand in for one in factmill's embedded world. The rows "
    "demonstrate the pipeline; do not report benchmark figures on them."
)


def format_caution_or_scripted_notice(build: BuildRecord) -> str:
    """Return the notice that starts every text about a build, such as for scripted rows; empty if none is needed."""
    if build.caution:
        return f"{build.caution[0].upper()}{build.caution[1:]}."
    if not is_scripted(build.lock):
        return ""
    faults = format_faulty_scripted_reply_shares(build.report.get("scripted", {}))
    return f"{_SCRIPTED_NOTICE.format(author=build.lock['author'])}{f' {faults[0].upper()}{faults[1:]}.' if faults else ''}"


@dataclass(frozen=True, slots=True)
class BuildPageCall:
    """A recorded call that a row rests on, with shortened texts."""

    stage: str
    operation: str
    service: str
    at: str
    """Time of the call, UTC."""
    key: str
    """First 12 characters of the call's key."""
    asked: tuple[tuple[str, str], ...]
    """(name, text) of the request: the settings under an empty name, then the prompt's variables."""
    replied: str
    failed: bool
    taken_off: str
    """What was stripped from the reply before parsing; empty: nothing."""
    more: int = 0
    """Number of further calls of the same stage and operation, which are not shown."""


@dataclass(frozen=True, slots=True)
class RowProvenance:
    """Provenance of a row: the lines of `factmill explain`, and its calls."""

    lines: tuple[str, ...]
    calls: tuple[BuildPageCall, ...]
    command: str
    """Command that shows the full provenance."""
    withheld: str = ""
    """Why a part is not shown; empty: everything is."""


@dataclass(frozen=True, slots=True)
class BuildPageRow:
    """A published row on the page."""

    id: str
    shown: Mapping[str, str]
    """Heading → value."""
    groups: Mapping[str, str]
    """Column → value, for the filters of the page."""
    chain: RowProvenance


@dataclass(frozen=True, slots=True)
class BuildPageReject:
    """A rejected row, as an example of its reason."""

    id: str
    detail: str
    chain: RowProvenance


@dataclass(frozen=True, slots=True)
class RejectReasonSummary:
    """A reason for which a stage rejected rows, with examples."""

    stage: str
    reason: str
    rows: int
    examples: tuple[BuildPageReject, ...]


@dataclass(frozen=True, slots=True)
class StageSummary:
    """Counts, cost and time of a stage."""

    name: str
    rows_in: int = 0
    opened: int = 0
    """Of `rows_in`, the rows that a flat_map stage made from its input, such as the paths of a question."""
    rows_out: int = 0
    rejects: int = 0
    merged: int = 0
    calls_sent: int = 0
    calls_replayed: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ServiceReplyAges:
    """Age of a service's replies on which the build rests."""

    service: str
    calls: int
    oldest: str
    newest: str
    age: str
    """Age of the oldest reply when the build was published."""


@dataclass(frozen=True, slots=True)
class ForecastAmountComparison:
    """A forecast amount compared with the actual one."""

    what: str
    forecast: float
    low: float
    high: float
    actual: float
    off: str
    """Deviation of the forecast from the actual amount in per cent; a dash if the actual amount is 0."""


@dataclass(frozen=True, slots=True)
class BuildPageReviewItem:
    """An item of the review queue and its decision."""

    row_id: str
    flag: str
    detail: str
    context: str
    proposed: str
    decision: str
    edited: str
    reviewer: str
    note: str


@dataclass(frozen=True, slots=True)
class ReviewQueueSummary:
    """The review queue of a build."""

    counts: tuple[tuple[str, str, int], ...]
    """(flag, decision, items)."""
    items: tuple[BuildPageReviewItem, ...]
    """The first items, open ones in front."""
    in_all: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildPage:
    """The content of a build's page."""

    build_id: str
    title: str
    headline: str
    """What was built, in one line."""
    summary: str
    """How and when it was built, in one sentence for readers new to it."""
    key_figures: tuple[KeyFigure, ...]
    """Rows, losses and cost."""
    warnings: tuple[str, ...]
    """Warnings at the top of the page; the first names the author of the rows if that was no model."""
    facts: Mapping[str, str]
    balance: str
    """Source rows = published + rejected + merged."""
    stages: tuple[StageSummary, ...]
    foretold: tuple[ForecastAmountComparison, ...]
    """Forecast and actual amounts; empty without a forecast."""
    foretold_by: str
    """Basis and date of the forecast."""
    shape: Mapping[str, Mapping[str, Any]]
    """Figure → value here, n and the paper's value."""
    figures: tuple[ReportFigure, ...]
    """The rows of each stage, or those lost, the time of each stage, then the benchmark's own figures."""
    reported: Mapping[str, str]
    """Further facts that the benchmark reports."""
    reasons: tuple[RejectReasonSummary, ...]
    replies: tuple[ServiceReplyAges, ...]
    rows: tuple[BuildPageRow, ...]
    rows_in_all: int
    drawn: str
    """How the shown rows were sampled; empty: all are shown."""
    review: ReviewQueueSummary | None
    """None: the benchmark has no queue."""
    reference: CitationAndCommands
    all_rows: SearchablePageRows | None
    """All rows, to search; None: the page shows them all."""
    value_labels: Mapping[str, Mapping[str, str]]
    """Grouping column → value → label for readers; `shape`: figure → label."""
    canary: str = ""
    """Line by which training sets can detect released data."""

    @property
    def codes(self) -> frozenset[str]:
        """Reasons and flags that details of this build may name."""
        flags = (flag for flag, *_ in self.review.counts) if self.review else ()
        return frozenset({*(each.reason for each in self.reasons), *flags})

    @property
    def shape_as_texts(self) -> Sequence[tuple[str, str, str, str]]:
        """Figure, value here, the paper's value and n as texts, in the order of the benchmark's labels; counts have no n."""
        labels = self.value_labels.get("shape", {})
        names = sorted(self.shape, key=lambda name: list(labels).index(name) if name in labels else len(labels))
        return [
            (
                labels.get(name) or format_snake_case_as_words(name),
                _format_shape_value(name, self.shape[name]["here"]),
                _format_shape_value(name, self.shape[name]["paper"]),
                format_trimmed_number(self.shape[name]["n"]) if name.startswith(("share_", "mean_")) else "",
            )
            for name in names
        ]

    @property
    def funnel(self) -> ReportFigure:
        """Figure of the rows passed on, rejected and merged at each stage, or of those lost alone."""
        return self.figures[0]

    @property
    def times(self) -> ReportFigure:
        """Figure of the seconds of each stage."""
        return self.figures[1]

    @property
    def distributions(self) -> Sequence[ReportFigure]:
        """The benchmark's own figures."""
        return self.figures[2:]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildPageVisibility:
    """Limits on what a page may show of a build; by default there are none."""

    rows: frozenset[str] | None = None
    """Ids of the published rows that may be shown; None: all."""
    unanswered: frozenset[str] = frozenset()
    """Ids of rows whose answers are held out: neither their companion rows nor their calls are shown."""
    withheld: str = ""
    """Why the content of rejects is hidden; empty: it is shown."""
    decisions: tuple[ReviewItem, ...] | None = None
    """The review queue to show; None: the build's own."""
    canary: str = ""


def render_build_html(page: BuildPage) -> str:
    """Return the page as HTML; a policy forbids external scripts, styles, fonts and pictures, and none are used."""
    return render_html_template(
        "build.html",
        **load_filter_script_and_its_digest(),
        page=page,
        funnel=draw_figure_with_legend(page.funnel),
        times=draw_figure_with_legend(page.times),
        drawn=[draw_figure_with_legend(figure) for figure in page.distributions],
        opens=any(stage.opened for stage in page.stages),
        total=_sum_stage_calls_tokens_cost_and_time(page),
        filters=list_filters(row.groups for row in page.rows),
        labels=page.value_labels,
    )


def render_build_markdown(page: BuildPage) -> str:
    """Return the page as Markdown, with figures as tables and without the provenance of rows."""
    return render_markdown_template(
        "build.md",
        page=page,
        opens=any(stage.opened for stage in page.stages),
        total=_sum_stage_calls_tokens_cost_and_time(page),
    )


def render_build_json(page: BuildPage) -> str:
    """Return the page as one JSON object, with the keys of its class but for the rows to search."""
    content = replace_surrogates_in_json(to_jsonable_python(asdict(replace(page, all_rows=None))))
    del content["all_rows"]
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


BUILD_RENDERERS: Mapping[str, Callable[[BuildPage], str]] = {
    ".html": render_build_html,
    ".md": render_build_markdown,
    ".json": render_build_json,
}
"""File ending → renderer of the page."""


def format_trimmed_number(value: float | None, digits: int = 3) -> str:
    """Format a number without trailing zeros, integers without decimals; a dash for None."""
    if value is None:
        return "–"
    return f"{value:,.{digits}f}".rstrip("0").rstrip(".") if value % 1 else f"{value:,.0f}"


def _format_shape_value(name: str, value: float | None) -> str:
    """Format a figure by its name: a share in per cent, a mean with two decimals, a count as it is."""
    if name.startswith("share_"):
        return format_share(value)
    return f"{value:,.2f}" if name.startswith("mean_") and value is not None else format_trimmed_number(value)


def _sum_stage_calls_tokens_cost_and_time(page: BuildPage) -> StageSummary:
    """Return the sum of all stages' calls, tokens, seconds and cost."""
    counts = ("calls_sent", "calls_replayed", "tokens_in", "tokens_out", "seconds", "cost_usd")
    sums = {name: sum(getattr(stage, name) for stage in page.stages) for name in counts}
    return StageSummary("all stages", **sums)


def _register_build_page_jinja_helpers(made: Environment) -> None:
    made.filters.update(count=lambda number: f"{number:,}", plain=format_trimmed_number)


_register_build_page_jinja_helpers(html_environment())
_register_build_page_jinja_helpers(markdown_environment())
