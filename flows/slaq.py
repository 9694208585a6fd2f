"""SLAQ: the same facts asked short and long, from articles of fifteen categories."""

from prefect import flow

from flows.reviewing import ask_for_decisions
from flows.watching.artifacts import leave_artifacts
from tasks.engine.building import open_build
from tasks.options import BuildReport, RunOptions
from tasks.slaq.benchmark import SLAQ
from tasks.slaq.core.rows import SlaqRow
from tasks.slaq.params import SlaqParams, lock_inputs
from tasks.slaq.publish import publish_slaq
from tasks.slaq.questions import balance_halves, check_questions, type_facts, write_questions
from tasks.slaq.scrape import (
    check_categories,
    draw_category_pages,
    halve_topics,
    measure_topics,
    scrape_articles,
    unite_pages,
)


@flow(name="slaq", validate_parameters=True, persist_result=False)
def slaq(params: SlaqParams = SlaqParams(), run: RunOptions = RunOptions()) -> BuildReport:  # noqa: B008 - frozen
    """SLAQ: the same facts asked short and long (paper §3.2, Appendix A.1)."""
    locked = lock_inputs(params, run)
    with open_build(SLAQ, locked, run) as build:
        check_categories(build.run, params.categories)
        drawn = build.load(draw_category_pages, locked.inputs.categories)  # A.1, "Scraping Wikipedia"
        united = build.stage(unite_pages, drawn, whole=True)
        scraped = build.stage(scrape_articles, united)
        viewed = build.stage(measure_topics, scraped)
        chosen = build.stage(halve_topics, viewed, whole=True)  # §3.2, most and least popular
        written = build.stage(write_questions, chosen)  # A.1, "Synthetic Data Generation"
        checked = build.stage(check_questions, written)  # §3.2, open-domain formulation and grounding
        balanced = build.stage(balance_halves, checked, whole=True)  # §3.2
        typed = build.stage(type_facts, balanced)  # Figure 6
        report = publish_slaq(build, drawn, checked, typed)
        leave_artifacts(SLAQ, report, typed.table(SlaqRow))
    if params.review == "ask" and ask_for_decisions(report, run):
        # once more with the decisions; what is still open is left out
        return slaq.fn(params.model_copy(update={"review": "manual"}), run)
    return report
