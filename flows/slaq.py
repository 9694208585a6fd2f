"""SLAQ's recipe: the same facts asked short and long, from articles of fifteen categories (paper §3.2, App. A.1)."""

from factmill.flows.recipes import Stage, make_recipe
from factmill.tasks.slaq.benchmark import SLAQ
from factmill.tasks.slaq.publish import publish_slaq
from factmill.tasks.slaq.questions import balance_halves, check_questions, type_facts, write_questions
from factmill.tasks.slaq.scrape import (
    check_categories,
    draw_category_pages,
    halve_topics,
    measure_topics,
    scrape_articles,
    unite_pages,
)

slaq = make_recipe(
    SLAQ,
    draw_category_pages,  # A.1, "Scraping Wikipedia"
    Stage(unite_pages, whole=True),
    scrape_articles,
    measure_topics,
    Stage(halve_topics, whole=True),  # §3.2, most and least popular
    write_questions,  # A.1, "Synthetic Data Generation"
    check_questions,  # §3.2, open-domain formulation and grounding
    Stage(balance_halves, whole=True),  # §3.2
    type_facts,  # Figure 6
    units=lambda locked: locked.inputs.categories,
    check=check_categories,
    publish=lambda build, left: publish_slaq(build, left[draw_category_pages], left[check_questions], left[type_facts]),
)
