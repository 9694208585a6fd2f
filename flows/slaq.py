"""SLAQ: the same facts asked short and long, from articles of fifteen categories."""

from typing import Any

from prefect import flow

from flows.artifacts import leave_artifacts
from flows.reviewing import make_reviewed
from tasks.building import open_build
from tasks.core.review import Policy
from tasks.core.slaq_rows import SlaqRow
from tasks.core.topic_sampling import VIEW_DAYS
from tasks.locks import Inputs
from tasks.options import BuildReport, RunOptions
from tasks.publish_slaq import publish_slaq
from tasks.questions import balance_halves, check_questions, type_facts, write_questions
from tasks.scrape import draw_category_pages, halve_topics, measure_topics, scrape_articles, unite_pages
from tasks.slaq_inputs import CANDIDATES, DEPTH, LEAST_CHARACTERS, PER_HALF, SEED, SPARES, lock_inputs


@flow(name="slaq", validate_parameters=True, persist_result=False)
def slaq(
    categories: list[str] | None = None,
    per_half: int = PER_HALF,
    spares: int = SPARES,
    candidates: int = CANDIDATES,
    depth: int = DEPTH,
    min_chars: int = LEAST_CHARACTERS,
    days: int = VIEW_DAYS,
    seed: int = SEED,
    review: Policy = "auto",
    decisions: list[dict[str, Any]] | None = None,
    run: RunOptions = RunOptions(),  # noqa: B008 - frozen
) -> BuildReport:
    """SLAQ: the same facts asked short and long (paper §3.2, Appendix A.1)."""

    def make() -> BuildReport:
        inputs = lock_inputs(
            categories, per_half, spares, candidates, depth, min_chars, days, seed, review, decisions, run
        )
        return make_slaq(inputs, run)

    return make_reviewed(make, review, run)


def make_slaq(inputs: Inputs, run: RunOptions) -> BuildReport:
    """Make the benchmark from given inputs."""
    with open_build("slaq", run, inputs) as build:
        drawn = build.load(draw_category_pages, inputs.params["categories"])  # A.1, "Scraping Wikipedia"
        united = build.stage(unite_pages, drawn, whole=True)
        scraped = build.stage(scrape_articles, united)
        viewed = build.stage(measure_topics, scraped)
        chosen = build.stage(halve_topics, viewed, whole=True)  # §3.2, most and least popular
        written = build.stage(write_questions, chosen)  # A.1, "Synthetic Data Generation"
        checked = build.stage(check_questions, written)  # §3.2, open-domain formulation and grounding
        balanced = build.stage(balance_halves, checked, whole=True)  # §3.2
        typed = build.stage(type_facts, balanced)  # Figure 6
        report = publish_slaq(build, drawn, checked, typed)
        leave_artifacts(report, typed.table(SlaqRow))
    return report
