"""GRANOLA-EQ: entity questions with answers from fine to coarse (paper §3)."""

from factmill.flows.recipes import make_recipe
from factmill.tasks.granola.benchmark import GRANOLA
from factmill.tasks.granola.disambiguate import describe_entities, find_qids, measure_popularity
from factmill.tasks.granola.levels import (
    generate_granular_answers,
    remove_trivial_answers,
    score_description_consistency,
)
from factmill.tasks.granola.publish import publish_granola
from factmill.tasks.granola.read import choose_reading, cut_question_entities

granola = make_recipe(
    GRANOLA,
    choose_reading,  # §3.2
    cut_question_entities,  # §3.1
    find_qids,  # Appendix B, "QID disambiguation"
    describe_entities,  # §3.1
    measure_popularity,
    generate_granular_answers,  # §3.1, Table 8
    score_description_consistency,  # Appendix B, "Data cleaning"
    remove_trivial_answers,
    units=lambda locked: locked.inputs.limits,
    publish=lambda build, left: publish_granola(
        build, left[find_qids], left[describe_entities], left[remove_trivial_answers]
    ),
)
