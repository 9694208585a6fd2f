"""SLAQ's parameters, and the inputs resolved from them: categories, days of page views, decisions (paper §3.2, A.1)."""

from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from factmill.tasks.assets import load_list_entries
from factmill.tasks.core.calls.pageviews import make_pageview_window
from factmill.tasks.core.review import ReviewPolicy, ReviewPolicyAndDecisions
from factmill.tasks.core.rows import MAX_SETTING_NUMBER
from factmill.tasks.engine.benchmark import BuildInputs, ResolvedInputs
from factmill.tasks.options import BenchmarkParams, CliOption, RunOptions
from factmill.tasks.settings import load_world
from factmill.tasks.slaq.core.topic_sampling import VIEW_DAYS

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
    """Only this category of Wikipedia (repeatable). Default: the paper's fifteen."""
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

    resolved: ClassVar = frozenset({"categories", "days", "review"})
    params: SlaqParams
    categories: tuple[str, ...]
    epoch: str
    """Time as of which articles are read (ISO 8601, UTC)."""
    views_from: str
    """First day of the page views (YYYYMMDD)."""
    views_to: str
    articles_at: str
    """URL of an article, without the title at its end."""
    reviewing: ReviewPolicyAndDecisions
    licence: str


def resolve_slaq_inputs(params: SlaqParams, run: RunOptions) -> ResolvedInputs[SlaqInputs]:
    """Resolve the inputs of a build; raise UsageError for an invalid parameter or review file."""
    from factmill.tasks.storage.human_judgments import load_review_inputs

    world = load_world(run.world, run.graph)
    window = make_pageview_window(world.epoch_day(), params.days)
    return ResolvedInputs(
        SlaqInputs(
            params=params,
            categories=tuple(dict.fromkeys(params.categories)) or load_list_entries("slaq_categories"),
            epoch=f"{world.epoch_day().isoformat()}T00:00:00Z",
            views_from=window.start_text,
            views_to=window.end_text,
            articles_at=make_article_url_prefix(world.wikipedia.url),
            reviewing=load_review_inputs("slaq", params.review, run),
            licence=_EMBEDDED_WIKI_LICENCE if world.wikipedia.url == "embedded" else _WIKIPEDIA_LICENCE,
        )
    )


def make_article_url_prefix(wiki: str) -> str:
    """Return the URL prefix of a wiki's articles, up to the title, from the wiki's URL in a world.

    A URL with a path names the script folder, not the articles' folder; every wiki's index.php shows articles too.
    """
    url = _ENGLISH_WIKIPEDIA if wiki == "embedded" else wiki.rstrip("/")
    has_path = "/" in url.partition("://")[2]
    return f"{url}/index.php?title=" if has_path else f"{url}/wiki/"
