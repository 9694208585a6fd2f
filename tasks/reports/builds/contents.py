"""What stands on the page of a build, as data, and the page as HTML, Markdown and JSON.

All of it is of the published build: its times and costs are those of when it was made, ages are as of its publishing. So the
same build gives the same page.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jinja2 import Environment
from pydantic_core import to_jsonable_python

from factmill.tasks.core.measures.figures import Figure
from factmill.tasks.core.review import ReviewItem
from factmill.tasks.reports.pages import draw, fill_page, read_browser
from factmill.tasks.reports.texts import fill_markdown, html_environment, markdown_environment
from factmill.tasks.storage.builds import BuildRecord, describe_scripted, is_scripted
from factmill.tasks.text.whole import whole_json

_SCRIPTED = (
    "No language model wrote these rows: {author} stand in for one in factmill's embedded world. They show the pipeline and "
    "are no benchmark to report figures on."
)


def tell_notice(build: BuildRecord) -> str:
    """Return what every text about a build says first: rows by scripted replies are no benchmark; empty where nothing is
    to be said."""
    if build.caution:
        return f"{build.caution[0].upper()}{build.caution[1:]}."
    if not is_scripted(build.lock):
        return ""
    faults = describe_scripted(build.report.get("scripted", {}))
    return f"{_SCRIPTED.format(author=build.lock['author'])}{f' {faults[0].upper()}{faults[1:]}.' if faults else ''}"


@dataclass(frozen=True, slots=True)
class CallTold:
    """A recorded call that a row rests on; texts are cut."""

    stage: str
    operation: str
    service: str
    at: str
    """When it was asked, UTC."""
    key: str
    """Beginning of the call's key."""
    asked: tuple[tuple[str, str], ...]
    """What was asked, by name."""
    replied: str
    failed: bool
    taken_off: str
    """What the reply was read without; empty: nothing."""
    more: int = 0
    """Calls of the same stage and operation that follow and are not told."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Where a row comes from: what `factmill explain` says of it, and its calls."""

    lines: tuple[str, ...]
    calls: tuple[CallTold, ...]
    command: str
    """Tells it whole."""
    withheld: str = ""
    """Why a part is not told; empty: all is."""


@dataclass(frozen=True, slots=True)
class RowTold:
    """A published row."""

    id: str
    shown: Mapping[str, str]
    """Heading → value."""
    groups: Mapping[str, str]
    """By what it can be found: column → value."""
    chain: Chain


@dataclass(frozen=True, slots=True)
class RejectTold:
    """A rejected row, as an example of its reason."""

    id: str
    detail: str
    chain: Chain


