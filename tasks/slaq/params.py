"""SLAQ's parameters, and the inputs resolved from them: categories, days of page views, decisions (paper §3.2, A.1)."""

from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from factmill.tasks.assets import load_list
from factmill.tasks.core.calls.pageviews import open_window
from factmill.tasks.core.review import Policy, Reviewing
from factmill.tasks.core.rows import MOST
from factmill.tasks.engine.benchmark import Inputs, Locked
from factmill.tasks.options import Option, Params, RunOptions
from factmill.tasks.settings import load_world
from factmill.tasks.slaq.core.topic_sampling import VIEW_DAYS

_ENGLISH_WIKIPEDIA = "https://en.wikipedia.org"
_LICENCE, _OWN_LICENCE = "CC-BY-SA-4.0", "Apache-2.0"


def _read_category(given: str) -> str:
    name = " ".join(given.replace("_", " ").split())
    if not name or name.lower().startswith("category:"):
        raise ValueError(f"{name!r}: expected the name of a category, without its prefix, like Astronomy")
    return name


class SlaqParams(Params):
    """Parameters of a SLAQ build."""

    categories: Annotated[
        tuple[Annotated[str, AfterValidator(_read_category)], ...], Option("--category", metavar="NAME")
    ] = ()
    """Only this category (repeatable). Default: the paper's fifteen."""
    per_half: int = Field(default=20, ge=1, le=MOST)
    """Topics of each half of a category."""
    spares: int = Field(default=5, ge=0, le=MOST)
    """Topics beyond that, tried in case others fail a check."""
    candidates: int = Field(default=120, ge=2, le=MOST)
    """Pages drawn from a category."""
    depth: int = Field(default=1, ge=0, le=100)
    """Levels of subcategories whose pages count too."""
    min_chars: int = Field(default=1000, ge=0, le=MOST)
    """Characters that a main text must have."""
    days: int = Field(default=VIEW_DAYS, ge=1, le=3660)
    """Days of page views before the world's epoch."""
    seed: int = Field(default=7, ge=-MOST, le=MOST)
    """Seed of the draw."""
    review: Policy = "auto"
    """What becomes of flagged rows: what each flag's rule says, mostly dropped (auto), left out until reviewed (manual), or asked for in a pause of the run in the Prefect UI (ask)."""


class SlaqInputs(Inputs):
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
    reviewing: Reviewing
    licence: str


def lock_inputs(params: SlaqParams, run: RunOptions) -> Locked[SlaqInputs]:
    """Resolve the inputs of a build; raise UsageError for an invalid parameter or review file."""
    from factmill.tasks.storage.reviews import open_review

    world = load_world(run.world, run.graph)
    window = open_window(world.epoch_day(), params.days)
    return Locked(
        SlaqInputs(
            params=params,
            categories=tuple(dict.fromkeys(params.categories)) or load_list("slaq_categories"),
            epoch=f"{world.epoch_day().isoformat()}T00:00:00Z",
            views_from=window.start,
            views_to=window.end,
            articles_at=address_articles(world.wikipedia.url),
            reviewing=open_review("slaq", params.review, run),
            licence=_OWN_LICENCE if world.wikipedia.url == "embedded" else _LICENCE,
        )
    )


def address_articles(wiki: str) -> str:
    """Return the URL prefix of a wiki's articles, up to the title, from the wiki's URL in a world.

    A URL with a path names the script folder, not the articles' folder; every wiki's index.php shows articles too.
    """
    url = _ENGLISH_WIKIPEDIA if wiki == "embedded" else wiki.rstrip("/")
    has_path = "/" in url.partition("://")[2]
    return f"{url}/index.php?title=" if has_path else f"{url}/wiki/"
