"""SLAQ's parameters, and the inputs resolved from them: categories, days of page views, decisions (paper §3.2, A.1)."""

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from factmill.tasks.assets import load_list_entries
from factmill.tasks.core.calls.pageviews import make_pageview_window
from factmill.tasks.core.review import ReviewPolicy, ReviewPolicyAndDecisions
from factmill.tasks.core.rows import MAX_SETTING_NUMBER
from factmill.tasks.engine.benchmark import BuildInputs, ResolvedInputs
from factmill.tasks.errors import UsageError
from factmill.tasks.files import resolve_absolute_path
from factmill.tasks.options import BenchmarkParams, CliOption, RunOptions
from factmill.tasks.settings import World, load_world
from factmill.tasks.slaq.core.topic_sampling import VIEW_DAYS
from factmill.tasks.slaq.sources.topic_files import TOPIC_FILE, iterate_topics
from factmill.tasks.storage.source_files import SourceFile, pin_source_file
from factmill.tasks.text.sanitize import format_did_you_mean

_ENGLISH_WIKIPEDIA = "https://en.wikipedia.org"
_WIKIPEDIA_LICENCE, _EMBEDDED_WIKI_LICENCE = "CC-BY-SA-4.0", "Apache-2.0"


def _parse_category_name(given: str) -> str:
    name = " ".join(given.replace("_", " ").split())
    if not name or name.lower().startswith("category:"):
        raise ValueError(f"{name!r}: expected the name of a category without the prefix Category:, like Astronomy")
    return name


class SlaqParams(BenchmarkParams):
    """Parameters of a SLAQ build."""

    categories: Annotated[
        tuple[Annotated[str, AfterValidator(_parse_category_name)], ...], CliOption(metavar="NAME")
    ] = ()
    """Only these categories (repeatable). Default: the paper's fifteen."""
    topics: Annotated[str | None, CliOption(metavar="FILE")] = None
    """CSV file with the columns category, title, pageid and views: draw topics from it instead of the wiki's categories, and use its page views. Required with a Wikipedia from a ZIM file. Default: the wiki's categories and the Pageviews API."""
    per_half: int = Field(default=20, ge=1, le=MAX_SETTING_NUMBER)
    """Number of topics in each half (most and least viewed) of a category."""
    spares: int = Field(default=5, ge=0, le=MAX_SETTING_NUMBER)
    """Number of spare topics per half, which replace topics that fail a check."""
    candidates: int = Field(default=120, ge=2, le=MAX_SETTING_NUMBER)
    """Number of pages drawn from each category."""
    depth: int = Field(default=1, ge=0, le=100)
    """Number of levels of subcategories from which pages are also drawn."""
    min_chars: int = Field(default=1000, ge=0, le=MAX_SETTING_NUMBER)
    """Minimum length of an article's main text, in characters."""
    days: int = Field(default=VIEW_DAYS, ge=1, le=3660)
    """Number of days before the world's epoch over which page views are summed."""
    seed: int = Field(default=7, ge=-MAX_SETTING_NUMBER, le=MAX_SETTING_NUMBER)
    """Seed for drawing the pages."""
    review: ReviewPolicy = "auto"
    """How to treat flagged rows: `auto` applies the rule of each flag, which mostly drops the row; `manual` leaves them out until they are reviewed; `ask` pauses the run and asks in the Prefect UI."""


class SlaqInputs(BuildInputs):
    """Resolved inputs of SLAQ's steps."""

    resolved: ClassVar = frozenset({"categories", "topics", "days", "review"})
    params: SlaqParams
    categories: tuple[str, ...]
    epoch: str
    """Time as of which articles are read (ISO 8601, UTC)."""
    views_from: str | None
    """First day of the page views (YYYYMMDD); None: the views are those of a file of topics."""
    views_to: str | None
    articles_at: str
    """URL of an article, without the title at its end."""
    reviewing: ReviewPolicyAndDecisions
    licence: str


def resolve_slaq_inputs(params: SlaqParams, run: RunOptions) -> ResolvedInputs[SlaqInputs]:
    """Resolve the inputs of a build; raise UsageError for an invalid parameter or review file."""
    from factmill.tasks.storage.human_judgments import load_review_inputs

    world = load_world(run.world, run.graph)
    if world.is_local("wikipedia") and params.topics is None:
        raise UsageError(
            f"the Wikipedia of the world {world.name} is a ZIM file, which lists no members of categories; name a file of topics "
            "with --topics (columns category, title, pageid, views)"
        )
    topics = [] if params.topics is None else [pin_source_file(resolve_absolute_path(params.topics))]
    window = None if topics else make_pageview_window(world.epoch_day(), params.days)
    return ResolvedInputs(
        SlaqInputs(
            params=params.model_copy(update={"topics": str(topics[0].path) if topics else None}),
            categories=_resolve_categories(params.categories, topics),
            epoch=f"{world.epoch_day().isoformat()}T00:00:00Z",
            views_from=window.start_text if window else None,
            views_to=window.end_text if window else None,
            articles_at=make_article_url_prefix(world.wikipedia.article_site),
            reviewing=load_review_inputs("slaq", params.review, run),
            licence=_resolve_licence(world),
        ),
        {TOPIC_FILE: topics} if topics else {},
    )


def _resolve_categories(wanted: Sequence[str], topics: Sequence[SourceFile]) -> tuple[str, ...]:
    """Return the categories to draw from: those wanted, or all of the file of topics, or the paper's fifteen."""
    named = tuple(dict.fromkeys(wanted))
    if not topics:
        return named or load_list_entries("slaq_categories")
    there = tuple(dict.fromkeys(topic.category for topic in iterate_topics(topics[0])))
    if unknown := [name for name in named if name not in there]:
        raise UsageError(
            f"--category {unknown[0]!r}: {topics[0].path} has no such category{format_did_you_mean(unknown[0], there)}"
        )
    return named or there


def _resolve_licence(world: World) -> str:
    if world.is_local("wikipedia"):
        return world.open_wikipedia_file().licence or _WIKIPEDIA_LICENCE
    return _EMBEDDED_WIKI_LICENCE if world.wikipedia.url == "embedded" else _WIKIPEDIA_LICENCE


def make_article_url_prefix(wiki: str) -> str:
    """Return the URL prefix of a wiki's articles, up to the title, from the wiki's URL in a world.

    A URL with a path names the script folder, not the articles' folder; every wiki's index.php shows articles too.
    """
    url = _ENGLISH_WIKIPEDIA if wiki == "embedded" else wiki.rstrip("/")
    has_path = "/" in url.partition("://")[2]
    return f"{url}/index.php?title=" if has_path else f"{url}/wiki/"
