"""SLAQ's parameters, and the inputs resolved from them: categories, days of page views, decisions (paper §3.2, A.1)."""

from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from factmill.tasks.assets import load_list_entries
from factmill.tasks.core.calls.pageviews import make_pageview_window
from factmill.tasks.core.review import ReviewPolicy, ReviewPolicyAndDecisions
from factmill.tasks.core.rows import MAX_SETTING_NUMBER
from factmill.tasks.engine.benchmark import BuildInputs, BuildInputsAndSourceFiles, make_sources_absolute
from factmill.tasks.errors import SourceError, UsageError
from factmill.tasks.options import CliOption, RunOptions, UserTableParams
from factmill.tasks.settings import World, load_world
from factmill.tasks.slaq.core.topic_sampling import VIEW_DAYS
from factmill.tasks.slaq.sources.user_topics import TOPIC_FORM, normalise_category_name
from factmill.tasks.storage.user_tables import (
    USER_TABLE_UNIT,
    CheckedUserTables,
    check_and_digest_user_tables,
    make_user_source,
)
from factmill.tasks.text.sanitize import format_did_you_mean

_ENGLISH_WIKIPEDIA = "https://en.wikipedia.org"
_WIKIPEDIA_LICENCE, _EMBEDDED_WIKI_LICENCE = "CC-BY-SA-4.0", "Apache-2.0"


def _require_unprefixed_category_name(category_text: str) -> str:
    name = normalise_category_name(category_text)
    if name is None:
        raise ValueError(
            f"{category_text.strip()!r}: expected the name of a category without the prefix Category:, like Astronomy"
        )
    return name


class SlaqParams(UserTableParams):
    """Parameters of a SLAQ build."""

    source: Annotated[tuple[str, ...], CliOption(metavar="PATH")] = ()
    """Table of topics with the columns topic (title of an article) and category, or a folder of such tables (repeatable). The columns pageid and views are optional. If the table has views, the build does not ask the page view service. If the world's Wikipedia is a ZIM file, the table must have views. Default: topics drawn from the categories of the wiki."""
    categories: Annotated[
        tuple[Annotated[str, AfterValidator(_require_unprefixed_category_name)], ...], CliOption(metavar="NAME")
    ] = ()
    """Only these categories (repeatable). Default: the paper's fifteen categories, or all categories in the table. If you name only one category, topics of your table without a category belong to it."""
    per_half: int = Field(default=20, ge=1, le=MAX_SETTING_NUMBER)
    """Number of topics in each half of a category: the most viewed half and the least viewed half."""
    spares: int = Field(default=5, ge=0, le=MAX_SETTING_NUMBER)
    """Number of spare topics per half. They replace topics that fail a check."""
    candidates: int = Field(default=120, ge=2, le=MAX_SETTING_NUMBER)
    """Number of pages drawn from each category."""
    depth: int = Field(default=1, ge=0, le=100)
    """Number of levels of subcategories from which pages are also drawn."""
    min_chars: int = Field(default=1000, ge=0, le=MAX_SETTING_NUMBER)
    """Minimum length of an article's main text, in characters."""
    days: int = Field(default=VIEW_DAYS, ge=1, le=3660)
    """Number of days before the world's epoch (the date as of which articles are read) for which page views are summed."""
    seed: int = Field(default=7, ge=-MAX_SETTING_NUMBER, le=MAX_SETTING_NUMBER)
    """Seed for drawing the pages."""
    review: ReviewPolicy = "auto"
    """What to do with flagged rows. `auto` follows the rule of each flag, which usually drops the row. `manual` leaves flagged rows out until people have reviewed them. `ask` pauses the run and asks in the Prefect UI."""


