"""SLAQ's recipe: the same facts asked short and long, from articles of fifteen categories (paper §3.2, App. A.1)."""

from factmill.flows.recipes import Stage, make_recipe
from factmill.tasks.slaq.benchmark import SLAQ
from factmill.tasks.slaq.questions import balance_halves, check_questions, classify_fact_answers, write_questions
from factmill.tasks.slaq.release import publish_slaq
from factmill.tasks.slaq.scrape import (
    check_categories_exist_on_wiki,
    choose_topic_reader,
    count_topic_pageviews,
    merge_duplicate_pages,
    scrape_articles,
    split_topics_by_views,
)

slaq = make_recipe(
    SLAQ,
    choose_topic_reader,  # A.1, "Scraping Wikipedia"
    Stage(merge_duplicate_pages, single_batch=True),
    scrape_articles,
    count_topic_pageviews,
    Stage(split_topics_by_views, single_batch=True),  # §3.2, most and least popular
    write_questions,  # A.1, "Synthetic Data Generation"
    check_questions,  # §3.2, open-domain formulation and grounding
    Stage(balance_halves, single_batch=True),  # §3.2
    classify_fact_answers,  # Figure 6
    units=lambda locked: locked.inputs.categories,
    check=check_categories_exist_on_wiki,
    publish=lambda build, left: publish_slaq(
        build, next(iter(left.values())), left[check_questions], left[classify_fact_answers]
    ),
)
