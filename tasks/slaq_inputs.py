"""What a build of SLAQ depends on: its categories, parameters, models, prompts, lists and decisions (paper §3.2, A.1)."""

from collections.abc import Sequence
from typing import Any

from tasks.assets import load_list
from tasks.core.review import Policy
from tasks.core.topic_sampling import open_window
from tasks.errors import UsageError
from tasks.locks import Inputs
from tasks.options import RunOptions, warehouse_of
from tasks.settings import load_world
from tasks.storage.reviews import tell_decisions

PROMPTS = ("slaq/generate", "slaq/check", "slaq/fact_type")
LISTS = (
    "slaq_categories.txt",
    "source_phrases.txt",
    "one_of_many.txt",
    "function_words.txt",
    "removed_from_articles.txt",
)
PER_HALF, SPARES, CANDIDATES, LEAST_CHARACTERS, DEPTH = 20, 5, 120, 1_000, 1
"""Topics of a half of a category (§3.2), those beyond it that are tried in case others fail, pages drawn to have enough
of them, characters of a text (A.1), and levels of subcategories."""
SEED = 7
_LICENCE, _OWN_LICENCE = "CC-BY-SA-4.0", "Apache-2.0"


def lock_inputs(
    categories: list[str] | None,
    per_half: int,
    spares: int,
    candidates: int,
    depth: int,
    min_chars: int,
    days: int,
    seed: int,
    review: Policy,
    decisions: list[dict[str, Any]] | None,
    run: RunOptions,
) -> Inputs:
    """Return the inputs of a build; UsageError says what was expected.

    `decisions`: reviewers' (core.review.ReviewItem); None: those that were imported into the warehouse.
    """
    wanted = check_categories(categories)
    world = load_world(run.world, run.graph)
    window = open_window(world.epoch_day(), days)
    if decisions is None:
        decisions = tell_decisions(warehouse_of(run), "slaq")
    is_own = world.wikipedia.url == "embedded"
    return Inputs(
        params={
            "categories": wanted,
            "per_half": per_half,
            "spares": spares,
            "candidates": candidates,
            "depth": depth,
            "min_chars": min_chars,
            "seed": seed,
            "epoch": f"{world.epoch_day().isoformat()}T00:00:00Z",
            "views_from": window.start,
            "views_to": window.end,
            "review": "manual" if review == "ask" else review,
            "decisions": decisions,
            "licence": _OWN_LICENCE if is_own else _LICENCE,
        },
        sources={},
        prompts=PROMPTS,
        lists=LISTS,
        origin={
            "flow": {
                "categories": categories,
                "per_half": per_half,
                "spares": spares,
                "candidates": candidates,
                "depth": depth,
                "min_chars": min_chars,
                "days": days,
                "seed": seed,
                "review": "manual" if review == "ask" else review,
                "decisions": decisions,
            },
            "world": run.absolute_world(),
            "graph": run.graph,
            "files": {},
        },
    )


def check_categories(categories: Sequence[str] | None) -> list[str]:
    """Return the categories to build from, the paper's fifteen by default; UsageError for no name or one with a prefix."""
    wanted = list(dict.fromkeys(" ".join(each.replace("_", " ").split()) for each in categories or ()))
    if wrong := [each for each in wanted if not each or each.lower().startswith("category:")]:
        raise UsageError(
            f"--category {wrong[0]!r}: expected the name of a category, without its prefix, like Astronomy"
        )
    return wanted or list(load_list("slaq_categories"))