class SlaqInputs(BuildInputs):
    """Resolved inputs of SLAQ's steps."""

    resolved: ClassVar = frozenset({"categories", "days", "review"})
    params: SlaqParams
    categories: tuple[str, ...]
    epoch: str
    """Time as of which articles are read (ISO 8601, UTC)."""
    views_from: str | None
    """First day of the page views (YYYYMMDD); None: the views are those of the user's tables."""
    views_to: str | None
    articles_at: str
    """URL of an article, without the title at its end."""
    reviewing: ReviewPolicyAndDecisions
    licence: str


def resolve_slaq_inputs(params: SlaqParams, run: RunOptions) -> BuildInputsAndSourceFiles[SlaqInputs]:
    """Resolve the inputs of a build; raise UsageError for an invalid parameter or review file."""
    from factmill.tasks.storage.human_judgments import load_review_inputs

    world = load_world(run.world, run.graph)
    if world.is_local("wikipedia") and not params.source:
        raise UsageError(
            f"the Wikipedia of the world {world.name} is a ZIM file, which lists no members of categories; name a table of topics "
            "with --source (columns topic, category and views)"
        )
    own, files, notes = make_user_source(params, bool(params.source)), {}, []
    source_rows: int | None = None
    categories = tuple(dict.fromkeys(params.categories)) or load_list_entries("slaq_categories")
    if params.source:
        categories, tables = check_topic_tables_and_list_categories(params)
        own, files, notes = tables.own, {USER_TABLE_UNIT: tables.files}, tables.notes
        source_rows = tables.row_count
    has_views = "views" in own.columns
    if params.source and not has_views:
        _require_page_views(params, world, run)
    window = None if has_views else make_pageview_window(world.epoch_day(), params.days)
    return BuildInputsAndSourceFiles(
        SlaqInputs(
            params=params.model_copy(update={"source": make_sources_absolute(params.source)}),
            own_source=own if params.source else None,
            categories=categories,
            epoch=f"{world.epoch_day().isoformat()}T00:00:00Z",
            views_from=window.start_text if window else None,
            views_to=window.end_text if window else None,
            articles_at=make_article_url_prefix(world.wikipedia.article_site),
            reviewing=load_review_inputs("slaq", params.review, run),
            licence=_resolve_wikipedia_licence(world),
        ),
        files,
        notes=notes,
        source_rows=source_rows,
    )


def check_topic_tables_and_list_categories(params: SlaqParams) -> tuple[tuple[str, ...], CheckedUserTables]:
    """Return the categories to read, and the tables of topics; UsageError for parameters about drawing pages, and for a
    category that the tables lack."""
    for name in ("candidates", "depth", "seed"):
        if getattr(params, name) != SlaqParams.model_fields[name].default:
            raise UsageError(f"--{name} is about drawing pages from categories; a table names its topics (--source)")
    defaults = {"category": params.categories[0]} if len(params.categories) == 1 else {}
    tables = check_and_digest_user_tables(params, TOPIC_FORM, count_field="category", defaults=defaults)
    found = list(dict.fromkeys(filter(None, (normalise_category_name(each or "") for each in tables.counts))))
    if not found:
        raise SourceError(
            f"{', '.join(params.source)}: no row has a category's name; expected names without Category:, like Astronomy"
        )
    if unknown := [each for each in params.categories if each not in found]:
        raise UsageError(
            f"--categories {unknown[0]!r}: no topic of {', '.join(params.source)} is in it; the categories are {', '.join(found)[:300]}"
            f"{format_did_you_mean(unknown[0], found)}"
        )
    return tuple(each for each in found if not params.categories or each in params.categories), tables


def _require_page_views(params: SlaqParams, world: World, run: RunOptions) -> None:
    """Raise an error if topics of tables without views cannot have page views from the world."""
    if world.is_local("wikipedia"):
        raise UsageError(
            f"the Wikipedia of the world {world.name} is a ZIM file, which has no page views; add a column views to "
            f"{', '.join(params.source)}, or name it: --map views=COLUMN"
        )
    world.require_services("pageviews")
    if run.mode != "replay":
        world.require_service_access("pageviews")


def _resolve_wikipedia_licence(world: World) -> str:
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