@dataclass(frozen=True, slots=True)
class Reason:
    """Why rows were rejected at a stage."""

    stage: str
    reason: str
    rows: int
    examples: tuple[RejectTold, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """What a stage did."""

    name: str
    rows_in: int = 0
    opened: int = 0
    """Of `rows_in`, those that it made of the ones handed to it: a question's paths."""
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
class Replies:
    """When the replies of a service came that the build rests on."""

    service: str
    calls: int
    oldest: str
    newest: str
    age: str
    """Of the oldest one when the build was published."""


@dataclass(frozen=True, slots=True)
class Foretold:
    """An amount that was forecast, beside what it came to."""

    what: str
    forecast: float
    low: float
    high: float
    actual: float
    off: str
    """By how much the forecast was more or less, as a share; a dash where nothing came."""


@dataclass(frozen=True, slots=True)
class Decision:
    """An item of the review queue, and what was decided about it."""

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
class Review:
    """The review queue."""

    counts: tuple[tuple[str, str, int], ...]
    """(flag, decision, items)."""
    items: tuple[Decision, ...]
    """The first of them, open ones first."""
    in_all: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildPage:
    """All that the page says."""

    build_id: str
    title: str
    summary: str
    """What was built, in two sentences for who knows nothing of it."""
    warnings: tuple[str, ...]
    """What must be known before anything is read; who wrote the rows, where that was no model, comes first."""
    facts: Mapping[str, str]
    balance: str
    """Source rows = published + rejected + merged."""
    stages: tuple[Stage, ...]
    foretold: tuple[Foretold, ...]
    """Forecast against actual; empty where nothing was forecast."""
    foretold_by: str
    """What the forecast was made of, and when."""
    shape: Mapping[str, Mapping[str, Any]]
    """Figure → here, n and the paper's."""
    figures: tuple[Figure, ...]
    """The first is the funnel, the second the time of each stage."""
    reported: Mapping[str, str]
    """What the benchmark reports of itself beside."""
    reasons: tuple[Reason, ...]
    replies: tuple[Replies, ...]
    rows: tuple[RowTold, ...]
    rows_in_all: int
    drawn: str
    """How rows were drawn; empty: all are there."""
    review: Review | None
    """None: the benchmark has no queue."""
    canary: str = ""
    """Line by which training sets find what is released."""

    @property
    def funnel(self) -> Figure:
        """What became of the rows at each stage."""
        return self.figures[0]

    @property
    def times(self) -> Figure:
        """How long each stage took."""
        return self.figures[1]

    @property
    def distributions(self) -> Sequence[Figure]:
        """What rows have how many of."""
        return self.figures[2:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What of a build a page may tell; without any, all of it."""

    rows: frozenset[str] | None = None
    """Ids of the published rows that it may show; None: any."""
    unanswered: frozenset[str] = frozenset()
    """Ids of those whose answers are held out: neither what belongs to them nor their calls are told."""
    withheld: str = ""
    """Why rejects are told without what they say; empty: they are told whole."""
    decisions: tuple[ReviewItem, ...] | None = None
    """The review queue as it may be told; None: as it is."""
    canary: str = ""


def render_build_html(page: BuildPage) -> str:
    """Return the page: no script, style, font or picture from elsewhere, and a policy that forbids any."""
    return fill_page(
        "build.html",
        **read_browser(),
        page=page,
        funnel=draw(page.funnel),
        times=draw(page.times),
        drawn=[draw(figure) for figure in page.distributions],
        opens=any(stage.opened for stage in page.stages),
        total=_add_up(page),
        filters=_list_filters(page),
    )


def render_build_markdown(page: BuildPage) -> str:
    """Return the page as Markdown, with figures as tables of their numbers and without the chains of rows."""
    return fill_markdown("build.md", page=page, opens=any(stage.opened for stage in page.stages), total=_add_up(page))


def render_build_json(page: BuildPage) -> str:
    """Return the page as one JSON object, with the keys of its class."""
    told = whole_json(to_jsonable_python(asdict(page)))
    return json.dumps(told, ensure_ascii=False, indent=1) + "\n"


BUILD_RENDERERS: Mapping[str, Callable[[BuildPage], str]] = {
    ".html": render_build_html,
    ".md": render_build_markdown,
    ".json": render_build_json,
}
"""Ending of a file → how the page is made."""


def describe_groups(row: RowTold) -> str:
    """Return by what a row can be found, as the page's script reads it."""
    return json.dumps({by: [value] for by, value in row.groups.items()}, ensure_ascii=False)


def format_plain(value: float | None, digits: int = 3) -> str:
    """Return a number as it was counted: whole ones without digits behind the point; a dash for none."""
    if value is None:
        return "–"
    return f"{value:,.{digits}f}".rstrip("0").rstrip(".") if value % 1 else f"{value:,.0f}"


def _add_up(page: BuildPage) -> Stage:
    """Return all stages together."""
    counts = ("calls_sent", "calls_replayed", "tokens_in", "tokens_out", "seconds", "cost_usd")
    sums = {name: sum(getattr(stage, name) for stage in page.stages) for name in counts}
    return Stage("all stages", **sums)


def _list_filters(page: BuildPage) -> list[dict[str, Any]]:
    found: dict[str, dict[str, None]] = {}
    for row in page.rows:
        for by, value in row.groups.items():
            found.setdefault(by, {})[value] = None
    return [{"by": by, "values": sorted(values)} for by, values in found.items()]


def _equip(made: Environment) -> None:
    made.filters.update(count=lambda number: f"{number:,}", plain=format_plain)
    made.globals.update(row_groups=describe_groups)


_equip(html_environment())
_equip(markdown_environment())
